//! The reader: what it returns, what it refuses and in which words, and that nothing makes it panic.

use super::forge::Writer;
use super::{Gguf, Value};
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::io::Cursor;
use std::path::Path;

const FIXTURE: &str = "llama-hd64-tied.s1.q4_1.gguf";

fn fixture() -> String {
    format!("{}/../tests/fixtures/models/{FIXTURE}", env!("CARGO_MANIFEST_DIR"))
}

fn parse(bytes: &[u8]) -> Result<Gguf> {
    Gguf::from_bytes(bytes.into())
}

/// One value of every kind and two tensors.
fn small() -> Writer {
    let mut w = Writer::new();
    w.str("general.architecture", "none");
    w.uint("uint", 7);
    w.set("int", Value::Int(-7));
    w.set("float", Value::Float(0.5));
    w.set("bool", Value::Bool(true));
    w.set("strings", Value::Strings(vec!["a".into(), "ü\u{301}".into(), String::new()]));
    w.set("uints", Value::Uints(vec![1, 2, 3]));
    w.set("ints", Value::Ints(vec![-1, 2]));
    w.set("floats", Value::Floats(vec![0.25, -1.5]));
    w.set("bools", Value::Bools(vec![true, false]));
    w.set("arrays", Value::Arrays(vec![Value::Ints(vec![1]), Value::Strings(vec!["x".into()])]));
    w.zeros("a", &[8, 2]);
    w.tensors.push(("b".into(), vec![32], 2, (0..18).collect()));
    w
}

#[test]
fn every_kind_of_value_is_read() {
    for version in [2, 3] {
        let w = Writer { version, ..small() };
        let g = parse(&w.finish()).unwrap();
        assert_eq!(g.version, version);
        let pairs: Vec<_> = g.metadata.pairs.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(pairs, w.pairs);
        assert_eq!(&*g.read("a").unwrap(), &[0; 64]);
        assert_eq!(&*g.read("b").unwrap(), &(0..18).collect::<Vec<u8>>());
        assert_eq!(g.tensor("b").unwrap().type_name(), "Q4_0");
    }
}

#[test]
fn alignment_moves_the_data() {
    for alignment in [1, 8, 64, 4096] {
        let mut w = small();
        w.alignment = alignment;
        w.uint("general.alignment", alignment as u64);
        let bytes = w.finish();
        let g = parse(&bytes).unwrap();
        assert_eq!(g.tensor("a").unwrap().offset % alignment as u64, 0);
        assert_eq!(&*g.read("b").unwrap(), &(0..18).collect::<Vec<u8>>(), "alignment {alignment}");
    }
}

#[test]
fn all_sources_agree() {
    let bytes = std::fs::read(fixture()).unwrap();
    let mut sources = vec![
        Gguf::open(Path::new(&fixture()), false).unwrap(),
        parse(&bytes).unwrap(),
        Gguf::from_reader(Box::new(Cursor::new(bytes))).unwrap(),
    ];
    if cfg!(feature = "mmap") {
        sources.push(Gguf::open(Path::new(&fixture()), true).unwrap());
    }
    let first = &sources[0];
    // Checkpoints carry it: it may change only together with their format's version.
    assert_eq!(first.fingerprint(), Ok(0x0778_46b4_06f7_b135));
    for other in &sources[1..] {
        assert_eq!(other.metadata, first.metadata);
        assert_eq!(other.tensors, first.tensors);
        assert_eq!(other.file_bytes, first.file_bytes);
        assert_eq!(other.fingerprint(), first.fingerprint());
        for name in first.tensors.keys() {
            assert_eq!(other.read(name).unwrap(), first.read(name).unwrap(), "{name}");
        }
    }
    assert!(matches!(sources[1].read("output_norm.weight"), Ok(Cow::Borrowed(_))), "memory is not copied");
}

#[test]
fn the_fingerprint_sees_metadata_tensor_table_and_weights() {
    let mut w = small();
    w.tensors.push(("large".into(), vec![1 << 16], 0, vec![0; 4 << 16]));
    let original = parse(&w.finish()).unwrap().fingerprint().unwrap();
    assert_eq!(parse(&w.finish()).unwrap().fingerprint(), Ok(original));
    let changes: [(&str, fn(&mut Writer)); 5] = [
        ("a value", |w| w.uint("uint", 8)),
        ("a tensor's name", |w| w.tensors[0].0 = "c".into()),
        ("a small tensor", |w| w.tensors[1].3[9] ^= 1),
        ("the first byte of a large tensor", |w| w.tensors[2].3[0] ^= 1),
        ("the last byte of a large tensor", |w| *w.tensors[2].3.last_mut().unwrap() ^= 1),
    ];
    for (what, change) in changes {
        let mut changed = w.clone();
        change(&mut changed);
        assert_ne!(parse(&changed.finish()).unwrap().fingerprint(), Ok(original), "{what}");
    }
}

#[test]
fn getters_name_the_key_and_both_types() {
    let g = parse(&small().finish()).unwrap();
    let m = &g.metadata;
    assert_eq!(m.str("general.architecture"), Ok("none"));
    assert_eq!(m.u32("uint"), Ok(7));
    assert_eq!(m.f32("float"), Ok(0.5));
    assert_eq!(m.f32("int"), Ok(-7.0));
    assert_eq!(m.bool("bool"), Ok(true));
    assert_eq!(m.ints("uints").unwrap(), &[1, 2, 3][..]);
    assert_eq!(m.ints("ints").unwrap(), &[-1, 2][..]);
    assert_eq!(m.ints("bools").unwrap(), &[1, 0][..]);
    assert_eq!(m.floats("floats").unwrap(), &[0.25, -1.5]);
    assert_eq!(m.strings("strings").unwrap().len(), 3);
    assert_eq!(m.opt_u32("absent"), Ok(None));
    let cases = [
        (m.u32("absent").err(), "metadata absent: missing; expected an integer from 0 to 4294967295"),
        (m.u32("int").err(), "metadata int: expected an integer from 0 to 4294967295, found -7"),
        (m.opt_str("uint").err(), "metadata uint: expected a string, found 7"),
        (
            m.strings("floats").err(),
            "metadata floats: expected an array of strings, found an array of numbers",
        ),
        (m.bool("strings").err(), "metadata strings: expected a boolean, found an array of strings"),
    ];
    for (error, expected) in cases {
        assert_eq!(error.unwrap().to_string(), format!("bad model file: {expected}"));
    }
}

/// Offset of the first occurrence of `needle`, plus its length: where what follows a name begins.
fn after(bytes: &[u8], needle: &str) -> usize {
    bytes.windows(needle.len()).position(|w| w == needle.as_bytes()).unwrap() + needle.len()
}

/// A small file with the bytes after a name replaced.
fn patched(name: &str, skip: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = small().finish();
    let at = after(&bytes, name) + skip;
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

fn built(change: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = small();
    change(&mut w);
    w.finish()
}

fn overlapping() -> Vec<u8> {
    built(|w| {
        w.tensors[0].1 = vec![8, 3];
        w.zeros("c", &[8]);
    })
}

/// Data placed every 8 bytes in a file that promises 32.
fn unaligned() -> Vec<u8> {
    built(|w| {
        w.alignment = 8;
        w.tensors[0].1 = vec![9, 2];
        w.tensors[0].3.resize(72, 0);
    })
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Ints(vec![1]), |v, _| Value::Arrays(vec![v]))
}

/// Every refusal says what and where. `table` holds `(bytes, parts of the message)`.
#[test]
fn refusals_say_what_and_where() {
    let huge = &u64::MAX.to_le_bytes();
    let table: Vec<(Vec<u8>, &[&str])> = vec![
        (vec![], &["magic at byte 0", "empty"]),
        (b"GG".to_vec(), &["magic at byte 0", "4 bytes are needed, 2 are left"]),
        (b"PK\x03\x04abcd".to_vec(), &["magic at byte 0", "PK\\x03\\x04", "is it a .gguf file"]),
        (b"version https://git-lfs.github.com".to_vec(), &["Git LFS pointer"]),
        (b"tjgg\x01\0\0\0".to_vec(), &["before GGUF"]),
        (b"GGUF\0\0\0\x03".to_vec(), &["big-endian"]),
        (built(|w| w.version = 1), &["GGUF version 1; versions 2 and 3"]),
        (built(|w| w.version = 0x7000_0001), &["GGUF version 1879048193"]),
        (small().finish()[..20].to_vec(), &["metadata count at byte 16", "the file ends here"]),
        (patched("GGUF", 4, huge), &["tensor count", "18446744073709551615"]),
        (patched("GGUF", 12, huge), &["metadata count", "18446744073709551615"]),
        (patched("uint", 0, &[13, 0, 0, 0]), &["metadata uint", "13 is not a value type"]),
        (patched("general.architecture", 4, huge), &["metadata general.architecture", "cannot fit"]),
        (patched("strings", 8, huge), &["metadata strings", "cannot fit"]),
        (patched("bool", 4, &[2]), &["metadata bool", "2 is not a boolean"]),
        (
            patched("general.architecture", 12, &[0xff]),
            &["metadata general.architecture at byte 64", "UTF-8"],
        ),
        (built(|w| w.pairs.push(("uint".into(), Value::Uint(1)))), &["metadata uint at byte", "twice"]),
        (built(|w| w.set("deep", nested(4))), &["metadata deep", "nested deeper than 4"]),
        (built(|w| w.uint("general.alignment", 0)), &["general.alignment", "power of two"]),
        (built(|w| w.uint("general.alignment", 24)), &["general.alignment", "power of two"]),
        (built(|w| w.str("general.alignment", "x")), &["general.alignment", "found a string"]),
        (built(|w| w.tensors[1].0 = "a".into()), &["tensor a at byte", "twice"]),
        (built(|w| w.tensors[0].0 = "n".repeat(257)), &["name of tensor 0 at byte", "257", "limit of 256"]),
        (built(|w| w.tensors[0].1 = vec![]), &["tensor a at byte", "0 dimensions"]),
        (built(|w| w.tensors[0].1 = vec![1; 5]), &["tensor a at byte", "5 dimensions"]),
        (built(|w| w.tensors[0].1 = vec![8, 0]), &["tensor a at byte", "impossible dimensions [8, 0]"]),
        (built(|w| w.tensors[0].1 = vec![1 << 40, 1 << 40]), &["tensor a at byte", "impossible dimensions"]),
        (built(|w| w.tensors[0].1 = vec![1 << 62]), &["tensor a at byte", "impossible dimensions"]),
        (built(|w| w.tensors[1].1 = vec![16, 2]), &["tensor b at byte", "not whole blocks of Q4_0 (32)"]),
        (built(|w| w.tensors[1].1 = vec![64]), &["tensor b: its 36 bytes at", "outside the file"]),
        (overlapping(), &["tensor b: its data at byte", "overlaps that of a"]),
        (unaligned(), &["tensor b at byte", "its offset 72 is not a multiple of the alignment 32"]),
    ];
    for (i, (bytes, parts)) in table.iter().enumerate() {
        let sources = [parse(bytes), Gguf::from_reader(Box::new(Cursor::new(bytes.clone())))];
        for result in sources {
            let error = result.expect_err(&format!("case {i} {parts:?}"));
            assert!(
                matches!(error, Error::BadModel { .. } | Error::UnsupportedModel { .. }),
                "case {i}: {error:?}"
            );
            for part in *parts {
                assert!(error.to_string().contains(part), "case {i}: {error} does not say {part:?}");
            }
        }
    }
}

#[test]
fn a_type_that_nobody_knows_can_be_listed_but_not_read() {
    let g = parse(&built(|w| w.tensors[0].2 = 99)).unwrap();
    assert_eq!(g.tensor("a").unwrap().type_name(), "type 99");
    let error = g.read("a").unwrap_err().to_string();
    assert!(error.contains("tensor a") && error.contains("type 99"), "{error}");
    assert!(g.fingerprint().is_ok());
}

#[test]
fn paths_that_are_no_model_say_what_to_do() {
    let dir = env!("CARGO_MANIFEST_DIR");
    let cases = [(format!("{dir}/none.gguf"), "no such file"), (dir.to_string(), "is a directory")];
    for (path, expected) in cases {
        let error = Gguf::open(Path::new(&path), false).unwrap_err();
        assert!(matches!(error, Error::ModelIo { .. }), "{error:?}");
        assert!(error.to_string().contains(&path) && error.to_string().contains(expected), "{error}");
    }
}

/// A reader that counts its calls.
struct Counting(Cursor<Vec<u8>>, std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl std::io::Read for Counting {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0.read(out)
    }
}

impl std::io::Seek for Counting {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn the_header_is_read_in_few_calls() {
    let calls = std::sync::Arc::default();
    let reader = Counting(Cursor::new(std::fs::read(fixture()).unwrap()), std::sync::Arc::clone(&calls));
    Gguf::from_reader(Box::new(reader)).unwrap();
    let calls = calls.load(std::sync::atomic::Ordering::Relaxed);
    assert!(calls <= 3, "{calls} calls for a header of 30 kB");
}
