use crate::GateParams;

/// `gate = act(gate) * up`, in place; `gelu` is the kernel's constant, otherwise SiLU.
pub fn gate(gelu: bool, params: &GateParams, up: &[f32], gate: &mut [f32]) {
    for i in 0..params.count as usize {
        let x = f64::from(gate[i]);
        let activated = if gelu {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        } else {
            x / (1.0 + (-x).exp())
        };
        gate[i] = (activated * f64::from(up[i])) as f32;
    }
}
