//! The merges that follow from the scores of SentencePiece's pieces.
//!
//! A piece can be made of two others where one of its beginnings and one of its ends are pieces and meet. Beginnings
//! are found by sorting the pieces: the longest piece that another one begins with is the nearest one before it that
//! it begins with. Ends are the same read backwards. Each piece keeps its longest one only; shorter ones follow from there.

use super::bpe::Merge;
use super::vocab::{Kind, Vocab};
use crate::error::{try_reserved, try_zeroed, Error, Result};
use std::cmp::{Ordering, Reverse};
use std::iter;

/// Longer pieces than any vocabulary has; finding the merges of a piece takes time in proportion to its length.
const MAX_PIECE: usize = 512;
const NONE: u32 = u32::MAX;

/// How a piece can be made.
struct Way {
    score: f32,
    /// Characters of its parts.
    lengths: (usize, usize),
    left: u32,
    right: u32,
    into: u32,
}

/// Every way to make a piece of two others: the piece of the higher score first, of equal ones the longer left part.
/// User-defined pieces count as the best, whatever score a converter gave them.
pub(super) fn merges(vocab: &Vocab, scores: &[f32]) -> Result<Vec<Merge>> {
    let pieces = pieces(vocab)?;
    let beginnings = longest_parts(vocab, &pieces, Side::Beginning)?;
    let ends = longest_parts(vocab, &pieces, Side::End)?;
    let mut ways: Vec<Way> = Vec::new();
    let mut found: Vec<u32> = Vec::new();
    for &into in &pieces {
        let score = match vocab.kind(into) {
            // Minus zero is zero.
            Some(Kind::Normal) => scores[into as usize] + 0.0,
            _ => 0.0,
        };
        if score.is_nan() {
            return Err(Error::bad_model(format!("scores[{into}]"), "is not a number"));
        }
        let bytes = vocab.bytes(into);
        // The longest beginning meets the shortest end, which is the last one.
        found.clear();
        found.extend(parts(&ends, into));
        for left in parts(&beginnings, into) {
            let at = vocab.bytes(left).len();
            let length = |&id: &u32| vocab.bytes(id).len();
            while found.last().is_some_and(|end| length(end) < bytes.len() - at) {
                found.pop();
            }
            let Some(&right) = found.last().filter(|end| length(end) == bytes.len() - at) else { continue };
            ways.try_reserve(1).map_err(|_| Error::OutOfMemory {
                wanted: (ways.len() as u64).saturating_mul(2 * std::mem::size_of::<Way>() as u64),
                what: "merges".into(),
            })?;
            let lengths = (characters(&bytes[..at]), characters(&bytes[at..]));
            ways.push(Way { score, lengths, left, right, into });
        }
    }
    let better = |way: &Way| (Reverse(way.lengths), way.into);
    ways.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| better(a).cmp(&better(b))));
    let rank = |(rank, way): (usize, Way)| Merge {
        left: way.left,
        right: way.right,
        rank: rank as u32,
        into: way.into,
    };
    Ok(ways.into_iter().enumerate().map(rank).collect())
}

/// The pieces that text is made of. Of equal ones the first counts, and ordinary ones before user-defined ones.
fn pieces(vocab: &Vocab) -> Result<Vec<u32>> {
    let mut pieces = try_reserved(vocab.len(), "merges")?;
    for kind in [Kind::Normal, Kind::UserDefined] {
        for id in (0..vocab.len() as u32).filter(|&id| vocab.kind(id) == Some(kind)) {
            match characters(vocab.bytes(id)) {
                0 => {}
                1..=MAX_PIECE => pieces.push(id),
                // It is found as a whole.
                _ if kind == Kind::UserDefined => {}
                length => {
                    let reason = format!("token {id} has {length} characters, more than {MAX_PIECE}");
                    return Err(Error::unsupported("vocabulary", reason));
                }
            }
        }
    }
    Ok(pieces)
}

/// Which part of a piece.
#[derive(Clone, Copy)]
enum Side {
    Beginning,
    End,
}

impl Side {
    /// Sorts pieces that have a part in common together, and behind that part.
    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Side::Beginning => a.cmp(b),
            Side::End => a.iter().rev().cmp(b.iter().rev()),
        }
    }

    fn is_part(self, part: &[u8], whole: &[u8]) -> bool {
        match self {
            Side::Beginning => whole.starts_with(part),
            Side::End => whole.ends_with(part),
        }
    }

    /// What decides most comparisons, in one number: the first bytes from this side.
    fn key(self, bytes: &[u8]) -> u64 {
        let mut key = [0; 8];
        match self {
            Side::Beginning => key.iter_mut().zip(bytes).for_each(|(k, b)| *k = *b),
            Side::End => key.iter_mut().zip(bytes.iter().rev()).for_each(|(k, b)| *k = *b),
        }
        u64::from_be_bytes(key)
    }
}

/// By id: the longest other piece that a piece begins or ends with, or `NONE`.
fn longest_parts(vocab: &Vocab, pieces: &[u32], side: Side) -> Result<Vec<u32>> {
    let mut sorted = try_reserved(pieces.len(), "merges")?;
    sorted.extend(pieces.iter().enumerate().map(|(order, &id)| (side.key(vocab.bytes(id)), order as u32)));
    let bytes = |order: u32| vocab.bytes(pieces[order as usize]);
    sorted.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| side.compare(bytes(a.1), bytes(b.1))).then(a.1.cmp(&b.1))
    });
    let mut longest = try_zeroed::<u32>(vocab.len(), "merges")?;
    longest.fill(NONE);
    // Each is a part of the next, so there are never more than a piece has characters.
    let mut open: Vec<u32> = Vec::new();
    for (_, order) in sorted {
        let id = pieces[order as usize];
        let whole = vocab.bytes(id);
        while open.last().is_some_and(|&part| !side.is_part(vocab.bytes(part), whole)) {
            open.pop();
        }
        match open.last() {
            Some(&equal) if vocab.bytes(equal).len() == whole.len() => {
                longest[id as usize] = longest[equal as usize]
            }
            part => {
                longest[id as usize] = part.copied().unwrap_or(NONE);
                open.push(id);
            }
        }
    }
    Ok(longest)
}

/// All of the parts of a piece, the longest first.
fn parts(longest: &[u32], id: u32) -> impl Iterator<Item = u32> + '_ {
    let next = |id: u32| Some(longest[id as usize]).filter(|&part| part != NONE);
    iter::successors(next(id), move |&part| next(part))
}

/// Pieces are text, whose every character has one byte that is no continuation.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Every place where a piece can be cut, looked up in a table.
    fn by_lookup(vocab: &Vocab, scores: &[f32]) -> Vec<(u32, u32, u32)> {
        let ids = 0..vocab.len() as u32;
        let of = |kind| ids.clone().filter(move |&id| vocab.kind(id) == Some(kind));
        let mut table = HashMap::new();
        for id in of(Kind::Normal).chain(of(Kind::UserDefined)) {
            table.entry(vocab.bytes(id)).or_insert(id);
        }
        let mut ways = Vec::new();
        for id in of(Kind::Normal).chain(of(Kind::UserDefined)) {
            let bytes = vocab.bytes(id);
            let score = if vocab.kind(id) == Some(Kind::Normal) { scores[id as usize] } else { 0.0 };
            for at in 1..bytes.len() {
                if let (Some(&left), Some(&right)) = (table.get(&bytes[..at]), table.get(&bytes[at..])) {
                    let text = std::str::from_utf8(&bytes[..at]).unwrap();
                    ways.push((-score as i64, Reverse(text.chars().count()), id, left, right));
                }
            }
        }
        // The longer left part, then the longer right part, then the lower id, as the reference has it.
        let right = |way: &(i64, Reverse<usize>, u32, u32, u32)| {
            Reverse(std::str::from_utf8(vocab.bytes(way.4)).unwrap().chars().count())
        };
        ways.sort_by_key(|way| (way.0, way.1, right(way), way.2));
        ways.into_iter().map(|way| (way.3, way.4, way.2)).collect()
    }

    #[test]
    fn merges_are_those_that_a_search_of_every_cut_finds() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut total = 0;
        for size in [1, 2, 5, 20, 60, 200, 400, 900, 1800] {
            let mut vocab = Vocab::with_capacity(size).unwrap();
            let mut scores = Vec::new();
            for _ in 0..size {
                let length = random(7);
                let alphabet = ['a', 'b', ' ', 'é', '日', '\0'];
                let piece: String =
                    (0..length).map(|_| alphabet[random(6).min(random(6)) as usize]).collect();
                let kind = [Kind::Normal, Kind::Normal, Kind::Normal, Kind::UserDefined, Kind::Control];
                vocab.push(kind[random(5) as usize], piece.as_bytes()).unwrap();
                scores.push(-(random(9) as f32));
            }
            let merges = merges(&vocab, &scores).unwrap();
            let found: Vec<_> = merges.iter().map(|m| (m.left, m.right, m.into)).collect();
            assert_eq!(found, by_lookup(&vocab, &scores), "of {size} pieces");
            assert!(merges.iter().enumerate().all(|(rank, m)| m.rank == rank as u32));
            total += merges.len();
        }
        assert!(total > 500, "only {total} merges");
    }
}
