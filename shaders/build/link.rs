//! The kernels' directives, all at the beginning of a line:
//!
//! ```text
//! #import "file"                   pastes a file once
//! #const NAME: type in a, b        a constant put in front at run time, and the values it is validated with
//! #requires subgroups              what the device must offer: subgroups, f16, cooperative_matrix
//! #let NAME = text                 `{NAME}` becomes `text` from here on
//! #for i in a..b ... #end          the lines between, once for each number, which `{i}` becomes; they nest
//! ```
//!
//! Repetition by text keeps sums and blocks of weights in named variables: an array of them is in registers
//! only where a driver unrolls the loop around it.

use std::collections::BTreeSet;
use std::path::Path;

/// A constant of a kernel.
#[derive(Clone, PartialEq)]
pub struct Constant {
    pub name: String,
    pub ty: String,
    pub values: Vec<String>,
}

/// A kernel's text without its directives.
pub struct Linked {
    pub source: String,
    pub constants: Vec<Constant>,
    pub needs: Needs,
}

/// What the device must offer.
#[derive(Clone, Copy, Default)]
pub struct Needs {
    pub subgroups: bool,
    pub f16: bool,
    pub cooperative: bool,
}

impl Needs {
    /// The source's first lines, which WGSL wants before anything else. naga knows subgroups without one.
    pub fn front(self) -> String {
        let line = |used: bool, name: &str| if used { format!("enable {name};\n") } else { String::new() };
        line(self.f16, "f16") + &line(self.cooperative, "wgpu_cooperative_matrix")
    }
}

/// A line and where it is from.
struct Line {
    at: String,
    text: String,
}

pub fn link(root: &Path, kernel: &str) -> Result<Linked, String> {
    let mut linked = Linked { source: String::new(), constants: Vec::new(), needs: Needs::default() };
    let (mut lines, mut lets) = (Vec::new(), Vec::new());
    paste(root, &format!("{kernel}.wgsl"), &mut BTreeSet::new(), &mut lets, &mut linked, &mut lines)?;
    repeat(&lines, &mut Vec::new(), &mut linked.source)?;
    Ok(linked)
}

fn paste(
    root: &Path,
    file: &str,
    seen: &mut BTreeSet<String>,
    lets: &mut Vec<(String, String)>,
    linked: &mut Linked,
    lines: &mut Vec<Line>,
) -> Result<(), String> {
    // Entered before its own imports are read, so that a cycle ends.
    if !seen.insert(file.to_string()) {
        return Ok(());
    }
    let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
    for (number, line) in text.lines().enumerate() {
        let at = format!("wgsl/{file}:{}", number + 1);
        let line = substitute(line, lets);
        if let Some(rest) = line.strip_prefix("#import ") {
            let name = rest.trim().strip_prefix('"').and_then(|s| s.strip_suffix('"'));
            let name = name.ok_or_else(|| format!("{at}: #import \"file\" expected"))?;
            paste(root, name, seen, lets, linked, lines)?;
        } else if let Some(rest) = line.strip_prefix("#const ") {
            let constant =
                constant(rest).ok_or_else(|| format!("{at}: #const NAME: type in a, b expected"))?;
            match linked.constants.iter().find(|c| c.name == constant.name) {
                Some(other) if *other != constant => {
                    return Err(format!("{at}: declared differently before"))
                }
                Some(_) => {}
                None => linked.constants.push(constant),
            }
        } else if let Some(rest) = line.strip_prefix("#let ") {
            let (name, value) =
                rest.split_once('=').ok_or_else(|| format!("{at}: #let NAME = text expected"))?;
            lets.push((format!("{{{}}}", name.trim()), value.trim().to_string()));
        } else if let Some(feature) = line.strip_prefix("#requires ") {
            match feature.trim() {
                "subgroups" => linked.needs.subgroups = true,
                "f16" => linked.needs.f16 = true,
                "cooperative_matrix" => linked.needs.cooperative = true,
                other => return Err(format!("{at}: {other} is nothing that a device offers")),
            }
        } else if line.starts_with("#for ") || line == "#end" {
            lines.push(Line { at, text: line });
        } else if line.starts_with('#') {
            return Err(format!("{at}: unknown directive"));
        } else if !line.trim_start().starts_with("//") {
            lines.push(Line { at, text: line });
        }
    }
    Ok(())
}

fn substitute(line: &str, names: &[(String, String)]) -> String {
    names.iter().fold(line.to_string(), |line, (name, value)| line.replace(name, value))
}

/// Writes lines, those of loops once for each number.
fn repeat(lines: &[Line], names: &mut Vec<(String, String)>, out: &mut String) -> Result<(), String> {
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        if line.text == "#end" {
            return Err(format!("{}: #end without #for", line.at));
        }
        let Some(head) = line.text.strip_prefix("#for ") else {
            out.push_str(&substitute(&line.text, names));
            out.push('\n');
            continue;
        };
        let (name, from, to) = range(head).ok_or_else(|| format!("{}: #for i in a..b expected", line.at))?;
        let end = matching_end(rest).ok_or_else(|| format!("{}: #for without #end", line.at))?;
        for number in from..to {
            names.push((format!("{{{name}}}"), number.to_string()));
            repeat(&rest[..end], names, out)?;
            names.pop();
        }
        rest = &rest[end + 1..];
    }
    Ok(())
}

fn range(head: &str) -> Option<(&str, u32, u32)> {
    let (name, range) = head.split_once(" in ")?;
    let (from, to) = range.split_once("..")?;
    Some((name.trim(), from.trim().parse().ok()?, to.trim().parse().ok()?))
}

fn matching_end(lines: &[Line]) -> Option<usize> {
    let mut open = 0;
    lines.iter().position(|line| {
        if line.text == "#end" {
            open -= 1;
        } else if line.text.starts_with("#for ") {
            open += 1;
        }
        open < 0
    })
}

fn constant(rest: &str) -> Option<Constant> {
    let (name, rest) = rest.split_once(':')?;
    let (ty, values) = rest.split_once(" in ")?;
    let values: Vec<String> = values.split(',').map(|v| v.trim().to_string()).collect();
    let known = ["u32", "i32", "f32", "bool"].contains(&ty.trim());
    (known && values.iter().all(|v| !v.is_empty())).then(|| Constant {
        name: name.trim().to_string(),
        ty: ty.trim().to_string(),
        values,
    })
}
