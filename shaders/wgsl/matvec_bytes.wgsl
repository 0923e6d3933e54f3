// A matrix times the quantised activations of one token.
#let PAIRS = 1
#let TOKENS = 1
#let ROUNDS = 2
#import "common/matvec_bytes.wgsl"
