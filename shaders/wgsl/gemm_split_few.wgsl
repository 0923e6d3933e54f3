// The same as gemm_split with smaller tiles, where there would be few.
#let SPLIT = 1
#let ROUNDED = 0
#let TURNS = 0
#let STILL = 1
#let PARTS = 2
#let W_SCALE = 16.0
#let ROWS = 128
#let TOKENS = 64
#let LANES = 256
#let LOADS = 2
#let ACROSS = 4
#let HIGH = 2
#let WIDE = 2
#import "common/cooperative.wgsl"
