//! The requests, by what they are about.

pub(crate) mod adapter;
pub(crate) mod checkpoint;
pub(crate) mod generate;
pub(crate) mod model;
pub(crate) mod session;
mod tools;

use crate::connection::Job;
use crate::failure::Outcome;
use lean_engine::Error;
use lean_protocol::messages as m;
use lean_protocol::Frame;
use serde_json::Value;

/// The request's JSON tail; an empty one is an empty object.
fn document(job: &Job) -> Outcome<Value> {
    document_of(&job.frame)
}

fn document_of(frame: &Frame) -> Outcome<Value> {
    let tail = frame.tail();
    if tail.is_empty() {
        return Ok(Value::Object(Default::default()));
    }
    let v = lean_protocol::json::parse(tail)?;
    if v.is_object() {
        Ok(v)
    } else {
        Err(Error::invalid("tail", "it must be a JSON object").into())
    }
}

/// Refuses members that nobody would read: a misspelt option must not pass silently.
fn only(document: &Value, known: &[&str]) -> Outcome<()> {
    let unknown = document.as_object().and_then(|o| o.keys().find(|k| !known.contains(&k.as_str())));
    match unknown {
        Some(k) => Err(Error::invalid(k, format!("unknown member; known are {}", known.join(", "))).into()),
        None => Ok(()),
    }
}

/// Sends a PREFILL event; parks while there is no credit.
fn prefill_event(job: &Job, done: usize, total: usize) -> Result<(), Error> {
    job.event(&m::Prefill { done: done as u32, total: total as u32 }, b"")
}
