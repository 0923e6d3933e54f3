//! Generations that start together: each comes as a request of its own and waits here for the others.

use crate::port::{Branch, Generation, Session};
use crate::turn::Signal;
use lean_engine::{CancelToken, Error, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How often a member that waits looks at its own cancellation.
const LOOK: Duration = Duration::from_millis(10);

/// What a group continues, and how many its members are; the same in every member's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub members: u32,
    pub model: Option<u32>,
    pub session: Option<u32>,
    pub checkpoint: Option<u32>,
}

/// What a member generates.
pub(crate) struct Member {
    pub blocks: Value,
    pub ty: Value,
    pub options: Value,
    pub cancel: CancelToken,
}

/// The groups that are not complete yet, by the host's numbers.
#[derive(Default)]
pub(crate) struct Groups(Mutex<HashMap<u32, Arc<Gathering>>>);

struct Gathering {
    target: Target,
    state: Mutex<State>,
    changed: Signal,
}

#[derive(Default)]
struct State {
    arrived: Vec<Member>,
    /// Once the group was started or given up: what each member gets.
    outcome: Option<Vec<Option<Result<Box<dyn Generation>>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Groups {
    /// Joins a group; the last of its members opens the sequence and starts all of them. A group that a member
    /// leaves before it is complete ends for all.
    pub async fn join(
        &self,
        number: u32,
        target: Target,
        member: Member,
        open: impl FnOnce() -> Result<Box<dyn Session>>,
    ) -> Result<Box<dyn Generation>> {
        let cancel = member.cancel.clone();
        let (gathering, index, complete) = {
            let mut all = lock(&self.0);
            let fresh =
                || Arc::new(Gathering { target, state: Mutex::default(), changed: Signal::default() });
            let gathering = all.entry(number).or_insert_with(fresh).clone();
            if gathering.target != target {
                return Err(Error::invalid("group", "its members do not name the same target and number"));
            }
            let index = {
                let mut state = lock(&gathering.state);
                state.arrived.push(member);
                state.arrived.len() - 1
            };
            let complete = index + 1 == target.members as usize;
            if complete {
                all.remove(&number);
            }
            (gathering, index, complete)
        };
        if complete {
            gathering.start(open);
        }
        match gathering.wait(index, &cancel).await {
            Some(generation) => generation,
            None => {
                lock(&self.0).retain(|_, g| !Arc::ptr_eq(g, &gathering));
                gathering.give_up();
                Err(Error::Cancelled)
            }
        }
    }

    pub fn clear(&self) {
        lock(&self.0).drain().for_each(|(_, gathering)| gathering.give_up());
    }
}

impl Gathering {
    fn start(&self, open: impl FnOnce() -> Result<Box<dyn Session>>) {
        let members = std::mem::take(&mut lock(&self.state).arrived);
        let branches: Vec<Branch<'_>> = members
            .iter()
            .map(|m| Branch { blocks: &m.blocks, ty: &m.ty, options: &m.options, cancel: &m.cancel })
            .collect();
        let outcome = match open().and_then(|session| session.generate_many(&branches)) {
            Ok(generations) => generations.into_iter().map(|g| Some(Ok(g))).collect(),
            Err(error) => members.iter().map(|_| Some(Err(error.clone()))).collect(),
        };
        self.settle(outcome);
    }

    fn give_up(&self) {
        let mut state = lock(&self.state);
        if state.outcome.is_none() {
            let left = || Error::invalid("group", "a member ended before the group was complete");
            state.outcome = Some(state.arrived.iter().map(|_| Some(Err(left()))).collect());
            self.changed.notify_all();
        }
    }

    fn settle(&self, outcome: Vec<Option<Result<Box<dyn Generation>>>>) {
        lock(&self.state).outcome = Some(outcome);
        self.changed.notify_all();
    }

    /// What the member gets; `None` if it was cancelled before.
    async fn wait(&self, index: usize, cancel: &CancelToken) -> Option<Result<Box<dyn Generation>>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(outcome) = &mut state.outcome {
                let mine = outcome.get_mut(index).and_then(Option::take);
                return Some(mine.unwrap_or_else(|| Err(Error::Internal("a member came twice".into()))));
            }
            if cancel.is_cancelled() {
                return None;
            }
            state = self.changed.wait_timeout(&self.state, state, LOOK).await;
        }
    }
}
