//! The pipelines that a plan needs, all compiled at load, and which of them a product takes.

use super::device::{Gpu, Pipeline, Tiles};
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
    /// Products with few tokens are taken of bytes, with so many rows of a workgroup for one token; 0 where they
    /// are not.
    byte_rows: usize,
    /// There is workgroup memory for wide tiles.
    wide: bool,
    /// Of products with many tokens.
    tiles: Tiles,
    /// Bytes of workgroup memory.
    memory: u32,
}

/// Invocations of a workgroup of `matvec_bytes`, each subgroup of which takes two rows, and of `quantise`.
pub const BYTES_LANES: usize = 128;
pub const QUANTISE_LANES: usize = 256;
/// Rows of a workgroup of the product with one token.
pub const MATVEC_ROWS: usize = 8;
/// Rows and tokens of a workgroup of the product with few.
pub const MATVEC4: (usize, usize) = (4, 4);
/// Invocations of a workgroup of `matvec_alone`, and its workgroups at most: two for each core of a large device, since
/// all of them quantise the same.
const ALONE_LANES: usize = 512;
const ALONE_GROUPS: usize = 264;
/// How much more a subgroup takes of `matvec4_bytes`: rows against those of `matvec_bytes`, and tokens.
pub const BYTES4: (usize, usize) = (2, 4);
/// More tokens than this are worth a tile of [`GEMM`].
pub const FEW: usize = 8;
/// Rows and tokens of a workgroup of the product with many.
pub const GEMM: (usize, usize) = (128, 64);
/// The same where there are at least so many such tiles, and workgroup memory for them.
pub const GEMM_WIDE: (usize, usize) = (128, 128);
const WIDE_TILES: usize = 96;
/// Of the tokens of a pass.
const MOST_TILES: usize = super::submit::MAX_TOKENS / GEMM_WIDE.1;
const WIDE_MEMORY: u32 = 32 << 10;

/// Lanes that share a row: as many as have a group of it to read, within what the kernels are validated for.
fn lanes(groups: usize) -> u32 {
    match groups {
        0..=32 => 32,
        33..=96 => 64,
        _ => 128,
    }
}

/// The groups that a workgroup of `matvec_alone` has room for, of those that it is validated with.
fn room_for(memory: u32, groups: usize) -> Option<usize> {
    // Six vectors and three words a group, and some sums.
    let fits = |room: &usize| *room >= groups && room * 108 + 256 <= memory as usize;
    [128, 256, 448].into_iter().find(fits)
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

/// The same of bytes.
fn few_bytes(one: bool, format: Format) -> (Variant, &'static Kernel) {
    let kernel = if one { &shaders::MATVEC_BYTES } else { &shaders::MATVEC4_BYTES };
    variant(kernel, [("FORMAT", format.number), UNUSED, UNUSED])
}

/// The same of one token, whose activations of at most `room` groups each workgroup quantises for itself.
fn alone(format: Format, norm: bool, room: usize) -> (Variant, &'static Kernel) {
    let room = ("ROOM", room as u32);
    variant(&shaders::MATVEC_ALONE, [("FORMAT", format.number), ("NORM", norm.into()), room])
}

fn quantise(norm: bool) -> (Variant, &'static Kernel) {
    variant(&shaders::QUANTISE, [("NORM", norm.into()), UNUSED, UNUSED])
}

fn many(tiles: Tiles, format: Format, wide: bool) -> (Variant, &'static Kernel) {
    let kernel = match (tiles, wide) {
        (Tiles::Floats, true) => &shaders::GEMM_WIDE,
        (Tiles::Floats, false) => &shaders::GEMM,
        (Tiles::Split, true) => &shaders::GEMM_SPLIT,
        (Tiles::Split, false) => &shaders::GEMM_SPLIT_FEW,
        (Tiles::Cooperative, true) => &shaders::GEMM_COOPERATIVE,
        (Tiles::Cooperative, false) => &shaders::GEMM_COOPERATIVE_FEW,
        (Tiles::Halves, _) => &shaders::GEMM_HALF,
    };
    variant(kernel, [("FORMAT", format.number), UNUSED, UNUSED])
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
        let byte_rows = gpu.byte_subgroup.map_or(0, |size| 2 * BYTES_LANES / size);
        let wide = gpu.tiles != Tiles::Floats || gpu.limits.max_compute_workgroup_storage_size >= WIDE_MEMORY;
        let mut product = |stack: &Stack, norm: bool| {
            for piece in &stack.pieces {
                want(many(gpu.tiles, piece.format, false));
                if wide
                    && !std::ptr::eq(stack, head)
                    && stack.rows.div_ceil(GEMM_WIDE.0) >= WIDE_TILES / MOST_TILES
                {
                    want(many(gpu.tiles, piece.format, true));
                }
                if byte_rows > 0 && piece.format.has_bytes() {
                    match room_for(gpu.limits.max_compute_workgroup_storage_size, stack.groups()) {
                        Some(room) => {
                            want(alone(piece.format, false, room));
                            want(alone(piece.format, norm, room));
                        }
                        None => want(few_bytes(true, piece.format)),
                    }
                    want(few_bytes(false, piece.format));
                    want(quantise(false));
                    want(quantise(true));
                    continue;
                }
                // Where an update adds to the outputs, the norm is a step of its own.
                for norm in [false, norm] {
                    want(few(gpu.subgroups, true, piece.format, stack.groups(), norm));
                    want(few(gpu.subgroups, false, piece.format, stack.groups(), norm));
                }
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
        Ok(Kernels {
            all,
            subgroups: gpu.subgroups,
            byte_rows,
            wide,
            tiles: gpu.tiles,
            memory: gpu.limits.max_compute_workgroup_storage_size,
        })
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

    /// Whether a piece's products with few tokens read what [`Kernels::quantise`] writes.
    pub fn takes_bytes(&self, format: Format) -> bool {
        self.byte_rows > 0 && format.has_bytes()
    }

    /// Whether so many tokens of so many groups are quantised by the products of bytes themselves.
    pub fn takes_alone(&self, groups: usize, tokens: usize) -> bool {
        self.byte_rows > 0 && tokens == 1 && room_for(self.memory, groups).is_some()
    }

    /// The product of a piece that [takes bytes](Kernels::takes_bytes) with a token that it
    /// [quantises itself](Kernels::takes_alone).
    pub fn alone(
        &self,
        format: Format,
        groups: usize,
        norm: bool,
        rows: usize,
    ) -> Result<(&Arc<Pipeline>, [u32; 3])> {
        let room = room_for(self.memory, groups).unwrap_or(groups);
        let rows_of_one = self.byte_rows * ALONE_LANES / BYTES_LANES;
        let grid = [rows.div_ceil(rows_of_one).min(ALONE_GROUPS) as u32, 1, 1];
        Ok((self.get(alone(format, norm, room))?, grid))
    }

    /// Activations for the products of bytes, and the workgroups for `groups` groups of each token.
    pub fn quantise(&self, norm: bool, groups: usize, tokens: usize) -> Result<(&Arc<Pipeline>, [u32; 3])> {
        Ok((self.get(quantise(norm))?, [(8 * groups).div_ceil(QUANTISE_LANES) as u32, tokens as u32, 1]))
    }

    /// The product of a piece that [takes bytes](Kernels::takes_bytes) with at most [`FEW`] tokens.
    pub fn few_bytes(
        &self,
        format: Format,
        rows: usize,
        tokens: usize,
    ) -> Result<(&Arc<Pipeline>, [u32; 3])> {
        let (each, together) = if tokens == 1 { (1, 1) } else { BYTES4 };
        let mut grid = super::pass::flat(rows.div_ceil(each * self.byte_rows));
        grid[2] = tokens.div_ceil(together) as u32;
        Ok((self.get(few_bytes(tokens == 1, format))?, grid))
    }

    /// The product of a piece with many tokens, and its workgroups.
    pub fn many(&self, format: Format, rows: usize, tokens: usize) -> Result<(&Arc<Pipeline>, [u32; 3])> {
        let tiles = |(a, b): (usize, usize)| [rows.div_ceil(a) as u32, tokens.div_ceil(b) as u32, 1];
        let grid = tiles(GEMM_WIDE);
        let wide = self.wide && (grid[0] * grid[1]) as usize >= WIDE_TILES;
        let kernel = self.get(many(self.tiles, format, wide))?;
        Ok((kernel, if wide || self.tiles == Tiles::Halves { grid } else { tiles(GEMM) }))
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
