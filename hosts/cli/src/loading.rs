//! Loading a model with progress on a terminal.

use crate::args::DeviceArgs;
use crate::interrupt;
use crate::progress::Progress;
use lean_engine::{BackendChoice, Error, LoadOptions, Model, Result};
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
    // Erased once loading has ended, so that only the result stays on the screen.
    let mut progress = Progress::new("loading", 0);
    let model = Model::load(
        path,
        LoadOptions {
            backend,
            threads: device.threads,
            mmap: device.mmap,
            portable: device.portable,
            kv: device.kv,
            precision: device.precision,
            adapter: device.adapter.clone(),
            allow_software_gpu: device.adapter.is_some(),
            progress: Some(Box::new(move |done, total| progress.at(done, total))),
            cancel: interrupt::token(),
            ..LoadOptions::default()
        },
    );
    interrupt::release();
    model.map_err(|e| e.of_file(path))
}
