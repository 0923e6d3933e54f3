//! Bit-exact comparison with vectors that another implementation wrote (`tests/reference/quant_vectors.py`).

use super::{dequantize_row, quantize_row, DType};

fn read(name: &str, ext: &str) -> Vec<u8> {
    let path =
        format!("{}/../../tests/fixtures/quant/{}.{ext}", env!("CARGO_MANIFEST_DIR"), name.to_lowercase());
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn floats(name: &str) -> Vec<f32> {
    read(name, "f32").chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn values_equal_the_reference_bit_for_bit() {
    for dtype in DType::ALL {
        let (blocks, expected) = (read(dtype.name(), "blocks"), floats(dtype.name()));
        assert!(expected.len() >= 4 * dtype.block_elems(), "{dtype}: too few values to be a test");
        let mut values = vec![f32::NAN; expected.len()];
        dequantize_row(dtype, &blocks, &mut values).unwrap();
        for (i, (a, b)) in values.iter().zip(&expected).enumerate() {
            assert_eq!(a.to_bits(), b.to_bits(), "{dtype}[{i}]: {a} instead of {b}");
        }
    }
}

#[test]
fn lengths_that_do_not_match_are_refused() {
    let cases = [
        (DType::Q4_0, 18, 31),
        (DType::Q4_0, 17, 32),
        (DType::Q4_0, 36, 32),
        (DType::F32, 3, 1),
        (DType::Q6_K, 0, 256),
    ];
    for (dtype, bytes, elems) in cases {
        let result = dequantize_row(dtype, &vec![0; bytes], &mut vec![0.0; elems]);
        assert!(result.is_err(), "{dtype} {bytes} {elems}: {result:?}");
    }
    assert_eq!(dequantize_row(DType::Q6_K, &[], &mut []), Ok(()));
}

#[test]
fn numbers_are_those_of_gguf() {
    for dtype in DType::ALL {
        assert_eq!(DType::from_gguf(dtype as u32), Some(dtype));
    }
    for unread in [4, 5, 9, 10, 20, 24, u32::MAX] {
        assert_eq!(DType::from_gguf(unread), None);
    }
}

#[test]
fn blocks_equal_the_reference_bit_for_bit() {
    let rows = floats("rows");
    for dtype in [DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0] {
        let expected = read(dtype.name(), "quantized");
        let mut blocks = vec![0; expected.len()];
        quantize_row(dtype, &rows, &mut blocks).unwrap();
        let size = dtype.block_bytes();
        for (i, (a, b)) in blocks.chunks(size).zip(expected.chunks(size)).enumerate() {
            assert_eq!(a, b, "{dtype} block {i} of {:?}", &rows[i * 32..][..32]);
        }
    }
}

#[test]
fn plain_formats_survive_a_round_trip() {
    let values = [0.0, -0.0, 1.0, -1.5, 65504.0, 2f32.powi(-14)];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        // 65504 has more bits than bfloat16.
        let values = if dtype == DType::BF16 { &values[..4] } else { &values[..] };
        let mut blocks = vec![0; dtype.bytes_of(values.len()).unwrap()];
        let mut back = vec![f32::NAN; values.len()];
        quantize_row(dtype, values, &mut blocks).unwrap();
        dequantize_row(dtype, &blocks, &mut back).unwrap();
        assert_eq!(back, values, "{dtype}");
    }
}

#[test]
fn what_cannot_be_quantised_is_refused() {
    let cases = [
        (DType::Q4_K, vec![0.0; 255], 144, "255 elements do not fill exactly 144 bytes"),
        (DType::Q4_0, vec![0.0; 32], 17, "32 elements do not fill exactly 17 bytes"),
        (DType::Q4_0, vec![0.0; 31], 18, "31 elements"),
        (DType::Q8_0, [vec![0.0; 31], vec![f32::NAN]].concat(), 34, "element 31 is NaN"),
        (DType::F16, vec![f32::INFINITY], 2, "element 0 is inf"),
    ];
    for (dtype, values, bytes, expected) in cases {
        let error = quantize_row(dtype, &values, &mut vec![0; bytes]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error} does not say {expected:?}");
    }
}

/// Root mean square of the difference of values and their blocks, relative to that of the values.
fn error_of(dtype: DType, values: &[f32], blocks: &[u8]) -> f32 {
    let mut back = vec![f32::NAN; values.len()];
    dequantize_row(dtype, blocks, &mut back).unwrap();
    let squares = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x * x)).sum::<f64>();
    let difference = squares(&mut values.iter().zip(&back).map(|(a, b)| a - b));
    (difference / squares(&mut values.iter().copied())).sqrt() as f32
}

fn quantized(dtype: DType, values: &[f32]) -> Vec<u8> {
    let mut blocks = vec![0; dtype.bytes_of(values.len()).unwrap()];
    quantize_row(dtype, values, &mut blocks).unwrap();
    blocks
}

/// Normally distributed enough: sums of four uniform numbers.
fn noise(n: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..n).map(|_| uniform() + uniform() + uniform() + uniform()).collect()
}

#[test]
fn searched_formats_are_as_close_as_the_reference() {
    for dtype in [DType::Q4_K, DType::Q6_K] {
        let halves = read(dtype.name(), "rows");
        let mut rows = vec![0.0; halves.len() / 2];
        dequantize_row(DType::F16, &halves, &mut rows).unwrap();
        let reference = error_of(dtype, &rows, &read(dtype.name(), "quantized"));
        let ours = error_of(dtype, &rows, &quantized(dtype, &rows));
        assert!(ours <= 1.02 * reference, "{dtype}: {ours}, the reference has {reference}");
    }
}

#[test]
fn each_format_keeps_its_error_bound() {
    let values = noise(64 * 256);
    let bounds = [
        (DType::BF16, 0.002),
        (DType::F16, 0.0003),
        (DType::Q8_0, 0.006),
        (DType::Q6_K, 0.019),
        (DType::Q5_K, 0.039),
        (DType::Q5_1, 0.045),
        (DType::Q5_0, 0.05),
        (DType::Q4_K, 0.075),
        (DType::Q4_1, 0.09),
        (DType::Q4_0, 0.1),
    ];
    for (dtype, bound) in bounds {
        let error = error_of(dtype, &values, &quantized(dtype, &values));
        assert!(error < bound, "{dtype}: {error}");
        assert!(error > bound / 2.0, "{dtype}: {error} is better than the format allows");
    }
}

#[test]
fn searched_formats_take_every_row() {
    let ramp: Vec<f32> = (0..256).map(|i| i as f32 * 0.01 - 1.28).collect();
    let rows = [
        ("zeros", vec![0.0; 256]),
        ("constant", vec![0.25; 256]),
        ("negative constant", vec![-0.25; 256]),
        ("all above zero", ramp.iter().map(|x| x + 3.0).collect()),
        ("all below zero", ramp.iter().map(|x| x - 3.0).collect()),
        ("ramp", ramp.clone()),
        ("one number", (0..256).map(|i| if i == 77 { -40.0 } else { 0.0 }).collect()),
        ("small", ramp.iter().map(|x| x * 1e-2).collect()),
        ("large", ramp.iter().map(|x| x * 1e5).collect()),
    ];
    for dtype in [DType::Q4_K, DType::Q5_K, DType::Q6_K] {
        for (name, row) in &rows {
            let mut back = vec![f32::NAN; 256];
            dequantize_row(dtype, &quantized(dtype, row), &mut back).unwrap();
            let largest = row.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            for (x, y) in row.iter().zip(&back) {
                assert!((x - y).abs() <= largest * 0.07, "{dtype} {name}: {y} for {x}");
            }
        }
    }
}
