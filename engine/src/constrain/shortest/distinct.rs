//! Items that all differ, where each place of an array has values of its own: whoever takes the first value that is free
//! may leave nothing for a later place. So places and values are matched, each place moving on to another value where
//! that makes room (Kuhn's algorithm).

use super::scalar::Scalar;
use super::sequence::{keys, Taken};
use super::shape::{Alt, AltId, NodeId, Shapes};
use super::MAX_UNIQUE;
use std::collections::{HashMap, HashSet};

impl Shapes {
    /// The end of an array after `k` items, those `taken` among them: the fewest that are needed, all different. `None`
    /// if there is none.
    pub fn matched_end(
        &self,
        s: &mut [Scalar],
        alt: AltId,
        k: u64,
        taken: &Taken,
        depth: usize,
    ) -> Option<Vec<u8>> {
        let Alt::Array(array) = &self.alts[alt as usize] else { return None };
        let places: Vec<NodeId> = (k..array.min.min(k + MAX_UNIQUE)).map(|i| array.item(i)).collect();
        let before: HashSet<Vec<u8>> = keys(taken).into_iter().collect();
        // A place with as many values as all places together need is content with any.
        let wanted = (places.len() + before.len()).max(2);
        let mut numbers: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut lists: HashMap<NodeId, Vec<(usize, Vec<u8>)>> = HashMap::new();
        for &node in &places {
            lists.entry(node).or_insert_with(|| {
                let values = self.values(s, node, wanted, depth + 1);
                let free = values.iter().filter(|(_, key)| !before.contains(key));
                let numbered = free.map(|(text, key)| {
                    let next = numbers.len();
                    (*numbers.entry(key.clone()).or_insert(next), text.clone())
                });
                numbered.collect()
            });
        }
        let choices: Vec<&[(usize, Vec<u8>)]> = places.iter().map(|node| lists[node].as_slice()).collect();
        let mut owners = vec![None; numbers.len()];
        for place in 0..places.len() {
            if !settle(place, &choices, &mut owners, &mut vec![false; numbers.len()]) {
                return None;
            }
        }
        let mut chosen: Vec<&[u8]> = vec![&[]; places.len()];
        for (value, owner) in owners.iter().enumerate() {
            let Some(place) = *owner else { continue };
            if let Some((_, text)) = choices[place].iter().find(|(v, _)| *v == value) {
                chosen[place] = text;
            }
        }
        let mut end = Vec::new();
        for (i, text) in chosen.into_iter().enumerate() {
            if k + i as u64 > 0 {
                end.push(b',');
            }
            end.extend_from_slice(text);
        }
        end.push(b']');
        Some(end)
    }
}

/// Gives a place a value, if need be by moving others on; as deep as there are places, which are few.
fn settle(
    place: usize,
    choices: &[&[(usize, Vec<u8>)]],
    owners: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    if let Some((value, _)) = choices[place].iter().find(|(value, _)| owners[*value].is_none()) {
        owners[*value] = Some(place);
        return true;
    }
    for (value, _) in choices[place] {
        if std::mem::replace(&mut tried[*value], true) {
            continue;
        }
        if owners[*value].is_none_or(|other| settle(other, choices, owners, tried)) {
            owners[*value] = Some(place);
            return true;
        }
    }
    false
}
