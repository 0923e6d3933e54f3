//! Files from the Hugging Face hub or a mirror of it.

mod http;
#[cfg(test)]
mod tests;

use crate::progress::Progress;
use http::{failed, header, Client, Method};
use lean_engine::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Answers that may break off before a download is given up, if none of them brought anything.
const ATTEMPTS: usize = 4;
const BUFFER: usize = 1 << 18;
/// Of a list of files.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// A repository at a revision.
pub struct Hub {
    client: Client,
    endpoint: String,
    repo: String,
    revision: String,
}

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemoteFile {
    pub path: String,
    pub bytes: u64,
}

/// A file that was fetched, or was there already.
#[derive(Debug, PartialEq, Serialize)]
pub struct Pulled {
    pub path: PathBuf,
    pub bytes: u64,
    /// `None` where the hub does not say it (files outside of its large-file storage).
    pub sha256: Option<String>,
    /// Bytes that an earlier call had fetched.
    pub resumed: u64,
}

/// What the hub says about a file.
struct Described {
    bytes: u64,
    sha256: Option<String>,
    /// Distinguishes versions of the file.
    version: String,
}

#[derive(Deserialize)]
struct TreeEntry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
}

impl Hub {
    /// `repo` is `owner/name`.
    pub fn new(endpoint: &str, token: Option<String>, repo: &str, revision: &str) -> Result<Self> {
        let plain = |part: &str| {
            let ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
            !part.is_empty() && part != "." && part != ".." && part.bytes().all(ok)
        };
        if repo.split('/').count() != 2 || !repo.split('/').all(plain) {
            return Err(Error::invalid("REPO", format_args!("{repo:?} is not of the form owner/name")));
        }
        let endpoint = endpoint.trim_end_matches('/').to_string();
        Ok(Hub {
            client: Client::new(&endpoint, token)?,
            endpoint,
            repo: repo.into(),
            revision: encode(revision, false),
        })
    }

    /// The files of the repository, by path.
    pub fn files(&self) -> Result<Vec<RemoteFile>> {
        let url = format!("{}/api/models/{}/tree/{}?recursive=true", self.endpoint, self.repo, self.revision);
        let answer = self.client.request(Method::Get, &url, 0)?;
        let mut text = Vec::new();
        let mut body = answer.into_body().into_reader().take(MAX_LIST_BYTES);
        body.read_to_end(&mut text).map_err(|e| failed(&url, e))?;
        let entries: Vec<TreeEntry> = serde_json::from_slice(&text)
            .map_err(|e| failed(&url, format_args!("the answer is no list of files: {e}")))?;
        let files = entries.into_iter().filter(|e| e.kind == "file");
        let mut files: Vec<_> = files.map(|e| RemoteFile { path: e.path, bytes: e.size }).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// Fetches a file into a folder, under the last part of its path. A part that an earlier call left is gone on
    /// with; the file gets its name once it is whole and its digest is right.
    pub fn pull(&self, file: &str, dir: &Path) -> Result<Pulled> {
        let name =
            file.rsplit('/').next().filter(|n| !n.is_empty() && *n != ".." && *n != "." && !n.contains('\\'));
        let name = name.ok_or_else(|| Error::invalid("FILE", format_args!("{file:?} names no file")))?;
        let url = format!("{}/{}/resolve/{}/{}", self.endpoint, self.repo, self.revision, encode(file, true));
        let described = self.describe(&url)?;
        fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
        let path = dir.join(name);
        if let Some(pulled) = already_there(&path, &described)? {
            return Ok(pulled);
        }
        let part = dir.join(format!("{name}.{}.part", described.version));
        let (resumed, digest) = self.fetch(&url, &part, &described)?;
        if described.sha256.as_ref().is_some_and(|want| *want != digest) {
            // What is wrong would stay wrong.
            let _ = fs::remove_file(&part);
            let reason = format!("its SHA-256 is {digest}, the hub says {}", described.version_or_digest());
            return Err(Error::bad_model(url, reason));
        }
        fs::rename(&part, &path).map_err(|e| Error::io(&path, e))?;
        Ok(Pulled { path, bytes: described.bytes, sha256: described.sha256, resumed })
    }

    /// Size and digest, without the file.
    fn describe(&self, url: &str) -> Result<Described> {
        let answer = self.client.request(Method::Head, url, 0)?;
        let linked = header(&answer, "x-linked-etag");
        let etag = linked.or(header(&answer, "etag")).unwrap_or_default();
        let etag = etag.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
        let size = header(&answer, "x-linked-size").or(header(&answer, "content-length"));
        let bytes = size
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| failed(url, "the server does not say its size"))?;
        // Large files have their SHA-256 for a tag, small ones a hash of git's.
        let is_sha256 = etag.len() == 64 && etag.bytes().all(|b| b.is_ascii_hexdigit());
        let version: String = etag.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let version = if version.is_empty() { "unknown".into() } else { version };
        Ok(Described { bytes, sha256: is_sha256.then_some(etag), version })
    }

    /// Completes the part; returns what was there before, and the digest of the whole.
    fn fetch(&self, url: &str, part: &Path, described: &Described) -> Result<(u64, String)> {
        let open = File::options().read(true).write(true).create(true).truncate(false).open(part);
        let mut file = open.map_err(|e| Error::io(part, e))?;
        if file.try_lock().is_err() {
            return Err(Error::Busy {
                what: format!("{} is being fetched by another process", part.display()),
            });
        }
        let (mut hash, mut have) = (Sha256::new(), 0);
        hash_file(&mut file, part, &mut hash, &mut have)?;
        if have > described.bytes {
            restart(&mut file, part, &mut hash, &mut have)?;
        }
        let resumed = have;
        let mut progress = Progress::new("fetching", described.bytes);
        progress.add(have);
        let mut left = ATTEMPTS;
        while have < described.bytes {
            let before = have;
            let broken =
                self.transfer(url, part, described.bytes, &mut file, &mut hash, &mut have, &mut progress)?;
            left = if have > before { ATTEMPTS } else { left - 1 };
            if let (Some(reason), 0) = (broken, left) {
                let reason = format!(
                    "{reason} at {have} of {} bytes; run it again to go on from there",
                    described.bytes
                );
                return Err(failed(url, reason));
            }
        }
        file.sync_all().map_err(|e| Error::io(part, e))?;
        let digest = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        Ok((resumed, digest))
    }

    /// One answer, to its end or to where it breaks off; then why.
    #[allow(clippy::too_many_arguments)]
    fn transfer(
        &self,
        url: &str,
        part: &Path,
        total: u64,
        file: &mut File,
        hash: &mut Sha256,
        have: &mut u64,
        progress: &mut Progress,
    ) -> Result<Option<String>> {
        let answer = self.client.request(Method::Get, url, *have)?;
        let start = match answer.status().as_u16() {
            206 => content_range_start(header(&answer, "content-range")),
            200 => Some(0),
            _ => None,
        };
        if start != Some(*have) {
            // The server does not go on from there.
            restart(file, part, hash, have)?;
            if start != Some(0) {
                return Ok(Some("the server answered with another range".into()));
            }
        }
        let mut body = answer.into_body().into_reader();
        let mut buffer = vec![0; BUFFER];
        while *have < total {
            let most = (total - *have).min(BUFFER as u64) as usize;
            let n = match body.read(&mut buffer[..most]) {
                Ok(0) => return Ok(Some("the answer ended early".into())),
                Ok(n) => n,
                Err(e) => return Ok(Some(format!("the connection broke ({e})"))),
            };
            file.write_all(&buffer[..n]).map_err(|e| Error::io(part, e))?;
            hash.update(&buffer[..n]);
            *have += n as u64;
            progress.add(n as u64);
        }
        Ok(None)
    }
}

impl Described {
    fn version_or_digest(&self) -> &str {
        self.sha256.as_deref().unwrap_or(&self.version)
    }
}

/// The file itself, if it is there and right.
fn already_there(path: &Path, described: &Described) -> Result<Option<Pulled>> {
    let Ok(mut file) = File::open(path) else { return Ok(None) };
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    hash_file(&mut file, path, &mut hash, &mut bytes)?;
    let digest: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    if bytes != described.bytes || described.sha256.as_ref().is_some_and(|want| *want != digest) {
        let reason = "is there already, and is another file than the hub's; remove it, or choose another folder with --dir";
        return Err(Error::io(path, reason));
    }
    Ok(Some(Pulled { path: path.into(), bytes, sha256: described.sha256.clone(), resumed: bytes }))
}

fn hash_file(file: &mut File, path: &Path, hash: &mut Sha256, bytes: &mut u64) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = file.read(&mut buffer).map_err(|e| Error::io(path, e))?;
        if n == 0 {
            return Ok(());
        }
        hash.update(&buffer[..n]);
        *bytes += n as u64;
    }
}

fn restart(file: &mut File, part: &Path, hash: &mut Sha256, have: &mut u64) -> Result<()> {
    let emptied = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
    emptied.map_err(|e| Error::io(part, e))?;
    (*hash, *have) = (Sha256::new(), 0);
    Ok(())
}

/// The first byte of `bytes 5-9/10`.
fn content_range_start(value: Option<&str>) -> Option<u64> {
    value?.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}

/// Percent-encodes what may not stand in a path.
fn encode(text: &str, keep_slashes: bool) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b) || (keep_slashes && b == b'/');
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
