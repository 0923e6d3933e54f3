//! CHECKPOINT_SAVE, CHECKPOINT_LOAD with its chunks, CHECKPOINT_DROP.

use super::{document, document_of, only};
use crate::connection::{Agreed, Answer, Inner, Job};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::port::{Checkpoint, Given};
use crate::request::{How, Request, Upload};
use lean_engine::{Error, Restore, Restored};
use lean_protocol::{crc32, messages as m, Flags, Frame, CHUNK_BYTES};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Room left in a frame for a chunk's head.
const CHUNK_HEAD_BYTES: usize = 32;

/// Keeps a checkpoint and answers its handle.
pub(super) fn keep(job: &Job, checkpoint: Arc<dyn Checkpoint>, tail: Vec<u8>) -> Outcome<Answer> {
    let tokens = checkpoint.tokens() as u32;
    let checkpoint = job.inner.tables.checkpoints.insert(checkpoint)?;
    Ok(job.answer(&m::Checkpoint { checkpoint, tokens }, tail))
}

pub(crate) async fn save(job: &Job, save: m::CheckpointSave) -> Outcome<Answer> {
    let doc = document(job)?;
    only(&doc, &["compress", "parent"])?;
    let compress = match doc.get("compress") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(compress)) => *compress,
        Some(_) => return Err(Error::invalid("compress", "true or false").into()),
    };
    let parent = parent(job, parent_handle(&doc)?)?;
    let checkpoint = job.inner.tables.checkpoints.get(save.checkpoint)?;
    let bytes = checkpoint.to_bytes_with(compress, parent.as_deref())?;
    job.request.cancel.check()?;
    match save.path {
        Some(path) => files::write_atomically(Path::new(&path), &bytes)?,
        None => {
            let piece = CHUNK_BYTES.min(job.agreed.max_frame as usize - CHUNK_HEAD_BYTES);
            for (i, chunk) in bytes.chunks(piece).enumerate() {
                job.event_in_turn(&m::Chunk { offset: (i * piece) as u64, digest: None }, chunk).await?;
            }
        }
    }
    Ok(job.answer(&m::Saved { size: bytes.len() as u64, digest: crc32::crc32(&bytes) }, Vec::new()))
}

pub(crate) fn load_file(job: &Job, load: m::CheckpointLoad) -> Outcome<Answer> {
    let how = how(&document(job)?)?;
    let path = load.path.unwrap_or_default();
    job.inner.tables.models.get(load.model)?;
    let bytes = files::read(Path::new(&path))?;
    job.request.cancel.check()?;
    read(job, load.model, &bytes, how)
}

/// What a request says of the bytes.
fn how(doc: &Value) -> Outcome<How> {
    only(doc, &["parent", "restore"])?;
    let restore = match doc.get("restore") {
        None | Some(Value::Null) => None,
        Some(value) => Some(match value.as_str() {
            Some("exact") => Restore::Exact,
            Some("convert") => Restore::Convert,
            Some("reprefill") => Restore::Reprefill,
            _ => return Err(Error::invalid("restore", "one of exact, convert, reprefill").into()),
        }),
    };
    Ok(How { parent: parent_handle(doc)?, restore })
}

fn parent_handle(doc: &Value) -> Outcome<Option<u32>> {
    match doc.get("parent") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|n| u32::try_from(n).ok()) {
            Some(handle) => Ok(Some(handle)),
            None => Err(Error::invalid("parent", "the handle of a checkpoint").into()),
        },
    }
}

fn parent(job: &Job, handle: Option<u32>) -> Outcome<Option<Arc<dyn Checkpoint>>> {
    Ok(match handle {
        Some(handle) => Some(job.inner.tables.checkpoints.get(handle)?),
        None => None,
    })
}

/// Reads a checkpoint and keeps it. A host that says what may be done to it hears what was done.
fn read(job: &Job, model: u32, bytes: &[u8], how: How) -> Outcome<Answer> {
    let model = job.inner.tables.models.get(model)?;
    let parent = parent(job, how.parent)?;
    let policy = how.restore.unwrap_or_default();
    let (checkpoint, restored) = model.checkpoint(Given { bytes, parent: parent.as_deref(), policy })?;
    let said = match restored {
        Restored::Shared | Restored::Imported => "imported",
        Restored::Converted => "converted",
        Restored::Reprefilled => "reprefilled",
    };
    let tail = how.restore.map(|_| serde_json::json!({ "restored": said }).to_string().into_bytes());
    keep(job, checkpoint, tail.unwrap_or_default())
}

/// What an upload is for, from its first frame.
pub(crate) fn upload(model: u32, frame: &Frame) -> Outcome<Upload> {
    Ok(Upload { model, how: how(&document_of(frame)?)?, ..Upload::default() })
}

pub(crate) fn forget(job: &Job, drop: m::CheckpointDrop) -> Outcome<Answer> {
    job.inner.tables.checkpoints.remove(drop.checkpoint)?;
    Ok(job.answer(&m::Ok {}, Vec::new()))
}

/// Takes a chunk of an upload: the copy is all that happens on the submitting thread. A chunk of a request
/// that is no upload (any more) is ignored, since it may have crossed a cancel.
pub(crate) fn upload_chunk(
    inner: &Arc<Inner>,
    request: Arc<Request>,
    chunk: m::Chunk,
    frame: &Frame,
    agreed: Agreed,
) {
    let Some(mut upload) = request.take_upload() else { return };
    if let Err(failure) = add(&mut upload, &chunk, frame.tail()) {
        return inner.finish(&request, Err(failure));
    }
    if !frame.flags.has(Flags::END) {
        return request.set_upload(upload);
    }
    let job = Job {
        inner: inner.clone(),
        request,
        agreed,
        frame: Frame::from_parts(frame.request, frame.kind, frame.flags, b"", b""),
    };
    job.spawn(async move |job: &Job| {
        if chunk.digest != Some(upload.crc) {
            let reason =
                format!("digest {:08x} announced, {:08x} received", chunk.digest.unwrap_or(0), upload.crc);
            return Err(Error::bad_checkpoint("upload", reason).into());
        }
        read(job, upload.model, &upload.bytes, upload.how)
    });
}

fn add(upload: &mut Upload, chunk: &m::Chunk, tail: &[u8]) -> Outcome<()> {
    let have = upload.bytes.len() as u64;
    if chunk.offset != have {
        return Err(Failure::protocol(format!("a chunk at offset {} where {have} was due", chunk.offset)));
    }
    if have + tail.len() as u64 > files::CHECKPOINT_BYTES_MAX {
        return Err(Error::bad_checkpoint("upload", "larger than any checkpoint").into());
    }
    files::reserve(&mut upload.bytes, tail.len())?;
    upload.bytes.extend_from_slice(tail);
    upload.crc = crc32::update(upload.crc, tail);
    Ok(())
}
