// The same as gemm_wide through products of matrices of 16-bit floats, and about as exact as float32.
const SPLIT: bool = true;
#let ROWS = 128
#let TOKENS = 128
#let LANES = 256
#let LOADS = 4
#let ACROSS = 4
#let HIGH = 2
#let WIDE = 4
#import "common/cooperative.wgsl"
