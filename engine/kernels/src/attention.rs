//! Causal attention over paged keys and values.
//!
//! A query at position `p` with `lo <= t <= p` visible: scores in lanes over the head's elements; their maximum;
//! `e_t = exp(s_t - max)`; the sum of `e_t` with lane `t % 8` in order of `t`; `out = sum_t e_t v_t` in order of
//! `t`, divided by that sum. Nothing depends on where the batch began or on what else it holds.

use crate::kv::{KvType, PAGE_TOKENS};
use crate::lanes::{Isa, Kernel, Lanes, LANES};
use crate::math;
use crate::shared::Shared;
use crate::stored::{Stored, F16, F24, F32, Q8};
use std::marker::PhantomData;
use std::ops::{Deref, Range};

/// Output vectors whose sums are held in registers.
const BLOCK: usize = 8;

/// What to do of an attention: all, or a part of it that other threads do the rest of. The parts are the same sums in
/// the same order; all of one kind are done before the first of the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Everything.
    All,
    /// The scores of these pages, counted from the first visible one (see [`Attend::pages_seen`]).
    Scores(Range<usize>),
    /// The weights of these queries, of which there are `group * tokens`.
    Weights(Range<usize>),
    /// These columns of the outputs; the start is a multiple of 8.
    Values(Range<usize>),
}

/// Attention of `tokens` consecutive positions and the `group` query heads that share a kv head.
#[derive(Clone, Copy)]
pub struct Attend<'a> {
    /// How keys and values are stored.
    pub kv: KvType,
    /// The sequence's pages, up to the one of the last position.
    pub pages: &'a [Shared],
    /// Offset in bytes of this head's keys in a page.
    pub k: usize,
    /// The same of its values.
    pub v: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// What scores are multiplied with.
    pub scale: f32,
    /// How many positions are visible, its own included; all of them if `None`.
    pub window: Option<usize>,
    /// Query `(token, head)` at `token * stride + head * head_dim`; readable.
    pub q: *const f32,
    /// Laid out as `q`; written by this call alone.
    pub out: *mut f32,
    /// Elements from one token to the next.
    pub stride: usize,
    /// Query heads.
    pub group: usize,
    /// Positions.
    pub tokens: usize,
    /// Position of the first token.
    pub position: usize,
    /// Scratch of this call: `[group * tokens][scores_stride]`.
    pub scores: *mut f32,
    /// At least `score_elems` of the last position.
    pub scores_stride: usize,
}

/// Scores that a query may need whose last visible position is `position`.
pub fn score_elems(position: usize, window: Option<usize>, tokens: usize) -> usize {
    // The first visible position may lie anywhere in its page, and later tokens of the tile see further.
    let span = window.map_or(position + 1, |w| w.saturating_add(PAGE_TOKENS + tokens).min(position + 1));
    span.next_multiple_of(PAGE_TOKENS) + PAGE_TOKENS
}

/// One query of the tile.
struct Query {
    /// Offset in `q` and `out`.
    at: usize,
    /// Its scores; the first is that of position `first_page * PAGE_TOKENS` of the tile.
    scores: *mut f32,
    /// First visible position.
    lo: usize,
    /// Last visible position, its own.
    hi: usize,
}

impl Attend<'_> {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say.
    pub unsafe fn run_on(self, isa: Isa, part: Part) {
        match self.kv {
            KvType::F32 => isa.call(Typed::<F32>::new(self, part)),
            KvType::F24 => isa.call(Typed::<F24>::new(self, part)),
            KvType::F16 => isa.call(Typed::<F16>::new(self, part)),
            KvType::Q8_0 => isa.call(Typed::<Q8>::new(self, part)),
        }
    }

    /// Pages from the first visible one of the first token to the last one of the last.
    pub fn pages_seen(&self) -> usize {
        self.last_page() + 1 - self.first_page()
    }

    #[inline(always)]
    fn first_page(&self) -> usize {
        self.lo(self.position) / PAGE_TOKENS
    }

    #[inline(always)]
    fn last_page(&self) -> usize {
        (self.position + self.tokens - 1) / PAGE_TOKENS
    }

    #[inline(always)]
    fn query(&self, i: usize) -> Query {
        let (token, head) = (i / self.group, i % self.group);
        let hi = self.position + token;
        Query {
            at: token * self.stride + head * self.head_dim,
            // SAFETY: `i < group * tokens`, for which the scratch has room.
            scores: unsafe { self.scores.add(i * self.scores_stride) },
            lo: self.lo(hi),
            hi,
        }
    }

    #[inline(always)]
    fn lo(&self, position: usize) -> usize {
        self.window.map_or(0, |w| (position + 1).saturating_sub(w))
    }
}

/// For one type of storage.
struct Typed<'a, S> {
    of: Attend<'a>,
    part: Part,
    stored: PhantomData<S>,
}

impl<'a, S> Typed<'a, S> {
    fn new(of: Attend<'a>, part: Part) -> Self {
        Typed { of, part, stored: PhantomData }
    }
}

impl<'a, S> Deref for Typed<'a, S> {
    type Target = Attend<'a>;
    #[inline(always)]
    fn deref(&self) -> &Attend<'a> {
        &self.of
    }
}

impl<S: Stored> Kernel for Typed<'_, S> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (queries, pages, first) = (self.group * self.tokens, self.pages_seen(), self.first_page());
        let (scores, weights, values) = match &self.part {
            Part::All => (0..pages, 0..queries, 0..self.head_dim),
            Part::Scores(pages) => (pages.clone(), 0..0, 0..0),
            Part::Weights(queries) => (0..0, queries.clone(), 0..0),
            Part::Values(columns) => (0..0, 0..0, columns.clone()),
        };
        // Pages outside, queries inside: a page is read from memory once for all of them.
        for page in scores {
            for i in 0..queries {
                // SAFETY: the page is in the table; whoever built this vouches for the rest.
                unsafe { self.page_scores::<L>(&self.query(i), first + page, first) };
            }
        }
        for i in weights {
            // SAFETY: the scores of the query's pages have been written.
            unsafe { self.softmax::<L>(&self.query(i), first) };
        }
        if values.is_empty() {
            return;
        }
        for page in first..first + pages {
            for i in 0..queries {
                // SAFETY: as above.
                unsafe { self.page_values::<L>(&self.query(i), page, first, values.clone()) };
            }
        }
    }
}

impl<S: Stored> Typed<'_, S> {
    /// # Safety
    /// `page` is in the table and `first` the tile's first page.
    #[inline(always)]
    unsafe fn page_scores<L: Lanes>(&self, query: &Query, page: usize, first: usize) {
        let start = page * PAGE_TOKENS;
        if start > query.hi || start + PAGE_TOKENS <= query.lo {
            return;
        }
        // SAFETY: the key rows lie in the page, the query's elements in `q`, the scores in the scratch.
        unsafe {
            let keys = self.pages.get_unchecked(page).at(0).cast_const().cast::<u8>().add(self.k);
            let scores = query.scores.add((page - first) * PAGE_TOKENS);
            for eight in (0..PAGE_TOKENS).step_by(LANES) {
                let from = start + eight;
                if from > query.hi || from + LANES <= query.lo {
                    L::splat(f32::NEG_INFINITY).store(scores.add(eight));
                    continue;
                }
                let s = self.eight_scores::<L>(self.q.add(query.at), keys, eight);
                if from < query.lo || from + LANES > query.hi + 1 {
                    let mut a = s.to_array();
                    for (i, a) in a.iter_mut().enumerate() {
                        // Replaced, not added to: rows beyond the length may hold anything.
                        if from + i < query.lo || from + i > query.hi {
                            *a = f32::NEG_INFINITY;
                        }
                    }
                    L::from_array(a).store(scores.add(eight));
                } else {
                    s.store(scores.add(eight));
                }
            }
        }
    }

    /// # Safety
    /// `q` is readable for a head, rows `row .. row + 8` of `keys` have been written.
    #[inline(always)]
    unsafe fn eight_scores<L: Lanes>(&self, q: *const f32, keys: *const u8, row: usize) -> L {
        let n = self.head_dim;
        let mut acc = [L::zero(); LANES];
        for d in (0..n - n % LANES).step_by(LANES) {
            // SAFETY: `d + 8 <= head_dim`.
            unsafe {
                let q = L::load(q.add(d));
                for (i, acc) in acc.iter_mut().enumerate() {
                    *acc = q.mul_add(S::load(keys, n, row + i, d, LANES), *acc);
                }
            }
        }
        if n % LANES != 0 {
            let d = n - n % LANES;
            // SAFETY: the elements from `d` to the head's end.
            unsafe {
                let q = L::load_up_to(q.add(d), n - d);
                for (i, acc) in acc.iter_mut().enumerate() {
                    *acc = q.mul_add(S::load(keys, n, row + i, d, n - d), *acc);
                }
            }
        }
        L::sum_each(acc).mul(L::splat(self.scale))
    }

    /// Turns the scores into weights that sum to 1.
    ///
    /// # Safety
    /// The query's scores have been written.
    #[inline(always)]
    unsafe fn softmax<L: Lanes>(&self, query: &Query, first: usize) {
        let from = (query.lo / PAGE_TOKENS - first) * PAGE_TOKENS;
        let to = (query.hi / PAGE_TOKENS - first + 1) * PAGE_TOKENS;
        // SAFETY: all pages from `lo`'s to `hi`'s have scores.
        unsafe {
            let mut max = L::splat(f32::NEG_INFINITY);
            for i in (from..to).step_by(LANES) {
                max = max.max(L::load(query.scores.add(i)));
            }
            let mut top = f32::NEG_INFINITY;
            for x in max.to_array() {
                top = if x > top { x } else { top };
            }
            let mut sum = L::zero();
            for i in (from..to).step_by(LANES) {
                let e = L::load(query.scores.add(i)).add(L::splat(-top)).map(math::exp);
                e.store(query.scores.add(i));
                sum = sum.add(e);
            }
            let factor = L::splat(1.0 / sum.sum());
            for i in (from..to).step_by(LANES) {
                L::load(query.scores.add(i)).mul(factor).store(query.scores.add(i));
            }
        }
    }

    /// # Safety
    /// As for [`Typed::page_scores`]; the weights are there.
    #[inline(always)]
    unsafe fn page_values<L: Lanes>(&self, query: &Query, page: usize, first: usize, columns: Range<usize>) {
        let start = page * PAGE_TOKENS;
        let from = query.lo.max(start);
        let to = (query.hi + 1).min(start + PAGE_TOKENS);
        if from >= to {
            return;
        }
        let fresh = from == query.lo;
        let (mut d, n) = (columns.start, columns.end);
        // SAFETY: value rows `from..to` lie in the page, `d..` within a head.
        unsafe {
            let values = self.pages.get_unchecked(page).at(0).cast_const().cast::<u8>().add(self.v);
            let rows = from - start..to - start;
            let weights = query.scores.add(from - first * PAGE_TOKENS).cast_const();
            let out = self.out.add(query.at);
            while d + BLOCK * LANES <= n {
                self.add_values::<L, BLOCK>(values, d, rows.clone(), weights, out.add(d), fresh, LANES);
                d += BLOCK * LANES;
            }
            if d + BLOCK / 2 * LANES <= n {
                self.add_values::<L, { BLOCK / 2 }>(
                    values,
                    d,
                    rows.clone(),
                    weights,
                    out.add(d),
                    fresh,
                    LANES,
                );
                d += BLOCK / 2 * LANES;
            }
            while d < n {
                self.add_values::<L, 1>(values, d, rows.clone(), weights, out.add(d), fresh, n - d);
                d += LANES;
            }
        }
    }

    /// Adds weighted values to `N` vectors of output, of which the last has `width` elements if that is below 8.
    ///
    /// # Safety
    /// The rows of `values` have been written, `weights` is readable for as many, `out` writable.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // Inlined: a struct of them would only be taken apart again.
    unsafe fn add_values<L: Lanes, const N: usize>(
        &self,
        values: *const u8,
        d: usize,
        rows: Range<usize>,
        weights: *const f32,
        out: *mut f32,
        fresh: bool,
        width: usize,
    ) {
        let mut acc = [L::zero(); N];
        // SAFETY: the caller vouches for rows, weights and output.
        unsafe {
            if !fresh {
                for (i, acc) in acc.iter_mut().enumerate() {
                    *acc = L::load_up_to(out.add(i * LANES), width);
                }
            }
            for (t, row) in rows.enumerate() {
                let w = L::splat(*weights.add(t));
                for (i, acc) in acc.iter_mut().enumerate() {
                    *acc = w.mul_add(S::load(values, self.head_dim, row, d + i * LANES, width), *acc);
                }
            }
            for (i, acc) in acc.iter().enumerate() {
                acc.store_up_to(out.add(i * LANES), width);
            }
        }
    }
}
