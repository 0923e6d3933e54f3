//! Regular expressions as text, so that one that comes again is not worked through again: a schema has few scalars that
//! differ, and many places for them.

use llguidance::derivre::RegexAst;
use std::fmt::Write;

/// A text that only equal expressions have; `None` for kinds that types do not use.
pub(super) fn spelled(ast: &RegexAst) -> Option<String> {
    let mut out = String::new();
    write(ast, &mut out)?;
    Some(out)
}

fn write(ast: &RegexAst, out: &mut String) -> Option<()> {
    match ast {
        RegexAst::And(parts) => list('&', parts, out)?,
        RegexAst::Or(parts) => list('|', parts, out)?,
        RegexAst::Concat(parts) => list('.', parts, out)?,
        RegexAst::Not(inner) => {
            out.push('!');
            write(inner, out)?;
        }
        RegexAst::Repeat(inner, min, max) => {
            let _ = write!(out, "*{min},{max}:");
            write(inner, out)?;
        }
        // There is one way of quoting.
        RegexAst::JsonQuote(inner, _) => {
            out.push('q');
            write(inner, out)?;
        }
        RegexAst::Regex(text) => text_of('r', text, out),
        RegexAst::Literal(text) => text_of('l', text, out),
        RegexAst::EmptyString => out.push('e'),
        RegexAst::NoMatch => out.push('n'),
        _ => return None,
    }
    Some(())
}

fn list(kind: char, parts: &[RegexAst], out: &mut String) -> Option<()> {
    let _ = write!(out, "{kind}{}(", parts.len());
    parts.iter().try_for_each(|part| write(part, out))?;
    out.push(')');
    Some(())
}

fn text_of(kind: char, text: &str, out: &mut String) {
    let _ = write!(out, "{kind}{}:{text}", text.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_expressions_are_spelled_differently() {
        let literal = |s: &str| RegexAst::Literal(s.into());
        let all = [
            literal("ab"),
            RegexAst::Regex("ab".into()),
            RegexAst::Concat(vec![literal("a"), literal("b")]),
            RegexAst::Concat(vec![literal("ab")]),
            RegexAst::Or(vec![literal("a"), literal("b")]),
            RegexAst::And(vec![literal("a"), literal("b")]),
            RegexAst::Or(vec![literal("al1:b")]),
            RegexAst::Not(Box::new(literal("ab"))),
            RegexAst::Repeat(Box::new(literal("ab")), 1, 2),
            RegexAst::Repeat(Box::new(literal("ab")), 1, 3),
            RegexAst::Concat(vec![RegexAst::Concat(vec![literal("a")]), literal("b")]),
            RegexAst::Concat(vec![RegexAst::Concat(vec![literal("a"), literal("b")])]),
            RegexAst::EmptyString,
            RegexAst::NoMatch,
        ];
        let texts: std::collections::HashSet<_> = all.iter().map(|a| spelled(a).unwrap()).collect();
        assert_eq!(texts.len(), all.len());
    }
}
