//! Formats that are enforced, as regular languages: their common ASCII forms, and only real dates.

use super::pattern::Pattern;
use llguidance::derivre::RegexAst;

/// What is done with a `format`.
pub(super) enum Format {
    /// Enforced.
    Known(Pattern),
    /// Part of JSON Schema, but not a set that can be enforced.
    Refused(&'static str),
    /// An annotation.
    Unknown,
}

const H16: &str = "[0-9a-fA-F]{1,4}";
const LABEL: &str = "[a-zA-Z0-9]{1,20}(-[a-zA-Z0-9]{1,20}){0,2}";
const PCHAR: &str = "([a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})";
const TIME: &str =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";

/// Looks a format up.
pub(super) fn lookup(name: &str) -> Format {
    let ast = match name {
        "date" => rx(date()),
        "time" => rx(TIME),
        "date-time" => rx(format!("{}T{TIME}", date())),
        "duration" => rx(duration()),
        "email" | "idn-email" => rx(email()),
        "hostname" | "idn-hostname" => rx(hostname()),
        "ipv4" => rx(ipv4()),
        "ipv6" => rx(ipv6()),
        "uuid" => rx("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
        "uri" | "iri" => rx(uri()),
        "uri-reference" | "iri-reference" => rx(format!("{}|{}", uri(), relative())),
        "json-pointer" => rx(pointer()),
        "relative-json-pointer" => rx(format!("(0|[1-9][0-9]{{0,8}})(#|{})", pointer())),
        "regex" => return Format::Refused("the set of all regular expressions cannot be enforced"),
        "uri-template" => return Format::Refused("the set of all URI templates cannot be enforced"),
        _ => return Format::Unknown,
    };
    Format::Known(Pattern::of(format!("format {name}"), ast))
}

fn rx(s: impl Into<String>) -> RegexAst {
    RegexAst::Regex(s.into())
}

/// Days that exist, of the years 0001 to 9999 (RFC 3339, Gregorian leap years).
fn date() -> String {
    let year = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})";
    let day = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))";
    let leap = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29";
    format!("({year}-{day}|{leap})")
}

/// RFC 3339, appendix A.
fn duration() -> String {
    let n = "[0-9]{1,9}";
    let time = format!("T({n}H({n}M({n}S)?)?|{n}M({n}S)?|{n}S)");
    let date = format!("({n}Y({n}M({n}D)?)?|{n}M({n}D)?|{n}D)({time})?");
    format!("P({date}|{time}|{n}W)")
}

/// At most four labels of at most 62 characters, no double hyphen (those are IDNA's): inside RFC 1123's lengths
/// without counting, which would cost the matcher a state for every length.
fn hostname() -> String {
    format!("{LABEL}(\\.{LABEL}){{0,3}}")
}

/// RFC 5321's mailbox with a dot-string of at most three atoms before the `@`.
fn email() -> String {
    let atom = "[a-zA-Z0-9!#$%&'*+/=?^_\\x60{|}~-]{1,20}";
    format!("{atom}(\\.{atom}){{0,2}}@{}", hostname())
}

fn ipv4() -> String {
    let octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    format!("({octet}\\.){{3}}{octet}")
}

/// Eight groups, or fewer around one `::` (RFC 4291 without the dotted form).
fn ipv6() -> String {
    let mut ways = vec![format!("({H16}:){{7}}{H16}")];
    for left in 0..=7usize {
        let right = 7 - left;
        let head = if left == 0 { String::new() } else { format!("{H16}(:{H16}){{{}}}", left - 1) };
        let tail = if right == 0 { String::new() } else { format!("({H16}(:{H16}){{0,{}}})?", right - 1) };
        ways.push(format!("{head}::{tail}"));
    }
    ways.join("|")
}

fn query_and_fragment() -> String {
    format!("(\\?({PCHAR}|[/?])*)?(#({PCHAR}|[/?])*)?")
}

/// RFC 3986 with a registered name or IPv4 address as host.
fn uri() -> String {
    let authority = format!("{LABEL}(\\.{LABEL})*(:[0-9]{{1,5}})?");
    let path = format!("(/{PCHAR}*)*");
    let rootless = format!("/?({PCHAR}+(/{PCHAR}*)*)");
    format!("[a-zA-Z][a-zA-Z0-9+.-]*:(//{authority}{path}|{rootless}){}", query_and_fragment())
}

/// A relative reference whose path does not start with `//` and whose first segment has no colon.
fn relative() -> String {
    let first = "([a-zA-Z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})+";
    format!("((/({PCHAR}+(/{PCHAR}*)*)?)|{first}(/{PCHAR}*)*)?{}", query_and_fragment())
}

fn pointer() -> &'static str {
    "(?s:(/([^/~]|~[01])*)*)"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "date",
                &["2024-02-29", "2000-02-29", "1999-12-31"],
                &["2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "0000-01-01", "24-01-01"],
            ),
            ("time", &["23:59:59Z", "00:00:00.5+01:30"], &["24:00:00Z", "23:59:60Z", "12:00:00", "12:00Z"]),
            (
                "date-time",
                &["2024-02-29T12:00:00Z"],
                &["2023-02-29T12:00:00Z", "2024-02-29 12:00:00Z", "2024-02-29T12:00:00"],
            ),
            ("duration", &["P1Y2M3D", "PT5M", "P4W", "P1DT2H"], &["P", "PT", "1D", "P1S"]),
            (
                "email",
                &["a@b.co", "x.y+z@sub.example.com", "root@localhost"],
                &["a", "@b", "a@", "a..b@c.d", ".a@b.c", "a@-b.c"],
            ),
            ("hostname", &["example.com", "a-b.c"], &["-a.b", "a..b", "a_b", "xn--a.b", ""]),
            ("ipv4", &["0.0.0.0", "255.255.255.255"], &["256.0.0.1", "1.2.3", "01.2.3.4"]),
            (
                "ipv6",
                &["::", "::1", "1::", "1:2:3:4:5:6:7:8", "fe80::1:2", "1:2:3:4:5:6:7::"],
                &[":", ":::", "1:2", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9"],
            ),
            ("uuid", &["123e4567-e89b-12d3-a456-426614174000"], &["123e4567e89b12d3a456426614174000"]),
            (
                "uri",
                &["http://a.b/c?d=e#f", "https://example.com:80", "mailto:a@b.c", "urn:x:y"],
                &["a/b", "//a", "http://", "http://a b", ":x"],
            ),
            ("uri-reference", &["", "/a/b", "a/b?c", "#x", "http://a"], &["a b", "1:2"]),
            ("json-pointer", &["", "/a/~0~1", "/é"], &["a", "/~2"]),
            ("relative-json-pointer", &["0", "1/a", "2#"], &["-1", "01", "/a"]),
        ];
        for (name, yes, no) in cases {
            let Format::Known(p) = lookup(name) else { panic!("{name} is not enforced") };
            for s in *yes {
                assert!(p.matches(s), "{name} accepts {s}");
            }
            for s in *no {
                assert!(!p.matches(s), "{name} refuses {s}");
            }
        }
        assert!(matches!(lookup("regex"), Format::Refused(_)));
        assert!(matches!(lookup("int32"), Format::Unknown));
    }
}
