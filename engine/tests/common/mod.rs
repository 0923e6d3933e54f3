//! What the integration tests share: the fixture models.
#![allow(dead_code)] // Each test file uses its part.

use lean_engine::{LoadOptions, Model, Request, Session, SessionOptions, Type};
use std::path::PathBuf;

/// Tied llama, SmolLM2's tokenizer family.
pub const LLAMA: &str = "llama-hd64-tied.s1.q4_1";
/// Convolution and attention layers.
pub const LFM2: &str = "lfm2-hd64-tied.s1.q4_0";

pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/models").join(name)
}

pub fn load(name: &str) -> Model {
    load_with(name, LoadOptions { threads: 2, ..Default::default() })
}

pub fn load_with(name: &str, options: LoadOptions) -> Model {
    Model::load(fixture(&format!("{name}.gguf")), options).expect("the fixture model loads")
}

pub fn session(model: &Model) -> Session {
    model.session(SessionOptions::default()).expect("a session opens")
}

/// A request whose value is long enough to be cut in many places.
pub fn sampled(ty: &str, seed: u64) -> Request {
    Request::new(Type::expr(ty).expect("the type is valid")).max_tokens(200).sample(0.9, seed)
}

/// SplitMix64, for reproducible mutations and cut points.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// The names of all fixture models.
pub fn models() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(fixture(""))
        .expect("the folder of fixtures is there")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".gguf")?.to_string()))
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    names
}
