//! The host's side of `common/facts.wgsl`: what a pass's kernels read about its batch, in one buffer.

/// Words before the parts.
const HEADER: usize = 16;
/// Word of the header where the first set of angles is.
const ANGLES: usize = 8;
/// Sets of angles at most.
pub const MAX_ANGLE_SETS: usize = HEADER - ANGLES;
/// Set in an id that is a place of `chosen` instead.
pub const CHOSEN: u32 = 1 << 31;

/// Where a token of the batch stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Token {
    /// In its sequence.
    pub position: u32,
    /// First entry of its sequence in the page table.
    pub table: u32,
    /// Its sequence's place in the batch.
    pub slot: u32,
    /// Tokens of its sequence before it in this batch.
    pub index: u32,
}

/// A sequence's share of the batch, for convolutions.
#[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ConvSlot {
    /// Its first token in the batch.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Entry of the windows before the batch.
    pub window_in: u32,
    /// Entry after it, never the same.
    pub window_out: u32,
}

/// Consecutive tokens of one sequence that a workgroup of attention takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Tile {
    /// First token in the batch.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// What a batch looks like to the kernels.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// `[tokens]`, see [`CHOSEN`].
    pub ids: Vec<u32>,
    /// `[tokens]`.
    pub tokens: Vec<Token>,
    /// Page tables of all sequences.
    pub table: Vec<u32>,
    /// `[sequences]`.
    pub slots: Vec<ConvSlot>,
    /// Of all sequences; empty where no kernel reads them.
    pub tiles: Vec<Tile>,
    /// By set of frequencies, `[tokens][pairs]` of (cos, sin); at most [`MAX_ANGLE_SETS`].
    pub angles: Vec<Vec<[f32; 2]>>,
}

impl Facts {
    /// The buffer's words.
    pub fn words(&self) -> Vec<u32> {
        let mut words = vec![0; HEADER];
        let mut part = |at: usize, content: &[u32]| {
            words[at] = words.len() as u32;
            words.extend_from_slice(content);
        };
        part(0, &self.ids);
        part(1, bytemuck::cast_slice(&self.tokens));
        part(2, &self.table);
        part(3, bytemuck::cast_slice(&self.slots));
        part(4, bytemuck::cast_slice(&self.tiles));
        for (set, angles) in self.angles.iter().take(MAX_ANGLE_SETS).enumerate() {
            part(ANGLES + set, bytemuck::cast_slice(angles));
        }
        words
    }
}
