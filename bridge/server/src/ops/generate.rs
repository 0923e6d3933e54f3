//! GENERATE, on a model or on a session.

use super::session::{append_blocks, lock};
use super::{only, tools};
use crate::connection::{Answer, Inner, Job, OPEN_REQUESTS_MAX};
use crate::failure::Outcome;
use crate::groups::{Member, Target};
use crate::port::{Event, Generation, Output, Session};
use crate::request::Request;
use crate::turn;
use lean_engine::{Error, Result};
use lean_protocol::messages as m;
use serde_json::{json, Value};
use std::sync::Arc;

pub(crate) async fn generate(job: &Job, request: m::Generate) -> Outcome<Answer> {
    let (doc, left_out) = tools::document(job.frame.tail())?;
    only(&doc, &["blocks", "type", "options"])?;
    match (request.model, request.session) {
        (Some(model), None) => {
            let model = job.inner.tables.models.get(model)?;
            let start = match request.checkpoint {
                None => model.open(None)?,
                Some(c) => model.restore(&*job.inner.tables.checkpoints.get(c)?, None)?,
            };
            let (output, end) = run(job, &request, start, &doc).await?;
            answer(job, request.keep, output, left_out, end.as_ref())
        }
        (None, Some(session)) if request.checkpoint.is_none() => {
            let slot = job.inner.tables.sessions.get(session)?;
            let mut session = lock(&slot)?;
            // On a fork: whatever goes wrong, the session is as it was.
            let (output, end) = run(job, &request, session.fork()?, &doc).await?;
            let answer = answer(job, request.keep, output, left_out, end.as_ref())?;
            *session = end;
            Ok(answer)
        }
        _ => Err(Error::invalid("model", "either a model (and perhaps a checkpoint) or a session").into()),
    }
}

async fn run(
    job: &Job,
    request: &m::Generate,
    mut session: Box<dyn Session>,
    doc: &Value,
) -> Result<(Output, Box<dyn Session>)> {
    let ty = doc.get("type").filter(|t| !t.is_null());
    let none = json!({});
    let options = doc.get("options").filter(|o| !o.is_null()).unwrap_or(&none);
    if ty.is_none() && *options != none {
        return Err(Error::invalid(
            "options",
            "a value that goes on keeps its own; only a new type takes options",
        ));
    }
    if let Some(ty) = ty {
        // A bad request costs no prefill.
        session.check(ty, options, &job.request.cancel)?;
    }
    append_blocks(job, session.as_mut(), doc, false, &mut |done, total| {
        prefilled(job, request.events, done, total)
    })?;
    let generation = session.generate(ty, options, &job.request.cancel)?;
    complete(job, request.events, generation).await
}

/// A host that saw the last PREFILL may ask for a checkpoint at once: the request waits for the value to begin.
fn prefilled(job: &Job, events: bool, done: usize, total: usize) -> Result<()> {
    if !events {
        return job.request.cancel.check();
    }
    let message = m::Prefill { done: done as u32, total: total as u32 };
    job.event_with(&message, b"", || {
        if done == total {
            job.request.open_takes();
        }
    })
}

async fn complete(
    job: &Job,
    events: bool,
    mut generation: Box<dyn Generation>,
) -> Result<(Output, Box<dyn Session>)> {
    job.sent().await?;
    job.request.open_takes();
    drive(job, events, generation.as_mut()).await?;
    job.sent().await?;
    job.request.cancel.check()?;
    generation.finish()
}

/// Bytes of a PARTIAL beside its path and its value, at most.
const PARTIAL_HEAD: usize = 64;

/// One of several values that are decoded together.
pub(crate) async fn branch(job: &Job, request: m::GenerateBranch) -> Outcome<Answer> {
    let m::GenerateBranch { members, model, session, checkpoint, .. } = request;
    if !(1..=OPEN_REQUESTS_MAX as u32).contains(&members) {
        return Err(Error::invalid("members", format!("1 to {OPEN_REQUESTS_MAX}")).into());
    }
    let tables = &job.inner.tables;
    // The others would wait for one that cannot come.
    let (member, left_out) = member(job).inspect_err(|_| refuse(&job.inner, &request))?;
    let open = || match (model, session) {
        (Some(model), None) => {
            let model = tables.models.get(model)?;
            match checkpoint {
                None => model.open(None),
                Some(c) => model.restore(&*tables.checkpoints.get(c)?, None),
            }
        }
        (None, Some(session)) if checkpoint.is_none() => lock(&*tables.sessions.get(session)?)?.fork(),
        _ => Err(Error::invalid("model", "either a model (and perhaps a checkpoint) or a session")),
    };
    let generation = tables.groups.join(request.group, target(&request), member, open).await?;
    let (output, end) = complete(job, request.events, generation).await?;
    answer(job, request.keep, output, left_out, end.as_ref())
}

fn target(request: &m::GenerateBranch) -> Target {
    let m::GenerateBranch { members, model, session, checkpoint, .. } = *request;
    Target { members, model, session, checkpoint }
}

/// A member that cannot come: its group ends for all.
pub(crate) fn refuse(inner: &Inner, request: &m::GenerateBranch) {
    inner.tables.groups.refuse(request.group, target(request));
}

/// What a branch's document says, and why tools of it were left out.
fn member(job: &Job) -> Outcome<(Member, Vec<String>)> {
    let (doc, left_out) = tools::document(job.frame.tail())?;
    only(&doc, &["blocks", "type", "options"])?;
    let part = |name: &str| doc.get(name).filter(|v| !v.is_null()).cloned();
    let member = Member {
        blocks: part("blocks").unwrap_or_else(|| json!([])),
        ty: part("type").ok_or_else(|| Error::invalid("type", "every branch needs one"))?,
        options: part("options").unwrap_or_else(|| json!({})),
        cancel: job.request.cancel.clone(),
    };
    Ok((member, left_out))
}

/// Pulls events until the value is whole. Credit is waited for *before* the step that earns an event, so a
/// parked generation has computed nothing that the host has not seen, and a checkpoint taken meanwhile holds
/// exactly the tokens sent.
async fn drive(job: &Job, events: bool, generation: &mut dyn Generation) -> Result<()> {
    loop {
        turn::pause().await;
        let mut serve = |take: Arc<Request>| give_checkpoint(job, &take, generation);
        if events {
            job.credit(&mut serve).await?;
        } else {
            job.request.poll(&mut serve)?;
        }
        let Some(event) = generation.next()? else { return Ok(()) };
        if events {
            send(job, event)?;
        }
    }
}

fn send(job: &Job, event: Event) -> Result<()> {
    match event {
        Event::Prefill { done, total } => super::prefill_event(job, done, total),
        Event::Token { id, text, forced } => job.event(&m::Tokens { ids: vec![id], forced }, text.as_bytes()),
        Event::Text { text } => job.event(&m::Tokens { ids: Vec::new(), forced: false }, text.as_bytes()),
        // One beyond a frame is left out: the next one, or the value itself, says more.
        Event::Partial { path, json, .. }
            if path.len() + json.len() + PARTIAL_HEAD > job.agreed.max_frame as usize =>
        {
            Ok(())
        }
        Event::Partial { path, json, final_bytes } => {
            let final_bytes = u32::try_from(final_bytes).unwrap_or(u32::MAX);
            job.event(&m::Partial { path, final_bytes }, json.as_bytes())
        }
        Event::Candidates { json } if json.len() + PARTIAL_HEAD > job.agreed.max_frame as usize => Ok(()),
        Event::Candidates { json } => job.event(&m::Candidates {}, json.as_bytes()),
    }
}

fn give_checkpoint(job: &Job, take: &Arc<Request>, generation: &mut dyn Generation) {
    let outcome =
        generation.checkpoint().map_err(Into::into).and_then(|c| super::checkpoint::keep(job, c, Vec::new()));
    job.inner.finish(take, outcome);
}

/// `left_out` are tools that the type did not even see.
fn answer(
    job: &Job,
    keep: bool,
    output: Output,
    left_out: Vec<String>,
    end: &dyn Session,
) -> Outcome<Answer> {
    let checkpoint = if keep { Some(job.inner.tables.checkpoints.insert(end.checkpoint()?)?) } else { None };
    let mut tail =
        json!({ "value": output.value, "text": output.text, "finish": output.finish, "usage": output.usage });
    if let Some(confidence) = output.confidence {
        tail["confidence"] = confidence;
    }
    let warnings = [left_out, output.warnings].concat();
    if !warnings.is_empty() {
        tail["warnings"] = json!(warnings);
    }
    Ok(job.answer(&m::Generated { checkpoint }, tail.to_string().into_bytes()))
}
