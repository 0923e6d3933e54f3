//! Adapters of a model and of its sessions.

use super::model::Model;
use super::session::Session;
use crate::adapter::{Adapter, Adapters};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::files;
use crate::gguf::Gguf;
use std::path::Path;
use std::sync::Arc;

impl Model {
    /// Reads a LoRA adapter: a `.gguf` file as llama.cpp writes them, or PEFT's folder (or the `.safetensors` file
    /// in it) with `adapter_config.json` and `adapter_model.safetensors`. Nothing of the model changes; sessions
    /// use it from [`Session::set_adapters`] on. It lives as long as somebody holds it.
    ///
    /// # Errors
    /// [`Error::BadModel`] and [`Error::UnsupportedModel`] name the tensor or setting that is damaged, does not
    /// fit this model, or is not supported; [`Error::Io`] and [`Error::ModelIo`] the file that cannot be read.
    pub fn load_adapter(&self, path: impl AsRef<Path>) -> Result<Adapter> {
        let path = path.as_ref();
        let named = |p: &Path| {
            p.file_stem().map_or_else(|| "adapter".to_string(), |s| s.to_string_lossy().into_owned())
        };
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let (folder, weights) = match extension.as_deref() {
            Some("gguf") => return self.gguf_adapter(&named(path), &Gguf::open(path, false)?),
            Some("safetensors") => (path.parent().unwrap_or(Path::new("")), path.to_path_buf()),
            _ => (path, path.join("adapter_model.safetensors")),
        };
        let config = files::read(&folder.join("adapter_config.json"), MAX_CONFIG)?;
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| named(path));
        self.peft_adapter(&name, &config, &files::read(&weights, u64::MAX)?)
    }

    /// A GGUF adapter from its bytes; `name` is for people.
    ///
    /// # Errors
    /// As [`Model::load_adapter`].
    pub fn load_adapter_gguf(&self, name: &str, bytes: impl Into<Arc<[u8]>>) -> Result<Adapter> {
        self.gguf_adapter(name, &Gguf::from_bytes(bytes.into())?)
    }

    /// A PEFT adapter from the bytes of its `adapter_config.json` and `adapter_model.safetensors`.
    ///
    /// # Errors
    /// As [`Model::load_adapter`].
    pub fn load_adapter_peft(&self, name: &str, config: &[u8], weights: &[u8]) -> Result<Adapter> {
        self.peft_adapter(name, config, weights)
    }

    fn gguf_adapter(&self, name: &str, gguf: &Gguf) -> Result<Adapter> {
        let adapter = Adapter::from_gguf(name, gguf, &self.0.info.architecture, &self.0.targets)?;
        self.0.adapters.add(&adapter);
        Ok(adapter)
    }

    fn peft_adapter(&self, name: &str, config: &[u8], weights: &[u8]) -> Result<Adapter> {
        let adapter = Adapter::from_peft(name, config, weights, &self.0.targets)?;
        self.0.adapters.add(&adapter);
        Ok(adapter)
    }
}

/// Real ones have a kilobyte or two.
const MAX_CONFIG: u64 = 1 << 20;

impl Session {
    /// Makes the session run with these adapters, each with a scale (1 is what it was trained for), and none but
    /// these: an empty list takes all away. The model is not loaded again; the session's tokens are run again.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an adapter that another model loaded or a scale that is not finite;
    /// [`Error::Device`] where the backend runs no adapters.
    pub fn set_adapters(&mut self, adapters: &[(Adapter, f32)]) -> Result<()> {
        self.set_adapters_with(adapters, &CancelToken::new(), |_, _| {})
    }

    /// The same, cancellable, with progress in tokens (done, total).
    pub fn set_adapters_with(
        &mut self,
        adapters: &[(Adapter, f32)],
        cancel: &CancelToken,
        progress: impl FnMut(usize, usize),
    ) -> Result<()> {
        for (adapter, _) in adapters {
            if !self.model.0.adapters.has(adapter) {
                let reason = format!("{} was loaded by another model", adapter.info().name);
                return Err(Error::invalid("adapter", reason));
            }
        }
        let adapters = Adapters::new(adapters)?;
        if adapters.fingerprint() == self.seq.adapters().fingerprint() {
            return Ok(());
        }
        let mut seq = self.model.0.sequence(self.seq.capacity)?;
        seq.adapt(adapters)?;
        if self.seq.tokens.is_empty() {
            self.seq = seq;
            return Ok(());
        }
        let seq = self.extend(seq, self.seq.tokens.clone())?;
        self.replace(seq, cancel, progress)
    }

    /// The adapters it runs with, and their scales.
    pub fn adapters(&self) -> &[(Adapter, f32)] {
        self.seq.adapters().list()
    }
}
