//! Every kernel on every instruction set of this machine, against plain arithmetic.

mod products;
mod stored;

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}
