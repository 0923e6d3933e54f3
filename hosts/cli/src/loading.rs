//! Loading a model with progress on a terminal.

use crate::args::DeviceArgs;
use crate::interrupt;
use lean_engine::{BackendChoice, Error, LoadOptions, Model, Result};
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Loads a model where the arguments say.
pub fn load(path: &Path, device: &DeviceArgs) -> Result<Model> {
    // Who names an adapter wants it used.
    let backend = match (device.backend.into(), &device.adapter) {
        (BackendChoice::Auto, Some(_)) => BackendChoice::Gpu,
        (BackendChoice::Cpu, Some(_)) => {
            return Err(Error::invalid("--adapter", "names a GPU, and --backend cpu uses none"))
        }
        (backend, _) => backend,
    };
    let terminal = std::io::stderr().is_terminal();
    let mut shown = u64::MAX;
    let progress = move |done: u64, total: u64| {
        let percent = done * 100 / total.max(1);
        if terminal && percent != shown {
            shown = percent;
            // Erased when done, so that only the result stays on the screen.
            let line =
                if done >= total { "\r\x1b[K".to_string() } else { format!("\rloading {percent:3} %") };
            let _ = write!(std::io::stderr(), "{line}");
        }
    };
    let model = Model::load(
        path,
        LoadOptions {
            backend,
            threads: device.threads,
            mmap: device.mmap,
            portable: device.portable,
            kv: device.kv,
            adapter: device.adapter.clone(),
            allow_software_gpu: device.adapter.is_some(),
            progress: Some(Box::new(progress)),
            cancel: interrupt::token(),
            ..LoadOptions::default()
        },
    );
    interrupt::release();
    model
}
