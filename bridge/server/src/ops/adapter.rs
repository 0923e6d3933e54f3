//! ADAPTER_LOAD, ADAPTER_DROP, SESSION_ADAPT.

use super::prefill_event;
use super::session::change;
use crate::connection::{Answer, Job};
use crate::failure::Outcome;
use lean_engine::Error;
use lean_protocol::messages as m;

pub(crate) fn load(job: &Job, load: m::AdapterLoad) -> Outcome<Answer> {
    let adapter = job.inner.tables.models.get(load.model)?.load_adapter(&load.path)?;
    let info = adapter.info().to_string().into_bytes();
    let adapter = job.inner.tables.adapters.insert(adapter)?;
    Ok(job.answer(&m::Adapter { adapter }, info))
}

pub(crate) fn forget(job: &Job, drop: m::AdapterDrop) -> Outcome<Answer> {
    job.inner.tables.adapters.remove(drop.adapter)?;
    Ok(job.answer(&m::Ok {}, Vec::new()))
}

pub(crate) async fn adapt(job: &Job, adapt: m::SessionAdapt) -> Outcome<Answer> {
    change(job, adapt.session, |session| {
        let (n, scales) = (adapt.adapters.len(), &adapt.scales);
        if !scales.is_empty() && scales.len() != n {
            return Err(Error::invalid("scales", format!("{} for {n} adapters", scales.len())).into());
        }
        let mut list = Vec::new();
        for (i, handle) in adapt.adapters.iter().enumerate() {
            list.push((job.inner.tables.adapters.get(*handle)?, scales.get(i).copied().unwrap_or(1.0)));
        }
        let mut on_prefill = |done, total| prefill_event(job, done, total);
        Ok(session.adapt(&list, &job.request.cancel, &mut on_prefill)?)
    })
    .await
}
