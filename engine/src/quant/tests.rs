//! Bit-exact comparison with vectors that another implementation wrote (`tests/reference/quant_vectors.py`).

use super::{dequantize_row, quantize_row, DType};
use crate::error::Error;

fn read(name: &str, ext: &str) -> Vec<u8> {
    let path =
        format!("{}/../tests/fixtures/quant/{}.{ext}", env!("CARGO_MANIFEST_DIR"), name.to_lowercase());
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
        assert!(matches!(result, Err(Error::InvalidArgument { .. })), "{dtype} {bytes} {elems}: {result:?}");
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
        (DType::Q4_K, vec![0.0; 256], 144, "no quantiser"),
        (DType::Q4_0, vec![0.0; 32], 17, "32 elements do not fill exactly 17 bytes"),
        (DType::Q4_0, vec![0.0; 31], 18, "31 elements"),
        (DType::Q8_0, [vec![0.0; 31], vec![f32::NAN]].concat(), 34, "element 31 is NaN"),
        (DType::F16, vec![f32::INFINITY], 2, "element 0 is inf"),
    ];
    for (dtype, values, bytes, expected) in cases {
        let error = quantize_row(dtype, &values, &mut vec![0; bytes]).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error} does not say {expected:?}");
    }
}
