//! LOAD, UNLOAD, MODEL_INFO.

use super::{document, only};
use crate::connection::{Answer, Job};
use crate::failure::Outcome;
use crate::port::LoadSpec;
use lean_engine::Error;
use lean_protocol::messages as m;
use serde_json::Value;

/// Progress events of one load, at most: a bar needs no more.
const PROGRESS_STEPS: u64 = 64;

pub(crate) async fn load(job: &Job, load: m::Load) -> Outcome<Answer> {
    let doc = document(job)?;
    only(&doc, &["kv", "precision"])?;
    let text = |key: &str, among: &str| match doc.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Error::invalid(key, among)),
    };
    let spec = LoadSpec {
        path: load.path,
        backend: load.backend,
        threads: load.threads.map(|n| n as usize),
        context: load.context.map(|n| n as usize),
        kv: text("kv", "f32, f24, f16 or q8_0")?,
        precision: text("precision", "exact or fast")?,
    };
    let mut last = None;
    let mut on_progress = |done: u64, total: u64| {
        job.request.cancel.check()?;
        let step = done.saturating_mul(PROGRESS_STEPS) / total.max(1);
        if load.progress && last != Some(step) {
            last = Some(step);
            job.event(&m::Progress { done, total }, b"")?;
        }
        Ok(())
    };
    let model = job.inner.host.load(&spec, &mut on_progress, &job.request.cancel)?;
    job.sent().await?;
    job.request.cancel.check()?;
    let info = model.info().to_string().into_bytes();
    let model = job.inner.tables.models.insert(model)?;
    Ok(job.answer(&m::Loaded { model }, info))
}

pub(crate) fn unload(job: &Job, unload: m::Unload) -> Outcome<Answer> {
    job.inner.tables.models.remove(unload.model)?;
    Ok(job.answer(&m::Ok {}, Vec::new()))
}

pub(crate) fn info(job: &Job, info: m::ModelInfo) -> Outcome<Answer> {
    let info = job.inner.tables.models.get(info.model)?.info();
    Ok(job.answer(&m::Info {}, info.to_string().into_bytes()))
}

pub(crate) fn stats(job: &Job, stats: m::ModelStats) -> Outcome<Answer> {
    let stats = job.inner.tables.models.get(stats.model)?.stats();
    Ok(job.answer(&m::Info {}, stats.to_string().into_bytes()))
}

pub(crate) fn prefix_cache(job: &Job, cache: m::ModelPrefixCache) -> Outcome<Answer> {
    job.inner.tables.models.get(cache.model)?.set_prefix_cache(cache.bytes);
    Ok(job.answer(&m::Ok {}, Vec::new()))
}
