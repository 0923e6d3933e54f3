//! Every kernel against its CPU twin on random shapes.

use super::device::Gpu;
use super::pass::{elementwise, flat, matmul_groups, Pass};
use super::readback::Readback;
use super::GpuOptions;
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
    let adapter = std::env::var("LEAN_GPU_ADAPTER").ok();
    match Gpu::open(&GpuOptions { adapter, allow_software: true, ..Default::default() }) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            assert!(!std::env::var("LEAN_REQUIRE_GPU").is_ok_and(|v| v == "1"), "{error}");
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
    let mut pass = Pass::new();
    pass.dispatch(&pipeline, params, &buffers.iter().collect::<Vec<_>>(), groups);
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

/// A batch over paged states: every sequence continues from some length, its pages anywhere in the pool.
struct Paged {
    tokens: Vec<Token>,
    table: Vec<u32>,
    pool: usize,
    /// First token, count and length before, by sequence.
    spans: Vec<(usize, usize, usize)>,
}

const PAGE: usize = crate::backend::PAGE_TOKENS;

fn paged(r: &mut Random, longest: usize) -> Paged {
    let mut p = Paged { tokens: Vec::new(), table: Vec::new(), pool: 0, spans: Vec::new() };
    for slot in 0..r.size(1, 3) {
        let (before, count) = (r.size(0, longest), r.size(1, 40));
        let table = p.table.len() as u32;
        p.spans.push((p.tokens.len(), count, before));
        p.tokens.extend((0..count as u32).map(|index| Token {
            position: before as u32 + index,
            table,
            slot: slot as u32,
            index,
        }));
        p.table.extend(vec![0; (before + count).div_ceil(PAGE)]);
    }
    p.pool = p.table.len() + r.size(0, 3);
    let order = r.order(p.pool);
    p.table.iter_mut().zip(order).for_each(|(entry, page)| *entry = page);
    p
}

#[test]
fn embed() {
    let Some(gpu) = open() else { return };
    let mut r = Random(1);
    for _ in 0..8 {
        let (hidden, vocab, tokens) = (r.size(1, 70), r.size(100, 400), r.size(1, 300));
        // The second of several pieces, and ids beyond the vocabulary.
        let (row_begin, row_end) = (64, vocab);
        let mut weights = Vec::new();
        twin::tiled(row_end - row_begin, hidden, &r.values((row_end - row_begin) * hidden), &mut weights);
        let ids: Vec<u32> = (0..tokens).map(|_| r.next() % (vocab as u32 + 20)).collect();
        let mut h = r.values(tokens * hidden);
        let params = EmbedParams {
            tokens: tokens as u32,
            hidden: hidden as u32,
            vocab: vocab as u32,
            row_begin: row_begin as u32,
            row_end: row_end as u32,
            scale: 1.5,
        };
        let buffers = [bytes(&ids), bytes(&weights), bytes(&h)];
        let got = run(&gpu, &EMBED, &[], &params, &buffers, elementwise(tokens * hidden));
        twin::embed(&params, &ids, &weights, &mut h);
        assert_eq!(got[0], h);
    }
}

#[test]
fn matmul() {
    let Some(gpu) = open() else { return };
    let mut r = Random(2);
    for round in 0..12 {
        let (rows, cols, has_bias) = (r.size(1, 200), r.size(1, 300), round % 2);
        let tile = if round % 3 == 0 { 1 } else { 4 };
        let tokens = r.size(1, 9);
        let row_begin = 64 * r.size(0, 2);
        let stride = row_begin + rows + r.size(0, 5);
        let mut weights = Vec::new();
        twin::tiled(rows, cols, &r.values(rows * cols), &mut weights);
        let (x, bias, mut y) = (r.values(tokens * cols), r.values(stride), r.values(tokens * stride));
        let params = MatmulParams {
            rows: rows as u32,
            cols: cols as u32,
            tokens: tokens as u32,
            row_begin: row_begin as u32,
            stride: stride as u32,
            has_bias,
        };
        let buffers = [bytes(&weights), bytes(&x), bytes(&bias), bytes(&y)];
        let constants = [("TILE", ["1", "4"][usize::from(tile == 4)])];
        let got = run(&gpu, &MATMUL, &constants, &params, &buffers, matmul_groups(rows, tokens, tile));
        twin::matmul(&params, &weights, &x, &bias, &mut y);
        close("matmul", &got[0], &y, 2e-5);
    }
}

#[test]
fn rms_norm() {
    let Some(gpu) = open() else { return };
    let mut r = Random(3);
    for _ in 0..8 {
        let (rows, cols) = (r.size(1, 100), r.size(1, 600));
        let (x, weight, mut y) = (r.values(rows * cols), r.values(cols), vec![0.0; rows * cols]);
        let params = RmsNormParams { rows: rows as u32, cols: cols as u32, eps: 1e-5 };
        let got = run(&gpu, &RMS_NORM, &[], &params, &[bytes(&x), bytes(&weight), bytes(&y)], flat(rows));
        twin::rms_norm(&params, &x, &weight, &mut y);
        close("rms_norm", &got[0], &y, 2e-6);
    }
}

#[test]
fn rope() {
    let Some(gpu) = open() else { return };
    let mut r = Random(4);
    for round in 0..8 {
        let (tokens, heads, pairs) = (r.size(1, 20), r.size(1, 8), r.size(1, 64));
        let head_dim = 2 * pairs + 2 * r.size(0, 3);
        let angles: Vec<[f32; 2]> =
            r.values(tokens * pairs).iter().map(|a| [(9.0 * a).cos(), (9.0 * a).sin()]).collect();
        let mut x = r.values(tokens * heads * head_dim);
        let params = RopeParams {
            tokens: tokens as u32,
            heads: heads as u32,
            head_dim: head_dim as u32,
            pairs: pairs as u32,
        };
        let halves = round % 2 == 1;
        let constants = [("HALVES", if halves { "true" } else { "false" })];
        let groups = elementwise(tokens * heads * pairs);
        let got = run(&gpu, &ROPE, &constants, &params, &[bytes(&angles), bytes(&x)], groups);
        twin::rope(halves, &params, &angles, &mut x);
        close("rope", &got[0], &x, 1e-6);
    }
}

#[test]
fn kv_append() {
    let Some(gpu) = open() else { return };
    let mut r = Random(5);
    for _ in 0..6 {
        let p = paged(&mut r, 80);
        let (kv_heads, head_dim) = (r.size(1, 3), r.size(1, 70));
        let width = kv_heads * head_dim;
        let (k, v) = (r.values(p.tokens.len() * width), r.values(p.tokens.len() * width));
        let mut pages = r.values(p.pool * 2 * width * PAGE);
        let params = KvAppendParams {
            tokens: p.tokens.len() as u32,
            kv_heads: kv_heads as u32,
            head_dim: head_dim as u32,
        };
        let buffers = [bytes(&p.tokens), bytes(&p.table), bytes(&k), bytes(&v), bytes(&pages)];
        let groups = elementwise(p.tokens.len() * width);
        let got = run(&gpu, &KV_APPEND, &[("PAGE_TOKENS", "32")], &params, &buffers, groups);
        twin::kv_append(PAGE, &params, &p.tokens, &p.table, &k, &v, &mut pages);
        assert_eq!(got[0], pages);
    }
}

#[test]
fn attention() {
    let Some(gpu) = open() else { return };
    let mut r = Random(6);
    for (round, head_dim) in [32, 64, 80, 96, 128, 256, 64, 64].into_iter().enumerate() {
        let p = paged(&mut r, 150);
        let kv_heads = r.size(1, 2);
        let heads = kv_heads * r.size(1, 3);
        let window = [0, 1, 37, 0][round % 4];
        let n = p.tokens.len();
        let q = r.values(n * heads * head_dim);
        let mut pages = r.values(p.pool * 2 * kv_heads * PAGE * head_dim);
        // Rows that no token has written yet must not matter, whatever they hold.
        let written: std::collections::HashSet<usize> = p
            .spans
            .iter()
            .flat_map(|(first, count, before)| {
                let table = p.tokens[*first].table as usize;
                let at = |t: usize| p.table[table + t / PAGE] as usize * PAGE + t % PAGE;
                (0..before + count).map(at).collect::<Vec<_>>()
            })
            .collect();
        for (row, values) in pages.chunks_mut(head_dim).enumerate() {
            let page = row / (2 * kv_heads * PAGE);
            if !written.contains(&(page * PAGE + row % PAGE)) {
                values.fill(f32::NAN);
            }
        }
        let mut y = vec![0.0; q.len()];
        let params = AttentionParams {
            tokens: n as u32,
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            window,
            scale: 2.0,
        };
        let buffers = [bytes(&p.tokens), bytes(&p.table), bytes(&q), bytes(&pages), bytes(&y)];
        let size = head_dim.to_string();
        let constants = [("PAGE_TOKENS", "32"), ("HEAD_DIM", size.as_str())];
        let got = run(&gpu, &ATTENTION, &constants, &params, &buffers, [heads as u32, n as u32, 1]);
        twin::attention(PAGE, head_dim, &params, &p.tokens, &p.table, &q, &pages, &mut y);
        close(&format!("attention {head_dim}, window {window}"), &got[0], &y, 5e-5);
    }
}

#[test]
fn short_conv() {
    let Some(gpu) = open() else { return };
    let mut r = Random(7);
    for _ in 0..6 {
        let p = paged(&mut r, 70);
        let (channels, taps) = (r.size(1, 90), r.size(2, 5));
        let n = p.tokens.len();
        let entries = r.order(2 * p.spans.len());
        let slots: Vec<ConvSlot> = p
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
        let buffers = [
            bytes(&p.tokens),
            bytes(&slots),
            bytes(&p.table),
            bytes(&projected),
            bytes(&kernel),
            bytes(&windows),
            bytes(&pages),
            bytes(&y),
        ];
        let groups = elementwise(n * channels);
        let got = run(&gpu, &SHORT_CONV, &[("PAGE_TOKENS", "32")], &params, &buffers, groups);
        twin::short_conv(
            PAGE,
            &params,
            &p.tokens,
            &slots,
            &p.table,
            &projected,
            &kernel,
            &mut windows,
            &mut pages,
            &mut y,
        );
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
        for gelu in [false, true] {
            let count = r.size(1, 70_000);
            let up = r.values(count);
            let mut gate: Vec<f32> = r.values(count).iter().map(|x| x * scale).collect();
            let params = GateParams { count: count as u32 };
            let constants = [("GELU", if gelu { "true" } else { "false" })];
            let got = run(&gpu, &GATE, &constants, &params, &[bytes(&up), bytes(&gate)], elementwise(count));
            twin::gate(gelu, &params, &up, &mut gate);
            close(&format!("gate {round} {gelu}"), &got[0], &gate, 2e-6);
        }
    }
}

#[test]
fn add() {
    let Some(gpu) = open() else { return };
    let mut r = Random(9);
    let count = r.size(1000, 70_000);
    let (x, mut h) = (r.values(count), r.values(count));
    let params = AddParams { count: count as u32 };
    let got = run(&gpu, &ADD, &[], &params, &[bytes(&x), bytes(&h)], elementwise(count));
    twin::add(&params, &x, &mut h);
    assert_eq!(got[0], h);
}

#[test]
fn argmax() {
    let Some(gpu) = open() else { return };
    let mut r = Random(10);
    for round in 0..16 {
        let (vocab, rows) = (r.size(1, 3000), r.size(1, 3));
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
        let params = ArgmaxParams {
            vocab: vocab as u32,
            row: r.size(0, rows - 1) as u32,
            slot: 1,
            masked: u32::from(round % 4 != 1),
        };
        let buffers = [bytes(&logits), bytes(&mask), bytes(&chosen)];
        let got = run(&gpu, &ARGMAX, &[], &params, &buffers, [1, 1, 1]);
        twin::argmax(&params, &logits, &mask, &mut chosen);
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
    lost(gpu.pipeline(&ADD, &[]).err());
    lost(Pass::new().submit(&gpu).err());
}
