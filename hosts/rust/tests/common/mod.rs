//! What the tests share.
#![allow(dead_code)]

use lean_client::{Engine, SpawnOptions};
use std::path::PathBuf;

/// A program that the workspace's build put beside the tests.
pub fn built(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let file = here.ancestors().nth(2).unwrap().join(name);
    assert!(file.is_file(), "{} has to be built: cargo build --workspace", file.display());
    file
}

pub fn options() -> SpawnOptions {
    SpawnOptions { bridge: Some(built("lean-bridge")), ..SpawnOptions::default() }
}

pub fn engine() -> Engine {
    Engine::spawn(options()).unwrap()
}

pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder that is gone with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lean-client-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
