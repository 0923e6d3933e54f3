//! Bit-exact comparison with vectors that another implementation wrote (`tests/reference/quant_vectors.py`).

use super::{dequantize_row, DType};
use crate::error::Error;

/// Stem of the golden files of a type: `<stem>.blocks` are its blocks, `<stem>.f32` their values.
fn golden(dtype: DType) -> (Vec<u8>, Vec<f32>) {
    let path = |ext: &str| {
        let stem = dtype.name().to_lowercase();
        format!("{}/../tests/fixtures/quant/{stem}.{ext}", env!("CARGO_MANIFEST_DIR"))
    };
    let read = |ext: &str| std::fs::read(path(ext)).unwrap_or_else(|e| panic!("{}: {e}", path(ext)));
    let values = read("f32").chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    (read("blocks"), values)
}

#[test]
fn values_equal_the_reference_bit_for_bit() {
    for dtype in DType::ALL {
        let (blocks, expected) = golden(dtype);
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
