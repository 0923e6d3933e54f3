//! Regular expressions of ECMA-262 (JSON Schema's `pattern`) as sets of whole strings.
//!
//! The matcher's regex engine knows no search, no anchors inside alternatives and no look-ahead, but it has
//! intersection and complement; so a pattern is parsed here and rewritten as the language of all strings in
//! which the pattern is found.

use super::pattern_parser::{self, Tree};
use llguidance::derivre::{Regex, RegexAst, RegexBuilder};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Anchored alternatives are multiplied out; no more than this many times.
const MAX_EXPANSIONS: usize = 500;
/// Characters of a pattern whose repetitions are written out.
const MAX_SIZE: u64 = 200_000;
/// Work that one emptiness proof may take.
const PROOF_FUEL: u64 = 200_000;

/// Any string at all.
pub(super) const ANY_STRING: &str = "(?s:.*)";

/// A regular language over strings, with the text that people know it by.
#[derive(Clone)]
pub(super) struct Pattern(Arc<Inner>);

struct Inner {
    source: String,
    ast: RegexAst,
    /// Compiled on the first test of a string.
    compiled: Mutex<Option<Regex>>,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.0.source)
    }
}

/// What is wrong with a pattern, and at which character (from 0).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PatternError {
    pub at: usize,
    pub reason: String,
}

impl Pattern {
    /// All strings in which an ECMA-262 pattern is found.
    pub fn search(source: &str) -> Result<Self, PatternError> {
        Self::parse(source, true)
    }

    /// All strings that an ECMA-262 pattern matches as a whole.
    pub fn whole(source: &str) -> Result<Self, PatternError> {
        Self::parse(source, false)
    }

    /// A regular language given directly; `source` is for messages.
    pub fn of(source: impl Into<String>, ast: RegexAst) -> Self {
        Pattern(Arc::new(Inner { source: source.into(), ast, compiled: Mutex::new(None) }))
    }

    fn parse(source: &str, search: bool) -> Result<Self, PatternError> {
        let tree = pattern_parser::parse(source)?;
        let size = tree.size();
        if size > MAX_SIZE {
            return refuse(&format!("the pattern is too large: its repetitions multiply out to {size} characters; at most {MAX_SIZE} are taken"));
        }
        let mut builder = Builder { expansions: 0 };
        let before = if search { Before::Anything } else { Before::Nothing };
        let ast = builder.language(&[&tree], before, search)?;
        let pattern = Self::of(source, ast);
        // Found out now rather than in the middle of a schema: the engine's own limits.
        RegexBuilder::new().mk(pattern.ast()).map_err(|e| PatternError { at: 0, reason: e.to_string() })?;
        Ok(pattern)
    }

    pub fn ast(&self) -> &RegexAst {
        &self.0.ast
    }

    /// Whether a whole string is in the language.
    pub fn matches(&self, text: &str) -> bool {
        let mut compiled = self.0.compiled.lock().unwrap_or_else(|e| e.into_inner());
        if compiled.is_none() {
            let mut builder = RegexBuilder::new();
            *compiled = builder.mk(&self.0.ast).ok().map(|e| builder.to_regex(e));
        }
        compiled.as_mut().is_some_and(|r| r.is_match(text))
    }

    /// Whether two patterns are the same by construction.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.source == other.0.source
    }
}

/// Whether a language has no string at all; `None` if that takes too much work to find out.
pub(super) fn is_empty(ast: &RegexAst) -> Option<bool> {
    if plainly_has_a_string(ast) {
        return Some(false);
    }
    let mut builder = RegexBuilder::new();
    let expr = builder.mk(ast).ok()?;
    if builder.exprset().is_positive(expr) {
        return Some(false);
    }
    Some(builder.to_regex_limited(expr, PROOF_FUEL).ok()?.always_empty())
}

/// Whether a language has a string for reasons that need no engine: so do most.
fn plainly_has_a_string(ast: &RegexAst) -> bool {
    match ast {
        RegexAst::Literal(_) => true,
        RegexAst::Regex(source) => source == ANY_STRING,
        RegexAst::Or(all) => all.iter().any(plainly_has_a_string),
        RegexAst::JsonQuote(inner, _) => plainly_has_a_string(inner),
        _ => false,
    }
}

/// What may stand before the place that is being matched.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// It is the start of the string.
    Nothing,
    /// Anything, and it is still to be written.
    Anything,
    /// Something already written, so that `^` no longer holds for sure.
    Written,
}

struct Builder {
    expansions: usize,
}

impl Builder {
    /// The language of the sequence, after `before`, and followed by anything if `open` (except after `$`).
    fn language(&mut self, items: &[&Tree], before: Before, open: bool) -> Result<RegexAst, PatternError> {
        self.expansions += 1;
        if self.expansions > MAX_EXPANSIONS {
            return refuse("the anchors multiply out into too many alternatives");
        }
        let any = || RegexAst::Regex(ANY_STRING.into());
        let plain = items.iter().take_while(|t| !t.asserts()).count();
        let mut parts = Vec::new();
        // An item that asserts something decides for itself what stands before it.
        if before == Before::Anything && (plain > 0 || items.is_empty()) {
            parts.push(any());
        }
        for item in &items[..plain] {
            parts.push(chars(item));
        }
        let Some((special, rest)) = items[plain..].split_first() else {
            if open {
                parts.push(any());
            }
            return Ok(RegexAst::Concat(parts));
        };
        let before = if plain > 0 { Before::Written } else { before };
        parts.push(self.special(special, rest, before, open)?);
        Ok(RegexAst::Concat(parts))
    }

    /// The language of an item that asserts something, and of all that follows.
    fn special(
        &mut self,
        item: &Tree,
        rest: &[&Tree],
        before: Before,
        open: bool,
    ) -> Result<RegexAst, PatternError> {
        match item {
            Tree::Start => match before {
                Before::Nothing | Before::Anything => self.language(rest, Before::Nothing, open),
                Before::Written => refuse("^ after other characters cannot be enforced"),
            },
            Tree::End => {
                if rest.iter().any(|t| !matches!(t, Tree::End)) {
                    return refuse("$ before other characters cannot be enforced");
                }
                Ok(match before {
                    Before::Anything => RegexAst::Regex(ANY_STRING.into()),
                    _ => RegexAst::EmptyString,
                })
            }
            Tree::Seq(inner) => {
                let items: Vec<&Tree> = inner.iter().chain(rest.iter().copied()).collect();
                self.language(&items, before, open)
            }
            Tree::Alt(alternatives) => {
                let mut languages = Vec::new();
                for alternative in alternatives {
                    let items: Vec<&Tree> =
                        std::iter::once(alternative).chain(rest.iter().copied()).collect();
                    languages.push(self.language(&items, before, open)?);
                }
                Ok(RegexAst::Or(languages))
            }
            Tree::Repeat(inner, 0, 1) => {
                let with: Vec<&Tree> = std::iter::once(inner.as_ref()).chain(rest.iter().copied()).collect();
                Ok(RegexAst::Or(vec![
                    self.language(&with, before, open)?,
                    self.language(rest, before, open)?,
                ]))
            }
            Tree::Repeat(inner, 1, 1) => {
                let with: Vec<&Tree> = std::iter::once(inner.as_ref()).chain(rest.iter().copied()).collect();
                self.language(&with, before, open)
            }
            Tree::Look { negative, inner } => {
                let here = if before == Before::Nothing { Before::Nothing } else { Before::Written };
                let ahead = self.language(&[inner], here, true)?;
                let ahead = if *negative { RegexAst::Not(Box::new(ahead)) } else { ahead };
                let both = RegexAst::And(vec![self.language(rest, here, open)?, ahead]);
                Ok(match before {
                    Before::Anything => RegexAst::Concat(vec![RegexAst::Regex(ANY_STRING.into()), both]),
                    _ => both,
                })
            }
            Tree::Repeat(..) => refuse("a repeated group with anchors or look-ahead cannot be enforced"),
            Tree::Class(_) => Ok(chars(item)),
        }
    }
}

fn refuse<T>(reason: &str) -> Result<T, PatternError> {
    Err(PatternError { at: 0, reason: reason.into() })
}

/// The language of a tree that asserts nothing.
fn chars(tree: &Tree) -> RegexAst {
    match tree {
        Tree::Class(class) => RegexAst::Regex(class.clone()),
        Tree::Seq(items) => RegexAst::Concat(items.iter().map(chars).collect()),
        Tree::Alt(items) => RegexAst::Or(items.iter().map(chars).collect()),
        Tree::Repeat(inner, min, max) => RegexAst::Repeat(Box::new(chars(inner)), *min, *max),
        // Callers have looked: these assert.
        Tree::Start | Tree::End | Tree::Look { .. } => RegexAst::EmptyString,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_searched_for_as_ecma_262_says() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("a", &["a", "bab", "\na"], &["", "b"]),
            ("^a", &["a", "ab"], &["ba", ""]),
            ("a$", &["a", "ba"], &["ab", "a\n"]),
            ("^a$", &["a"], &["aa", "ba", "a\n"]),
            ("^(a|b)$", &["a", "b"], &["ab"]),
            ("^a|b$", &["ax", "xb", "a"], &["xa", "bx"]),
            ("(^a|b)c", &["ac", "xbc"], &["xac"]),
            ("a(b|$)", &["ab!", "xa"], &["ac"]),
            ("(^|x)y", &["y", "zxy"], &["zy"]),
            ("", &["", "x"], &[]),
            ("^$", &[""], &["x"]),
            ("^.$", &["é", "😀"], &["\n", "\r", "\u{2028}", "ab"]),
            (r"^\d{2,3}$", &["12", "123"], &["1", "1234", "٣٣"]),
            (r"^[^a-c\d]+$", &["xyz", "\n"], &["a", "x1", ""]),
            (r"^[\w.-]+$", &["a.b-c_1"], &["é", ""]),
            (r"^[a\-z]+$", &["a-z"], &["b"]),
            (r"^\u00e9\x41\u{1F600}$", &["éA😀"], &["eA"]),
            (r"^\ud83d\ude00$", &["😀"], &["x"]),
            ("^(?!foo)[a-z]+$", &["bar", "fo"], &["foo", "foobar"]),
            ("^(?=.*[0-9])[a-z0-9]{3}$", &["a1b", "123"], &["abc", "a1"]),
            ("^a(?!b)", &["ac", "a"], &["ab"]),
            ("(?!a)b", &["b", "ab"], &["a"]),
            (r"^(?<year>\d{4})-(?:\d\d)$", &["2024-01"], &["2024"]),
            ("^a{,3}$", &["a{,3}"], &["aa"]),
            ("^a{2}{$", &["aa{"], &["aa"]),
            ("^{x}$", &["{x}"], &["x"]),
            (r"^[^]$", &["x", "\n"], &[""]),
            (r"^\p{Lu}+$", &["ÀB"], &["a"]),
            (r"^\s\S$", &[" x", "\u{a0}y"], &["xx"]),
            (r"^a+?b*?$", &["ab", "aab"], &["b"]),
            (r"^\/\@\_$", &["/@_"], &["x"]),
            (r"\.json$", &["a.json"], &["ajson", ".json5"]),
        ];
        for (source, yes, no) in cases {
            let p = Pattern::search(source).unwrap_or_else(|e| panic!("{source}: {e:?}"));
            for s in *yes {
                assert!(p.matches(s), "{source} finds {s:?}");
            }
            for s in *no {
                assert!(!p.matches(s), "{source} does not find {s:?}");
            }
        }
    }

    #[test]
    fn whole_patterns_are_anchored_on_both_sides() {
        let p = Pattern::whole("a|b+").unwrap();
        for (s, want) in [("a", true), ("bb", true), ("ab", false), ("xa", false)] {
            assert_eq!(p.matches(s), want, "{s}");
        }
    }

    #[test]
    fn refused_patterns_name_the_character() {
        for (source, at, reason) in [
            ("a(b", 1, "not closed"),
            ("a)", 1, "unexpected"),
            ("*a", 0, "nothing to repeat"),
            ("a**", 2, "nothing to repeat"),
            ("[a", 0, "not closed"),
            ("[z-a]", 1, "out of order"),
            (r"\bfoo", 0, "boundary"),
            (r"(a)\1", 3, "back-reference"),
            ("(?<=a)b", 0, "look-behind"),
            (r"\Afoo\Z", 0, "no escape"),
            ("(?i)a", 1, "not part of"),
            ("a{3,2}", 1, "out of order"),
            ("a{999999999}", 1, "end at"),
            ("a{2}{3}", 4, "nothing to repeat"),
            ("a*{2}", 2, "nothing to repeat"),
            ("(a|a)*{1000}", 6, "nothing to repeat"),
            ("a+?{2,}", 3, "nothing to repeat"),
            ("{2}", 0, "nothing to repeat"),
            ("a|{2,3}", 2, "nothing to repeat"),
            ("({1})", 1, "nothing to repeat"),
            ("^((a{0,100}){0,100}){0,100}$", 0, "too large"),
            ("(a{1000}){1000}", 0, "too large"),
            (r"\u12", 0, "malformed"),
            (r"\p{Nope}", 0, "unknown"),
            ("(^a)+b", 0, "repeated group"),
            ("a^b", 0, "after other"),
            ("a\\", 2, "backslash"),
        ] {
            let e = Pattern::search(source).expect_err(source);
            assert_eq!(e.at, at, "{source}: {e:?}");
            assert!(e.reason.contains(reason), "{source}: {e:?}");
        }
    }

    #[test]
    fn hostile_patterns_end_in_an_error() {
        assert!(Pattern::search(&"(".repeat(5000)).is_err());
        assert!(Pattern::search(&format!("{}a{}", "(".repeat(200), ")".repeat(200))).is_err());
        assert!(Pattern::search(&"(^|a)".repeat(200)).is_err());
        assert!(Pattern::search(&"a".repeat(100_000)).is_err());
    }

    #[test]
    fn emptiness_sees_through_intersection() {
        let and = |a: &str, b: &str| {
            RegexAst::And(vec![
                Pattern::whole(a).unwrap().ast().clone(),
                Pattern::whole(b).unwrap().ast().clone(),
            ])
        };
        assert_eq!(is_empty(&and("a+", "b+")), Some(true));
        assert_eq!(is_empty(&and("a*", "b*")), Some(false));
    }
}
