// Built-in functions may assume that no infinity arises, so arguments are cut where the result has settled.
fn silu(x: f32) -> f32 {
    return x / (1.0 + exp(min(-x, 80.0)));
}

// 0.5 (1 + tanh(y)) = 1 / (1 + e^(-2y)), which keeps its relative accuracy where y is far below 0.
fn gelu_tanh(x: f32) -> f32 {
    let y = 0.7978846 * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(clamp(-2.0 * y, -80.0, 80.0)));
}
