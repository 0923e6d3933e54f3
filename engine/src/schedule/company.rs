//! Who is worth waiting for before a pass begins.
//!
//! Only threads that really wait side by side hold each other up: a program that steps several generations
//! from one thread never sleeps here. And only for those that shared the last pass, for a small part of what
//! that pass took; who does not come back in time is not waited for again until it does.

use super::batch::Queued;
use crate::backend::StateId;
use std::collections::VecDeque;
use web_time::{Duration, Instant};

/// The part of the last pass that may be waited: a pass of two costs far less than two passes.
const PART: u32 = 8;
/// However long a pass takes, a thread that decodes is back within this.
const MOST: Duration = Duration::from_millis(2);
/// Vain waits in a row after which nobody is waited for until threads meet again.
const VAIN: u32 = 4;

#[derive(Default)]
pub(super) struct Company {
    /// Threads inside `wait`.
    waiters: usize,
    /// Vain waits that are still allowed.
    trust: u32,
    /// States of the last pass.
    last: Vec<StateId>,
    took: Duration,
}

impl Company {
    pub fn enter(&mut self) {
        self.waiters += 1;
        if self.waiters > 1 {
            self.trust = VAIN;
        }
    }

    pub fn leave(&mut self) {
        self.waiters -= 1;
    }

    /// A pass ran.
    pub fn shared(&mut self, states: impl Iterator<Item = StateId>, took: Duration) {
        self.last.clear();
        self.last.extend(states);
        self.took = took;
    }

    /// How long to wait for states of the last pass that are not queued yet. `hold` is the caller's: when its
    /// waiting ends.
    pub fn missing(&mut self, waiting: &VecDeque<Queued>, hold: &mut Option<Instant>) -> Option<Duration> {
        let here = |state: &StateId| waiting.iter().any(|q| q.job.state == *state);
        if self.trust == 0 || self.last.iter().all(here) {
            return None;
        }
        let now = Instant::now();
        let until = *hold.get_or_insert_with(|| now + (self.took / PART).min(MOST));
        if now < until {
            return Some(until - now);
        }
        self.trust -= 1;
        self.last.retain(here);
        None
    }
}
