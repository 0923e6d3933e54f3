// A matrix times the quantised activations of up to four tokens.
#let PAIRS = 2
#let TOKENS = 4
#let ROUNDS = 1
#import "common/matvec_bytes.wgsl"
