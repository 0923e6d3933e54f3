//! Added tokens: those that text is cut at before anything else, control tokens and user-defined ones.

use super::Specials;
use crate::error::{Error, Result};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// A token that is matched as a whole in text. The flags are Hugging Face's.
#[derive(Debug, Clone, Default)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) content: String,
    /// Only matched with [`Specials::Parse`].
    pub(super) control: bool,
    /// Takes whitespace before it along.
    pub(super) lstrip: bool,
    /// Takes whitespace after it along.
    pub(super) rstrip: bool,
    /// Not inside a word.
    pub(super) single_word: bool,
    /// Matched in normalised text instead of the original; `content` is normalised as well.
    pub(super) normalized: bool,
}

/// A part of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'t> {
    /// An added token.
    Token(u32),
    /// Text between added tokens, never empty.
    Text(&'t str),
}

/// The added tokens that are looked for in one kind of text.
struct Matcher {
    automaton: AhoCorasick,
    tokens: Vec<AddedToken>,
}

impl Matcher {
    fn new(tokens: Vec<AddedToken>) -> Result<Option<Self>> {
        if tokens.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(tokens.iter().map(|t| &t.content))
            .map_err(|e| Error::bad_model("added tokens", e))?;
        Ok(Some(Matcher { automaton, tokens }))
    }

    fn split<'t>(&self, text: &'t str, mut each: impl FnMut(Part<'t>) -> Result<()>) -> Result<()> {
        let mut done = 0;
        for found in self.automaton.find_iter(text) {
            let token = &self.tokens[found.pattern().as_usize()];
            let (mut start, mut stop) = (found.start(), found.end());
            if token.single_word && (ends_in_word(&text[..start]) || starts_with_word(&text[stop..])) {
                continue;
            }
            if token.lstrip {
                start = text[..start].trim_end().len().max(done);
            }
            if token.rstrip {
                stop = text.len() - text[stop..].trim_start().len();
            }
            if done < start {
                each(Part::Text(&text[done..start]))?;
            }
            each(Part::Token(token.id))?;
            done = stop;
        }
        if done < text.len() {
            each(Part::Text(&text[done..]))?;
        }
        Ok(())
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

fn starts_with_word(text: &str) -> bool {
    text.chars().next().is_some_and(is_word)
}

/// Cuts text at added tokens.
pub(super) struct Added {
    all: Stage,
    /// Without the control tokens.
    user: Stage,
}

/// The same tokens, by whether they are looked for before or after normalisation.
struct Stage {
    original: Option<Matcher>,
    normalized: Option<Matcher>,
}

impl Stage {
    fn new(tokens: &[AddedToken], wanted: impl Fn(&AddedToken) -> bool) -> Result<Self> {
        let of = |normalized| {
            let chosen = tokens.iter().filter(|t| t.normalized == normalized && wanted(t));
            Matcher::new(chosen.cloned().collect())
        };
        Ok(Stage { original: of(false)?, normalized: of(true)? })
    }
}

impl Added {
    pub(super) fn new(tokens: &[AddedToken]) -> Result<Self> {
        let named = |t: &AddedToken| !t.content.is_empty();
        Ok(Added { all: Stage::new(tokens, named)?, user: Stage::new(tokens, |t| named(t) && !t.control)? })
    }

    fn stage(&self, specials: Specials) -> &Stage {
        match specials {
            Specials::Parse => &self.all,
            Specials::Text => &self.user,
        }
    }

    /// Parts of a text as it came.
    pub(super) fn split_original<'t>(
        &self,
        text: &'t str,
        specials: Specials,
        each: impl FnMut(Part<'t>) -> Result<()>,
    ) -> Result<()> {
        split(&self.stage(specials).original, text, each)
    }

    /// Parts of a normalised text.
    pub(super) fn split_normalized<'t>(
        &self,
        text: &'t str,
        specials: Specials,
        each: impl FnMut(Part<'t>) -> Result<()>,
    ) -> Result<()> {
        split(&self.stage(specials).normalized, text, each)
    }
}

fn split<'t>(
    matcher: &Option<Matcher>,
    text: &'t str,
    mut each: impl FnMut(Part<'t>) -> Result<()>,
) -> Result<()> {
    match matcher {
        _ if text.is_empty() => Ok(()),
        None => each(Part::Text(text)),
        Some(matcher) => matcher.split(text, each),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(tokens: &[AddedToken], text: &str, specials: Specials) -> String {
        let mut shown = String::new();
        let added = Added::new(tokens).unwrap();
        added
            .split_original(text, specials, |part| {
                shown += &match part {
                    Part::Token(id) => format!("<{id}>"),
                    Part::Text(text) => format!("[{text}]"),
                };
                Ok(())
            })
            .unwrap();
        shown
    }

    fn token(id: u32, content: &str) -> AddedToken {
        AddedToken { id, content: content.into(), ..Default::default() }
    }

    #[test]
    fn flags_as_the_reference_has_them() {
        let tokens = [
            AddedToken { control: true, ..token(1, "<|s|>") },
            token(2, "<t>"),
            token(3, "<t><t>"),
            AddedToken { lstrip: true, ..token(4, "<l>") },
            AddedToken { rstrip: true, ..token(5, "<r>") },
            AddedToken { single_word: true, ..token(6, "ab") },
        ];
        for (text, specials, expected) in [
            ("a<|s|>b<t>", Specials::Parse, "[a]<1>[b]<2>"),
            ("a<|s|>b<t>", Specials::Text, "[a<|s|>b]<2>"),
            ("<t><t><t>", Specials::Text, "<3><2>"),
            ("x \n <l> y", Specials::Text, "[x]<4>[ y]"),
            ("x <r> \t y", Specials::Text, "[x ]<5>[y]"),
            ("<r>  <l>", Specials::Text, "<5><4>"),
            ("ab cab abc ab", Specials::Text, "<6>[ cab abc ]<6>"),
            ("", Specials::Parse, ""),
        ] {
            assert_eq!(parts(&tokens, text, specials), expected, "{text:?}");
        }
    }
}
