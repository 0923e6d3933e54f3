// The same as gemm_wide through products of matrices of 16-bit floats, and as exact.
#let SPLIT = 1
#let ROUNDED = 0
#let TURNS = 0
#let STILL = 1
#let PARTS = 2
#let W_SCALE = 16.0
#let ROWS = 128
#let TOKENS = 128
#let LANES = 256
#let LOADS = 4
#let ACROSS = 4
#let HIGH = 2
#let WIDE = 4
#import "common/cooperative.wgsl"
