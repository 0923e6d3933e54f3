//! Regular expressions of ECMA-262 (JSON Schema's `pattern`) as sets of whole strings.
//!
//! The matcher's regex engine knows no search, no anchors inside alternatives and no look-ahead, but it has
//! intersection and complement; so a pattern is parsed here and rewritten as the language of all strings in
//! which the pattern is found.

use llguidance::derivre::{Regex, RegexAst, RegexBuilder};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Longest pattern taken, in characters.
const MAX_PATTERN_CHARS: usize = 4096;
/// Nesting of groups.
const MAX_DEPTH: usize = 40;
/// Anchored alternatives are multiplied out; no more than this many times.
const MAX_EXPANSIONS: usize = 500;
/// Largest repetition count.
const MAX_REPEAT: u32 = 100_000;
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
        let tree = Parser::new(source)?.parse()?;
        let mut builder = Builder { expansions: 0 };
        let before = if search { Before::Anything } else { Before::Nothing };
        let ast = builder.language(&[&tree], before, search)?;
        let pattern = Self::of(source, ast);
        // Found out now rather than in the middle of a schema: the engine's own limits.
        RegexBuilder::new()
            .mk(pattern.ast())
            .map_err(|e| PatternError { at: 0, reason: e.to_string() })?;
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
    let mut builder = RegexBuilder::new();
    let expr = builder.mk(ast).ok()?;
    if builder.exprset().is_positive(expr) {
        return Some(false);
    }
    Some(builder.to_regex_limited(expr, PROOF_FUEL).ok()?.always_empty())
}

/// A parsed pattern.
#[derive(Debug)]
enum Tree {
    /// One character out of a class, in regex-syntax's notation.
    Class(String),
    Seq(Vec<Tree>),
    Alt(Vec<Tree>),
    Repeat(Box<Tree>, u32, u32),
    Start,
    End,
    Look { negative: bool, inner: Box<Tree> },
}

impl Tree {
    /// Whether it looks at anything but its own characters.
    fn asserts(&self) -> bool {
        match self {
            Tree::Class(_) => false,
            Tree::Seq(v) | Tree::Alt(v) => v.iter().any(Tree::asserts),
            Tree::Repeat(t, ..) => t.asserts(),
            Tree::Start | Tree::End | Tree::Look { .. } => true,
        }
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn new(source: &str) -> Result<Self, PatternError> {
        let chars: Vec<char> = source.chars().collect();
        if chars.len() > MAX_PATTERN_CHARS {
            return Err(PatternError { at: 0, reason: format!("longer than {MAX_PATTERN_CHARS} characters") });
        }
        Ok(Parser { chars, at: 0, depth: 0 })
    }

    fn err<T>(&self, reason: impl Into<String>) -> Result<T, PatternError> {
        Err(PatternError { at: self.at.min(self.chars.len()), reason: reason.into() })
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, text: &str) -> bool {
        let n = text.chars().count();
        let found = self.chars.get(self.at..self.at + n).is_some_and(|s| s.iter().copied().eq(text.chars()));
        if found {
            self.at += n;
        }
        found
    }

    fn parse(mut self) -> Result<Tree, PatternError> {
        let tree = self.alternatives()?;
        match self.peek() {
            None => Ok(tree),
            Some(c) => self.err(format!("unexpected {c:?}")),
        }
    }

    fn alternatives(&mut self) -> Result<Tree, PatternError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.err(format!("groups are nested deeper than {MAX_DEPTH}"));
        }
        let mut alternatives = vec![self.sequence()?];
        while self.eat("|") {
            alternatives.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(match alternatives.len() {
            1 => alternatives.remove(0),
            _ => Tree::Alt(alternatives),
        })
    }

    fn sequence(&mut self) -> Result<Tree, PatternError> {
        let mut items = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let start = self.at;
            let atom = self.atom()?;
            items.push(self.quantified(atom, start)?);
        }
        Ok(Tree::Seq(items))
    }

    fn atom(&mut self) -> Result<Tree, PatternError> {
        let start = self.at;
        let Some(c) = self.peek() else { return self.err("unexpected end") };
        self.at += 1;
        Ok(match c {
            '^' => Tree::Start,
            '$' => Tree::End,
            '.' => Tree::Class(r"[^\n\r\x{2028}\x{2029}]".into()),
            '(' => return self.group(start),
            '[' => Tree::Class(self.class()?),
            '\\' => match self.peek() {
                Some(a @ ('b' | 'B')) => {
                    self.at = start;
                    return self.err(format!("\\{a} (word boundary) cannot be enforced"));
                }
                _ => Tree::Class(format!("[{}]", self.escape(false)?)),
            },
            '*' | '+' | '?' => {
                self.at = start;
                return self.err(format!("nothing to repeat before {c:?}"));
            }
            c => Tree::Class(format!("[{}]", literal(c))),
        })
    }

    fn group(&mut self, start: usize) -> Result<Tree, PatternError> {
        let mut look = None;
        if self.eat("?=") {
            look = Some(false);
        } else if self.eat("?!") {
            look = Some(true);
        } else if self.eat("?<=") || self.eat("?<!") {
            self.at = start;
            return self.err("look-behind cannot be enforced");
        } else if self.eat("?<") {
            while self.peek().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '$')) {
                self.at += 1;
            }
            if !self.eat(">") {
                return self.err("a group name ends with >");
            }
        } else if !self.eat("?:") && self.peek() == Some('?') {
            return self.err("this kind of group is not part of ECMA-262");
        }
        let inner = self.alternatives()?;
        if !self.eat(")") {
            self.at = start;
            return self.err("the group is not closed");
        }
        Ok(match look {
            None => inner,
            Some(negative) => Tree::Look { negative, inner: Box::new(inner) },
        })
    }

    fn quantified(&mut self, atom: Tree, start: usize) -> Result<Tree, PatternError> {
        let (min, max) = match self.peek() {
            Some('*') => (0, u32::MAX),
            Some('+') => (1, u32::MAX),
            Some('?') => (0, 1),
            Some('{') => match self.counts()? {
                Some(counts) => counts,
                None => return Ok(atom),
            },
            _ => return Ok(atom),
        };
        self.at += 1;
        self.eat("?"); // laziness does not change what is matched
        if matches!(atom, Tree::Start | Tree::End | Tree::Look { .. }) {
            self.at = start;
            return self.err("an assertion cannot be repeated");
        }
        if matches!(self.peek(), Some('*' | '+' | '?')) {
            return self.err("nothing to repeat");
        }
        Ok(Tree::Repeat(Box::new(atom), min, max))
    }

    /// `{n}`, `{n,}` or `{n,m}`, leaving the closing brace; anything else is a literal brace.
    fn counts(&mut self) -> Result<Option<(u32, u32)>, PatternError> {
        let open = self.at;
        let close = match self.chars[open..].iter().position(|&c| c == '}') {
            Some(n) => open + n,
            None => return Ok(None),
        };
        let body: String = self.chars[open + 1..close].iter().collect();
        let (min, max) = match body.split_once(',') {
            Some((min, max)) => (min, Some(max)),
            None => (body.as_str(), None),
        };
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(min) || max.is_some_and(|m| !m.is_empty() && !digits(m)) {
            return Ok(None);
        }
        let number = |s: &str| s.parse::<u32>().ok().filter(|&n| n <= MAX_REPEAT);
        let counts = match (number(min), max) {
            (Some(min), None) => Some((min, min)),
            (Some(min), Some("")) => Some((min, u32::MAX)),
            (Some(min), Some(max)) => number(max).map(|max| (min, max)),
            _ => None,
        };
        match counts {
            Some((min, max)) if min <= max => {
                self.at = close;
                Ok(Some((min, max)))
            }
            Some(_) => self.err("the counts of the repetition are out of order"),
            None => self.err(format!("repetition counts end at {MAX_REPEAT}")),
        }
    }

    /// The rest of `[...]`, as a class in regex-syntax's notation.
    fn class(&mut self) -> Result<String, PatternError> {
        let start = self.at - 1;
        let negated = self.eat("^");
        let mut items = String::new();
        loop {
            let Some(c) = self.peek() else {
                self.at = start;
                return self.err("the character class is not closed");
            };
            self.at += 1;
            if c == ']' {
                break;
            }
            let from = self.at - 1;
            let first = if c == '\\' { self.escape(true)? } else { literal(c) };
            let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|&c| c != ']');
            if !is_range {
                items.push_str(&first);
                continue;
            }
            self.at += 1;
            let Some(c) = self.peek() else { return self.err("unexpected end") };
            self.at += 1;
            let last = if c == '\\' { self.escape(true)? } else { literal(c) };
            match (code_point(&first), code_point(&last)) {
                (Some(a), Some(b)) if a <= b => items.push_str(&format!("{first}-{last}")),
                (Some(_), Some(_)) => {
                    self.at = from;
                    return self.err("the range is out of order");
                }
                // A class on either side makes the hyphen a character of its own.
                _ => items.push_str(&format!("{first}{}{last}", literal('-'))),
            }
        }
        Ok(match (items.is_empty(), negated) {
            (true, false) => r"[^\x{0}-\x{10FFFF}]".into(),
            (true, true) => r"[\x{0}-\x{10FFFF}]".into(),
            (false, false) => format!("[{items}]"),
            (false, true) => format!("[^{items}]"),
        })
    }

    /// What follows a backslash, as an item of a class.
    fn escape(&mut self, in_class: bool) -> Result<String, PatternError> {
        let start = self.at - 1;
        let Some(c) = self.peek() else { return self.err("nothing follows the backslash") };
        self.at += 1;
        let space = r"\t\n\x{B}\x{C}\r\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";
        Ok(match c {
            'd' => "0-9".into(),
            'D' => "[^0-9]".into(),
            'w' => "0-9A-Za-z_".into(),
            'W' => "[^0-9A-Za-z_]".into(),
            's' => space.into(),
            'S' => format!("[^{space}]"),
            't' => literal('\t'),
            'n' => literal('\n'),
            'r' => literal('\r'),
            'f' => literal('\u{c}'),
            'v' => literal('\u{b}'),
            'b' if in_class => literal('\u{8}'),
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => literal('\0'),
            'x' => self.hex(2, start)?,
            'u' => self.unicode(start)?,
            'p' | 'P' => self.property(c, start)?,
            'c' => match self.peek().filter(char::is_ascii_alphabetic) {
                Some(letter) => {
                    self.at += 1;
                    literal(char::from(letter as u8 % 32))
                }
                None => return self.bad_escape(start, c),
            },
            c if c.is_ascii_digit() || c == 'k' => {
                self.at = start;
                return self.err("back-references cannot be enforced");
            }
            c if c.is_ascii_alphabetic() => return self.bad_escape(start, c),
            c => literal(c),
        })
    }

    fn bad_escape<T>(&mut self, start: usize, c: char) -> Result<T, PatternError> {
        self.at = start;
        self.err(format!("\\{c} is no escape of ECMA-262"))
    }

    fn hex_value(&mut self, digits: usize) -> Option<u32> {
        let text: String = self.chars.get(self.at..self.at + digits)?.iter().collect();
        let value = u32::from_str_radix(&text, 16).ok().filter(|_| !text.starts_with('+'))?;
        self.at += digits;
        Some(value)
    }

    fn hex(&mut self, digits: usize, start: usize) -> Result<String, PatternError> {
        match self.hex_value(digits).and_then(char::from_u32) {
            Some(c) => Ok(literal(c)),
            None => {
                self.at = start;
                self.err("malformed hexadecimal escape")
            }
        }
    }

    /// After `\u`: four digits, a surrogate pair, or `{...}`.
    fn unicode(&mut self, start: usize) -> Result<String, PatternError> {
        let c = if self.eat("{") {
            let n = self.chars[self.at..].iter().position(|&c| c == '}').filter(|&n| (1..=6).contains(&n));
            let c = n.and_then(|n| self.hex_value(n)).and_then(char::from_u32);
            c.filter(|_| self.eat("}"))
        } else {
            match self.hex_value(4) {
                Some(high @ 0xD800..=0xDBFF) if self.eat("\\u") => match self.hex_value(4) {
                    Some(low @ 0xDC00..=0xDFFF) => {
                        char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                    }
                    _ => None,
                },
                Some(code) => char::from_u32(code),
                None => None,
            }
        };
        match c {
            Some(c) => Ok(literal(c)),
            None => {
                self.at = start;
                self.err("malformed Unicode escape, or half of a surrogate pair")
            }
        }
    }

    /// After `\p` or `\P`: a Unicode property.
    fn property(&mut self, kind: char, start: usize) -> Result<String, PatternError> {
        let end = self.chars[self.at..].iter().position(|&c| c == '}');
        let name: Option<String> =
            end.filter(|_| self.peek() == Some('{')).map(|n| self.chars[self.at + 1..self.at + n].iter().collect());
        let text = name.map(|name| format!("\\{kind}{{{name}}}"));
        let known = text.filter(|t| RegexBuilder::new().mk_regex(&format!("[{t}]")).is_ok());
        match (known, end) {
            (Some(text), Some(n)) => {
                self.at += n + 1;
                Ok(text)
            }
            _ => {
                self.at = start;
                self.err("unknown Unicode property")
            }
        }
    }
}

/// A character as an item of a class.
fn literal(c: char) -> String {
    format!("\\x{{{:X}}}", c as u32)
}

/// The character that [`literal`] wrote.
fn code_point(item: &str) -> Option<u32> {
    let hex = item.strip_prefix("\\x{")?.strip_suffix('}')?;
    u32::from_str_radix(hex, 16).ok()
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
    fn special(&mut self, item: &Tree, rest: &[&Tree], before: Before, open: bool) -> Result<RegexAst, PatternError> {
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
                    let items: Vec<&Tree> = std::iter::once(alternative).chain(rest.iter().copied()).collect();
                    languages.push(self.language(&items, before, open)?);
                }
                Ok(RegexAst::Or(languages))
            }
            Tree::Repeat(inner, 0, 1) => {
                let with: Vec<&Tree> = std::iter::once(inner.as_ref()).chain(rest.iter().copied()).collect();
                Ok(RegexAst::Or(vec![self.language(&with, before, open)?, self.language(rest, before, open)?]))
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
            ("a(b", 1, "not closed"), ("a)", 1, "unexpected"), ("*a", 0, "nothing to repeat"),
            ("a**", 2, "nothing to repeat"), ("[a", 0, "not closed"), ("[z-a]", 1, "out of order"),
            (r"\bfoo", 0, "boundary"), (r"(a)\1", 3, "back-reference"), ("(?<=a)b", 0, "look-behind"),
            (r"\Afoo\Z", 0, "no escape"), ("(?i)a", 1, "not part of"), ("a{3,2}", 1, "out of order"),
            ("a{999999999}", 1, "end at"), (r"\u12", 0, "malformed"), (r"\p{Nope}", 0, "unknown"),
            ("(^a)+b", 0, "repeated group"), ("a^b", 0, "after other"), ("a\\", 2, "backslash"),
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
            RegexAst::And(vec![Pattern::whole(a).unwrap().ast().clone(), Pattern::whole(b).unwrap().ast().clone()])
        };
        assert_eq!(is_empty(&and("a+", "b+")), Some(true));
        assert_eq!(is_empty(&and("a*", "b*")), Some(false));
    }
}
