//! Generations that start together: each comes as a request of its own and waits here for the others.

use crate::port::{Branch, Generation, Session};
use crate::turn::Signal;
use lean_engine::{CancelToken, Error, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use web_time::Instant;

/// How often a member that waits looks at its own cancellation.
const LOOK: Duration = Duration::from_millis(10);

/// Groups that are remembered; beyond it, those that were given up are not.
const FORGET: usize = 4096;

/// How long members wait without another one coming: the host sends all of them at once.
const PATIENCE: Duration = Duration::from_secs(60);

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
pub(crate) struct Groups {
    gathering: Mutex<HashMap<u32, Arc<Gathering>>>,
    patience: Duration,
}

impl Default for Groups {
    fn default() -> Self {
        Groups { gathering: Mutex::default(), patience: PATIENCE }
    }
}

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
        let mine = gathering.wait(index as usize, &cancel, self.patience).await;
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
        let mut all = lock(&self.gathering);
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
        lock(&self.gathering).drain().for_each(|(_, gathering)| gathering.give_up());
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
    async fn wait(
        &self,
        index: usize,
        cancel: &CancelToken,
        patience: Duration,
    ) -> Option<Result<Box<dyn Generation>>> {
        let mut state = lock(&self.state);
        let (mut came, mut since) = (state.came, Instant::now());
        loop {
            if state.came != came {
                (came, since) = (state.came, Instant::now());
            }
            match &mut state.phase {
                Phase::GivenUp => return Some(Err(given_up())),
                Phase::Settled(outcome) => {
                    let mine = outcome.get_mut(index).and_then(Option::take);
                    return Some(mine.unwrap_or_else(|| Err(Error::Internal("a member came twice".into()))));
                }
                Phase::Open(_) | Phase::Starting if cancel.is_cancelled() => return None,
                Phase::Open(_) if since.elapsed() >= patience => {
                    state.phase = Phase::GivenUp;
                    self.changed.notify_all();
                    let reason = format!(
                        "{came} of {} members have come, and no other within {} s",
                        self.target.members,
                        patience.as_secs()
                    );
                    return Some(Err(Error::invalid("group", reason)));
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::spawn;
    use serde_json::json;

    fn member() -> Member {
        Member { blocks: json!([]), ty: json!(null), options: json!({}), cancel: CancelToken::new() }
    }

    fn target(members: u32) -> Target {
        Target { members, model: Some(1), session: None, checkpoint: None }
    }

    /// What a member of a group of `members` hears.
    fn joined(groups: &Arc<Groups>, number: u32, members: u32) -> String {
        let (groups, heard) = (groups.clone(), Arc::new(Mutex::new(String::new())));
        let told = heard.clone();
        let join = async move || {
            let open = || Err(Error::invalid("model", "nothing is opened here"));
            let outcome = groups.join(number, target(members), member(), open).await;
            *lock(&told) = outcome.map_or_else(|e| e.to_string(), |_| "a value".into());
        };
        spawn(join).unwrap().join().unwrap();
        let heard = lock(&heard).clone();
        heard
    }

    #[test]
    fn members_do_not_wait_without_end() {
        let groups = Arc::new(Groups { patience: Duration::ZERO, ..Groups::default() });
        let heard = joined(&groups, 1, 3);
        assert!(heard.contains("1 of 3 members have come"), "{heard}");
        // The others, who come late, hear at once that it was given up.
        for _ in 0..2 {
            let heard = joined(&groups, 1, 3);
            assert!(heard.contains("before the group was complete"), "{heard}");
        }
        // Then the number is free.
        assert!(joined(&groups, 1, 3).contains("1 of 3 members"));
    }

    #[test]
    fn late_members_of_many_groups_are_told() {
        let groups = Arc::new(Groups::default());
        for number in 0..1000 {
            groups.refuse(number, target(2));
        }
        for number in 0..1000 {
            let heard = joined(&groups, number, 2);
            assert!(heard.contains("before the group was complete"), "{number}: {heard}");
        }
        assert!(lock(&groups.gathering).is_empty());
    }
}
