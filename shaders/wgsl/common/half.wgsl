// Activations as floats of 16 bits, which end at 65,504: scaled, so that those up to half a million keep their size, and
// cut beyond that.
const X_SCALE: f32 = 0.125;

fn in_range(v: vec4<f32>) -> vec4<f32> {
    return clamp(v * X_SCALE, vec4<f32>(-65504.0), vec4<f32>(65504.0));
}
