//! The part of `lean bench` about checkpoints: what forking, saving and loading a context cost.

use super::bench::ids;
use lean_engine::{Block, Checkpoint, Error, Model, Restore, Result, SaveOptions, SessionOptions};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Medians, in seconds and bytes.
#[derive(Serialize)]
pub struct CheckpointTimes {
    /// Tokens of the context.
    pub tokens: usize,
    /// What the same context costs without a checkpoint.
    pub prefill_seconds: f64,
    /// A checkpoint in memory.
    pub take_seconds: f64,
    /// A second session with the same content.
    pub fork_seconds: f64,
    /// To a new file.
    pub save_seconds: f64,
    /// From the file, checksums checked, and restored into a session.
    pub load_seconds: f64,
    /// The first logits after that.
    pub first_token_seconds: f64,
    /// The next ones, to compare.
    pub decode_seconds: f64,
    pub state_bytes: u64,
    pub file_bytes: u64,
    pub compressed_bytes: u64,
}

/// Measures a context of `tokens` tokens.
pub fn measure(model: &Model, tokens: usize, runs: usize) -> Result<CheckpointTimes> {
    let folder = Folder::new()?;
    let mut session = model.session(SessionOptions::default())?;
    let start = Instant::now();
    session.append(&[Block::Tokens(ids(model, tokens))])?;
    let prefill_seconds = start.elapsed().as_secs_f64();
    let cp = session.checkpoint()?;
    let mut all: [Vec<f64>; 6] = Default::default();
    for run in 0..runs.max(5) {
        let path = folder.0.join(format!("{run}.ckpt"));
        let mut timed = |i: usize, start: Instant| all[i].push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        drop(session.checkpoint()?);
        timed(0, start);
        let start = Instant::now();
        drop(session.fork()?);
        timed(1, start);
        let start = Instant::now();
        cp.save(&path)?;
        timed(2, start);
        let start = Instant::now();
        let mut restored = model.restore(&Checkpoint::load(&path)?, Restore::Exact)?;
        timed(3, start);
        let start = Instant::now();
        restored.forward(&[])?;
        timed(4, start);
        let start = Instant::now();
        restored.forward(&ids(model, 1))?;
        timed(5, start);
    }
    let [take, fork, save, load, first, decode] = all.map(super::bench::median);
    Ok(CheckpointTimes {
        tokens,
        prefill_seconds,
        take_seconds: take,
        fork_seconds: fork,
        save_seconds: save,
        load_seconds: load,
        first_token_seconds: first,
        decode_seconds: decode,
        state_bytes: cp.info()?.state_bytes,
        file_bytes: cp.to_bytes()?.len() as u64,
        compressed_bytes: cp.to_bytes_with(&SaveOptions { compress: true, parent: None })?.len() as u64,
    })
}

/// A folder that goes away with the measurement.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("lean-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, e))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl CheckpointTimes {
    /// Rows for people: what, and how long or how much.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |a: String, b: String| vec![a, b];
        let ms = |s: f64| format!("{:.2} ms", s * 1e3);
        let mb = crate::table::megabytes;
        vec![
            row(
                format!("checkpoint of {} tokens", self.tokens),
                format!("{:.1} us", self.take_seconds * 1e6),
            ),
            row("  fork".into(), format!("{:.1} us", self.fork_seconds * 1e6)),
            row("  save to a file".into(), format!("{}, {}", ms(self.save_seconds), mb(self.file_bytes))),
            row("  compressed".into(), mb(self.compressed_bytes)),
            row("  load and restore".into(), ms(self.load_seconds)),
            row("  first token after it".into(), ms(self.first_token_seconds)),
            row("  a decode step".into(), ms(self.decode_seconds)),
            row("  prefill instead".into(), ms(self.prefill_seconds)),
        ]
    }
}
