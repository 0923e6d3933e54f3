// The same as gemm_cooperative with smaller tiles, where there would be few.
#let SPLIT = 0
#let ROUNDED = 1
#let TURNS = 0
#let STILL = 1
#let PARTS = 1
#let W_SCALE = 1.0
#let ROWS = 128
#let TOKENS = 64
#let LANES = 128
#let LOADS = 4
#let ACROSS = 2
#let HIGH = 4
#let WIDE = 2
#import "common/cooperative.wgsl"
