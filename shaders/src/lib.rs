//! The WGSL kernels of lean.
//!
//! Every file in `wgsl/` is one kernel with one entry point, `main`. The build script pastes its `#import`s,
//! validates it with naga for the combinations of the values its `#const` lines list (all, or where these are many,
//! all that differ in one value from the first or from the last), and writes the
//! result into this crate. At run time only `enable` and `const` lines are put in front ([`Kernel::source`]). Binding 0 is a
//! uniform struct, whose Rust twin is generated here; the others are storage buffers.
//!
//! [`twin`] says in plain loops what each kernel computes; tests compare the two on random shapes.
#![deny(missing_docs)]

mod facts;
pub mod twin;

pub use facts::{ConvSlot, Facts, Tile, Token, CHOSEN, MAX_ANGLE_SETS};

/// One `const` that the host specialises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    /// Name in the source.
    pub name: &'static str,
    /// WGSL type.
    pub ty: &'static str,
    /// The values with which the kernel was validated, as WGSL literals.
    pub values: &'static [&'static str],
}

/// What a kernel expects at a binding index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// The parameter struct.
    Uniform {
        /// Its size.
        bytes: u64,
    },
    /// A storage buffer that is read.
    Read,
    /// A storage buffer that is written.
    ReadWrite,
}

/// A linked and validated kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Name of the file and of the CPU twin.
    pub name: &'static str,
    /// WGSL without its specialised constants.
    pub source: &'static str,
    /// What [`Kernel::source`] has to be given.
    pub constants: &'static [Constant],
    /// By binding index of group 0.
    pub bindings: &'static [Binding],
    /// It needs subgroup operations.
    pub subgroups: bool,
    /// It needs floats of 16 bits.
    pub f16: bool,
    /// It needs products of matrices of 16-bit floats by whole subgroups of 32.
    pub cooperative: bool,
    /// The `enable` lines of what it needs.
    front: &'static str,
}

impl Kernel {
    /// The WGSL of one variant. Every constant must be given once, with one of its validated values; the error
    /// says which is not.
    pub fn source(&self, constants: &[(&str, &str)]) -> Result<String, String> {
        let mut text = self.front.to_string();
        for c in self.constants {
            let value = constants.iter().find(|(name, _)| *name == c.name).map(|(_, value)| *value);
            match value {
                Some(v) if c.values.contains(&v) => {
                    text.push_str(&format!("const {}: {} = {v};\n", c.name, c.ty));
                }
                Some(v) => {
                    return Err(format!(
                        "{}: {} = {v} is not among {}",
                        self.name,
                        c.name,
                        c.values.join(", ")
                    ))
                }
                None => return Err(format!("{}: {} is not given", self.name, c.name)),
            }
        }
        if let Some((name, _)) =
            constants.iter().find(|(name, _)| self.constants.iter().all(|c| c.name != *name))
        {
            return Err(format!("{}: there is no constant {name}", self.name));
        }
        text.push_str(self.source);
        Ok(text)
    }
}

include!(concat!(env!("OUT_DIR"), "/artifact.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_put_in_front_and_checked() {
        let text = RMS_NORM.source(&[("ADD", "true")]).unwrap();
        assert!(text.starts_with("const ADD: bool = true;\n"));
        assert!(text.ends_with(RMS_NORM.source));
        for (constants, part) in [
            (&[][..], "ADD is not given"),
            (&[("ADD", "1")][..], "not among false, true"),
            (&[("ADD", "true"), ("X", "1")][..], "no constant X"),
        ] {
            assert!(RMS_NORM.source(constants).unwrap_err().contains(part));
        }
    }

    #[test]
    fn twins_have_the_shaders_sizes() {
        assert_eq!(GEMM.bindings[0], Binding::Uniform { bytes: std::mem::size_of::<ProductParams>() as u64 });
        assert_eq!((std::mem::size_of::<Token>(), std::mem::size_of::<ConvSlot>()), (16, 16));
        assert_eq!(KERNELS.len(), 28);
        let with_subgroups: Vec<&str> = KERNELS.iter().filter(|k| k.subgroups).map(|k| k.name).collect();
        let names = [
            "gemm_cooperative",
            "gemm_cooperative_few",
            "gemm_split",
            "gemm_split_few",
            "matvec4_bytes",
            "matvec4_subgroup",
            "matvec_alone",
            "matvec_bytes",
            "matvec_subgroup",
            "quantise",
        ];
        assert_eq!(with_subgroups, names);
        let with_halves: Vec<&str> = KERNELS.iter().filter(|k| k.f16).map(|k| k.name).collect();
        let halves =
            ["gemm_cooperative", "gemm_cooperative_few", "gemm_half", "gemm_split", "gemm_split_few"];
        assert_eq!(with_halves, halves);
        let text = GEMM_COOPERATIVE.source(&[("FORMAT", "3")]).unwrap();
        assert!(text.starts_with("enable f16;\nenable wgpu_cooperative_matrix;\nconst FORMAT"), "{text}");
    }

    #[test]
    fn facts_say_where_their_parts_are() {
        let facts = Facts {
            ids: vec![7, 8],
            tokens: vec![Token { position: 1, table: 2, slot: 3, index: 4 }],
            table: vec![9],
            angles: vec![vec![[1.0, 0.0]], vec![[0.5, 2.0]]],
            ..Default::default()
        };
        let words = facts.words();
        let part = |at: usize, n: usize| words[words[at] as usize..][..n].to_vec();
        assert_eq!((part(0, 2), part(1, 4), part(2, 1)), (vec![7, 8], vec![1, 2, 3, 4], vec![9]));
        assert_eq!(part(9, 2), [0.5f32.to_bits(), 2f32.to_bits()]);
    }
}
