use crate::GateParams;

/// GELU (tanh) or SiLU.
pub(super) fn activate(gelu: bool, x: f64) -> f64 {
    if gelu {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
    } else {
        x / (1.0 + (-x).exp())
    }
}

/// `y = act(gate) * up` of rows `[gate | up]`, or of pairs. `gelu` (otherwise SiLU) and `paired` are the kernel's
/// constants.
pub fn gate(gelu: bool, paired: bool, params: &GateParams, both: &[f32], y: &mut [f32]) {
    let width = params.width as usize;
    for t in 0..params.tokens as usize {
        let row = &both[2 * t * width..][..2 * width];
        for i in 0..width {
            let (gate, up) = if paired { (row[2 * i], row[2 * i + 1]) } else { (row[i], row[width + i]) };
            y[t * width + i] = (activate(gelu, f64::from(gate)) * f64::from(up)) as f32;
        }
    }
}
