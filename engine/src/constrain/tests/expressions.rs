//! Type expressions: the schemas they mean, and the characters their errors point at.

use super::*;
use std::fmt::Write;

const EXPRESSIONS: &[&str] = &[
    "string",
    "number",
    "boolean",
    "null",
    "unknown",
    "object",
    "integer",
    "number.integer",
    "number.safe",
    "true",
    "1",
    "-2.5e3",
    "'bug'",
    "\"bug\"",
    r"'it\'s'",
    "''",
    "'日本'",
    "'bug' | 'feature'",
    "'a' | 1 | null | true",
    "string | number",
    "string|null",
    "string < 64",
    "string <= 64",
    "string > 3",
    "string >= 3",
    "string == 5",
    "1 <= string <= 10",
    "0 < string < 3",
    "5 >= 5 | string",
    "number > 0",
    "number >= -1.5",
    "0 <= number <= 1",
    "0 < number < 10",
    "-5 <= number",
    "number % 5",
    "0 <= number % 2 < 10",
    "number.integer > 9007199254740993",
    "string[]",
    "string[][]",
    "string[] <= 5",
    "2 <= string[] <= 5",
    "(string | number)[]",
    "(string < 5)[] > 1",
    "'a'[] == 2",
    "/^[a-z]+$/",
    r"/a\/b[/]c/",
    "/^x/ & string < 5",
    "string.email",
    "string.url",
    "string.uuid",
    "string.uuid.v4",
    "string.date.iso",
    "string.ip",
    "string.ip.v4",
    "string.ip.v6",
    "string.alpha",
    "string.alphanumeric",
    "string.digits",
    "string.hex",
    "string.lower",
    "string.upper",
    "string.integer",
    "string.numeric",
    "string.email[] <= 3",
    "string.email < 30",
    "string.alpha < 5",
    "((string))",
    "  string  ",
    "any",
    r#"{"id": "number", "name": "string < 64", "tags?": "string[] <= 5", "kind": "'bug' | 'feature'"}"#,
    r#"{"z": {"y?": {"x": "1"}}, "a": ["string", "number"]}"#,
    r#"{"literal\\?": "1", "n": 1, "t": true, "u": null}"#,
    r#"{"[string]": "number", "a": "1"}"#,
    r#"{"+": "reject", "a": "1"}"#,
    "{}",
    "[]",
    r#"["string", "number?"]"#,
    r#"["string", "...", "number[]"]"#,
    r#"["...", "'a'[]"]"#,
    r#"[["1", "2"], {"a": "3"}]"#,
    r#""string < 5""#,
];

/// One line an expression: the expression, a tab, its schema or its error.
#[test]
fn expressions_mean_their_schemas() {
    let mut table = String::new();
    for expr in EXPRESSIONS {
        let meaning = match Type::expr(expr) {
            Ok(ty) => ty.json_schema().to_string(),
            Err(e) => format!("error: {e}"),
        };
        writeln!(table, "{expr}\t{meaning}").unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/constrain/tests/expressions.golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let golden = std::fs::read_to_string(path).expect("expressions.golden");
    for (line, want) in table.lines().zip(golden.lines()) {
        assert_eq!(line, want, "UPDATE_GOLDEN=1 rewrites the table");
    }
    assert_eq!(table.lines().count(), golden.lines().count());
}

#[test]
fn errors_point_at_the_character() {
    for (expr, at, found) in [
        ("strin", "character 1", "strin"),
        ("string <", "character 9", "end"),
        ("string < x", "character 10", "x"),
        ("string < -1", "character 8", "<"),
        ("string < 0", "character 8", "<"),
        ("string < 1.5", "character 8", "<"),
        ("boolean > 1", "character 9", ">"),
        ("(string | number) < 5", "character 19", "<"),
        ("string % 2", "character 8", "%"),
        ("number % 0", "character 8", "%"),
        ("'open", "character 1", "'"),
        ("/open", "character 1", "/"),
        ("/a(/", "character 3", "("),
        ("/a/i", "character 4", "i"),
        ("string]", "character 7", "]"),
        ("string[", "character 8", "end"),
        ("string[5]", "character 8", "5"),
        ("string | ", "character 10", "end"),
        ("| string", "character 1", "|"),
        ("(string", "character 8", "end"),
        ("string = 'x'", "character 8", "="),
        ("string?", "character 7", "?"),
        ("1 > string", "character 3", ">"),
        ("1 < number < 5 < 7", "character 16", "<"),
        ("5 <= string <= 3", "character 13", "<"),
        ("3 < number < 3", "character 12", "<"),
        ("1 <= string > 3", "character 13", ">"),
        ("undefined", "character 1", "undefined"),
        ("bigint", "character 1", "bigint"),
        ("string.nope", "character 1", "string.nope"),
        ("string.uuid.v9", "character 1", "string.uuid.v9"),
        ("é", "character 1", "é"),
        ("'é' | nope", "character 7", "nope"),
        ("01", "character 1", "01"),
        ("", "character 1", "end"),
        ("string number", "character 8", "number"),
        (r#"{"a": {"b?": "strin"}}"#, "character 1 of /a/b?", "strin"),
        (r#"{"x/y": ["string", "number >"]}"#, "character 9 of /x~1y/1", "end"),
        (r#"{"a": "1", "a": "2"}"#, "character 14", "JSON"),
        (r#"{"a": "1", "a?": "2"}"#, "/a?", "a?"),
        (r#"{"a": }"#, "character 7", "JSON"),
        (r#"{"...": "object"}"#, "/...", "..."),
        (r#"{"+": "ignore"}"#, "/+", "+"),
        (r#"{"[symbol]": "1"}"#, "/[symbol]", "[symbol]"),
        (r#"["number?", "string"]"#, "/1", "tuple"),
        (r#"["...", "string"]"#, "/0", "..."),
        (r#"["...", "1[]", "2"]"#, "/0", "..."),
    ] {
        match Type::expr(expr) {
            Err(Error::Type { at: found_at, keyword, reason }) => {
                assert_eq!((found_at.as_str(), keyword.as_str()), (at, found), "{expr}: {reason}");
            }
            Err(other) => panic!("{expr}: {other}"),
            Ok(ty) => panic!("{expr} is taken as {}", ty.json_schema()),
        }
    }
}

#[test]
fn bounds_are_strict_where_they_say_so() {
    let ty = Type::expr("string < 4").unwrap();
    assert!(ty.check("\"日本語\"").is_ok());
    assert!(ty.check("\"日本語x\"").is_err());
    let ty = Type::expr("0 < number <= 2").unwrap();
    for (text, ok) in [("0", false), ("0.1", true), ("2", true), ("2.1", false)] {
        assert_eq!(ty.check(text).is_ok(), ok, "{text}");
    }
    let ty = Type::expr(r#"{"a?": "number % 5"}"#).unwrap();
    for (text, ok) in [("{}", true), (r#"{"a":10}"#, true), (r#"{"a":11}"#, false), (r#"{"b":1}"#, false)] {
        assert_eq!(ty.check(text).is_ok(), ok, "{text}");
    }
}
