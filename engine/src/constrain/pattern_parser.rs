//! Patterns of ECMA-262 into trees.

use super::pattern::PatternError;
use llguidance::derivre::RegexBuilder;

/// Longest pattern taken, in characters.
const MAX_PATTERN_CHARS: usize = 4096;
/// Nesting of groups.
const MAX_DEPTH: usize = 40;
/// Largest repetition count.
const MAX_REPEAT: u32 = 100_000;

/// A parsed pattern.
#[derive(Debug)]
pub(super) enum Tree {
    /// One character out of a class, in regex-syntax's notation.
    Class(String),
    Seq(Vec<Tree>),
    Alt(Vec<Tree>),
    Repeat(Box<Tree>, u32, u32),
    Start,
    End,
    Look {
        negative: bool,
        inner: Box<Tree>,
    },
}

impl Tree {
    /// Whether it looks at anything but its own characters.
    pub fn asserts(&self) -> bool {
        match self {
            Tree::Class(_) => false,
            Tree::Seq(v) | Tree::Alt(v) => v.iter().any(Tree::asserts),
            Tree::Repeat(t, ..) => t.asserts(),
            Tree::Start | Tree::End | Tree::Look { .. } => true,
        }
    }

    /// Characters, with repetitions written out.
    pub fn size(&self) -> u64 {
        match self {
            Tree::Class(_) => 1,
            Tree::Seq(v) | Tree::Alt(v) => v.iter().map(Tree::size).fold(0, u64::saturating_add),
            Tree::Repeat(t, min, u32::MAX) => t.size().saturating_mul(u64::from(*min).max(1)),
            Tree::Repeat(t, _, max) => t.size().saturating_mul(u64::from(*max)),
            Tree::Start | Tree::End => 0,
            Tree::Look { inner, .. } => inner.size(),
        }
    }
}

/// Parses a pattern.
pub(super) fn parse(source: &str) -> Result<Tree, PatternError> {
    Parser::new(source)?.parse()
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
            return Err(PatternError {
                at: 0,
                reason: format!("longer than {MAX_PATTERN_CHARS} characters"),
            });
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
            '{' => {
                self.at = start;
                if self.counts()?.is_some() {
                    self.at = start;
                    return self.err("nothing to repeat before the counts");
                }
                self.at = start + 1;
                Tree::Class(format!("[{}]", literal(c)))
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
        let again = self.at;
        let repeats = match self.peek() {
            Some('{') => self.counts()?.is_some(),
            other => matches!(other, Some('*' | '+' | '?')),
        };
        self.at = again;
        if repeats {
            return self.err("nothing to repeat: a quantifier follows a quantifier");
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
        let name: Option<String> = end
            .filter(|_| self.peek() == Some('{'))
            .map(|n| self.chars[self.at + 1..self.at + n].iter().collect());
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
