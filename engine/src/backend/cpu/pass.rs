//! One pass over the weights for all tokens of a batch.
//!
//! The pass is a sequence of steps, each cut into items that the pool's threads take; a step ends before the
//! next begins. Within a step, items write disjoint elements and read only what earlier steps wrote.

use super::lowrank::Term;
use super::pool::Pool;
use super::scratch::{Scratch, Shared};
use super::states::Open;
use super::weights::{FeedForward, Linear, Mixer, Norm, Weights};
use crate::backend::{Logits, StateShape};
use crate::cancel::CancelToken;
use crate::error::{try_zeroed, Error, Result};
use lean_kernels::activations::{in_tiles, record_at, tiles, RECORD, RECORD_TILE};
use lean_kernels::activations::{Activations, Quantise, Tile};
use lean_kernels::ffn::Gate;
use lean_kernels::lowrank::Expand;
use lean_kernels::norm::RmsNorm;
use lean_kernels::product::{scratch_elems, Product, ROWS_TOGETHER};
use lean_kernels::{Isa, UNIT};
use std::ops::Range;

/// Tokens that one item of a step over tokens takes.
const TOKENS_AN_ITEM: usize = 8;

/// Tiles of tokens that an item of a product takes at most.
const TILES_AN_ITEM: usize = 4;

/// Bytes of activations that they may have: they are read again for every group of rows and should stay in a core's
/// second-level cache.
const TILE_BYTES: usize = 256 << 10;

/// A sequence's share of the pass.
pub(crate) struct Sequence<'a> {
    pub(crate) open: &'a Open,
    pub(crate) tokens: Vec<u32>,
    pub(crate) logits: Logits,
    pub(crate) cancel: CancelToken,
    /// Its first token's row in the pass's buffers.
    pub(crate) first: usize,
    /// The windows after the pass, filled by it.
    pub(crate) windows: Vec<f32>,
}

/// A pass under way.
pub(crate) struct Pass<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) shape: &'a StateShape,
    pub(crate) isa: Isa,
    /// Whether quantised weights are multiplied with activations of 8 bits.
    pub(crate) fast: bool,
    pub(crate) pool: &'a mut Pool,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) sequences: Vec<Sequence<'a>>,
    /// Tokens of all sequences.
    pub(crate) n: usize,
}

/// A matrix product of a step: `out[t][..] = linear(x[t])`.
pub(crate) struct Job<'a> {
    pub(crate) linear: &'a Linear,
    /// `[n][linear.weight.rows]`.
    pub(crate) out: Shared,
}

/// Rows (the input's stride is its row length) that a product reads.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) at: Shared,
    pub(crate) n: usize,
    pub(crate) cols: usize,
}

impl Pass<'_> {
    /// Runs the pass. Returns each sequence's logits as it wants them (empty if none) and its new windows.
    pub(crate) fn run(mut self) -> Result<Vec<(Vec<f32>, Vec<f32>)>> {
        let hidden = self.scratch.hidden.reserve(self.n * self.weights.hidden)?;
        self.embed(hidden)?;
        self.fill_angles()?;
        let weights = self.weights;
        for (i, layer) in weights.layers.iter().enumerate() {
            let normed = self.norm(&layer.mixer_norm, hidden)?;
            match &layer.mixer {
                Mixer::Attention(a) => {
                    let mixed = self.attention(i, a, normed)?;
                    self.project(&a.o, mixed, layer.mixer_post_norm.as_ref(), hidden)?;
                }
                Mixer::ShortConv(c) => {
                    let mixed = self.short_conv(i, c, normed)?;
                    self.project(&c.out_proj, mixed, layer.mixer_post_norm.as_ref(), hidden)?;
                }
            }
            let normed = self.norm(&layer.ffn_norm, hidden)?;
            let gated = self.gate_up(&layer.ffn, normed)?;
            self.project(&layer.ffn.down, gated, layer.ffn_post_norm.as_ref(), hidden)?;
        }
        let logits = self.head(hidden)?;
        Ok(logits.into_iter().zip(self.sequences.into_iter().map(|s| s.windows)).collect())
    }

    /// Runs the items of a step, fewer if a sequence is cancelled meanwhile; then it is an error.
    pub(crate) fn step(&mut self, items: usize, work: &(dyn Fn(usize, usize) + Sync)) -> Result<()> {
        let cancels: Vec<&CancelToken> = self.sequences.iter().map(|s| &s.cancel).collect();
        let cancelled = || cancels.iter().any(|c| c.is_cancelled());
        self.pool.run(items, &|item, thread| {
            if !cancelled() {
                work(item, thread);
            }
        })?;
        if cancelled() {
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    /// A step over `n` rows of tokens.
    pub(crate) fn step_tokens(&mut self, n: usize, work: &(dyn Fn(usize) + Sync)) -> Result<()> {
        self.step(n.div_ceil(TOKENS_AN_ITEM), &|item, _| {
            (item * TOKENS_AN_ITEM..n.min((item + 1) * TOKENS_AN_ITEM)).for_each(work);
        })
    }

    fn embed(&mut self, hidden: Shared) -> Result<()> {
        let ids: Vec<u32> = self.sequences.iter().flat_map(|s| s.tokens.iter().copied()).collect();
        let (weights, isa) = (self.weights, self.isa);
        let (width, scale) = (weights.hidden, weights.embedding_scale);
        self.step_tokens(ids.len(), &|t| {
            // SAFETY: row `t` belongs to this item.
            let row = unsafe { hidden.slice(t * width, width) };
            weights.embedding.row(isa, ids[t] as usize, row);
            if scale != 1.0 {
                row.iter_mut().for_each(|x| *x *= scale);
            }
        })
    }

    fn norm(&mut self, norm: &Norm, hidden: Shared) -> Result<Rows> {
        let cols = self.weights.hidden;
        let out = self.scratch.normed.reserve(self.n * cols)?;
        self.norm_rows(norm, hidden, out, self.n)?;
        Ok(Rows { at: out, n: self.n, cols })
    }

    /// Normalises `n` rows as wide as the norm's weight.
    fn norm_rows(&mut self, norm: &Norm, x: Shared, out: Shared, n: usize) -> Result<()> {
        let (isa, width) = (self.isa, norm.weight.len());
        self.step_tokens(n, &|t| {
            // SAFETY: row `t` of both buffers belongs to this item.
            unsafe {
                let (x, out) = (x.at(t * width), out.at(t * width));
                RmsNorm { x, weight: &norm.weight, eps: norm.eps, out }.run_on(isa);
            }
        })
    }

    fn gate_up(&mut self, ffn: &FeedForward, x: Rows) -> Result<Rows> {
        let cols = ffn.gate.weight.rows;
        let gate = self.scratch.first.reserve(self.n * cols)?;
        let up = self.scratch.second.reserve(self.n * cols)?;
        let (isa, n) = (self.isa, self.n);
        let jobs = [Job { linear: &ffn.gate, out: gate }, Job { linear: &ffn.up, out: up }];
        self.multiply_together(&jobs, x, &|rows, tokens| {
            for t in tokens {
                let at = t * cols + rows.start;
                // SAFETY: these columns of row `t < n` were written by this item just now.
                unsafe {
                    let (gate, up) = (gate.at(at), up.at(at));
                    Gate { gate, up, n: rows.len(), activation: ffn.activation }.run_on(isa);
                }
            }
        })?;
        Ok(Rows { at: gate, n, cols })
    }

    /// `hidden += post_norm(linear(x))`.
    fn project(&mut self, linear: &Linear, x: Rows, post_norm: Option<&Norm>, hidden: Shared) -> Result<()> {
        let (cols, n) = (self.weights.hidden, self.n);
        let out = self.scratch.projected.reserve(n * cols)?;
        let add = |t: usize, range: Range<usize>| {
            // SAFETY: these columns of row `t` of both buffers belong to the item that calls this.
            let (h, x) = unsafe {
                (
                    hidden.slice(t * cols + range.start, range.len()),
                    out.slice(t * cols + range.start, range.len()),
                )
            };
            h.iter_mut().zip(x).for_each(|(h, x)| *h += *x);
        };
        let jobs = [Job { linear, out }];
        match post_norm {
            None => {
                self.multiply_together(&jobs, x, &|rows, tokens| tokens.for_each(|t| add(t, rows.clone())))
            }
            Some(norm) => {
                self.multiply_together(&jobs, x, &|_, _| {})?;
                self.norm_rows(norm, out, out, n)?;
                self.step_tokens(n, &|t| add(t, 0..cols))
            }
        }
    }

    /// Several products of one input in one step, one after the other.
    pub(crate) fn multiply(&mut self, jobs: &[Job<'_>], x: Rows) -> Result<()> {
        let rows = jobs.iter().map(|j| j.linear.weight.rows).max().unwrap_or(0);
        let chunk = self.chunk(jobs.iter().map(|j| j.linear.weight.rows).sum());
        let (chunks, mul) = (rows.div_ceil(chunk), self.multiplier(jobs, x)?);
        let terms = self.low_rank(jobs, x)?;
        let tiles = x.n.div_ceil(mul.tile);
        self.step(chunks * tiles * jobs.len(), &|item, thread| {
            let (job, item) = (item % jobs.len(), item / jobs.len());
            let rows = mul.rows(item % chunks, chunk, jobs[job].linear.weight.rows);
            mul.run(&jobs[job], rows, mul.tokens(item / chunks), thread, terms.of(job));
        })
    }

    /// Products of one input and with as many outputs each, in one step; `after` is called with rows and tokens
    /// for which all of them are there.
    fn multiply_together(
        &mut self,
        jobs: &[Job<'_>],
        x: Rows,
        after: &(dyn Fn(Range<usize>, Range<usize>) + Sync),
    ) -> Result<()> {
        let rows = jobs[0].linear.weight.rows;
        let chunk = self.chunk(rows);
        let (chunks, mul) = (rows.div_ceil(chunk), self.multiplier(jobs, x)?);
        let terms = self.low_rank(jobs, x)?;
        self.step(chunks * x.n.div_ceil(mul.tile), &|item, thread| {
            let (rows, tokens) = (mul.rows(item % chunks, chunk, rows), mul.tokens(item / chunks));
            for (i, job) in jobs.iter().enumerate() {
                mul.run(job, rows.clone(), tokens.clone(), thread, terms.of(i));
            }
            after(rows, tokens);
        })
    }

    /// Rows of an item of a step with so many: enough items to share out evenly, not so many that taking them
    /// costs, and a multiple of what kernels work on together.
    fn chunk(&self, rows: usize) -> usize {
        (rows / (self.pool.threads() * 8)).clamp(1, 4 * ROWS_TOGETHER).next_multiple_of(ROWS_TOGETHER)
    }

    /// Prepares an input for products: laid out as they want it, with room to work in.
    fn multiplier(&mut self, jobs: &[Job<'_>], x: Rows) -> Result<Multiplier> {
        let (stride, tiled) = (x.cols.next_multiple_of(UNIT), in_tiles(x.n));
        let (mut plain, mut records) = (x.at, x.at);
        if jobs.iter().any(|j| !j.linear.weight.layout.quantised) && (tiled || stride != x.cols) {
            plain = self.lay_out(x, stride)?;
        }
        if jobs.iter().any(|j| j.linear.weight.layout.quantised) {
            records = self.quantise(x, stride / UNIT)?;
        }
        let tile = (TILE_BYTES / (stride * 4 * RECORD_TILE)).clamp(1, TILES_AN_ITEM) * RECORD_TILE;
        let each = scratch_elems(tile.min(x.n));
        let scratch = self.scratch.products.reserve(each * self.pool.threads())?;
        let (isa, fast) = (self.isa, self.fast);
        Ok(Multiplier { isa, plain, records, stride, n: x.n, tiled, fast, tile, scratch, each })
    }

    /// The rows with zeros behind their ends, in tiles from some number on.
    fn lay_out(&mut self, x: Rows, stride: usize) -> Result<Shared> {
        let (isa, buffer) = (self.isa, self.scratch.plain.reserve(x.n * stride)?);
        let parts: Vec<(usize, usize)> =
            if in_tiles(x.n) { tiles(x.n).collect() } else { (0..x.n).map(|t| (t, 1)).collect() };
        self.step_tokens(parts.len(), &|part| {
            let (t, width) = parts[part];
            // SAFETY: these rows of both buffers belong to this item.
            unsafe {
                let (x_at, to) = (x.at.at(t * x.cols), buffer.at(t * stride));
                Tile { x: x_at, cols: x.cols, width, stride, to }.run_on(isa);
            }
        })?;
        Ok(buffer)
    }

    /// The rows as records.
    fn quantise(&mut self, x: Rows, parts: usize) -> Result<Shared> {
        let (isa, fast) = (self.isa, self.fast);
        let buffer = self.scratch.records.reserve(x.n * parts * (RECORD / 4))?;
        self.step_tokens(x.n, &|t| {
            let (at, step) = record_at(t, 0, x.n, parts);
            // SAFETY: row `t` and its records belong to this item; floats are aligned as integers are.
            unsafe {
                let (row, to) = (x.at.at(t * x.cols), buffer.at(at / 4).cast());
                Quantise { x: row, cols: x.cols, parts, to, step, fast }.run_on(isa);
            }
        })?;
        Ok(buffer)
    }

    /// Logits of the rows that are wanted.
    fn head(&mut self, hidden: Shared) -> Result<Vec<Vec<f32>>> {
        let (vocab, cols) = (self.weights.vocab, self.weights.hidden);
        let mut wanted = Vec::new();
        for s in &self.sequences {
            match s.logits {
                Logits::None => {}
                Logits::Last { .. } => wanted.push(s.first + s.tokens.len() - 1),
                Logits::All => wanted.extend(s.first..s.first + s.tokens.len()),
            }
        }
        let m = wanted.len();
        let gathered = self.scratch.projected.reserve(m * cols)?;
        for (i, &t) in wanted.iter().enumerate() {
            // SAFETY: row `t` of one buffer, row `i` of the other; no step is running.
            unsafe { gathered.slice(i * cols, cols).copy_from_slice(hidden.slice(t * cols, cols)) };
        }
        let weights = self.weights;
        self.norm_rows(&weights.final_norm, gathered, gathered, m)?;
        let mut logits: Vec<Vec<f32>> = Vec::with_capacity(self.sequences.len());
        let mut row = 0;
        for i in 0..self.sequences.len() {
            let s = &self.sequences[i];
            let n = match s.logits {
                Logits::None => 0,
                Logits::Last { .. } => 1,
                Logits::All => s.tokens.len(),
            };
            logits.push(try_zeroed(n.saturating_mul(vocab), "logits")?);
            row += n;
        }
        debug_assert_eq!(row, m);
        self.head_rows(gathered, m, &mut logits)?;
        Ok(logits)
    }

    /// Multiplies `m` rows with the head, in one pass over it, into the sequences' logits.
    fn head_rows(&mut self, x: Shared, m: usize, logits: &mut [Vec<f32>]) -> Result<()> {
        let (vocab, cols) = (self.weights.vocab, self.weights.hidden);
        let filled = logits.iter_mut().filter(|l| !l.is_empty());
        let rows = Rows { at: x, n: m, cols };
        let linear = Linear { id: None, weight: self.weights.head.clone(), bias: None };
        let mut filled: Vec<&mut Vec<f32>> = filled.collect();
        if let [only] = filled.as_mut_slice() {
            return self.multiply(&[Job { linear: &linear, out: Shared::new(only.as_mut_ptr()) }], rows);
        }
        let mut all: Vec<f32> = try_zeroed(m.saturating_mul(vocab), "logits")?;
        self.multiply(&[Job { linear: &linear, out: Shared::new(all.as_mut_ptr()) }], rows)?;
        let mut rest = all.as_slice();
        for l in filled {
            let (mine, others) = rest.split_at(l.len());
            l.copy_from_slice(mine);
            rest = others;
        }
        Ok(())
    }
}

/// An input that is ready to be multiplied.
struct Multiplier {
    isa: Isa,
    plain: Shared,
    records: Shared,
    stride: usize,
    n: usize,
    tiled: bool,
    fast: bool,
    /// Tokens of an item.
    tile: usize,
    scratch: Shared,
    /// Floats of a thread's part of it.
    each: usize,
}

impl Multiplier {
    fn rows(&self, index: usize, chunk: usize, rows: usize) -> Range<usize> {
        (index * chunk).min(rows)..((index + 1) * chunk).min(rows)
    }

    fn tokens(&self, index: usize) -> Range<usize> {
        index * self.tile..((index + 1) * self.tile).min(self.n)
    }

    fn run(
        &self,
        job: &Job<'_>,
        rows: Range<usize>,
        tokens: Range<usize>,
        thread: usize,
        terms: &[Term<'_>],
    ) {
        if rows.is_empty() {
            return;
        }
        let (weight, n_out) = (&job.linear.weight, job.linear.weight.rows);
        assert_eq!(weight.layout.padded, self.stride);
        let (records, _) = record_at(tokens.start, 0, self.n, self.stride / UNIT);
        // SAFETY: the activations have `n` rows of `stride` elements that no item writes; these rows and tokens
        // of `out` are this item's, and the scratch is this thread's.
        unsafe {
            let x = Activations {
                x: self.plain.at(tokens.start * self.stride),
                records: self.records.at(records / 4).cast_const().cast(),
                stride: self.stride,
                n: tokens.len(),
                tiled: self.tiled,
                fast: self.fast,
            };
            let out = job.out.at(tokens.start * n_out);
            let scratch = self.scratch.at(thread * self.each);
            weight.multiply(self.isa, &Product { rows: rows.clone(), x, out, out_stride: n_out, scratch });
            if let Some(bias) = &job.linear.bias {
                for t in tokens.clone() {
                    let out = job.out.slice(t * n_out + rows.start, rows.len());
                    out.iter_mut().zip(&bias[rows.clone()]).for_each(|(x, b)| *x += b);
                }
            }
        }
        for term in terms {
            for t in tokens.start.max(term.tokens.start)..tokens.end.min(term.tokens.end) {
                // SAFETY: these columns of row `t` of `out` are this item's; the update has as many rows as the
                // matrix, since `Weights::check_updates` saw it, and nobody writes `low` during this step.
                unsafe {
                    Expand {
                        b: term.update.b(),
                        rank: term.update.rank(),
                        low: term.low_of(t),
                        rows: rows.clone(),
                        out: job.out.at(t * n_out + rows.start),
                    }
                    .run_on(self.isa);
                }
            }
        }
    }
}
