//! The writer: what is written is read back, in every type and piece size, and mistakes of the caller are refused.

use super::{Gguf, NewFile, Value, ValueType, Writer};
use crate::error::Error;
use crate::quant::DType;
use std::io::Write;

fn bytes_of(writer: Writer, data: &[u8], piece: usize) -> Vec<u8> {
    let mut out = writer.begin(Vec::new(), "memory").unwrap();
    let mut rest = data;
    while let Some(name) = out.current().map(str::to_string) {
        let size = if name == "odd" { 12 } else { 18 };
        let (tensor, after) = rest.split_at(size);
        tensor.chunks(piece).for_each(|part| out.write(part).unwrap());
        rest = after;
    }
    out.finish().unwrap()
}

/// One pair of every type, scalar and array.
fn every_type() -> Vec<(String, ValueType, Value)> {
    use ValueType::*;
    let mut pairs = Vec::new();
    for ty in ValueType::ALL {
        let (one, many) = match ty {
            U8 | U16 | U32 | U64 => (Value::Uint(200), Value::Uints(vec![0, 255])),
            I8 | I16 | I32 | I64 => (Value::Int(-100), Value::Ints(vec![-128, 127])),
            F32 => (Value::Float(0.5), Value::Floats(vec![0.25, -1.5])),
            F64 => (Value::Float(0.1), Value::Floats(vec![0.25, -1.5])),
            Bool => (Value::Bool(true), Value::Bools(vec![true, false])),
            String => (Value::String("ü".into()), Value::Strings(vec!["".into(), "b c".into()])),
            Array => {
                let inner = vec![Value::Ints(vec![1]), Value::Strings(vec!["x".into()])];
                pairs.push(("arrays".into(), Array, Value::Arrays(inner)));
                continue;
            }
        };
        pairs.push((format!("{ty:?}"), ty, one));
        pairs.push((format!("{ty:?}.array"), ty, many));
    }
    pairs
}

fn small() -> Writer {
    let mut w = Writer::new();
    for (key, ty, value) in every_type() {
        w.set_as(&key, ty, &value).unwrap();
    }
    w.tensor("odd", &[3], DType::F32).unwrap();
    w.tensor("q", &[32, 1], DType::Q4_0).unwrap();
    w
}

#[test]
fn what_is_written_is_read_back_whatever_the_pieces() {
    let data: Vec<u8> = (0..30).collect();
    let whole = bytes_of(small(), &data, 100);
    for piece in [1, 7] {
        assert_eq!(bytes_of(small(), &data, piece), whole);
    }
    let g = Gguf::from_bytes(whole.as_slice().into()).unwrap();
    assert_eq!(g.version, 3);
    let pairs: Vec<_> = g.metadata.pairs.clone().into_iter().collect();
    assert_eq!(pairs, every_type().into_iter().map(|(k, _, v)| (k, v)).collect::<Vec<_>>());
    assert_eq!(&*g.read("odd").unwrap(), &data[..12]);
    assert_eq!(&*g.read("q").unwrap(), &data[12..]);
    assert!(g.tensors.values().all(|t| t.offset % 32 == 0) && g.file_bytes % 32 == 0);
    let mut part = [0; 5];
    g.read_part("q", 13, &mut part).unwrap();
    assert_eq!(part, data[25..30]);
    assert!(matches!(g.read_part("q", 14, &mut part), Err(Error::InvalidArgument { .. })));
}

#[test]
fn copied_pairs_keep_their_bytes() {
    let whole = bytes_of(small(), &[7; 30], 100);
    let g = Gguf::from_bytes(whole.as_slice().into()).unwrap();
    let mut w = Writer::new();
    g.metadata.pairs.keys().for_each(|key| w.copy(&g, key).unwrap());
    w.tensor("odd", &[3], DType::F32).unwrap();
    w.tensor("q", &[32, 1], DType::Q4_0).unwrap();
    assert_eq!(bytes_of(w, &[7; 30], 100), whole);
    assert!(matches!(Writer::new().copy(&g, "absent"), Err(Error::BadModel { .. })));
}

#[test]
fn values_get_the_type_that_others_expect() {
    let cases = [
        (Value::from(7u32), ValueType::U32),
        (Value::Uint(1 << 40), ValueType::U64),
        (Value::Int(-7), ValueType::I32),
        (Value::Int(-1 << 40), ValueType::I64),
        (Value::Float(0.5), ValueType::F32),
        (Value::Float(0.1), ValueType::F64),
        (Value::from(0.1f32), ValueType::F32),
        (Value::from("x"), ValueType::String),
        (Value::from(true), ValueType::Bool),
    ];
    for (value, expected) in cases {
        let mut w = Writer::new();
        w.set("k", value.clone()).unwrap();
        assert_eq!(w.pairs["k"][..4], (expected as u32).to_le_bytes(), "{value:?}");
    }
}

#[test]
fn mistakes_are_refused_in_words() {
    let mut w = Writer::new();
    let refused = |result: Result<(), Error>, expected: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error} does not say {expected:?}");
    };
    refused(w.set_as("k", ValueType::U8, &Value::Uint(256)), "does not fit in U8");
    refused(w.set_as("k", ValueType::U32, &Value::Int(-1)), "does not fit in U32");
    refused(w.set_as("k", ValueType::I32, &Value::Float(1.0)), "does not fit in I32");
    refused(w.set("general.alignment", 64u32), "always aligned");
    refused(w.tensor("t", &[33], DType::Q4_0).map(drop), "whole blocks");
    refused(w.tensor("t", &[0], DType::F32).map(drop), "impossible dimensions");
    refused(w.tensor("t", &[], DType::F32).map(drop), "0 dimensions");
    refused(w.tensor(&"n".repeat(64), &[1], DType::F32).map(drop), "longer than 63");
    w.tensor("t", &[2], DType::F32).unwrap();
    refused(w.tensor("t", &[2], DType::F32).map(drop), "twice");
    let mut out = w.begin(Vec::new(), "memory").unwrap();
    refused(out.write(&[0; 9]), "9 bytes of data");
    out.write(&[0; 3]).unwrap();
    refused(out.finish().map(drop), "3 of its 8 bytes");
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let dir = std::env::temp_dir().join(format!("lean-new-file-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("model.gguf");
    let names = || std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    let mut dropped = NewFile::create(&path).unwrap();
    dropped.write_all(b"part").unwrap();
    assert!(!path.exists());
    drop(dropped);
    assert_eq!(names().len(), 0);
    let mut kept = NewFile::create(&path).unwrap();
    kept.write_all(b"whole").unwrap();
    kept.commit().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    assert_eq!(names(), ["model.gguf"]);
    assert!(matches!(NewFile::create(&dir), Err(Error::Io { .. })));
    std::fs::remove_dir_all(&dir).unwrap();
}
