//! `lean inspect`: metadata, tensor table and the memory that a model needs.

use crate::args::{named, InspectArgs};
use crate::output;
use crate::table::{self, megabytes};
use lean_engine::gguf::{Gguf, TensorInfo, Value};
use lean_engine::{ModelPlan, Result};
use serde_json::json;
use std::process::ExitCode;

/// Longer metadata is shown by its beginning.
const SHOWN_CHARS: usize = 60;

pub fn run(args: &InspectArgs) -> Result<ExitCode> {
    let path = named(&args.file, &args.model)?;
    let gguf = Gguf::open(path, false)?;
    // A model that cannot be run can still be looked at.
    let plan = ModelPlan::new(&gguf);
    if args.json {
        output::line(as_json(&gguf, &plan))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (version, size) = (gguf.version, megabytes(gguf.file_bytes));
    output::line(format_args!("{}: GGUF version {version}, {size}\n", path.display()))?;
    let pairs = gguf.metadata.pairs.iter().map(|(key, value)| vec![shown(key), short(value)]);
    table::print(&std::iter::once(vec!["key".into(), "value".into()]).chain(pairs).collect::<Vec<_>>())?;
    output::line("")?;
    let header = ["tensor", "type", "shape", "bytes"].map(String::from).to_vec();
    let tensors =
        gguf.tensors.values().map(|t| vec![shown(&t.name), type_name(t), shape(t), t.bytes.to_string()]);
    table::print(&std::iter::once(header).chain(tensors).collect::<Vec<_>>())?;
    output::line("")?;
    match plan {
        Ok(plan) => print_memory(&plan)?,
        Err(error) => output::line(format_args!("This model cannot be run: {error}"))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_memory(plan: &ModelPlan) -> Result<()> {
    let per_token = plan.state_bytes_per_token;
    let millions = plan.parameters as f64 / 1e6;
    output::line(format_args!("{} {}: {millions:.1} M parameters", plan.architecture, plan.name))?;
    output::line(format_args!("memory: {} of weights", megabytes(plan.weight_bytes)))?;
    for tokens in [1024, 4096, plan.context_length as u64] {
        let state = megabytes(per_token.saturating_mul(tokens));
        output::line(format_args!("      + {state} of state for {tokens} tokens"))?;
    }
    Ok(())
}

fn type_name(tensor: &TensorInfo) -> String {
    match tensor.dtype {
        Some(dtype) => dtype.to_string(),
        None => format!("{} (not supported)", tensor.type_name()),
    }
}

fn shape(tensor: &TensorInfo) -> String {
    tensor.dims.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}

/// A name from the file without what would steer the terminal.
fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}

fn short(value: &Value) -> String {
    let (text, count) = match value {
        Value::Uint(x) => (x.to_string(), None),
        Value::Int(x) => (x.to_string(), None),
        Value::Float(x) => (x.to_string(), None),
        Value::Bool(x) => (x.to_string(), None),
        Value::String(x) => (format!("{x:?}"), None),
        Value::Strings(x) => (first(x), Some(x.len())),
        Value::Uints(x) => (first(x), Some(x.len())),
        Value::Ints(x) => (first(x), Some(x.len())),
        Value::Floats(x) => (first(x), Some(x.len())),
        Value::Bools(x) => (first(x), Some(x.len())),
        Value::Arrays(x) => (first(x), Some(x.len())),
    };
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if text.chars().count() > SHOWN_CHARS {
        shown.push_str("...");
    }
    match count {
        Some(n) => format!("[{shown}] ({n})"),
        None => shown,
    }
}

fn first<T: std::fmt::Debug>(items: &[T]) -> String {
    let shown: Vec<String> = items.iter().take(6).map(|x| format!("{x:?}")).collect();
    format!("{}{}", shown.join(", "), if items.len() > 6 { ", ..." } else { "" })
}

fn as_json(gguf: &Gguf, plan: &Result<ModelPlan>) -> serde_json::Value {
    let metadata: serde_json::Map<_, _> =
        gguf.metadata.pairs.iter().map(|(k, v)| (k.clone(), value_json(v))).collect();
    let tensors: Vec<_> = gguf
        .tensors
        .values()
        .map(|t| json!({"name": t.name, "type": type_name(t), "shape": t.dims, "offset": t.offset, "bytes": t.bytes}))
        .collect();
    let plan = match plan {
        Ok(plan) => json!(plan),
        Err(error) => json!({"error": error.to_string(), "code": error.code()}),
    };
    json!({"version": gguf.version, "file_bytes": gguf.file_bytes, "metadata": metadata, "tensors": tensors, "plan": plan})
}

/// Whole values, except that long arrays (the vocabulary) are given by their length.
fn value_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Uint(x) => json!(x),
        Value::Int(x) => json!(x),
        Value::Float(x) => json!(x),
        Value::Bool(x) => json!(x),
        Value::String(x) => json!(x),
        Value::Strings(x) if x.len() > 64 => json!({"strings": x.len()}),
        Value::Strings(x) => json!(x),
        Value::Uints(x) if x.len() > 64 => json!({"integers": x.len()}),
        Value::Uints(x) => json!(x),
        Value::Ints(x) if x.len() > 64 => json!({"integers": x.len()}),
        Value::Ints(x) => json!(x),
        Value::Floats(x) if x.len() > 64 => json!({"numbers": x.len()}),
        Value::Floats(x) => json!(x),
        Value::Bools(x) => json!(x),
        Value::Arrays(x) => json!(x.iter().map(value_json).collect::<Vec<_>>()),
    }
}
