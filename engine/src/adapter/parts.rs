//! An adapter's matrices while they are read, one pair a target.

use crate::backend::{LowRank, LowRankSet};
use crate::error::{try_zeroed, Error, Result};
use crate::gguf::shown;
use crate::model::Target;
use indexmap::IndexMap;

/// What has been read of one target's update.
pub(super) struct Part {
    pub target: Target,
    /// Before the scale of its use.
    pub factor: f32,
    /// Rank and `A`, `[rank][cols]`.
    a: Option<(usize, Vec<f32>)>,
    /// Rank and `B` by columns, `[rank][rows]`.
    b: Option<(usize, Vec<f32>)>,
}

/// By the model file's tensor name.
#[derive(Default)]
pub(super) struct Parts(IndexMap<String, Part>);

impl Part {
    /// `values: [rows][cols]` is `A`, whose rows are the rank.
    pub(super) fn set_a(&mut self, name: &str, rows: usize, cols: usize, values: Vec<f32>) -> Result<()> {
        self.check(name, cols, self.target.cols, (rows, cols), rows, &values)?;
        self.a = once(name, &self.a, (rows, values))?;
        Ok(())
    }

    /// `values: [rows][cols]` is `B`, whose columns are the rank.
    pub(super) fn set_b(&mut self, name: &str, rows: usize, cols: usize, values: Vec<f32>) -> Result<()> {
        self.check(name, rows, self.target.rows, (rows, cols), cols, &values)?;
        let mut columns = try_zeroed(values.len(), "an adapter's columns")?;
        for (j, column) in columns.chunks_exact_mut(rows).enumerate() {
            column.iter_mut().zip(values.iter().skip(j).step_by(cols)).for_each(|(to, from)| *to = *from);
        }
        self.b = once(name, &self.b, (cols, columns))?;
        Ok(())
    }

    fn check(
        &self,
        name: &str,
        found: usize,
        expected: usize,
        shape: (usize, usize),
        rank: usize,
        values: &[f32],
    ) -> Result<()> {
        let bad =
            |reason: String| Err(Error::bad_model(format_args!("adapter tensor {}", shown(name)), reason));
        if rank == 0 || found != expected {
            return bad(format!(
                "its shape is {} x {}; the model's matrix is {} x {}",
                shape.0, shape.1, self.target.rows, self.target.cols
            ));
        }
        if let Some(x) = values.iter().find(|x| !x.is_finite()) {
            return bad(format!("it holds {x}"));
        }
        Ok(())
    }
}

fn once<T>(name: &str, before: &Option<T>, value: T) -> Result<Option<T>> {
    match before {
        None => Ok(Some(value)),
        Some(_) => {
            let reason = "another tensor is the same part of the same matrix";
            Err(Error::bad_model(format_args!("adapter tensor {}", shown(name)), reason))
        }
    }
}

impl Parts {
    /// The part of a target, empty at first.
    pub(super) fn part(&mut self, name: &str, target: Target) -> &mut Part {
        self.0.entry(name.to_string()).or_insert(Part { target, factor: 1.0, a: None, b: None })
    }

    /// The set, and by name what is in it, sorted.
    pub(super) fn finish(mut self) -> Result<(LowRankSet, Vec<(String, Target)>)> {
        if self.0.is_empty() {
            return Err(Error::bad_model("adapter", "it has no lora_A and lora_B"));
        }
        self.0.sort_keys();
        let (mut set, mut names) = (LowRankSet::new(), Vec::new());
        for (name, part) in self.0 {
            let bad = |reason: String| Error::bad_model(format_args!("adapter of {name}"), reason);
            let ((rank, a), (columns, b)) = match (part.a, part.b) {
                (Some(a), Some(b)) => (a, b),
                (None, _) => return Err(bad("lora_A is missing".into())),
                (_, None) => return Err(bad("lora_B is missing".into())),
            };
            if rank != columns {
                return Err(bad(format!("lora_A has a rank of {rank}, lora_B of {columns}")));
            }
            let t = part.target;
            if !part.factor.is_finite() {
                return Err(bad(format!("its scale is {}", part.factor)));
            }
            set.insert(t.tensor, LowRank::new(t.rows, t.cols, rank, part.factor, a, b)?);
            names.push((name, t));
        }
        Ok((set, names))
    }
}
