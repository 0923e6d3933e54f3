//! Low-rank updates of weight matrices: `y = W x + factor * B (A x)` (LoRA, arXiv:2106.09685).
//!
//! A backend knows matrices by their [`TensorId`] and nothing of who made an update or for what. The weights
//! themselves stay as they are, quantised and shared, so that sequences with different updates run in one pass.

use crate::error::{Error, Result};
use crate::model::plan::TensorId;
use std::collections::HashMap;
use std::sync::Arc;

/// The update of one matrix of `rows x cols`.
#[derive(Debug, Clone, PartialEq)]
pub struct LowRank {
    rows: usize,
    cols: usize,
    rank: usize,
    factor: f32,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl LowRank {
    /// `a: [rank][cols]`, `b: [rank][rows]`: the columns of `B`, one after the other.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a rank of 0, or lengths that do not fit the sizes.
    pub fn new(rows: usize, cols: usize, rank: usize, factor: f32, a: Vec<f32>, b: Vec<f32>) -> Result<Self> {
        if rank == 0 || rank.checked_mul(cols) != Some(a.len()) || rank.checked_mul(rows) != Some(b.len()) {
            let reason =
                format!("{} and {} elements for rank {rank} of a {rows} x {cols} matrix", a.len(), b.len());
            return Err(Error::invalid("low-rank update", reason));
        }
        Ok(LowRank { rows, cols, rank, factor, a, b })
    }

    /// Outputs of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs of the matrix.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// What the update is multiplied with, before the scale of its use.
    pub fn factor(&self) -> f32 {
        self.factor
    }

    /// `A`, `[rank][cols]`.
    pub fn a(&self) -> &[f32] {
        &self.a
    }

    /// `B` by columns, `[rank][rows]`.
    pub fn b(&self) -> &[f32] {
        &self.b
    }
}

/// Updates of some of a model's matrices.
pub type LowRankSet = HashMap<TensorId, LowRank>;

/// What a sequence's passes add to the model: sets of updates, each with a scale, added in this order.
#[derive(Debug, Clone, Default)]
pub struct Updates(pub Arc<Vec<(Arc<LowRankSet>, f32)>>);

impl Updates {
    /// Whether there is nothing to add.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
