//! Tools from a file. One that cannot even be parsed is named, and the others stay.

use crate::args::read_text;
use lean_engine::{Error, Result};
use serde::de::IgnoredAny;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// The tools of a file, an array as a chat template takes it, and those that nest too deep to be parsed.
pub fn read(path: &Path) -> Result<(Vec<Value>, Vec<(String, Error)>)> {
    let text = read_text(path)?;
    parse(&text).map_err(|reason| Error::invalid("--tools", format!("{}: {reason}", path.display())))
}

fn parse(text: &str) -> std::result::Result<(Vec<Value>, Vec<(String, Error)>), serde_json::Error> {
    let whole = match serde_json::from_str(text) {
        Ok(tools) => return Ok((tools, Vec::new())),
        Err(error) => error,
    };
    let Some(parts) = elements(text) else { return Err(whole) };
    let (mut tools, mut left_out) = (Vec::new(), Vec::new());
    for (i, part) in parts.into_iter().enumerate() {
        match (serde_json::from_str(part), serde_json::from_str::<Named>(part)) {
            (Ok(tool), _) => tools.push(tool),
            (Err(error), Ok(named)) => {
                let name = named.name().unwrap_or_default();
                left_out.push((name.clone(), Error::invalid(format!("tool {i}, {name:?}"), error)));
            }
            _ => return Err(whole),
        }
    }
    Ok((tools, left_out))
}

/// The name of a tool, whatever else it has: what is skipped may nest as it likes.
#[derive(Deserialize)]
struct Named {
    name: Option<String>,
    function: Option<Inner>,
}

#[derive(Deserialize)]
struct Inner {
    name: Option<String>,
}

impl Named {
    fn name(self) -> Option<String> {
        self.function.and_then(|f| f.name).or(self.name)
    }
}

/// The texts of an array's elements, if all of them are objects.
fn elements(text: &str) -> Option<Vec<&str>> {
    let mut rest = text.trim().strip_prefix('[')?.trim_start();
    let mut found = Vec::new();
    while rest.starts_with('{') {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        let (element, after) = rest.split_at(values.byte_offset());
        found.push(element);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return (rest == "]").then_some(found),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep(name: &str) -> String {
        let schema = format!("{}{{}}{}", "{\"items\":".repeat(200), "}".repeat(200));
        format!("{{\"type\":\"function\",\"function\":{{\"parameters\":{schema},\"name\":{name:?}}}}}")
    }

    #[test]
    fn a_tool_that_nests_too_deep_is_named_and_the_others_stay() {
        let text = format!(" [{{\"name\":\"a\"}} , {}, {{\"name\": \"c\"}}]\n", deep("b"));
        let (tools, left_out) = parse(&text).unwrap();
        assert_eq!(tools, [serde_json::json!({"name": "a"}), serde_json::json!({"name": "c"})]);
        let [(name, error)] = left_out.as_slice() else { panic!("{left_out:?}") };
        assert_eq!(name, "b");
        let error = error.to_string();
        assert!(error.contains("tool 1, \"b\"") && error.contains("recursion limit"), "{error}");
    }

    #[test]
    fn what_is_no_array_of_tools_is_an_error_of_the_file() {
        for text in ["", "{}", "[{]", "[{\"a\":1},]", "[1,", "[{}]x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
