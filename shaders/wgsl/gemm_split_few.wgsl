// The same as gemm_split with smaller tiles, where there would be few.
const SPLIT: bool = true;
#let ROWS = 128
#let TOKENS = 64
#let LANES = 256
#let LOADS = 2
#let ACROSS = 4
#let HIGH = 2
#let WIDE = 2
#import "common/cooperative.wgsl"
