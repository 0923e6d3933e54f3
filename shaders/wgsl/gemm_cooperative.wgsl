// The same as gemm_wide, with products of matrices of 16-bit floats, for the precision that is not exact.
const SPLIT: bool = false;
#let ROWS = 128
#let TOKENS = 128
#let LANES = 256
#let LOADS = 4
#let ACROSS = 4
#let HIGH = 2
#let WIDE = 4
#import "common/cooperative.wgsl"
