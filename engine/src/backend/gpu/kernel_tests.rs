//! Every kernel against its CPU twin on random shapes.

use super::device::Gpu;
use super::kernels::{
    BYTES4, GEMM as GEMM_TILE, GEMM_WIDE as WIDE_TILE, MATVEC4 as MATVEC4_TILE, MATVEC_ROWS, QUANTISE_LANES,
};
use super::pack::{Format, Planes};
use super::pass::{elementwise, flat, Pass, Prepared, Recorder};
use super::readback::Readback;
use super::weights::by_vector;
use super::GpuOptions;
use crate::backend::Precision;
use crate::quant::{dequantize_row, quantize_row, DType};
use lean_shaders::{twin, Binding, Kernel, *};
use std::io::Write;

/// Reproducible noise (xorshift32).
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    /// In `low..=high`.
    fn size(&mut self, low: usize, high: usize) -> usize {
        low + self.next() as usize % (high - low + 1)
    }

    /// In -1..1.
    fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next() as f32 / 2_147_483_648.0 - 1.0).collect()
    }

    /// Any order of `0..n`.
    fn order(&mut self, n: usize) -> Vec<u32> {
        let mut all: Vec<u32> = (0..n as u32).collect();
        for i in (1..n).rev() {
            all.swap(i, self.size(0, i));
        }
        all
    }
}

/// The adapter, or `None`, said loudly; `LEAN_REQUIRE_GPU=1` makes that a failure.
fn open() -> Option<Gpu> {
    open_with(Precision::Exact)
}

/// With an exact precision `Ok` or skipped as [`open`] says; one that is not exact is no device's duty.
fn open_with(precision: Precision) -> Option<Gpu> {
    let adapter = std::env::var("LEAN_GPU_ADAPTER").ok();
    match Gpu::open(&GpuOptions { adapter, allow_software: true, precision, ..Default::default() }) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            let required = std::env::var("LEAN_REQUIRE_GPU").is_ok_and(|v| v == "1");
            assert!(!(required && precision == Precision::Exact), "{error}");
            let _ = writeln!(std::io::stderr(), "SKIPPED GPU KERNEL TEST: {error}");
            None
        }
    }
}

/// Runs a kernel and reads back everything it may write, in the order of the bindings.
fn run<P: bytemuck::Pod>(
    gpu: &Gpu,
    kernel: &'static Kernel,
    constants: &[(&str, &str)],
    params: &P,
    buffers: &[&[u8]],
    groups: [u32; 3],
) -> Vec<Vec<f32>> {
    let pipeline = gpu.pipeline(kernel, constants).unwrap();
    let upload = |content: &&[u8]| {
        let buffer = gpu.storage("test", content.len() as u64).unwrap();
        gpu.queue.write_buffer(&buffer, 0, content);
        buffer
    };
    let buffers: Vec<_> = buffers.iter().map(upload).collect();
    let (mut pass, mut prepared) = (Pass::new(), Prepared::default());
    Recorder { gpu, prepared: &mut prepared, pass: &mut pass }
        .dispatch(&pipeline, params, &buffers.iter().collect::<Vec<_>>(), groups)
        .unwrap();
    let mut reads = Vec::new();
    for (buffer, _) in buffers.iter().zip(&kernel.bindings[1..]).filter(|(_, b)| **b == Binding::ReadWrite) {
        let read = Readback::new(gpu, "test", buffer.size()).unwrap();
        read.copy(&mut pass, buffer, 0, 0, buffer.size());
        reads.push(read);
    }
    pass.submit(gpu).unwrap();
    reads.iter().for_each(Readback::request);
    reads.iter().map(|read| read.wait(gpu).unwrap()).collect()
}

fn bytes<T: bytemuck::Pod>(content: &[T]) -> &[u8] {
    bytemuck::cast_slice(content)
}

#[track_caller]
fn close(what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{what}: element {i} is {g}, wanted {w}");
    }
    assert!(got.len() >= want.len(), "{what}");
}

/// Quantised rows: the file's bytes as planes, and what they mean.
struct Matrix {
    format: Format,
    planes: Planes,
    values: Vec<f32>,
}

fn matrix(r: &mut Random, dtype: DType, rows: usize, cols: usize) -> Matrix {
    let mut bytes = vec![0; dtype.bytes_of(rows * cols).unwrap()];
    quantize_row(dtype, &r.values(rows * cols), &mut bytes).unwrap();
    let mut values = vec![0.0; rows * cols];
    dequantize_row(dtype, &bytes, &mut values).unwrap();
    let mut planes = Planes::default();
    planes.push(dtype, &bytes);
    planes.scales.resize(planes.scales.len().max(4).next_multiple_of(4), 0);
    Matrix { format: Format::of(dtype), planes, values }
}

/// A batch over paged states: every sequence continues from some length, its pages anywhere in the pool.
struct Paged {
    facts: Facts,
    pool: usize,
    /// First token, count and length before, by sequence.
    spans: Vec<(usize, usize, usize)>,
}

const PAGE: usize = crate::backend::PAGE_TOKENS;

fn paged(r: &mut Random, longest: usize, most: usize, tile: usize) -> Paged {
    let mut p = Paged { facts: Facts::default(), pool: 0, spans: Vec::new() };
    let facts = &mut p.facts;
    for slot in 0..r.size(1, 3) {
        let (before, count) = (r.size(0, longest), r.size(1, most));
        let (first, table) = (facts.tokens.len(), facts.table.len() as u32);
        p.spans.push((first, count, before));
        facts.tokens.extend((0..count as u32).map(|index| Token {
            position: before as u32 + index,
            table,
            slot: slot as u32,
            index,
        }));
        facts.table.extend(vec![0; (before + count).div_ceil(PAGE)]);
        let tile_at = |at: usize| Tile { first: (first + at) as u32, count: tile.min(count - at) as u32 };
        facts.tiles.extend((0..count).step_by(tile).map(tile_at));
    }
    p.pool = facts.table.len() + r.size(0, 3);
    let order = r.order(p.pool);
    facts.table.iter_mut().zip(order).for_each(|(entry, page)| *entry = page);
    p
}

impl Paged {
    /// Angles of some pairs.
    fn turn(&mut self, r: &mut Random, pairs: usize) {
        let random = r.values(self.facts.tokens.len() * pairs);
        let angles = random.iter().map(|a| [(9.0 * a).cos(), (9.0 * a).sin()]).collect();
        // The second set: the first one is of no use here.
        self.facts.angles = vec![vec![[0.0, 0.0]], angles];
    }

    /// Makes the rows that no token has written yet unreadable: whatever they hold must not matter. `new` says whether
    /// those of the batch count as written.
    fn poison(&self, pages: &mut [f32], kv_heads: usize, head_dim: usize, new: bool) {
        let written: std::collections::HashSet<usize> = self
            .spans
            .iter()
            .flat_map(|(first, count, before)| {
                let table = self.facts.tokens[*first].table as usize;
                let at = |t: usize| self.facts.table[table + t / PAGE] as usize * PAGE + t % PAGE;
                (0..before + if new { *count } else { 0 }).map(at).collect::<Vec<_>>()
            })
            .collect();
        for (row, values) in pages.chunks_mut(head_dim).enumerate() {
            let page = row / (2 * kv_heads * PAGE);
            if !written.contains(&(page * PAGE + row % PAGE)) {
                values.fill(f32::NAN);
            }
        }
    }
}

#[test]
fn embed() {
    let Some(gpu) = open() else { return };
    let mut r = Random(1);
    for dtype in DType::ALL {
        let (groups, vocab, tokens) = (8 * r.size(1, 2), r.size(100, 200), r.size(1, 60));
        // The second of several pieces, and ids beyond the vocabulary.
        let (row_begin, row_end) = (64, vocab);
        let m = matrix(&mut r, dtype, row_end - row_begin, 32 * groups);
        let mut ids: Vec<u32> = (0..tokens).map(|_| r.next() % (vocab as u32 + 20)).collect();
        ids[0] = CHOSEN | 3;
        let facts = Facts { ids, ..Default::default() };
        let chosen = [0, 1, 2, vocab as u32 - 1];
        let mut h = r.values(tokens * 32 * groups);
        let params = EmbedParams {
            tokens: tokens as u32,
            groups: groups as u32,
            vocab: vocab as u32,
            row_begin: row_begin as u32,
            row_end: row_end as u32,
            scale: 1.5,
        };
        let words = facts.words();
        let buffers = [bytes(&words), bytes(&chosen), &m.planes.weights[..], &m.planes.scales[..], bytes(&h)];
        let number = m.format.number.to_string();
        let constants = [("PAGE_TOKENS", "32"), ("FORMAT", number.as_str())];
        let got = run(&gpu, &EMBED, &constants, &params, &buffers, elementwise(tokens * groups, 64));
        twin::embed(&params, &facts.ids, &chosen, &m.values, &mut h);
        close(&format!("embed {dtype}"), &got[0], &h, 1e-6);
    }
}

/// A product of random shape with every storage type: as `class` (lanes, norm, tokens at most) runs it.
fn product(gpu: &Gpu, r: &mut Random, dtype: DType, class: &str, round: usize) {
    let (groups, mode) = (8 * r.size(1, 5), round as u32 % 4);
    let rows = if mode >= 2 { 2 * r.size(1, 80) } else { r.size(1, 160) };
    let norm = !class.starts_with("gemm") && round % 2 == 1;
    let tokens = match class {
        "matvec" => 1,
        "matvec4" => r.size(2, 9),
        _ => r.size(9, 130),
    };
    let row_begin = 64 * r.size(0, 2);
    let stride = (row_begin + rows) / if mode >= 2 { 2 } else { 1 } + r.size(0, 5);
    let m = matrix(r, dtype, rows, 32 * groups);
    // Sums of the order of 1: the product of two of them amplifies the error of each by the other.
    let mut small = |n| r.values(n).iter().map(|v| 0.1 * v).collect::<Vec<f32>>();
    let (x, weight) = (small(tokens * 32 * groups), small(32 * groups));
    let turned = by_vector(&weight);
    let (bias, mut y) = (r.values(row_begin + rows), r.values(tokens * stride));
    let before = y.clone();
    let params = ProductParams {
        rows: rows as u32,
        groups: groups as u32,
        tokens: tokens as u32,
        row_begin: row_begin as u32,
        stride: stride as u32,
        mode,
        has_bias: round as u32 / 4 % 2,
        eps: 1e-5,
    };
    let buffers = [
        &m.planes.weights[..],
        &m.planes.scales[..],
        bytes(&x),
        bytes(&turned),
        bytes(&bias),
        bytes(&before),
    ];
    let number = m.format.number.to_string();
    let normed = if norm { "true" } else { "false" };
    let mut constants = vec![("FORMAT", number.as_str())];
    let mut grid = flat(rows.div_ceil(MATVEC_ROWS));
    let mut kernels = vec![&MATVEC, &MATVEC_SUBGROUP];
    match class {
        "matvec" => {}
        "matvec4" => {
            kernels = vec![&MATVEC4, &MATVEC4_SUBGROUP];
            grid = flat(rows.div_ceil(MATVEC4_TILE.0));
            grid[2] = tokens.div_ceil(MATVEC4_TILE.1) as u32;
        }
        _ => {
            kernels = match class {
                "gemm" => vec![&GEMM, &GEMM_SPLIT_FEW, &GEMM_COOPERATIVE_FEW],
                _ => vec![&GEMM_WIDE, &GEMM_SPLIT, &GEMM_COOPERATIVE, &GEMM_HALF],
            };
            let tile = if class == "gemm" { GEMM_TILE } else { WIDE_TILE };
            grid = [rows.div_ceil(tile.0) as u32, tokens.div_ceil(tile.1) as u32, 1];
        }
    }
    if !class.starts_with("gemm") {
        constants.extend([("LANES", ["32", "64", "128"][round % 3]), ("NORM", normed)]);
    }
    twin::matvec4(&params, &m.values, &x, norm.then_some(&weight[..]), &bias, &mut y);
    let has = gpu.device.features();
    let runs = |k: &&'static Kernel| {
        (!k.subgroups || gpu.subgroups)
            && (!k.f16 || has.contains(wgpu::Features::SHADER_F16))
            && (!k.cooperative || has.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX))
    };
    for kernel in kernels.into_iter().filter(runs) {
        // 11 bits of each number, or, of two each, more than float32 keeps of their sum.
        let tolerance = if kernel.f16 && !kernel.name.contains("split") { 1e-2 } else { 2e-5 };
        let got = run(gpu, kernel, &constants, &params, &buffers, grid);
        let what = format!("{} {dtype} mode {mode} norm {norm} {tokens} x {rows} x {groups}", kernel.name);
        // Sums of up to 1,280 products.
        close(&what, &got[0], &y, tolerance);
    }
}

/// The kernels of bytes, for one token or up to nine: they read what the twin of `quantise` writes.
fn product_of_bytes(gpu: &Gpu, r: &mut Random, dtype: DType, round: usize) {
    let (groups, mode) = (8 * r.size(1, 5), round as u32 % 4);
    let rows = if mode >= 2 { 2 * r.size(1, 80) } else { r.size(1, 160) };
    let tokens = if round % 2 == 0 { 1 } else { r.size(2, 9) };
    let (row_begin, pairs) = (64 * r.size(0, 2), if mode >= 2 { 2 } else { 1 });
    let m = matrix(r, dtype, rows, 32 * groups);
    let x: Vec<f32> = r.values(tokens * 32 * groups).iter().map(|v| 0.1 * v).collect();
    let words = twin::quantise(&QuantiseParams { groups: groups as u32, eps: 0.0 }, &x, None);
    let params = ProductParams {
        rows: rows as u32,
        groups: groups as u32,
        tokens: tokens as u32,
        row_begin: row_begin as u32,
        stride: ((row_begin + rows) / pairs + r.size(0, 5)) as u32,
        mode,
        has_bias: round as u32 / 4 % 2,
        eps: 0.0,
    };
    let (bias, mut y) = (r.values(row_begin + rows), r.values(tokens * params.stride as usize));
    let before = y.clone();
    let nothing = [0u32];
    let (weights, scales) = (&m.planes.weights[..], &m.planes.scales[..]);
    let buffers = [weights, scales, bytes(&words), bytes(&nothing), bytes(&bias), bytes(&before)];
    let number = m.format.number.to_string();
    // Fewer workgroups than the rows need: a workgroup goes on.
    let grid = [1 + round as u32 % 3, 1, tokens.div_ceil(BYTES4.1) as u32];
    twin::matvec4(&params, &m.values, &x, None, &bias, &mut y);
    let of_one = (tokens == 1).then_some(&MATVEC_BYTES);
    let mut all: Vec<Vec<f32>> = Vec::new();
    for kernel in of_one.into_iter().chain([&MATVEC4_BYTES]) {
        let got = run(gpu, kernel, &[("FORMAT", number.as_str())], &params, &buffers, grid);
        let what = format!("{} {dtype} mode {mode} {tokens} x {rows} x {groups}", kernel.name);
        close(&what, &got[0], &y, 2e-5);
        all.push(got[0].clone());
    }
    assert!(all.iter().all(|y| *y == all[0]), "a token's sums depend on how many there are");
}

/// One token that the product itself quantises: bit by bit what the kernels one after the other make of it.
fn product_alone(gpu: &Gpu, r: &mut Random, dtype: DType, round: usize) {
    let (groups, mode, norm) = (8 * r.size(1, 12), round as u32 % 4, round / 2 % 2 == 1);
    let rows = if mode >= 2 { 2 * r.size(1, 80) } else { r.size(1, 160) };
    let m = matrix(r, dtype, rows, 32 * groups);
    let mut small = |n| r.values(n).iter().map(|v| 0.1 * v).collect::<Vec<f32>>();
    let (x, weight) = (small(32 * groups), small(32 * groups));
    let params = ProductParams {
        rows: rows as u32,
        groups: groups as u32,
        tokens: 1,
        stride: rows as u32,
        mode,
        eps: 1e-5,
        ..Default::default()
    };
    let (bias, mut y) = (r.values(rows), r.values(rows));
    let before = y.clone();
    let number = m.format.number.to_string();
    let normed = if norm { "true" } else { "false" };
    let rest = [&m.planes.weights[..], &m.planes.scales[..]];
    let buffers = [rest[0], rest[1], bytes(&x), bytes(&weight), bytes(&bias), bytes(&before)];
    let constants =
        [("FORMAT", &*number), ("NORM", normed), ("ROOM", if round % 2 == 0 { "128" } else { "256" })];
    let got = run(gpu, &MATVEC_ALONE, &constants, &params, &buffers, [1 + round as u32 % 2, 1, 1]);
    twin::matvec(&params, &m.values, &x, norm.then_some(&weight[..]), &bias, &mut y);
    let what = format!("matvec_alone {dtype} mode {mode} norm {norm} {rows} x {groups}");
    close(&what, &got[0], &y, 2e-5);

    let quantised = vec![0u32; 28 * groups];
    let of = QuantiseParams { groups: groups as u32, eps: 1e-5 };
    let grid = [(8 * groups).div_ceil(QUANTISE_LANES) as u32, 1, 1];
    let buffers = [bytes(&x), bytes(&weight), bytes(&quantised)];
    let words = run(gpu, &QUANTISE, &[("NORM", normed)], &of, &buffers, grid);
    let buffers = [rest[0], rest[1], bytes(&words[0]), bytes(&[0u32]), bytes(&bias), bytes(&before)];
    let apart = run(gpu, &MATVEC_BYTES, &[("FORMAT", &*number)], &params, &buffers, [1, 1, 1]);
    assert_eq!(apart[0], got[0], "{what}");
}

#[test]
fn bytes_of_few_tokens() {
    let Some(gpu) = open().filter(|gpu| gpu.subgroups) else { return };
    let mut r = Random(14);
    let types = DType::ALL.into_iter().filter(|dtype| Format::of(*dtype).has_bytes());
    for (round, dtype) in types.cycle().take(24).enumerate() {
        product_of_bytes(&gpu, &mut r, dtype, round);
        product_alone(&gpu, &mut r, dtype, round);
    }
}

#[test]
fn quantise() {
    let Some(gpu) = open().filter(|gpu| gpu.subgroups) else { return };
    let mut r = Random(15);
    for round in 0..6 {
        let (groups, tokens, norm) = (r.size(1, 70), r.size(1, 4), round % 2 == 1);
        let (mut x, weight) = (r.values(tokens * 32 * groups), r.values(32 * groups));
        x[..32].fill(if round % 3 == 0 { 0.0 } else { 7.0 });
        let params = QuantiseParams { groups: groups as u32, eps: 1e-5 };
        let before = vec![0u32; 28 * groups * tokens];
        let grid = [(8 * groups).div_ceil(QUANTISE_LANES) as u32, tokens as u32, 1];
        let constants = [("NORM", if norm { "true" } else { "false" })];
        let buffers = [bytes(&x), bytes(&weight), bytes(&before)];
        let got = run(&gpu, &QUANTISE, &constants, &params, &buffers, grid);
        let got: &[u32] = bytemuck::cast_slice(&got[0]);
        let want = twin::quantise(&params, &x, norm.then_some(&weight[..]));
        close("quantise", &twin::quantised(groups, got), &twin::quantised(groups, &want), 1e-6);
        // The sums are those of the integers that are there.
        let at = |word: usize| got[4 * 6 * groups + word] as i32;
        let byte =
            |vector: usize, e: usize| i32::from(got[4 * vector * groups + e / 4].to_le_bytes()[e % 4] as i8);
        let integer = |side: usize, e| (byte(side, e) * 128 + byte(2 + side, e)) * 128 + byte(4 + side, e);
        for side in 0..2 {
            assert_eq!(at(1 + side), (0..16).map(|e| integer(side, e)).sum::<i32>());
        }
    }
}

#[test]
fn matvec() {
    let Some(gpu) = open() else { return };
    let mut r = Random(2);
    for (round, dtype) in DType::ALL.into_iter().cycle().take(22).enumerate() {
        product(&gpu, &mut r, dtype, "matvec", round);
    }
}

#[test]
fn matvec4() {
    let Some(gpu) = open() else { return };
    let mut r = Random(12);
    for (round, dtype) in DType::ALL.into_iter().cycle().take(22).enumerate() {
        product(&gpu, &mut r, dtype, "matvec4", round);
    }
}

#[test]
fn gemm() {
    for precision in Precision::ALL {
        let Some(gpu) = open_with(precision) else { return };
        // Without them the kernels are those of float32 again.
        let cooperative = gpu.device.features().contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);
        let rounds = if precision == Precision::Exact || cooperative { 22 } else { 0 };
        let mut r = Random(13);
        for (round, dtype) in DType::ALL.into_iter().cycle().take(rounds).enumerate() {
            product(&gpu, &mut r, dtype, "gemm", round);
        }
    }
}

#[test]
fn gemm_wide() {
    for precision in Precision::ALL {
        let Some(gpu) = open_with(precision) else { return };
        if gpu.limits.max_compute_workgroup_storage_size < 32 << 10 {
            return;
        }
        // Software compiles each for seconds.
        let software = gpu.byte_subgroup.is_none() && precision == Precision::Fast;
        let mut r = Random(16);
        for (round, dtype) in DType::ALL.into_iter().cycle().take(if software { 3 } else { 13 }).enumerate() {
            product(&gpu, &mut r, dtype, "gemm_wide", round);
        }
    }
}

#[test]
fn rms_norm() {
    let Some(gpu) = open() else { return };
    let mut r = Random(3);
    for round in 0..8 {
        let (rows, cols, add) = (r.size(1, 100), r.size(1, 600), round % 2 == 1);
        let (x, weight, mut y) = (r.values(rows * cols), r.values(cols), r.values(rows * cols));
        let params = RmsNormParams { rows: rows as u32, cols: cols as u32, eps: 1e-5 };
        let constants = [("ADD", if add { "true" } else { "false" })];
        let buffers = [bytes(&x), bytes(&weight), bytes(&y)];
        let got = run(&gpu, &RMS_NORM, &constants, &params, &buffers, flat(rows));
        twin::rms_norm(add, &params, &x, &weight, &mut y);
        close("rms_norm", &got[0], &y, 2e-6);
    }
}

/// Parameters of attention for a head size, one of several kinds.
fn attention_params(
    r: &mut Random,
    head_dim: usize,
    kv_heads: usize,
    group: usize,
    round: usize,
) -> AttentionParams {
    AttentionParams {
        heads: (kv_heads * group) as u32,
        kv_heads: kv_heads as u32,
        window: [0, 1, 37, 0][round % 4],
        scale: 2.0,
        pairs: (head_dim / 2 - 2 * r.size(0, 3)) as u32,
        halves: round as u32 % 2,
        angles: 1,
        q_norm: round as u32 / 2 % 2,
        k_norm: round as u32 / 3 % 2,
        q_eps: 1e-5,
        k_eps: 1e-6,
        parts: [4, 3][round / 2 % 2],
        alone: [2, 0][round / 4 % 2],
    }
}

const HEAD_SIZES: [usize; 8] = [32, 64, 80, 96, 128, 256, 64, 64];

#[test]
fn rope_append() {
    let Some(gpu) = open() else { return };
    let mut r = Random(4);
    for (round, head_dim) in HEAD_SIZES.into_iter().enumerate() {
        let mut p = paged(&mut r, 80, 30, 8);
        let (kv_heads, group) = (r.size(1, 3), r.size(1, 3));
        let params = attention_params(&mut r, head_dim, kv_heads, group, round);
        p.turn(&mut r, params.pairs as usize);
        let heads = params.heads as usize + 2 * kv_heads;
        let (q_norm, k_norm) = (r.values(head_dim), r.values(head_dim));
        let mut qkv = r.values(p.facts.tokens.len() * heads * head_dim);
        let mut pages = r.values(p.pool * 2 * kv_heads * PAGE * head_dim);
        let words = p.facts.words();
        let buffers = [bytes(&words), bytes(&q_norm), bytes(&k_norm), bytes(&qkv), bytes(&pages)];
        let size = head_dim.to_string();
        let constants = [("PAGE_TOKENS", "32"), ("HEAD_DIM", size.as_str())];
        let grid = [heads as u32, p.facts.tokens.len() as u32, 1];
        let got = run(&gpu, &ROPE_APPEND, &constants, &params, &buffers, grid);
        twin::rope_append(PAGE, head_dim, &params, &p.facts, &q_norm, &k_norm, &mut qkv, &mut pages);
        close("queries", &got[0], &qkv, 5e-6);
        close("pages", &got[1], &pages, 5e-6);
    }
}

#[test]
fn attention() {
    let Some(gpu) = open() else { return };
    let mut r = Random(6);
    for (round, head_dim) in HEAD_SIZES.into_iter().enumerate() {
        let p = paged(&mut r, 150, 40, if head_dim > 128 { 4 } else { 8 });
        let (kv_heads, group) = (r.size(1, 2), r.size(1, 3));
        let params = attention_params(&mut r, head_dim, kv_heads, group, round);
        let (n, heads) = (p.facts.tokens.len(), params.heads as usize);
        let qkv = r.values(n * (heads + 2 * kv_heads) * head_dim);
        let mut pages = r.values(p.pool * 2 * kv_heads * PAGE * head_dim);
        p.poison(&mut pages, kv_heads, head_dim, true);
        let mut y = vec![0.0; n * heads * head_dim];
        let words = p.facts.words();
        let buffers = [bytes(&words), bytes(&qkv), bytes(&pages), bytes(&y)];
        let size = head_dim.to_string();
        let constants = [("PAGE_TOKENS", "32"), ("HEAD_DIM", size.as_str())];
        let grid = [heads as u32, p.facts.tiles.len() as u32, 1];
        let got = run(&gpu, &ATTENTION, &constants, &params, &buffers, grid);
        twin::attention(PAGE, head_dim, &params, &p.facts, &qkv, &pages, &mut y);
        close(&format!("attention {head_dim}, window {}", params.window), &got[0], &y, 5e-5);
    }
}

/// One and several parts, the latter put together by attention_merge.
#[test]
fn attention_step() {
    let Some(gpu) = open() else { return };
    let mut r = Random(16);
    for (round, (head_dim, group)) in
        HEAD_SIZES.into_iter().zip([1, 2, 3, 4, 8, 4, 5, 7]).cycle().take(16).enumerate()
    {
        let mut p = paged(&mut r, 250, 1, 8);
        let (kv_heads, blocks, parts) = (r.size(1, 2), r.size(1, 2), [1, 4][round % 2]);
        let mut params = attention_params(&mut r, head_dim, kv_heads, group * blocks, round);
        params.parts = params.parts.min(parts as u32);
        p.turn(&mut r, params.pairs as usize);
        let (n, heads) = (p.facts.tokens.len(), params.heads as usize);
        let (q_norm, k_norm) = (r.values(head_dim), r.values(head_dim));
        let qkv = r.values(n * (heads + 2 * kv_heads) * head_dim);
        let mut pages = r.values(p.pool * 2 * kv_heads * PAGE * head_dim);
        p.poison(&mut pages, kv_heads, head_dim, false);
        let mut y = vec![0.0; n * heads * parts * (head_dim + 4)];
        let words = p.facts.words();
        let buffers = [bytes(&words), bytes(&qkv), bytes(&q_norm), bytes(&k_norm), bytes(&pages), bytes(&y)];
        let (size, together) = (head_dim.to_string(), group.to_string());
        let constants = [("PAGE_TOKENS", "32"), ("HEAD_DIM", size.as_str()), ("GROUP", together.as_str())];
        let grid = [(kv_heads * blocks) as u32, parts as u32, n as u32];
        let mut got = run(&gpu, &ATTENTION_STEP, &constants, &params, &buffers, grid);
        y.truncate(n * heads * head_dim);
        twin::attention_step(PAGE, head_dim, &params, &p.facts, &qkv, &q_norm, &k_norm, &mut pages, &mut y);
        let merge = MergeParams { heads: (n * heads) as u32, parts: parts as u32 };
        if parts > 1 {
            let mut together = vec![0.0; y.len()];
            let buffers = [bytes(&got[1]), bytes(&together)];
            let grid = [merge.heads, 1, 1];
            let merged = run(&gpu, &ATTENTION_MERGE, &[("HEAD_DIM", size.as_str())], &merge, &buffers, grid);
            twin::attention_merge(head_dim, &merge, &got[1], &mut together);
            close("attention_merge", &merged[0], &together, 2e-6);
            got[1] = merged[0].clone();
        }
        got[1].truncate(y.len());
        close(
            &format!("attention_step {head_dim} {parts} parts, window {}", params.window),
            &got[1],
            &y,
            5e-5,
        );
        let same =
            |(a, b): (&f32, &f32)| (a - b).abs() <= 5e-6 * (1.0 + b.abs()) || (a.is_nan() && b.is_nan());
        assert!(got[0].iter().zip(&pages).all(same), "pages of {head_dim}");
    }
}

#[test]
fn short_conv() {
    let Some(gpu) = open() else { return };
    let mut r = Random(7);
    for _ in 0..6 {
        let mut p = paged(&mut r, 70, 40, 8);
        let (channels, taps) = (r.size(1, 90), r.size(2, 5));
        let n = p.facts.tokens.len();
        let entries = r.order(2 * p.spans.len());
        p.facts.slots = p
            .spans
            .iter()
            .zip(entries.chunks(2))
            .map(|((first, count, _), entry)| ConvSlot {
                first: *first as u32,
                count: *count as u32,
                window_in: entry[0],
                window_out: entry[1],
            })
            .collect();
        let (projected, kernel) = (r.values(n * 3 * channels), r.values(channels * taps));
        let row = (taps - 1) * channels;
        let (mut windows, mut pages) = (r.values(entries.len() * row), r.values(p.pool * row));
        let mut y = vec![0.0; n * channels];
        let params = ShortConvParams { tokens: n as u32, channels: channels as u32, taps: taps as u32 };
        let words = p.facts.words();
        let buffers =
            [bytes(&words), bytes(&projected), bytes(&kernel), bytes(&windows), bytes(&pages), bytes(&y)];
        let groups = elementwise(n * channels, 256);
        let got = run(&gpu, &SHORT_CONV, &[("PAGE_TOKENS", "32")], &params, &buffers, groups);
        twin::short_conv(PAGE, &params, &p.facts, &projected, &kernel, &mut windows, &mut pages, &mut y);
        close("windows", &got[0], &windows, 0.0);
        close("pages", &got[1], &pages, 0.0);
        close("short_conv", &got[2], &y, 1e-6);
    }
}

#[test]
fn gate() {
    let Some(gpu) = open() else { return };
    let mut r = Random(8);
    for (round, scale) in [1.0, 10.0, 1000.0].into_iter().enumerate() {
        for (gelu, paired) in [(false, false), (true, false), (false, true), (true, true)] {
            let (tokens, width) = (r.size(1, 20), r.size(1, 2000));
            let mut both = r.values(2 * tokens * width);
            both.iter_mut().for_each(|x| *x *= scale);
            let mut y = vec![0.0; tokens * width];
            let params = GateParams { tokens: tokens as u32, width: width as u32 };
            let text = |yes: bool| if yes { "true" } else { "false" };
            let constants = [("GELU", text(gelu)), ("PAIRED", text(paired))];
            let grid = elementwise(tokens * width, 256);
            let got = run(&gpu, &GATE, &constants, &params, &[bytes(&both), bytes(&y)], grid);
            twin::gate(gelu, paired, &params, &both, &mut y);
            close(&format!("gate {round} {gelu}"), &got[0], &y, 2e-6);
        }
    }
}

#[test]
fn lowrank() {
    let Some(gpu) = open() else { return };
    let mut r = Random(19);
    for each in [1, 2] {
        let (width, rank, rows, tokens) = (r.size(1, 100), r.size(1, 20), r.size(1, 200), r.size(1, 9));
        let (first, offset) = (r.size(0, 3), r.size(0, 3));
        let stride = offset + each * rows;
        let (a, x) = (r.values(rank * 4 * width), r.values((first + tokens) * 4 * width));
        let mut low = vec![0.0; tokens * rank];
        let params = LowrankInParams { first: first as u32, width: width as u32, rank: rank as u32 };
        let grid = [rank as u32, tokens as u32, 1];
        let got = run(&gpu, &LOWRANK_IN, &[], &params, &[bytes(&a), bytes(&x), bytes(&low)], grid);
        twin::lowrank_in(&params, tokens, &a, &x, &mut low);
        close("lowrank_in", &got[0], &low, 1e-5);
        let (b, mut y) = (r.values(rank * rows), r.values((first + tokens) * stride));
        let params = LowrankOutParams {
            first: first as u32,
            rows: rows as u32,
            rank: rank as u32,
            stride: stride as u32,
            offset: offset as u32,
            each: each as u32,
            factor: 0.5,
        };
        let grid = [rows.div_ceil(64) as u32, tokens as u32, 1];
        let got = run(&gpu, &LOWRANK_OUT, &[], &params, &[bytes(&b), bytes(&low), bytes(&y)], grid);
        twin::lowrank_out(&params, tokens, &b, &low, &mut y);
        close("lowrank_out", &got[0], &y, 1e-5);
    }
}

#[test]
fn penalize() {
    let Some(gpu) = open() else { return };
    let mut r = Random(9);
    let (vocab, rows) = (r.size(100, 3000), 3);
    let mut logits = r.values(rows * vocab);
    let mut history = r.order(vocab)[..90].to_vec();
    history.push(vocab as u32 + 5);
    let params = ChoiceParams {
        vocab: vocab as u32,
        row: 1,
        slot: 0,
        masked: 0,
        history: history.len() as u32,
        penalty: 1.5,
    };
    let got = run(&gpu, &PENALIZE, &[], &params, &[bytes(&history), bytes(&logits)], [2, 1, 1]);
    twin::penalize(&params, &history, &mut logits);
    close("penalize", &got[0], &logits, 1e-6);
}

#[test]
fn argmax() {
    let Some(gpu) = open() else { return };
    let mut r = Random(10);
    for round in 0..16 {
        let (vocab, rows) = (r.size(1, 5000), r.size(1, 3));
        let mut logits = r.values(rows * vocab);
        // Ties, NaN, infinities.
        if round % 2 == 0 {
            logits.iter_mut().for_each(|x| *x = (*x * 3.0).trunc());
        }
        for x in [f32::NAN, f32::NEG_INFINITY, f32::NAN] {
            let at = r.size(0, logits.len() - 1);
            logits[at] = x;
        }
        if round == 5 {
            logits.fill(f32::NEG_INFINITY);
        }
        let mask: Vec<u32> =
            (0..vocab.div_ceil(32)).map(|_| if round == 4 { 0 } else { r.next() & r.next() }).collect();
        let mut chosen = [7u32; 3];
        let params = ChoiceParams {
            vocab: vocab as u32,
            row: r.size(0, rows - 1) as u32,
            slot: 1,
            masked: u32::from(round % 4 != 1),
            ..Default::default()
        };
        let count = vocab.div_ceil(twin::PART as usize);
        let mut parts = vec![0u32; 2 * count];
        let buffers = [bytes(&logits), bytes(&mask), bytes(&parts)];
        let got = run(&gpu, &ARGMAX_PARTS, &[], &params, &buffers, [count as u32, 1, 1]);
        twin::argmax_parts(&params, &logits, &mask, &mut parts);
        let got: Vec<u32> = got[0].iter().map(|x| x.to_bits()).collect();
        // The value of a part where nothing is allowed means nothing.
        for (got, want) in got.chunks(2).zip(parts.chunks(2)) {
            assert!(got[1] == want[1] && (got[1] == twin::NONE || got[0] == want[0]), "round {round}");
        }
        let got = run(&gpu, &ARGMAX, &[], &params, &[bytes(&parts), bytes(&chosen)], [1, 1, 1]);
        twin::argmax(&params, &parts, &mut chosen);
        let got: Vec<u32> = got[0].iter().map(|x| x.to_bits()).collect();
        assert_eq!(got, chosen, "round {round}");
    }
}

#[test]
fn a_lost_device_is_an_error_from_every_call() {
    let Some(gpu) = open() else { return };
    gpu.device.destroy();
    let _ = gpu.device.poll(wgpu::PollType::Poll);
    let lost = |error: Option<crate::Error>| match error {
        Some(crate::Error::DeviceLost { .. }) => {}
        other => panic!("{other:?}"),
    };
    lost(gpu.check().err());
    lost(gpu.storage("test", 16).err());
    lost(gpu.pipeline(&PENALIZE, &[]).err());
    lost(Pass::new().submit(&gpu).err());
}
