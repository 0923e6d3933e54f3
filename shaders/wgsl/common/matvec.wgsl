// y[t][r] = dot(weights[r], x[t]) for few tokens: a workgroup takes {ROWS} rows and {TOKENS} tokens, each lane some
// groups of their columns. With NORM x is normed on the way: its sum of squares is taken along, and the factor
// applied to the result; `norm` is `[vector of a group][group]`, so that lanes read it side by side.
#import "common/grid.wgsl"
#import "common/product.wgsl"
#const NORM: bool in false, true

// [token][groups * 32]
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

fn multiply(group: u32, block: u32, lane: u32) {
    let row = group * {ROWS}u;
    let last = params.rows - 1u;
#for r in 0..{ROWS}
    let w{r} = min(row + {r}u, last) * params.groups;
#end
#for t in 0..{TOKENS}
    let x{t} = min(block * {TOKENS}u + {t}u, params.tokens - 1u) * params.groups * 8u;
    var square_0_{t} = 0.0;
    var square_1_{t} = 0.0;
#end
#for r in 0..{ROWS}
#for t in 0..{TOKENS}
    var s{r}_{t} = 0.0;
#end
#end
    for (var c = lane; c < params.groups; c += LANES) {
#for r in 0..{ROWS}
        let q{r} = load(w{r} + c);
#for t in 0..{TOKENS}
        var a{r}_{t} = 0.0;
        var b{r}_{t} = 0.0;
#end
#end
#for t in 0..{TOKENS}
        var sum_a{t} = 0.0;
        var sum_b{t} = 0.0;
#end
#for k in 0..4
        {
            let n = 8u * c + {k}u;
#for t in 0..{TOKENS}
            var first{t} = x[x{t} + n];
            var second{t} = x[x{t} + n + 4u];
            if NORM {
                square_0_{t} = mac(square_0_{t}, first{t}, first{t});
                square_1_{t} = mac(square_1_{t}, second{t}, second{t});
                first{t} *= norm[{k}u * params.groups + c];
                second{t} *= norm[({k}u + 4u) * params.groups + c];
            }
            sum_a{t} += first{t}.x + first{t}.y + first{t}.z + first{t}.w;
            sum_b{t} += second{t}.x + second{t}.y + second{t}.z + second{t}.w;
#end
#for r in 0..{ROWS}
            let first_of{r} = first_half(q{r}, w{r} + c, {k}u);
            let second_of{r} = second_half(q{r}, w{r} + c, {k}u);
#for t in 0..{TOKENS}
            a{r}_{t} = mac(a{r}_{t}, first_of{r}, first{t});
            b{r}_{t} = mac(b{r}_{t}, second_of{r}, second{t});
#end
#end
        }
#end
#for r in 0..{ROWS}
#for t in 0..{TOKENS}
        s{r}_{t} += fma(q{r}.scale.x, a{r}_{t}, q{r}.scale.y * sum_a{t})
            + fma(q{r}.scale.z, b{r}_{t}, q{r}.scale.w * sum_b{t});
#end
#end
    }
#for t in 0..{TOKENS}
#for r in 0..{ROWS}
    fold(lane, {t}u * {ROWS}u + {r}u, s{r}_{t});
#end
#end
    if NORM {
#for t in 0..{TOKENS}
        fold(lane, {ROWS}u * {TOKENS}u + {t}u, square_0_{t} + square_1_{t});
#end
    }
    settle(lane);
    let gated = params.mode == SILU || params.mode == GELU;
    let each = select(1u, 2u, gated);
    if lane >= {ROWS}u * {TOKENS}u || lane % each != 0u {
        return;
    }
    let r = lane % {ROWS}u;
    let t = lane / {ROWS}u;
    let token = block * {TOKENS}u + t;
    if row + r >= params.rows || token >= params.tokens {
        return;
    }
    var factor = 1.0;
    if NORM {
        let mean = total({ROWS}u * {TOKENS}u + t) / f32(params.groups * 32u);
        factor = 1.0 / sqrt(mean + params.eps);
    }
    let sum = factor * total(lane);
    if gated {
        put_gated(token, row + r, sum, factor * total(lane + 1u));
    } else {
        put(token, row + r, sum);
    }
}
