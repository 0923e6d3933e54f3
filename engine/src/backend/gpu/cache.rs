//! Compiled pipelines on disk, where a driver hands them out: a file for each adapter and driver. Whatever is wrong with
//! the file, pipelines are compiled as without it. The twin of `cache_wasm.rs`.

use super::device::scoped;
use crate::files;
use std::hash::Hasher;
use std::path::PathBuf;
use twox_hash::XxHash3_64;

/// The folder of the files; empty for none.
const VARIABLE: &str = "LEAN_PIPELINE_CACHE";
/// What a file begins with, before the hash of the rest.
const MAGIC: &[u8; 8] = b"leanpip1";
/// Of a file; pipelines of all models of a device take a few.
const MOST_BYTES: u64 = 256 << 20;

/// The pipelines of a device.
pub struct Kept {
    cache: Option<wgpu::PipelineCache>,
    path: Option<PathBuf>,
    /// Of what the file held.
    known: Option<u64>,
}

impl Kept {
    /// What an earlier process left for this adapter and driver.
    pub fn open(device: &wgpu::Device, info: &wgpu::AdapterInfo) -> Self {
        let none = Kept { cache: None, path: None, known: None };
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return none;
        }
        let Some(path) = folder().zip(name(info)).map(|(folder, name)| folder.join(name)) else {
            return none;
        };
        let content = files::read(&path, MOST_BYTES).ok();
        let data = content.as_deref().and_then(checked);
        // SAFETY: the data is what `keep` got of a device with the same adapter and driver and wrote into the user's
        // own folder: its hash is right, and wgpu and the driver check their headers.
        let made = scoped(device, 0, "the cache of pipelines", || unsafe {
            device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: Some("lean"),
                data,
                fallback: true,
            })
        });
        Kept { cache: made.ok(), path: Some(path), known: data.map(hash) }
    }

    /// For the pipelines that are made.
    pub fn cache(&self) -> Option<&wgpu::PipelineCache> {
        self.cache.as_ref()
    }

    /// Writes what was compiled, if that is news. That it cannot be written changes nothing.
    pub fn keep(&self) {
        let data = self.cache.as_ref().and_then(wgpu::PipelineCache::get_data);
        let (Some(data), Some(path)) = (data, &self.path) else { return };
        let sum = hash(&data);
        if self.known == Some(sum) || data.len() as u64 > MOST_BYTES / 2 {
            return;
        }
        let mut content = MAGIC.to_vec();
        content.extend(sum.to_le_bytes());
        content.extend(data);
        let folder = path.parent().map(std::fs::create_dir_all);
        if matches!(folder, Some(Ok(()))) {
            let _ = files::write_atomically(path, &content);
        }
    }
}

fn hash(data: &[u8]) -> u64 {
    let mut hasher = XxHash3_64::new();
    hasher.write(data);
    hasher.finish()
}

/// The data of a file that is whole.
fn checked(content: &[u8]) -> Option<&[u8]> {
    let (sum, data) = content.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == hash(data)).then_some(data)
}

/// One for each adapter and driver.
fn name(info: &wgpu::AdapterInfo) -> Option<String> {
    let key = wgpu::util::pipeline_cache_key(info)?;
    let driver = format!("{} {} {}", info.name, info.driver, info.driver_info);
    Some(format!("{key}_{:016x}", hash(driver.as_bytes())))
}

/// The user's folder for what can be made again.
fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if std::env::var_os(VARIABLE).is_some() {
        return absolute(VARIABLE);
    }
    let base = match () {
        () if cfg!(windows) => absolute("LOCALAPPDATA"),
        () if cfg!(target_os = "macos") => absolute("HOME").map(|home| home.join("Library/Caches")),
        () => absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache"))),
    };
    base.map(|base| base.join("lean").join("pipelines"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_files_are_used() {
        let mut file = MAGIC.to_vec();
        file.extend(hash(b"pipelines").to_le_bytes());
        file.extend(b"pipelines");
        assert_eq!(checked(&file), Some(&b"pipelines"[..]));
        for cut in 0..file.len() {
            assert_eq!(checked(&file[..cut]), None, "{cut} bytes");
        }
        for at in 0..file.len() {
            let mut other = file.clone();
            other[at] ^= 4;
            assert_eq!(checked(&other), None, "byte {at}");
        }
    }
}
