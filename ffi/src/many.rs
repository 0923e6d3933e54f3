//! Values that continue one context side by side.

use crate::checkpoint::lean_checkpoint;
use crate::context::{lean_context, Content};
use crate::error::lean_error;
use crate::handle;
use crate::input::{self, Out};
use crate::model::lean_model;
use crate::options::{self, lean_generate_options};
use crate::session::{lean_session, Home};
use crate::status::lean_status;
use crate::stream::{self, lean_stream};
use crate::types::lean_type;
use lean_engine::{Block, BranchRequest, Generation, Request, Result, Session};
use std::sync::RwLockReadGuard;

/// One branch as C describes it.
struct Branch<'a> {
    content: Option<RwLockReadGuard<'a, Content>>,
    request: Request,
    events: u32,
}

impl Branch<'_> {
    fn blocks(&self) -> Result<&[Block]> {
        self.content.as_ref().map_or(Ok(&[]), |content| content.blocks_only())
    }
}

/// # Safety
/// The arrays are NULL or have `count` elements, each as the header demands.
unsafe fn branches<'a>(
    count: usize,
    contexts: *const *const lean_context,
    types: *const *const lean_type,
    options: *const *const lean_generate_options,
) -> Result<Vec<Branch<'a>>> {
    // SAFETY: passed on.
    unsafe {
        let types = input::slice("types", types, count)?;
        let given = |absent| if absent { 0 } else { count };
        let contexts = input::slice("contexts", contexts, given(contexts.is_null()))?;
        let options = input::slice("options", options, given(options.is_null()))?;
        let mut all = Vec::with_capacity(count);
        for (i, ty) in types.iter().enumerate() {
            let context = contexts.get(i).copied().unwrap_or(std::ptr::null());
            let options = options::read(options.get(i).copied().unwrap_or(std::ptr::null()))?;
            let content = handle::optional(context)?.map(|context| context.read()).transpose()?;
            all.push(Branch { content, request: stream::request(*ty, &options)?, events: options.events });
        }
        Ok(all)
    }
}

/// Starts the branches and hands their streams and sessions out.
///
/// # Safety
/// `streams` is NULL or writable for as many pointers as there are branches, and so is `sessions`.
unsafe fn start(
    branches: &[Branch<'_>],
    streams: *mut *mut lean_stream,
    sessions: *mut *mut lean_session,
    generate: impl FnOnce(&[BranchRequest<'_>]) -> Result<Vec<Generation<Session>>>,
) -> Result<()> {
    // SAFETY: passed on.
    let (streams, sessions) =
        unsafe { (Out::new("streams", streams)?, input::optional_out("sessions", sessions)?) };
    let requests = branches
        .iter()
        .map(|b| Ok(BranchRequest { blocks: b.blocks()?, request: &b.request }))
        .collect::<Result<Vec<_>>>()?;
    let generations = generate(&requests)?;
    let (streams, sessions) = (streams.into_ptr(), sessions.map(Out::into_ptr));
    for (i, (generation, branch)) in generations.into_iter().zip(branches).enumerate() {
        let home = Home::streaming();
        let cancel = branch.request.cancel.clone();
        // SAFETY: there are as many places as branches.
        unsafe {
            streams.add(i).write(stream::open(&home, generation, cancel, branch.events));
            if let Some(sessions) = sessions {
                sessions.add(i).write(handle::new(home));
            }
        }
    }
    Ok(())
}

/// Starts `count` values that continue one checkpoint (NULL: an empty context) side by side: a pass over the
/// weights serves all of them, and each is bit for bit what it would be alone. `contexts` holds what each
/// branch adds first (the array or its elements may be NULL), `types` what each generates, `options` how
/// (the array or its elements may be NULL). `streams` receives a stream for each branch, which is pulled,
/// cancelled, checkpointed, finished and freed like any other, from any thread; pulling one takes a step in all,
/// and the others keep their events. `sessions`, unless NULL, receives the session of each branch, which its
/// stream has until it is finished or freed. What all contexts begin with is computed once, in this call. After
/// an error nothing was started.
#[no_mangle]
pub unsafe extern "C" fn lean_generate_many(
    model: *const lean_model,
    checkpoint: *const lean_checkpoint,
    count: usize,
    contexts: *const *const lean_context,
    types: *const *const lean_type,
    options: *const *const lean_generate_options,
    streams: *mut *mut lean_stream,
    sessions: *mut *mut lean_session,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let (model, checkpoint) = (handle::get(model)?, handle::optional(checkpoint)?);
        let branches = branches(count, contexts, types, options)?;
        start(&branches, streams, sessions, |all| model.model.generate_many(checkpoint, all))
    })
}

/// The same after a session's content. The session itself stays as it is.
#[no_mangle]
pub unsafe extern "C" fn lean_session_generate_many(
    session: *mut lean_session,
    count: usize,
    contexts: *const *const lean_context,
    types: *const *const lean_type,
    options: *const *const lean_generate_options,
    streams: *mut *mut lean_stream,
    sessions: *mut *mut lean_session,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let home = handle::get(session)?;
        let branches = branches(count, contexts, types, options)?;
        start(&branches, streams, sessions, |all| home.with(|s| s.generate_many(all)))
    })
}
