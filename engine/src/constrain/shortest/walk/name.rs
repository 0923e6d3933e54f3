//! The name of a place: where it is the same, the same may follow.

use super::super::shape::{Alt, Shapes};
use super::{Frame, Place, Walk};

/// Numbers in the name of a place.
const MAX_NAME: usize = 2_000;

impl Walk {
    /// What decides what may follow, and the same wherever the same may: `None` where it depends on earlier keys or
    /// items, or on too much.
    pub fn name(&self, shapes: &Shapes) -> Option<Vec<u32>> {
        let mut name = vec![u32::from(self.done)];
        // Calls in the order in which they are come upon, so that their numbers say nothing of the text.
        let mut calls: Vec<u32> = Vec::new();
        let mut next = 0;
        let mut frames: &[Frame] = &self.frames;
        loop {
            for frame in frames {
                let call = calls.iter().position(|c| *c == frame.call).unwrap_or_else(|| {
                    calls.push(frame.call);
                    calls.len() - 1
                });
                name.extend([call as u32, frame.alt]);
                name.extend(frame.name(shapes)?);
            }
            name.push(u32::MAX);
            if name.len() > MAX_NAME {
                return None;
            }
            let Some(&call) = calls.get(next) else { return Some(name) };
            next += 1;
            frames = &self.calls[call as usize].parents;
        }
    }
}

impl Frame {
    /// The place as numbers, unless it depends on what stands before.
    fn name(&self, shapes: &Shapes) -> Option<[u32; 3]> {
        let small = |n: u64| u32::try_from(n).ok();
        Some(match &self.place {
            Place::Start => [0, 0, 0],
            Place::Scalar(state) => [1, state.as_u32(), 0],
            Place::Items(k, None) => {
                let k = match &shapes.alts[self.alt as usize] {
                    // Behind these all items are alike.
                    Alt::Array(a) if a.max.is_none() => (*k).min(a.min.max(a.prefix.len() as u64).max(1)),
                    _ => *k,
                };
                [2, small(k)?, 0]
            }
            Place::Fields { field, count, taken: None } => [3, small(*field as u64)?, small(*count)?],
            Place::Part(i) => [4, small(*i as u64)?, 0],
            Place::Key { field, at, count } => {
                let place = (*field as u64) << 32 | *at as u64;
                [5 + small(place >> 32)?.checked_mul(8)?, *at as u32, small(*count)?]
            }
            Place::Open { rest, state, count, taken: None, .. } => {
                [6 + small(*rest as u64)?.checked_mul(8)?, state.as_u32(), small(*count)?]
            }
            _ => return None,
        })
    }
}
