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

/// Groups that are remembered; beyond it, those that were given up are not.
const FORGET: usize = 64;

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

struct State {
    /// Members that came, those that were refused among them.
    came: u32,
    phase: Phase,
}

enum Phase {
    /// Members wait for the others.
    Open(Vec<Member>),
    /// A member ended before all had come: so does everyone, whoever comes late too.
    GivenUp,
    /// All have come, and one of them starts the values.
    Starting,
    /// What each member gets, once.
    Settled(Vec<Option<Result<Box<dyn Generation>>>>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

fn given_up() -> Error {
    Error::invalid("group", "a member ended before the group was complete")
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
        let (gathering, index) = self.arrive(number, target, Some(member))?;
        if index + 1 == target.members {
            gathering.start(open);
        }
        let mine = gathering.wait(index as usize, &cancel).await;
        mine.unwrap_or_else(|| {
            gathering.give_up();
            Err(Error::Cancelled)
        })
    }

    /// A member that cannot be one: its group ends for all.
    pub fn refuse(&self, number: u32, target: Target) {
        // What its others are refused for is theirs to hear.
        let _ = self.arrive(number, target, None);
    }

    /// The group of a member, and the member's number in it. A complete group has no number any more.
    fn arrive(&self, number: u32, target: Target, member: Option<Member>) -> Result<(Arc<Gathering>, u32)> {
        let mut all = lock(&self.0);
        // One that was given up waits only for those who do not know yet. Another group may have its number.
        all.retain(|n, g| *n != number || g.target == target || !g.is_given_up());
        if all.len() >= FORGET && !all.contains_key(&number) {
            all.retain(|_, g| !g.is_given_up());
        }
        let gathering = all.entry(number).or_insert_with(|| Arc::new(Gathering::new(target))).clone();
        if gathering.target != target {
            return Err(Error::invalid("group", "its members do not name the same target and number"));
        }
        let mut state = lock(&gathering.state);
        let index = state.came;
        state.came += 1;
        match (&mut state.phase, member) {
            (Phase::Open(members), Some(member)) => members.push(member),
            // In the same step: a group that seems complete would start without it.
            (Phase::Open(_), None) => {
                state.phase = Phase::GivenUp;
                gathering.changed.notify_all();
            }
            _ => {}
        }
        drop(state);
        if index + 1 == target.members {
            all.remove(&number);
        }
        Ok((gathering, index))
    }

    pub fn clear(&self) {
        lock(&self.0).drain().for_each(|(_, gathering)| gathering.give_up());
    }
}

impl Gathering {
    fn new(target: Target) -> Self {
        let state = State { came: 0, phase: Phase::Open(Vec::new()) };
        Gathering { target, state: Mutex::new(state), changed: Signal::default() }
    }

    fn is_given_up(&self) -> bool {
        matches!(lock(&self.state).phase, Phase::GivenUp)
    }

    /// Starts the values of a complete group, unless it was given up in the last moment.
    fn start(&self, open: impl FnOnce() -> Result<Box<dyn Session>>) {
        let members = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut state.phase, Phase::Starting) {
                Phase::Open(members) => members,
                other => return state.phase = other,
            }
        };
        let mut settling = Settling { gathering: self, members: members.len(), outcome: None };
        let branches: Vec<Branch<'_>> = members
            .iter()
            .map(|m| Branch { blocks: &m.blocks, ty: &m.ty, options: &m.options, cancel: &m.cancel })
            .collect();
        settling.outcome = Some(open().and_then(|session| session.generate_many(&branches)));
    }

    fn give_up(&self) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Open(_)) {
            state.phase = Phase::GivenUp;
            self.changed.notify_all();
        }
    }

    /// What the member gets; `None` if it was cancelled before.
    async fn wait(&self, index: usize, cancel: &CancelToken) -> Option<Result<Box<dyn Generation>>> {
        let mut state = lock(&self.state);
        loop {
            match &mut state.phase {
                Phase::GivenUp => return Some(Err(given_up())),
                Phase::Settled(outcome) => {
                    let mine = outcome.get_mut(index).and_then(Option::take);
                    return Some(mine.unwrap_or_else(|| Err(Error::Internal("a member came twice".into()))));
                }
                Phase::Open(_) | Phase::Starting if cancel.is_cancelled() => return None,
                Phase::Open(_) | Phase::Starting => {}
            }
            state = self.changed.wait_timeout(&self.state, state, LOOK).await;
        }
    }
}

/// Gives every member its outcome, also when the one that starts them all panics.
struct Settling<'a> {
    gathering: &'a Gathering,
    members: usize,
    outcome: Option<Result<Vec<Box<dyn Generation>>>>,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        let panicked = || Err(Error::Panic("the member that started the group panicked".into()));
        let outcome = match self.outcome.take().unwrap_or_else(panicked) {
            Ok(generations) => generations.into_iter().map(|g| Some(Ok(g))).collect(),
            Err(error) => (0..self.members).map(|_| Some(Err(error.clone()))).collect(),
        };
        lock(&self.gathering.state).phase = Phase::Settled(outcome);
        self.gathering.changed.notify_all();
    }
}
