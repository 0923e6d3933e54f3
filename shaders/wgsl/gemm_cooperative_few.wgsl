// The same as gemm_cooperative with smaller tiles, where there would be few.
const SPLIT: bool = false;
#let ROWS = 128
#let TOKENS = 64
#let LANES = 128
#let LOADS = 4
#let ACROSS = 2
#let HIGH = 4
#let WIDE = 2
#import "common/cooperative.wgsl"
