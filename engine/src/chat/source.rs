//! Small changes to a template's source before it is compiled.
//!
//! * Jinja2 reads every kind of line end as a newline.
//! * transformers' `{% generation %}` marks what the assistant wrote, for training; for rendering it is a block
//!   with its own scope, which `{% with %}` is.
//! * `{% set x = ... %}` passes its value through a filter ([`super::data`]) that bounds how deeply values nest.
//! * `{% for x in ... %}` passes what it goes over through a filter that refuses `None`, as Python does.
//!
//! Line numbers stay as they are.

/// Names of the filters that `set` passes values through.
pub(super) const KEEP: &str = "lean_keep";
pub(super) const KEEP_ATTRIBUTE: &str = "lean_keep_attribute";
/// Name of the filter that `for` passes its list through.
pub(super) const EACH: &str = "lean_each";

/// Operators that one tag may have: the compiler recurses over them. Templates of models have up to 40.
const MAX_OPERATORS: usize = 300;
/// `{% elif %}` that one template may have: each is compiled inside the one before it. Models have up to 20.
const MAX_ELIFS: usize = 300;

/// The source as it is compiled. An error is a reason, with its line.
pub(super) fn prepare(source: &str) -> Result<String, String> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source.as_str();
    let mut elifs = 0;
    // What cannot be read is left as it is: the compiler says what is wrong with it.
    while let Some((text, opening, after)) = next_tag(rest) {
        out.push_str(text);
        out.push_str(opening);
        let length = match opening {
            "{#" => after.find("#}"),
            "{{" => end_of_tag(after, "}}"),
            _ if name(after) == "raw" => end_of_raw(after),
            _ => end_of_tag(after, "%}"),
        };
        let Some(length) = length else {
            out.push_str(after);
            return Ok(out);
        };
        let (inside, later) = after.split_at(length);
        if opening != "{#" && operators(inside) > MAX_OPERATORS && name(inside) != "raw" {
            let line = source[..source.len() - after.len()].matches('\n').count() + 1;
            return Err(format!("line {line}: more than {MAX_OPERATORS} operators in one tag"));
        }
        elifs += usize::from(opening == "{%" && name(inside) == "elif");
        if elifs > MAX_ELIFS {
            return Err(format!("more than {MAX_ELIFS} elif"));
        }
        match opening {
            "{%" => statement(inside, &mut out),
            _ => out.push_str(inside),
        }
        // The closing two characters.
        out.push_str(&later[..2]);
        rest = &later[2..];
    }
    Ok(out + rest)
}

/// How many operators and brackets a tag has, outside of strings.
fn operators(inside: &str) -> usize {
    let bytes = inside.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
    let (mut count, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'') => at = end_of_string(bytes, at + 1, quote),
            b if is_word(b) => {
                let start = at;
                while at + 1 < bytes.len() && is_word(bytes[at + 1]) {
                    at += 1;
                }
                let word = &bytes[start..=at];
                count +=
                    usize::from(matches!(word, b"not" | b"and" | b"or" | b"in" | b"is" | b"if" | b"else"));
            }
            b if b.is_ascii_whitespace() || matches!(b, b',' | b':' | b')' | b']' | b'}') => {}
            _ => count += 1,
        }
        at += 1;
    }
    count
}

/// What stands before the next tag, the tag's opening, and what follows it.
fn next_tag(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('{')?;
        if matches!(text.as_bytes().get(at + 1), Some(b'%' | b'{' | b'#')) {
            return Some((&text[..at], &text[at..at + 2], &text[at + 2..]));
        }
        from = at + 1;
    }
}

/// Where a tag closes, outside of strings and brackets.
fn end_of_tag(text: &str, close: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        if depth == 0 && bytes[at..].starts_with(close.as_bytes()) {
            return Some(at);
        }
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            quote @ (b'"' | b'\'') => at = end_of_string(bytes, at + 1, quote),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position of a string's closing quote.
fn end_of_string(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// Where the tag that ends a raw block closes; the block's text is part of the opening tag's inside.
fn end_of_raw(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find("{%")? + 2;
        let tag = &text[at..];
        let close = tag.find("%}")?;
        if name(&tag[..close + 2]) == "endraw" {
            return Some(at + close);
        }
    }
}

/// The first word of a tag.
fn name(inside: &str) -> &str {
    let inside = inside.trim_start_matches(['-', '+']).trim_start();
    let length = inside.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inside.len());
    &inside[..length]
}

/// The inside of a `{% ... %}`.
fn statement(inside: &str, out: &mut String) {
    match name(inside) {
        "generation" => out.push_str(&inside.replacen("generation", "with", 1)),
        "endgeneration" => out.push_str(&inside.replacen("endgeneration", "endwith", 1)),
        "set" => match end_of_tag(inside, "=") {
            Some(equals) => {
                let (target, value) = inside.split_at(equals + 1);
                let marker = value.len() - value.trim_end_matches(['-', '+']).len();
                let (value, marker) = value.split_at(value.len() - marker.min(1));
                let filter = if target.contains('.') { KEEP_ATTRIBUTE } else { KEEP };
                match value.trim() {
                    "" => out.push_str(inside),
                    _ => out.extend([target, " (", value, ")|", filter, " ", marker]),
                }
            }
            // A block: its value is text.
            None => out.push_str(inside),
        },
        "for" => match iterated(inside) {
            Some((head, list, tail)) => out.extend([head, " (", list, ")|", EACH, " ", tail]),
            None => out.push_str(inside),
        },
        _ => out.push_str(inside),
    }
}

/// A `for` around what it iterates over.
fn iterated(inside: &str) -> Option<(&str, &str, &str)> {
    let start = find_word(inside, "in")? + "in".len();
    let rest = &inside[start..];
    // A condition of its own needs brackets there, so an `if` is the loop's.
    let marker = rest.trim_end_matches(['-', '+']).len().max(rest.len().saturating_sub(1));
    let end =
        [find_word(rest, "if"), find_word(rest, "recursive")].into_iter().flatten().min().unwrap_or(marker);
    let list = &rest[..end];
    (!list.trim().is_empty()).then_some((&inside[..start], list, &rest[end..]))
}

/// Where a word stands, outside of strings and brackets.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.') || b >= 0x80;
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            quote @ (b'"' | b'\'') => at = end_of_string(bytes, at + 1, quote),
            b if is_word(b) => {
                let start = at;
                while at + 1 < bytes.len() && is_word(bytes[at + 1]) {
                    at += 1;
                }
                if depth == 0 && &bytes[start..=at] == word.as_bytes() {
                    return Some(start);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_set_for_and_generation_change() {
        for (source, prepared) in [
            ("a{%set x=1%}b", "a{%set x= (1)|lean_keep %}b"),
            (
                "{%- set ns.x = 'a=%}' ~ \"b\\\"%}\" -%}",
                "{%- set ns.x = ( 'a=%}' ~ \"b\\\"%}\" )|lean_keep_attribute -%}",
            ),
            ("{% set a, b = 1, {'k': '}'} %}", "{% set a, b = ( 1, {'k': '}'} )|lean_keep %}"),
            (
                "{% set x %}{{ '{% set y = 1 %}' }}{% endset %}",
                "{% set x %}{{ '{% set y = 1 %}' }}{% endset %}",
            ),
            ("{% set x | indent(width=2) %}{% endset %}", "{% set x | indent(width=2) %}{% endset %}"),
            ("{% set x = %}", "{% set x = %}"),
            ("{% if x == 1 %}{% settle %}{% endif %}", "{% if x == 1 %}{% settle %}{% endif %}"),
            ("{# {% set x = 1 %} #}{% set y = 2 %}", "{# {% set x = 1 %} #}{% set y = ( 2 )|lean_keep %}"),
            (
                "{% raw %}{% set x = 1 %}{{{% endraw %}{% set y = 2 %}",
                "{% raw %}{% set x = 1 %}{{{% endraw %}{% set y = ( 2 )|lean_keep %}",
            ),
            ("{{ {'a': {}} }}{% set y = 2 %}", "{{ {'a': {}} }}{% set y = ( 2 )|lean_keep %}"),
            ("{%- for x in xs -%}a{% endfor %}", "{%- for x in ( xs )|lean_each -%}a{% endfor %}"),
            (
                "{% for k, v in d.items(')if(') if v is not none %}{% for i in f(a if b) recursive %}",
                "{% for k, v in ( d.items(')if(') )|lean_each if v is not none %}{% for i in ( f(a if b) )|lean_each recursive %}",
            ),
            ("{% for x %}{% for x in %}", "{% for x %}{% for x in %}"),
            ("{%- generation -%}x{%+ endgeneration %}", "{%- with -%}x{%+ endwith %}"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("{% set x = 'open", "{% set x = 'open"),
            ("{{ {% {#", "{{ {% {#"),
            ("{", "{"),
        ] {
            assert_eq!(prepare(source).as_deref(), Ok(prepared));
        }
        let long = format!("a\n{{% if {}x %}}", "not ".repeat(400));
        assert_eq!(prepare(&long).unwrap_err(), "line 2: more than 300 operators in one tag");
        assert!(prepare(&format!("{{{{ [{}] }}}}", "'+', 1, ".repeat(1000))).is_ok());
    }
}
