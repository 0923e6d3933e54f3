// The same as gemm_wide, with products of matrices of 16-bit floats, for the precision that is not exact.
#let SPLIT = 0
#let ROUNDED = 1
#let TURNS = 1
#let STILL = 0
#let PARTS = 2
#let W_SCALE = 1.0
#let ROWS = 128
#let TOKENS = 128
#let LANES = 256
#let LOADS = 4
#let ACROSS = 4
#let HIGH = 2
#let WIDE = 4
#import "common/cooperative.wgsl"
