//! Arrays that count some of their items (`contains`), as a small automaton over items.

use super::lower::{Low, LowArray};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// States of one array: items times counts.
const MAX_STATES: usize = 20_000;

/// After some items.
pub(super) struct State {
    /// Whether the array may end.
    pub ends: bool,
    /// Items that may come.
    pub steps: Vec<Step>,
}

/// An item of a class, and the state after it.
pub(super) struct Step {
    pub class: usize,
    /// Index among the class's prefix, or none for its rest.
    pub place: Option<usize>,
    pub next: usize,
}

impl LowArray {
    /// What items of a step may be.
    pub fn item(&self, step: &Step) -> &Low {
        let class = &self.classes[step.class];
        step.place.and_then(|i| class.prefix.get(i)).unwrap_or(&class.rest)
    }
}

/// The automaton of an array with counts; state 0 is before the first item. `possible` says which items exist.
/// Only states from which the array can end are entered.
///
/// # Errors
/// [`Error::Type`] if it has too many states.
pub(super) fn states(a: &LowArray, possible: &dyn Fn(&Low) -> bool) -> Result<Vec<State>> {
    // Beyond these numbers of items and of matches nothing changes any more.
    let longest = a.classes.iter().map(|c| c.from).chain([a.prefix.len() as u64, a.min]).max().unwrap_or(0);
    // State 0 is not entered again: what follows an item begins with a comma.
    let longest = a.max.unwrap_or(longest).max(1);
    let tops: Vec<u64> = a.counts.iter().map(|c| c.max.unwrap_or(c.min)).collect();
    let exists: Vec<(Vec<bool>, bool)> =
        a.classes.iter().map(|c| (c.prefix.iter().map(possible).collect(), possible(&c.rest))).collect();
    let start = (0u64, vec![0u64; tops.len()]);
    let mut ids = HashMap::from([(start.clone(), 0usize)]);
    let mut found = vec![start];
    let mut states: Vec<State> = Vec::new();
    while let Some((items, counts)) = found.get(states.len()).cloned() {
        let enough = a.counts.iter().zip(&counts).all(|(c, n)| *n >= c.min);
        let mut steps = Vec::new();
        for (class, c) in a.classes.iter().enumerate() {
            let place = usize::try_from(items).ok().filter(|i| *i < a.prefix.len());
            let (prefix, rest) = &exists[class];
            let exists = place.map_or(*rest, |i| prefix[i]);
            let full = |i: usize| a.counts[i].max.is_some_and(|m| counts[i] >= m);
            let takes = |i: &usize| c.counts_for >> i & 1 == 1;
            if !exists
                || items < c.from
                || a.max.is_some_and(|m| items >= m)
                || (0..tops.len()).filter(takes).any(full)
            {
                continue;
            }
            // An item that is taken for a count that is full already is an item like any other.
            if (0..tops.len()).filter(takes).any(|i| counts[i] >= tops[i]) {
                continue;
            }
            let mut after = counts.clone();
            (0..tops.len()).filter(takes).for_each(|i| after[i] += 1);
            let key = ((items + 1).min(longest), after);
            let next = *ids.entry(key.clone()).or_insert_with(|| {
                found.push(key);
                found.len() - 1
            });
            steps.push(Step { class, place, next });
        }
        states.push(State { ends: items >= a.min && enough, steps });
        if found.len() > MAX_STATES {
            let keyword = a.counts.first().map_or("contains", |c| c.keyword);
            return Err(Error::ty(&*a.at, keyword, "too many items to be counted"));
        }
    }
    prune(&mut states);
    Ok(states)
}

/// Takes away steps into states from which no end is reached.
fn prune(states: &mut [State]) {
    let mut before = vec![Vec::new(); states.len()];
    for (id, state) in states.iter().enumerate() {
        state.steps.iter().for_each(|s| before[s.next].push(id));
    }
    let mut good: Vec<bool> = states.iter().map(|s| s.ends).collect();
    let mut todo: Vec<usize> = (0..states.len()).filter(|&i| good[i]).collect();
    while let Some(id) = todo.pop() {
        for &from in &before[id] {
            if !std::mem::replace(&mut good[from], true) {
                todo.push(from);
            }
        }
    }
    for state in states.iter_mut() {
        state.steps.retain(|s| good[s.next]);
    }
}

/// Whether an array comes to an end at all.
pub(super) fn ends(states: &[State]) -> bool {
    states.first().is_some_and(|s| s.ends || !s.steps.is_empty())
}
