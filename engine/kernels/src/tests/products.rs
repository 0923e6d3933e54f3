//! Every format on every instruction set, against the reference dequantisation.

use super::bits;
use crate::activations::{in_tiles, record_at, tiles, Activations, Quantise, Tile, RECORD};
use crate::forge::{random_row, Random};
use crate::formats::{ROWS, UNIT};
use crate::lanes::{all_isas, Isa};
use crate::layout::Layout;
use crate::product::{scratch_elems, Product};
use crate::quant::DType;
use std::ops::Range;

struct Matrix {
    rows: usize,
    cols: usize,
    layout: Layout,
    bytes: Vec<u8>,
}

impl Matrix {
    fn row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let group = &self.bytes[row / ROWS * self.layout.group_bytes..];
        self.layout.row(isa, group, row % ROWS, out);
    }
}

fn matrix(dtype: DType, rows: usize, cols: usize, seed: u64) -> (Matrix, Vec<f32>) {
    let mut random = Random(seed * 2 + 1);
    let file: Vec<Vec<u8>> = (0..rows).map(|_| random_row(&mut random, dtype, cols)).collect();
    let mut values = vec![0.0; rows * cols];
    crate::quant::dequantize_row(dtype, &file.concat(), &mut values).unwrap();
    let layout = Layout::new(dtype, cols);
    let mut bytes = vec![0; rows.div_ceil(ROWS) * layout.group_bytes];
    let zeros = vec![0; file[0].len()];
    for (g, to) in bytes.chunks_exact_mut(layout.group_bytes).enumerate() {
        layout.pack(std::array::from_fn(|r| file.get(g * ROWS + r).unwrap_or(&zeros).as_slice()), to);
    }
    (Matrix { rows, cols, layout, bytes }, values)
}

fn shapes(dtype: DType) -> Vec<(usize, usize)> {
    match dtype.block_elems() {
        1 => vec![(1, 1), (3, 7), (5, 32), (9, 45), (93, 160)],
        n => vec![(1, n), (3, 2 * n), (4, n), (9, 3 * n), (93, 5 * n)],
    }
}

fn multiply(m: &Matrix, isa: Isa, rows: Range<usize>, x: &[f32], n: usize, out: &mut [f32]) {
    multiply_as(m, isa, rows, x, n, out, false);
}

fn multiply_as(m: &Matrix, isa: Isa, rows: Range<usize>, x: &[f32], n: usize, out: &mut [f32], fast: bool) {
    let stride = m.layout.padded;
    assert!(x.len() >= n * m.cols && out.len() >= (n - 1) * m.rows + rows.end);
    let mut plain = vec![f32::NAN; n * stride];
    let parts: Vec<(usize, usize)> =
        if in_tiles(n) { tiles(n).collect() } else { (0..n).map(|t| (t, 1)).collect() };
    for (t, width) in parts {
        let (x, to) = (x[t * m.cols..].as_ptr(), plain[t * stride..].as_mut_ptr());
        // SAFETY: the tile lies within both.
        unsafe { Tile { x, cols: m.cols, width, stride, to }.run_on(isa) };
    }
    let parts = stride / UNIT;
    let mut records = vec![0i32; n * parts * RECORD / 4];
    for t in 0..n {
        let (at, step) = record_at(t, 0, n, parts);
        let (x, to) = (x[t * m.cols..].as_ptr(), records[at / 4..].as_mut_ptr().cast());
        // SAFETY: the token's row and records.
        unsafe { Quantise { x, cols: m.cols, parts, to, step, fast }.run_on(isa) };
    }
    let mut scratch = vec![f32::NAN; scratch_elems(n)];
    let (x, records) = (plain.as_ptr(), records.as_ptr().cast());
    let x = Activations { x, records, stride, n, tiled: in_tiles(n), fast };
    let (out, scratch) = (out.as_mut_ptr(), scratch.as_mut_ptr());
    // SAFETY: the sizes were checked above.
    unsafe {
        m.layout.multiply(isa, m.bytes.as_ptr(), &Product { rows, x, out, out_stride: m.rows, scratch })
    }
}

fn activations(n: usize, cols: usize) -> Vec<f32> {
    let mut random = Random(77);
    (0..n * cols).map(|_| random.float()).collect()
}

#[test]
fn rows_equal_the_reference_dequantisation() {
    for dtype in DType::ALL {
        for (rows, cols) in shapes(dtype) {
            let (m, want) = matrix(dtype, rows, cols, 1);
            for isa in all_isas() {
                for r in 0..rows {
                    let mut got = vec![0.0; cols];
                    m.row(isa, r, &mut got);
                    for (got, want) in got.iter().zip(&want[r * cols..]) {
                        // A fused offset may differ by one rounding.
                        assert!(
                            (got - want).abs() <= want.abs().max(0.01) * 2e-7,
                            "{dtype:?} {rows}x{cols} {isa:?}: {got} {want}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn products_equal_sums_in_float64() {
    for dtype in DType::ALL {
        for (rows, cols) in shapes(dtype) {
            let (m, w) = matrix(dtype, rows, cols, 2);
            let n = 11;
            let x = activations(n, cols);
            for isa in all_isas() {
                let mut out = vec![f32::NAN; n * rows];
                multiply(&m, isa, 0..rows, &x, n, &mut out);
                for (i, got) in out.iter().enumerate() {
                    let (t, r) = (i / rows, i % rows);
                    let pairs = || w[r * cols..(r + 1) * cols].iter().zip(&x[t * cols..]);
                    let want: f64 = pairs().map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    let size: f64 = pairs().map(|(w, x)| f64::from(w * x).abs()).sum();
                    assert!(
                        (f64::from(*got) - want).abs() <= size * 1e-6 + 1e-9,
                        "{dtype:?} {rows}x{cols} {isa:?}: {got} {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn fast_products_round_activations_to_eight_bits() {
    for dtype in DType::ALL {
        let (rows, cols, n) = (9, dtype.block_elems().max(32) * 3, 7);
        let (m, w) = matrix(dtype, rows, cols, 6);
        let mut x = activations(n, cols);
        x[..32].fill(0.0);
        for isa in all_isas() {
            let mut out = vec![f32::NAN; n * rows];
            multiply_as(&m, isa, 0..rows, &x, n, &mut out, true);
            for (i, got) in out.iter().enumerate() {
                let (row, x) = (&w[i % rows * cols..][..cols], &x[i / rows * cols..][..cols]);
                let (mut want, mut size) = (0.0, 1e-9);
                for (w, x) in row.chunks(32).zip(x.chunks(32)) {
                    let largest = x.iter().fold(0.0f32, |l, x| l.max(x.abs()));
                    for (w, x) in w.iter().zip(x) {
                        let rounded =
                            (x * (127.0 / largest.max(1e-30))).round_ties_even() * (largest / 127.0);
                        let x = if m.layout.quantised { rounded } else { *x };
                        want += f64::from(*w) * f64::from(x);
                        size += f64::from(w * x).abs();
                    }
                }
                assert!((f64::from(*got) - want).abs() <= size * 1e-6, "{dtype:?} {isa:?}: {got} {want}");
            }
        }
    }
}

#[test]
fn products_do_not_depend_on_how_they_are_cut() {
    let cuts = [(1, 93), (1, 8), (1, 24), (2, 16), (3, 72), (4, 8), (5, 8), (6, 93), (7, 16), (12, 40)];
    for dtype in DType::ALL {
        cut_everywhere(dtype, 93, dtype.block_elems().max(32) * 3, 13, &cuts);
    }
}

#[test]
fn nor_on_tiles_of_tokens_groups_and_parts() {
    // More than one tile of records, more groups and parts than are worked on together.
    for dtype in DType::ALL {
        cut_everywhere(dtype, 105, 768, 67, &[(1, 105), (5, 96), (66, 48)]);
    }
}

/// Compares all products with those of some tokens and rows at a time.
fn cut_everywhere(dtype: DType, rows: usize, cols: usize, n: usize, cuts: &[(usize, usize)]) {
    for fast in [false, true] {
        cut_as(dtype, rows, cols, n, cuts, fast);
    }
}

fn cut_as(dtype: DType, rows: usize, cols: usize, n: usize, cuts: &[(usize, usize)], fast: bool) {
    let (m, _) = matrix(dtype, rows, cols, 3);
    let x = activations(n, cols);
    for isa in all_isas() {
        let mut whole = vec![f32::NAN; n * rows];
        multiply_as(&m, isa, 0..rows, &x, n, &mut whole, fast);
        for &(tokens, chunk) in cuts {
            let mut cut = vec![f32::NAN; n * rows];
            for t in (0..n).step_by(tokens) {
                for r in (0..rows).step_by(chunk) {
                    let range = r..rows.min(r + chunk);
                    let (n, x, out) = (tokens.min(n - t), &x[t * cols..], &mut cut[t * rows..]);
                    multiply_as(&m, isa, range, x, n, out, fast);
                }
            }
            assert_eq!(bits(&cut), bits(&whole), "{dtype:?} {isa:?}, {tokens} tokens, {chunk} rows");
        }
    }
}

#[test]
fn integers_are_the_same_on_every_instruction_set() {
    // Magnitudes far apart, the largest digits, zeros and tiny numbers; columns that do not fill a record.
    let cols = 32 * 6 + 7;
    let mut x: Vec<f32> = activations(1, cols);
    x[..32].fill(1.0);
    x[32..64].fill(-3.0e38);
    x[64..96].fill(0.0);
    x[96..128].iter_mut().for_each(|x| *x *= 1e-36);
    x[128] = 1e6;
    let parts = cols.div_ceil(UNIT);
    let records = |isa| {
        let mut records = vec![-1i32; parts * RECORD / 4];
        let (x, to) = (x.as_ptr(), records.as_mut_ptr().cast());
        // SAFETY: a row of `cols` columns and records for all of them.
        unsafe { Quantise { x, cols, parts, to, step: RECORD, fast: false }.run_on(isa) };
        records
    };
    let want = records(Isa::PORTABLE);
    for isa in all_isas() {
        assert_eq!(records(isa), want, "{isa:?}");
    }
}

#[test]
fn what_is_not_finite_shows_in_every_product() {
    for dtype in DType::ALL {
        let (m, _) = matrix(dtype, 9, 256, 4);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for n in [1, 6] {
                let mut x = activations(n, 256);
                x[77] = odd;
                for isa in all_isas() {
                    let mut out = vec![0.0; n * 9];
                    multiply(&m, isa, 0..9, &x, n, &mut out);
                    assert!(out[..9].iter().all(|x| !x.is_finite()), "{dtype:?} {isa:?} {odd}: {out:?}");
                    assert!(out[9..].iter().all(|x| x.is_finite()), "{dtype:?} {isa:?} {odd}");
                }
            }
        }
    }
}

#[test]
fn the_bits_of_a_class_are_the_same_on_every_machine() {
    // What one machine wrote into a checkpoint, another continues.
    for isa in all_isas() {
        let got: Vec<String> =
            DType::ALL.iter().map(|dtype| format!("{dtype:?} {:016x}", hash(*dtype, isa))).collect();
        let want = match isa.rounding() {
            "fma" => FUSED,
            _ => NOT_FUSED,
        };
        assert_eq!(got, want, "{isa:?}");
    }
}

/// FNV-1a of the bits of all products of one token, of four and of 13 with a matrix.
fn hash(dtype: DType, isa: Isa) -> u64 {
    let cols = dtype.block_elems().max(32) * 3;
    let (m, _) = matrix(dtype, 93, cols, 5);
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for n in [1, 4, 13] {
        let mut out = vec![f32::NAN; n * 93];
        multiply(&m, isa, 0..93, &activations(n, cols), n, &mut out);
        for byte in out.iter().flat_map(|x| x.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

/// By fused multiply-adds.
const FUSED: [&str; DType::ALL.len()] = [
    "F32 85e106a263981147",
    "F16 712523ac43362e55",
    "BF16 eb78d7316cbf1b17",
    "Q4_0 2d47c60af7ee1efd",
    "Q4_1 5c0f7d366abe6d16",
    "Q5_0 1593a5c424179de0",
    "Q5_1 7722e6ea18a2d252",
    "Q8_0 eb224faf56f6aa4c",
    "Q4_K 19725d0caffd10a7",
    "Q5_K a7f07a7755e8556c",
    "Q6_K 9c225d64059ece7c",
];

/// By multiply-adds that round twice.
const NOT_FUSED: [&str; DType::ALL.len()] = [
    "F32 a8ff61b252740478",
    "F16 c0b434789f0854fb",
    "BF16 00eb27ee96f920b6",
    "Q4_0 06512e889375fa02",
    "Q4_1 cc5f8bdf59129dd3",
    "Q5_0 6309bb3e2141a124",
    "Q5_1 d391107861d35d4a",
    "Q8_0 d625bc310409f525",
    "Q4_K 332c925c25780664",
    "Q5_K 3412b09417a4c261",
    "Q6_K 8cbde46589751338",
];
