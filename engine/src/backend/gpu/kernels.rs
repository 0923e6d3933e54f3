//! The pipelines that a plan needs, all compiled at load, and which of them a product takes.

use super::device::{Gpu, Pipeline};
use super::model::{Layer, Mixer};
use super::pack::Format;
use super::pair;
use super::weights::Stack;
use crate::error::{Error, Result};
use crate::model::plan::Activation;
use lean_shaders::{self as shaders, Kernel};
use std::collections::HashMap;
use std::sync::Arc;

/// A constant's name and number; truth is 1. Unused places have no name.
type Constants = [(&'static str, u32); 3];

/// A kernel and its constants: small, since every dispatch looks one up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Variant {
    kernel: &'static str,
    constants: Constants,
}

const UNUSED: (&str, u32) = ("", 0);

/// Compiled kernels.
pub struct Kernels {
    all: HashMap<Variant, Arc<Pipeline>>,
    subgroups: bool,
}

/// Rows of a workgroup of the product with one token.
pub const MATVEC_ROWS: usize = 8;
/// Rows and tokens of a workgroup of the product with few.
pub const MATVEC4: (usize, usize) = (4, 4);
/// More tokens than this are worth a tile of [`GEMM`].
pub const FEW: usize = 8;
/// Rows and tokens of a workgroup of the product with many.
pub const GEMM: (usize, usize) = (128, 64);

/// Lanes that share a row: as many as have a group of it to read, within what the kernels are validated for.
fn lanes(groups: usize) -> u32 {
    match groups {
        0..=32 => 32,
        33..=96 => 64,
        _ => 128,
    }
}

fn variant(kernel: &'static Kernel, constants: Constants) -> (Variant, &'static Kernel) {
    (Variant { kernel: kernel.name, constants }, kernel)
}

/// The constants as the kernel's source has them.
fn literals(kernel: &Kernel, constants: &Constants) -> Vec<(&'static str, String)> {
    let of_bool = |name| kernel.constants.iter().any(|c| c.name == name && c.ty == "bool");
    let used = constants.iter().filter(|(name, _)| !name.is_empty());
    used.map(|(name, value)| {
        (*name, if of_bool(*name) { (*value == 1).to_string() } else { value.to_string() })
    })
    .collect()
}

fn head_size(head_dim: usize) -> (&'static str, u32) {
    ("HEAD_DIM", head_dim as u32)
}

const PAGE: (&str, u32) = ("PAGE_TOKENS", crate::backend::PAGE_TOKENS as u32);

/// The product of a stack's piece with few tokens: one, or more.
fn few(subgroups: bool, one: bool, format: Format, groups: usize, norm: bool) -> (Variant, &'static Kernel) {
    let kernel = match (one, subgroups) {
        (true, true) => &shaders::MATVEC_SUBGROUP,
        (true, false) => &shaders::MATVEC,
        (false, true) => &shaders::MATVEC4_SUBGROUP,
        (false, false) => &shaders::MATVEC4,
    };
    variant(kernel, [("LANES", lanes(groups)), ("FORMAT", format.number), ("NORM", norm.into())])
}

fn many(format: Format) -> (Variant, &'static Kernel) {
    variant(&shaders::GEMM, [("FORMAT", format.number), UNUSED, UNUSED])
}

fn embed(format: Format) -> (Variant, &'static Kernel) {
    variant(&shaders::EMBED, [PAGE, ("FORMAT", format.number), UNUSED])
}

fn attention(kernel: &'static Kernel, head_dim: usize) -> (Variant, &'static Kernel) {
    variant(kernel, [PAGE, head_size(head_dim), UNUSED])
}

fn attention_step(head_dim: usize, group: usize) -> (Variant, &'static Kernel) {
    variant(&shaders::ATTENTION_STEP, [PAGE, head_size(head_dim), ("GROUP", group as u32)])
}

fn merge(head_dim: usize) -> (Variant, &'static Kernel) {
    variant(&shaders::ATTENTION_MERGE, [head_size(head_dim), UNUSED, UNUSED])
}

fn norm(add: bool) -> (Variant, &'static Kernel) {
    variant(&shaders::RMS_NORM, [("ADD", add.into()), UNUSED, UNUSED])
}

fn gate(activation: Activation, paired: bool) -> (Variant, &'static Kernel) {
    let gelu = u32::from(activation == Activation::GeluTanh);
    variant(&shaders::GATE, [("GELU", gelu), ("PAIRED", paired.into()), UNUSED])
}

fn short_conv() -> (Variant, &'static Kernel) {
    variant(&shaders::SHORT_CONV, [PAGE, UNUSED, UNUSED])
}

impl Kernels {
    /// Compiles all that layers, embedding and head need, on several threads where there are some.
    pub fn compile(gpu: &Gpu, layers: &[Layer], embedding: &Stack, head: &Stack) -> Result<Self> {
        let mut wanted: HashMap<Variant, &'static Kernel> = HashMap::new();
        let mut want = |(variant, kernel): (Variant, &'static Kernel)| {
            wanted.insert(variant, kernel);
        };
        let mut product = |stack: &Stack, norm: bool| {
            for piece in &stack.pieces {
                // Where an update adds to the outputs, the norm is a step of its own.
                for norm in [false, norm] {
                    want(few(gpu.subgroups, true, piece.format, stack.groups(), norm));
                    want(few(gpu.subgroups, false, piece.format, stack.groups(), norm));
                }
                want(many(piece.format));
            }
        };
        product(head, true);
        for layer in layers {
            product(&layer.gate_up, true);
            product(&layer.down, false);
            match &layer.mixer {
                Mixer::Attention(a) => {
                    product(&a.qkv, true);
                    product(&a.o, false);
                }
                Mixer::ShortConv(c) => {
                    product(&c.in_proj, true);
                    product(&c.out_proj, false);
                }
            }
        }
        embedding.pieces.iter().for_each(|piece| want(embed(piece.format)));
        for layer in layers {
            match &layer.mixer {
                Mixer::Attention(a) => {
                    want(attention(&shaders::ROPE_APPEND, a.head_dim));
                    want(attention(&shaders::ATTENTION, a.head_dim));
                    want(attention_step(a.head_dim, a.group));
                    want(merge(a.head_dim));
                }
                Mixer::ShortConv(_) => want(short_conv()),
            }
            want(gate(layer.activation, layer.gate_up.paired));
        }
        want(norm(false));
        want(norm(true));
        let plain = [
            &shaders::ARGMAX,
            &shaders::ARGMAX_PARTS,
            &shaders::PENALIZE,
            &shaders::LOWRANK_IN,
            &shaders::LOWRANK_OUT,
        ];
        for kernel in plain {
            want(variant(kernel, [UNUSED; 3]));
        }
        let wanted: Vec<(Variant, &'static Kernel)> = wanted.into_iter().collect();
        let compiled = pair::each(&wanted, |(variant, kernel)| {
            let constants = literals(kernel, &variant.constants);
            let constants: Vec<(&str, &str)> =
                constants.iter().map(|(name, value)| (*name, &**value)).collect();
            gpu.pipeline(kernel, &constants)
        })?;
        let all = wanted.into_iter().map(|(variant, _)| variant).zip(compiled).collect();
        Ok(Kernels { all, subgroups: gpu.subgroups })
    }

    fn get(&self, wanted: (Variant, &'static Kernel)) -> Result<&Arc<Pipeline>> {
        let missing = || Error::Internal(format!("{:?} was not compiled", wanted.0));
        self.all.get(&wanted.0).ok_or_else(missing)
    }

    /// The product of a piece with at most [`FEW`] tokens, and its workgroups.
    pub fn few(
        &self,
        format: Format,
        groups: usize,
        norm: bool,
        rows: usize,
        tokens: usize,
    ) -> Result<(&Arc<Pipeline>, [u32; 3])> {
        let kernel = self.get(few(self.subgroups, tokens == 1, format, groups, norm))?;
        let (each, together) = if tokens == 1 { (MATVEC_ROWS, 1) } else { MATVEC4 };
        let mut grid = super::pass::flat(rows.div_ceil(each));
        grid[2] = tokens.div_ceil(together) as u32;
        Ok((kernel, grid))
    }

    /// The product of a piece with many tokens, and its workgroups.
    pub fn many(&self, format: Format, rows: usize, tokens: usize) -> Result<(&Arc<Pipeline>, [u32; 3])> {
        let grid = [rows.div_ceil(GEMM.0) as u32, tokens.div_ceil(GEMM.1) as u32, 1];
        Ok((self.get(many(format))?, grid))
    }

    /// Rows of the embedding.
    pub fn embed(&self, format: Format) -> Result<&Arc<Pipeline>> {
        self.get(embed(format))
    }

    /// A norm, or one that is added to its output.
    pub fn norm(&self, add: bool) -> Result<&Arc<Pipeline>> {
        self.get(norm(add))
    }

    /// The gate with an activation, of pairs of rows or of halves.
    pub fn gate(&self, activation: Activation, paired: bool) -> Result<&Arc<Pipeline>> {
        self.get(gate(activation, paired))
    }

    /// `rope_append` of a head size.
    pub fn rope_append(&self, head_dim: usize) -> Result<&Arc<Pipeline>> {
        self.get(attention(&shaders::ROPE_APPEND, head_dim))
    }

    /// `attention` of a head size.
    pub fn attention(&self, head_dim: usize) -> Result<&Arc<Pipeline>> {
        self.get(attention(&shaders::ATTENTION, head_dim))
    }

    /// `attention_step` of a head size and number of heads.
    pub fn attention_step(&self, head_dim: usize, group: usize) -> Result<&Arc<Pipeline>> {
        self.get(attention_step(head_dim, group))
    }

    /// `attention_merge` of a head size.
    pub fn merge(&self, head_dim: usize) -> Result<&Arc<Pipeline>> {
        self.get(merge(head_dim))
    }

    /// The convolution.
    pub fn short_conv(&self) -> Result<&Arc<Pipeline>> {
        self.get(short_conv())
    }

    /// A kernel without constants.
    pub fn plain(&self, kernel: &'static Kernel) -> Result<&Arc<Pipeline>> {
        self.get(variant(kernel, [UNUSED; 3]))
    }
}
