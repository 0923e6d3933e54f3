//! Tensor names to ids, with presence, shape and type checked.

use super::plan::{Linear, Norm, TensorId, TensorSpec};
use crate::error::{Error, Result};
use crate::gguf::{Gguf, TensorInfo};
use crate::quant::DType;
use indexmap::IndexMap;

/// The tensors of a file in the order of their bytes, so that a plan can be loaded from a stream. An
/// architecture claims them one by one; what nobody claims would be a part of the model silently left out.
pub(super) struct Tensors {
    arch: &'static str,
    entries: IndexMap<String, Entry>,
}

struct Entry {
    spec: TensorSpec,
    claimed: bool,
}

impl Tensors {
    /// `aside` are tensors that the plan itself consumes.
    pub(super) fn new(gguf: &Gguf, arch: &'static str, aside: &[&str]) -> Result<Self> {
        let mut infos: Vec<&TensorInfo> =
            gguf.tensors.values().filter(|t| !aside.contains(&t.name.as_str())).collect();
        infos.sort_by_key(|t| t.offset);
        let entry = |t: &&TensorInfo| Ok((t.name.clone(), Entry { spec: spec(arch, t)?, claimed: false }));
        let entries = infos.iter().map(entry).collect::<Result<_>>()?;
        Ok(Tensors { arch, entries })
    }

    fn what(&self, name: &str) -> String {
        what(self.arch, name)
    }

    /// A claim on a tensor of `rows x cols`, if it is there.
    pub(super) fn optional(&mut self, name: &str, rows: usize, cols: usize) -> Result<Option<TensorId>> {
        let message = self.what(name);
        let Some((index, _, entry)) = self.entries.get_full_mut(name) else { return Ok(None) };
        let s = &entry.spec;
        if (s.rows, s.cols) != (rows, cols) {
            let reason = format!("its shape is [{}, {}], expected [{cols}, {rows}]", s.cols, s.rows);
            return Err(Error::bad_model(message, reason));
        }
        entry.claimed = true;
        Ok(Some(TensorId(index)))
    }

    /// A claim on a tensor of `rows x cols`.
    pub(super) fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Result<TensorId> {
        let found = self.optional(name, rows, cols)?;
        found.ok_or_else(|| Error::bad_model(self.what(name), "missing from the file"))
    }

    /// A claim on a float32 tensor of `rows x cols`.
    pub(super) fn float(&mut self, name: &str, rows: usize, cols: usize) -> Result<TensorId> {
        let id = self.matrix(name, rows, cols)?;
        let dtype = self.entries[id.0].spec.dtype;
        if dtype != DType::F32 {
            return Err(Error::unsupported(
                self.what(name),
                format_args!("its type is {dtype}; F32 is needed here"),
            ));
        }
        Ok(id)
    }

    /// A norm's weight of `n` elements.
    pub(super) fn norm(&mut self, name: &str, n: usize, eps: f32) -> Result<Norm> {
        Ok(Norm { weight: self.float(name, 1, n)?, eps })
    }

    /// `<stem>.weight` of `n_out x n_in`, with `<stem>.bias` where the file has one.
    pub(super) fn linear(&mut self, stem: &str, n_out: usize, n_in: usize) -> Result<Linear> {
        let weight = self.matrix(&format!("{stem}.weight"), n_out, n_in)?;
        let bias = format!("{stem}.bias");
        let bias = if self.entries.contains_key(&bias) { Some(self.float(&bias, 1, n_out)?) } else { None };
        Ok(Linear { weight, bias })
    }

    /// As [`Tensors::linear`], where the architecture always has a bias.
    pub(super) fn biased(&mut self, stem: &str, n_out: usize, n_in: usize) -> Result<Linear> {
        let bias = Some(self.float(&format!("{stem}.bias"), 1, n_out)?);
        Ok(Linear { bias, ..self.linear(stem, n_out, n_in)? })
    }

    /// Rows of a matrix that has `cols` columns, when the number of rows is the file's to say.
    pub(super) fn rows_of(&self, name: &str) -> Result<usize> {
        let missing = || Error::bad_model(self.what(name), "missing from the file");
        Ok(self.entries.get(name).ok_or_else(missing)?.spec.rows)
    }

    /// The specs in id order, once everything in the file has been claimed.
    pub(super) fn finish(self) -> Result<Vec<TensorSpec>> {
        if let Some((name, _)) = self.entries.iter().find(|(_, e)| !e.claimed) {
            let reason = "this architecture has no place for it, so the result would not be the model's";
            return Err(Error::unsupported(self.what(name), reason));
        }
        Ok(self.entries.into_values().map(|e| e.spec).collect())
    }
}

fn what(arch: &str, name: &str) -> String {
    format!("architecture {arch}: tensor {}", name.escape_debug())
}

fn spec(arch: &str, t: &TensorInfo) -> Result<TensorSpec> {
    let Some(dtype) = t.dtype else {
        let known: Vec<_> = DType::ALL.iter().map(|d| d.name()).collect();
        let reason = format!("its type is {}; supported are {}", t.type_name(), known.join(", "));
        return Err(Error::unsupported(what(arch, &t.name), reason));
    };
    let size = |i: usize| match t.dims.get(i) {
        Some(&n) => usize::try_from(n)
            .map_err(|_| Error::bad_model(what(arch, &t.name), "too large for this machine")),
        None => Ok(1),
    };
    if t.dims.iter().skip(2).any(|&n| n != 1) {
        let reason = format!("its shape is {:?}, expected one or two dimensions", t.dims);
        return Err(Error::bad_model(what(arch, &t.name), reason));
    }
    Ok(TensorSpec { name: t.name.clone(), dtype, rows: size(1)?, cols: size(0)? })
}
