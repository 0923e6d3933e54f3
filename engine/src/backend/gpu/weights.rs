//! Weights on the device, as quantised as in the file: matrices that read the same input stand in one stack, cut
//! into pieces of one format that fit a binding; vectors as float32.

use super::device::Gpu;
use super::pack::{Format, Planes, GROUP};
use super::pair;
use crate::backend::{Progress, WeightSource};
use crate::error::{try_zeroed, Error, Result};
use crate::model::plan::{Linear, Plan, TensorId, TensorSpec};
use crate::quant::DType;

/// Bytes that are repacked and uploaded at a time; bounds the host memory of a load.
const UPLOAD_BYTES: usize = 4 << 20;

/// Bytes in staging buffers before the device is waited for.
const STAGED_BYTES: usize = 64 << 20;

/// Rows of a piece are a multiple of this, so that pairs of rows and pairs of scales stay together.
const PIECE_ROWS: usize = 8;

/// Consecutive rows of a stack.
#[derive(Debug)]
pub struct Piece {
    /// The plane of weights.
    pub weights: wgpu::Buffer,
    /// The plane of scales; four bytes where the format has none.
    pub scales: wgpu::Buffer,
    /// Its storage.
    pub format: Format,
    /// First row.
    pub row_begin: usize,
    /// How many.
    pub rows: usize,
}

/// Matrices of one input, their rows one after the other.
#[derive(Debug)]
pub struct Stack {
    /// All rows, in order.
    pub pieces: Vec<Piece>,
    /// Outputs, of all matrices together.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// `[rows]`.
    pub bias: Option<wgpu::Buffer>,
    /// The matrices and the first row of each, were they not paired.
    pub members: Vec<(TensorId, usize)>,
    /// The rows are pairs of the two matrices: row 0 of the first, of the second, row 1 of the first ...
    pub paired: bool,
}

impl Stack {
    /// Groups of a row.
    pub fn groups(&self) -> usize {
        self.cols / GROUP
    }

    /// Whether a matrix of this size is among those of the stack.
    pub fn has(&self, id: TensorId, rows: usize, cols: usize) -> bool {
        let at = self.members.iter().position(|(member, _)| *member == id);
        let end = |at: usize| self.members.get(at + 1).map_or(self.rows, |(_, row)| *row);
        at.is_some_and(|at| end(at) - self.members[at].1 == rows && self.cols == cols)
    }
}

/// `[group][vector of 4]` as `[vector of 4][group]`: of each group the first vector, then of each the second ...
pub fn by_vector(values: &[f32]) -> Vec<f32> {
    let of = |at: usize| values.chunks_exact(GROUP).flat_map(move |group| group[at..at + 4].to_vec());
    (0..GROUP).step_by(4).flat_map(of).collect()
}

/// Uploads one stack or vector after the other.
pub struct Uploader<'a> {
    gpu: &'a Gpu,
    plan: &'a Plan,
    source: &'a mut dyn WeightSource,
    progress: Progress<'a>,
    staged: usize,
    done: u64,
    total: u64,
    /// Bytes on the device so far.
    pub bytes: u64,
    planes: Planes,
}

/// Matrices of one type in a stack.
struct Run {
    dtype: DType,
    rows: usize,
    row_bytes: usize,
    /// Of the matrices, one after the other.
    content: Vec<Vec<u8>>,
    paired: bool,
}

impl<'a> Uploader<'a> {
    /// Nothing uploaded yet.
    pub fn new(
        gpu: &'a Gpu,
        plan: &'a Plan,
        source: &'a mut dyn WeightSource,
        progress: Progress<'a>,
    ) -> Result<Self> {
        let total = plan.tensors.iter().map(TensorSpec::bytes).fold(0, u64::saturating_add);
        progress(0, total)?;
        let planes = Planes::default();
        Ok(Uploader { gpu, plan, source, progress, staged: 0, done: 0, total, bytes: 0, planes })
    }

    /// A vector of the plan as float32.
    pub fn vector(&mut self, id: TensorId) -> Result<wgpu::Buffer> {
        let values = self.values(id)?;
        self.floats(&self.plan.tensor(id).name.clone(), &values)
    }

    /// The weights of a norm, as they are and `[vector of a group][group]`.
    pub fn norm(&mut self, id: TensorId) -> Result<(wgpu::Buffer, wgpu::Buffer)> {
        let values = self.values(id)?;
        let name = self.plan.tensor(id).name.clone();
        Ok((self.floats(&name, &values)?, self.floats(&name, &by_vector(&values))?))
    }

    /// Matrices that read one input. With `pair`, two of one shape and type, their rows alternate.
    pub fn stack(&mut self, linears: &[&Linear], pair: bool) -> Result<Stack> {
        let ids: Vec<TensorId> = linears.iter().map(|l| l.weight).collect();
        let mut stack = self.matrices(&ids, pair)?;
        if linears.iter().any(|l| l.bias.is_some()) {
            stack.bias = Some(self.bias(linears, stack.paired)?);
        }
        Ok(stack)
    }

    /// The same of matrices without a bias.
    pub fn matrices(&mut self, ids: &[TensorId], pair: bool) -> Result<Stack> {
        let specs: Vec<TensorSpec> = ids.iter().map(|id| self.plan.tensor(*id).clone()).collect();
        let same = |a: &TensorSpec, b: &TensorSpec| a.dtype == b.dtype && a.rows == b.rows;
        let paired = pair && specs.windows(2).all(|w| same(&w[0], &w[1]));
        let cols = specs.first().map_or(0, |s| s.cols);
        let before = |at: usize| specs[..at].iter().map(|s| s.rows).sum();
        let members = ids.iter().enumerate().map(|(at, id)| (*id, before(at))).collect();
        let mut stack = Stack { pieces: Vec::new(), rows: 0, cols, bias: None, members, paired };
        let mut from = 0;
        while let Some(first) = specs.get(from) {
            let like = specs[from..].iter().take_while(|s| s.dtype == first.dtype).count();
            let mut run = Run {
                dtype: first.dtype,
                rows: 0,
                row_bytes: cols / first.dtype.block_elems() * first.dtype.block_bytes(),
                content: Vec::with_capacity(like),
                paired,
            };
            for spec in &specs[from..from + like] {
                run.content.push(self.read(spec, cols)?);
                run.rows += spec.rows;
            }
            self.pieces(&mut stack, &run, &first.name)?;
            from += like;
        }
        Ok(stack)
    }

    fn read(&mut self, spec: &TensorSpec, cols: usize) -> Result<Vec<u8>> {
        let bytes = self.source.read(spec)?;
        if bytes.len() as u64 != spec.bytes() || spec.rows == 0 || cols == 0 || spec.cols != cols {
            let reason = format!("{} bytes for {} x {} elements", bytes.len(), spec.rows, spec.cols);
            return Err(Error::bad_model(&spec.name, reason));
        }
        if spec.cols % GROUP != 0 {
            let reason = format!("{}: rows of {} elements are no multiple of {GROUP}", spec.name, spec.cols);
            return Err(Error::Device { reason });
        }
        let bytes = bytes.into_owned();
        self.done += spec.bytes();
        (self.progress)(self.done, self.total)?;
        Ok(bytes)
    }

    /// Cuts a run into pieces and uploads them behind those of the stack.
    fn pieces(&mut self, stack: &mut Stack, run: &Run, name: &str) -> Result<()> {
        let format = Format::of(run.dtype);
        let groups = stack.groups();
        let row = (groups * format.weight_bytes).max((groups * format.scale_bytes_of_8).div_ceil(8)) as u64;
        let most = (self.gpu.max_binding.saturating_sub(4) / row) as usize;
        let most = if run.rows <= most { run.rows } else { most / PIECE_ROWS * PIECE_ROWS };
        if most == 0 {
            let reason = format!("{PIECE_ROWS} rows of {name} are more than this device binds at once");
            return Err(Error::Device { reason });
        }
        for begin in (0..run.rows).step_by(most) {
            let rows = most.min(run.rows - begin);
            let weight_bytes = (rows * groups * format.weight_bytes) as u64;
            let scale_bytes =
                ((rows * groups * format.scale_bytes_of_8).div_ceil(8) as u64).next_multiple_of(4);
            let piece = Piece {
                weights: self.gpu.storage(name, weight_bytes)?,
                scales: self.gpu.storage(name, scale_bytes)?,
                format,
                row_begin: stack.rows + begin,
                rows,
            };
            self.fill(&piece, run, begin)?;
            self.bytes += weight_bytes + scale_bytes;
            stack.pieces.push(piece);
        }
        stack.rows += run.rows;
        Ok(())
    }

    /// Repacks and uploads a piece that begins with row `begin` of its run.
    fn fill(&mut self, piece: &Piece, run: &Run, begin: usize) -> Result<()> {
        let step = (UPLOAD_BYTES / run.row_bytes / PIECE_ROWS).max(1) * PIECE_ROWS;
        let (mut weights_at, mut scales_at) = (0, 0);
        for at in (0..piece.rows).step_by(step) {
            self.planes.clear();
            for row in begin + at..begin + (at + step).min(piece.rows) {
                self.planes.push(run.dtype, run.row(row));
            }
            // Only a piece's last rows can leave a scale without a neighbour.
            self.planes.scales.resize(self.planes.scales.len().next_multiple_of(4), 0);
            self.gpu.queue.write_buffer(&piece.weights, weights_at, &self.planes.weights);
            self.gpu.queue.write_buffer(&piece.scales, scales_at, &self.planes.scales);
            weights_at += self.planes.weights.len() as u64;
            scales_at += self.planes.scales.len() as u64;
            self.sent(self.planes.weights.len() + self.planes.scales.len())?;
        }
        Ok(())
    }

    /// `[rows]`, zero where a matrix has none.
    fn bias(&mut self, linears: &[&Linear], paired: bool) -> Result<wgpu::Buffer> {
        let mut each = Vec::new();
        for linear in linears {
            each.push(match linear.bias {
                Some(id) => self.values(id)?,
                None => vec![0.0; self.plan.tensor(linear.weight).rows],
            });
        }
        let values: Vec<f32> = match (&each[..], paired) {
            ([a, b], true) => a.iter().zip(b).flat_map(|(a, b)| [*a, *b]).collect(),
            _ => each.concat(),
        };
        self.floats("bias", &values)
    }

    /// A tensor as float32.
    fn values(&mut self, id: TensorId) -> Result<Vec<f32>> {
        let spec = self.plan.tensor(id).clone();
        let bytes = self.source.read(&spec)?;
        if bytes.len() as u64 != spec.bytes() {
            let reason = format!("{} bytes for {} x {} elements", bytes.len(), spec.rows, spec.cols);
            return Err(Error::bad_model(&spec.name, reason));
        }
        let mut values: Vec<f32> = try_zeroed(spec.rows * spec.cols, &spec.name)?;
        crate::quant::dequantize_row(spec.dtype, &bytes, &mut values)?;
        self.done += spec.bytes();
        (self.progress)(self.done, self.total)?;
        Ok(values)
    }

    fn floats(&mut self, name: &str, values: &[f32]) -> Result<wgpu::Buffer> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let buffer = self.gpu.storage(name, bytes.len() as u64)?;
        self.gpu.queue.write_buffer(&buffer, 0, bytes);
        self.bytes += bytes.len() as u64;
        self.sent(bytes.len())?;
        Ok(buffer)
    }

    fn sent(&mut self, bytes: usize) -> Result<()> {
        self.staged += bytes;
        if self.staged >= STAGED_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Waits for what was sent: staging memory is given back only after a submission has run.
    pub fn flush(&mut self) -> Result<()> {
        self.gpu.queue.submit([]);
        self.staged = 0;
        pair::wait(self.gpu)
    }
}

impl Run {
    /// A row of the stack.
    fn row(&self, mut row: usize) -> &[u8] {
        let mut matrix = 0;
        if self.paired {
            (matrix, row) = (row % self.content.len(), row / self.content.len());
        } else {
            while row * self.row_bytes >= self.content[matrix].len() {
                row -= self.content[matrix].len() / self.row_bytes;
                matrix += 1;
            }
        }
        &self.content[matrix][row * self.row_bytes..][..self.row_bytes]
    }
}
