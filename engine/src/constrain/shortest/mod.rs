//! The shortest way to finish a value, from every place in it: what a generation falls back to when its budget
//! runs low.
//!
//! The matcher knows what may come next, but not how far the end is. So the text is followed a second time,
//! through the same generated values that the grammar is made of, and from there the shortest rest is written.
//! Lengths are counted in bytes, of which a token has at least one; [`Matcher::path`] finds the tokens.

mod distinct;
mod scalar;
mod sequence;
mod shape;
mod walk;

use super::lower::Low;
use super::matcher::Matcher;
use super::stop;
use super::Type;
use crate::error::Error;
use crate::error::Result;
use llguidance::derivre::RegexAst;
use scalar::Scalar;
pub(super) use scalar::ESCAPED;
use shape::Shapes;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use walk::Walk;

/// Values that nest deeper are refused when they are checked.
const MAX_DEPTH: usize = 127;
/// Items that an array must have at least, and which all differ: its shortest end is looked for at every step.
const MAX_UNIQUE: u64 = 500;

/// Shapes of a type, and the automata of its scalars, which grow as they are used.
pub(super) struct Shortest {
    shapes: Shapes,
    scalars: Mutex<Vec<Scalar>>,
}

impl Shortest {
    pub fn of(defs: &[Low], words: &'static str) -> Result<Self> {
        let (shapes, scalars) = Shapes::of(defs, words)?;
        Ok(Shortest { shapes, scalars: Mutex::new(scalars) })
    }

    pub fn of_text(ast: &RegexAst) -> Result<Self> {
        let (shapes, scalars) = Shapes::of_text(ast)?;
        Ok(Shortest { shapes, scalars: Mutex::new(scalars) })
    }

    /// Refuses arrays that are asked for more different items than there are.
    pub fn check_unique(&self) -> Result<()> {
        for (alt, at) in &self.shapes.unique {
            stop::check()?;
            if self.shapes.least_items(*alt) > MAX_UNIQUE {
                let reason = format!("more than {MAX_UNIQUE} items at least cannot be kept apart");
                return Err(Error::ty(&**at, "uniqueItems", reason));
            }
            self.shapes.cut.store(false, Relaxed);
            let scalars = &mut self.scalars();
            if self.shapes.item_ends(scalars, *alt, 0, &None, 1, 0).is_empty() {
                let cut = self.shapes.cut.load(Relaxed) || scalars.iter().any(Scalar::gave_up);
                let reason = match cut {
                    false => "there are fewer different items than it needs",
                    true => {
                        "not supported here: too many values would have to be tried to find items that differ"
                    }
                };
                return Err(Error::ty(&**at, "uniqueItems", reason));
            }
        }
        Ok(())
    }

    fn scalars(&self) -> MutexGuard<'_, Vec<Scalar>> {
        // An automaton is consistent between its steps.
        self.scalars.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the text of a value.
#[derive(Clone)]
pub(super) struct Place {
    ty: Type,
    walk: Walk,
}

impl Place {
    /// At the start.
    pub fn new(ty: &Type) -> Result<Self> {
        let shortest = ty.shortest()?;
        let walk = Walk::new(&shortest.shapes, &mut shortest.scalars());
        Ok(Place { ty: ty.clone(), walk })
    }

    /// Moves on; `false` if no value goes on so.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<bool> {
        let shortest = self.ty.shortest()?;
        Ok(self.walk.advance(&shortest.shapes, &mut shortest.scalars(), bytes))
    }

    /// The texts of the scalar that begins after `text`, which continues what was asked for before, if they are at most
    /// `n` and nothing else could begin there.
    pub fn choices_after(&mut self, text: &[u8], n: usize) -> Result<Option<Vec<Vec<u8>>>> {
        let shortest = self.ty.shortest()?;
        let scalars = &mut shortest.scalars();
        let new = text.get(self.walk.read()..).unwrap_or_default();
        if !self.walk.advance(&shortest.shapes, scalars, new) {
            return Ok(None);
        }
        Ok(self.walk.choices(&shortest.shapes, scalars, n))
    }

    /// Whether some value begins with the text and these bytes.
    pub fn goes_on(&mut self, bytes: &[u8]) -> Result<bool> {
        self.goes_on_if(bytes, true)
    }

    /// The same, with or without what is easily seen.
    pub fn goes_on_if(&mut self, bytes: &[u8], easily: bool) -> Result<bool> {
        let shortest = self.ty.shortest()?;
        let mark = self.walk.mark();
        let (shapes, scalars) = (&shortest.shapes, &mut shortest.scalars());
        let goes_on = self.walk.advance(shapes, scalars, bytes)
            && (easily && self.walk.is_free(shapes, scalars)
                || self.walk.completion(shapes, scalars).is_some());
        self.walk.back(mark);
        Ok(goes_on)
    }

    /// See [`Steer::place`].
    pub fn name(&self) -> Result<Option<Vec<u32>>> {
        Ok(self.walk.name(&self.ty.shortest()?.shapes))
    }

    /// How many bytes may be written into the string that the text stands in, whatever they are unless they end it:
    /// `within` at most, [`ESCAPED`] fewer with escapes; 0 if it stands elsewhere.
    pub fn room(&mut self, within: usize) -> Result<usize> {
        let shortest = self.ty.shortest()?;
        Ok(self.walk.room(&shortest.shapes, &mut shortest.scalars(), within))
    }

    /// Whether the text stands within an array whose items differ; within a string that can go on without end,
    /// whatever is written into it; within a string at all.
    pub fn unique(&self) -> Result<(bool, bool, bool)> {
        let shortest = self.ty.shortest()?;
        let apart = self.walk.is_apart(&shortest.shapes);
        let endless = self.walk.is_endless(&shortest.shapes, &mut shortest.scalars());
        Ok((apart, endless, self.walk.is_quoted(&shortest.shapes)))
    }
}

/// Keeps a value completable within a budget of tokens.
pub(crate) struct Steer {
    ty: Type,
    walk: Walk,
    /// The rest of a completion in tokens, if one had to be looked for and nothing else was chosen since.
    plan: Vec<u32>,
    /// The rest of the completion for which the last token was taken, and that for which a token may be: where items
    /// must differ, another search may find a longer one.
    way: Option<Vec<u8>>,
    next: Option<(u32, Vec<u8>)>,
}

impl Steer {
    /// At the start of a value.
    ///
    /// # Errors
    /// [`crate::Error::Type`] for a pattern that is too complex.
    pub fn new(ty: &Type) -> Result<Self> {
        let shortest = ty.shortest()?;
        let walk = Walk::new(&shortest.shapes, &mut shortest.scalars());
        Ok(Steer { ty: ty.clone(), walk, plan: Vec::new(), way: None, next: None })
    }

    /// Follows a token that is part of the value.
    pub fn follow(&mut self, id: u32, bytes: &[u8]) -> Result<()> {
        if self.plan.first() == Some(&id) {
            self.plan.remove(0);
        } else {
            self.plan.clear();
        }
        self.way = match self.next.take() {
            Some((next, way)) if next == id => Some(way),
            _ => self.way.take().and_then(|way| way.strip_prefix(bytes).map(<[u8]>::to_vec)),
        };
        let shortest = self.ty.shortest()?;
        self.walk.advance(&shortest.shapes, &mut shortest.scalars(), bytes);
        Ok(())
    }

    /// Tokens that complete the value from here; at most `bound` if a way of at most so many bytes exists.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] if there is none.
    pub fn needed(&mut self, matcher: &Matcher, bound: usize) -> Result<usize> {
        let (rest, _) = self.completion()?.ok_or_else(no_way)?;
        let needed = if rest.len() <= bound { rest.len() } else { matcher.path(&rest)?.len() };
        self.way = Some(rest);
        Ok(needed)
    }

    /// Whether the value can still be completed in `left` more tokens after this one. If not, the token must
    /// not be taken, and [`Steer::fallback`] is.
    pub fn admits(&mut self, id: u32, bytes: &[u8], matcher: &Matcher, left: usize) -> Result<bool> {
        let ty = self.ty.clone();
        let shortest = ty.shortest()?;
        let mark = self.walk.mark();
        let goes_on = self.walk.advance(&shortest.shapes, &mut shortest.scalars(), bytes);
        let way = self.way.take();
        let rest = if goes_on { self.completion()? } else { None };
        self.walk.back(mark);
        let same_way = way.as_deref().and_then(|way| way.strip_prefix(bytes)).map(<[u8]>::to_vec);
        self.way = way;
        // The token may be the next one of the way that is known.
        let rest = match (same_way, rest) {
            (Some(way), Some((rest, depth))) if way.len() < rest.len() => Some((way, depth)),
            (_, rest) => rest,
        };
        let Some((rest, depth)) = rest else { return Ok(false) };
        if depth > MAX_DEPTH && !ty.is_text() {
            return Ok(false);
        }
        if rest.len() <= left {
            self.next = Some((id, rest));
            return Ok(true);
        }
        let mut ahead = matcher.clone();
        ahead.consume(id)?;
        let path = ahead.path(&rest)?;
        let fits = path.len() <= left;
        if fits {
            self.plan = [&[id], path.as_slice()].concat();
            self.next = Some((id, rest));
        }
        Ok(fits)
    }

    /// The next token of the shortest completion; `None` if the value is complete as it is.
    pub fn fallback(&mut self, matcher: &Matcher) -> Result<Option<u32>> {
        if self.plan.is_empty() {
            let (rest, _) = self.completion()?.ok_or_else(no_way)?;
            self.plan = matcher.path(&rest)?;
        }
        Ok(self.plan.first().copied())
    }

    /// The name of this place among all of the type: where it is the same, the same may follow.
    pub fn place(&self) -> Result<Option<Vec<u32>>> {
        Ok(self.walk.name(&self.ty.shortest()?.shapes))
    }

    /// What a checkpoint keeps, besides the tokens: another completion of the same length may need more tokens.
    pub fn plan(&self) -> &[u32] {
        &self.plan
    }

    /// Takes up a plan from a checkpoint.
    pub fn resume_plan(&mut self, plan: Vec<u32>) {
        self.plan = plan;
    }

    fn completion(&self) -> Result<Option<(Vec<u8>, usize)>> {
        let shortest = self.ty.shortest()?;
        let found = self.walk.completion(&shortest.shapes, &mut shortest.scalars());
        Ok(match (&self.way, found) {
            (Some(way), found) if found.as_ref().is_none_or(|(rest, _)| way.len() < rest.len()) => {
                Some((way.clone(), self.walk.deepest(way)))
            }
            (_, found) => found,
        })
    }
}

fn no_way() -> crate::error::Error {
    crate::error::Error::Internal("no way was found to complete the value".into())
}
