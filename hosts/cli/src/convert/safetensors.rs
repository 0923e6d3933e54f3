//! The safetensors files of a model folder.

use lean_engine::quant::DType;
use lean_engine::safetensors::{self, MAX_HEADER_BYTES};
use lean_engine::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Files of one model; the largest have about 200.
const MAX_SHARDS: usize = 4096;

/// The tensors of a model folder.
pub struct Weights {
    pub tensors: BTreeMap<String, Entry>,
    files: Vec<(PathBuf, File)>,
}

/// Where a tensor lies.
#[derive(Debug, Clone)]
pub struct Entry {
    file: usize,
    /// Of the data, from the start of the file.
    at: u64,
    /// `None` for a type that is not a float of 16 or 32 bits; `type_name` says which.
    pub dtype: Option<DType>,
    pub type_name: String,
    /// Outermost first.
    pub shape: Vec<u64>,
}

impl Weights {
    /// `model.safetensors`, or the files that `model.safetensors.index.json` names.
    pub fn open(dir: &Path) -> Result<Self> {
        let mut weights = Weights { tensors: BTreeMap::new(), files: Vec::new() };
        for name in shards(dir)? {
            weights.add(&dir.join(name))?;
        }
        Ok(weights)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let bad = |reason: String| Error::bad_model(path.display(), reason);
        let io = |e: std::io::Error| io_error(path, &e);
        let mut file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        let mut length = [0; 8];
        if bytes < 8 {
            return Err(bad(format!("{bytes} bytes are no safetensors file")));
        }
        file.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES || length > bytes - 8 {
            return Err(bad(format!(
                "a header of {length} bytes cannot be; is it a safetensors file, and whole?"
            )));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(io)?;
        let data = 8 + length;
        for (name, found) in safetensors::table(&header, bytes - data).map_err(bad)? {
            let safetensors::Entry { dtype, type_name, shape, range } = found;
            let entry = Entry { file: self.files.len(), at: data + range.start, dtype, type_name, shape };
            if self.tensors.contains_key(&name) {
                return Err(bad(format!("tensor {} is there twice", name.escape_debug())));
            }
            self.tensors.insert(name, entry);
        }
        self.files.push((path.into(), file));
        Ok(())
    }

    /// Fills `out` with a tensor's bytes from byte `from` on; the caller keeps within the tensor.
    pub fn read(&mut self, entry: &Entry, from: u64, out: &mut [u8]) -> Result<()> {
        let (path, file) = &mut self.files[entry.file];
        let read = file.seek(SeekFrom::Start(entry.at + from)).and_then(|_| file.read_exact(out));
        read.map_err(|e| io_error(path, &e))
    }
}

/// Names of the files with the weights.
fn shards(dir: &Path) -> Result<Vec<String>> {
    let index = dir.join("model.safetensors.index.json");
    if !index.is_file() {
        const ONE: &str = "model.safetensors";
        if dir.join(ONE).is_file() {
            return Ok(vec![ONE.into()]);
        }
        let reason = "holds no model.safetensors and no model.safetensors.index.json";
        return Err(Error::bad_model(dir.display(), reason));
    }
    let json = super::read_json(&index)?;
    let bad = |reason: &str| Error::bad_model(index.display(), reason);
    let map = json["weight_map"].as_object().ok_or_else(|| bad("it has no weight_map"))?;
    let mut names = Vec::new();
    for name in map.values() {
        let name = name.as_str().ok_or_else(|| bad("a file in weight_map is no name"))?;
        // A name from the file must not lead out of the folder.
        if name.contains(['/', '\\']) || name == ".." {
            return Err(bad("a file in weight_map is not in the folder"));
        }
        if !names.iter().any(|n| n == name) {
            names.push(name.to_string());
        }
        if names.len() > MAX_SHARDS {
            return Err(bad("it names too many files"));
        }
    }
    names.sort();
    Ok(names)
}

fn io_error(path: &Path, e: &std::io::Error) -> Error {
    Error::ModelIo { path: path.display().to_string(), reason: e.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("lean-safetensors-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
    }

    #[test]
    fn shards_are_read_as_one_model() {
        let dir = folder("shards");
        let one = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let two = r#"{"b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"c":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}}"#;
        std::fs::write(dir.join("1.safetensors"), file(one, &[1, 2, 3, 4, 5, 6, 7, 8])).unwrap();
        std::fs::write(dir.join("2.safetensors"), file(two, &(0..12).collect::<Vec<u8>>())).unwrap();
        let index = r#"{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}}"#;
        std::fs::write(dir.join("model.safetensors.index.json"), index).unwrap();
        let mut weights = Weights::open(&dir).unwrap();
        assert_eq!(weights.tensors.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!((weights.tensors["b"].dtype, weights.tensors["b"].type_name.as_str()), (None, "I64"));
        let c = weights.tensors["c"].clone();
        let mut bytes = [0; 2];
        weights.read(&c, 2, &mut bytes).unwrap();
        assert_eq!((bytes, c.shape), ([10, 11], vec![2, 1]));
        std::fs::write(dir.join("model.safetensors.index.json"), r#"{"weight_map":{"a":"../x"}}"#).unwrap();
        assert!(Weights::open(&dir).err().unwrap().to_string().contains("not in the folder"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn damage_is_refused_in_words() {
        let dir = folder("damage");
        let whole = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let cases: [(Vec<u8>, &str); 7] = [
            (b"short".to_vec(), "5 bytes are no safetensors file"),
            ([u64::MAX.to_le_bytes().as_slice(), b"{}"].concat(), "cannot be"),
            (file("[1]", &[]), "no JSON object"),
            (file(whole, &[0; 7]), "not within the file"),
            (file(&whole.replace("[2]", "[3]"), &[0; 8]), "not a F32 of shape [3]"),
            (
                file(&whole.replace("[2]", "[4294967296,4294967296,4294967296]"), &[0; 8]),
                "not a F32 of shape",
            ),
            (file(&whole.replace("[0,8]", "[8,0]"), &[0; 8]), "not within the file"),
        ];
        for (bytes, expected) in cases {
            std::fs::write(dir.join("model.safetensors"), bytes).unwrap();
            let error = Weights::open(&dir).err().unwrap();
            assert!(error.to_string().contains(expected), "{error} does not say {expected:?}");
        }
        std::fs::remove_file(dir.join("model.safetensors")).unwrap();
        assert!(Weights::open(&dir).err().unwrap().to_string().contains("holds no model.safetensors"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
