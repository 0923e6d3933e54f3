//! `#import "file"` pastes a file once; `#const NAME: type in a, b` declares a constant that is put in front at
//! run time, and the values with which the kernel is validated.

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
}

pub fn link(root: &Path, kernel: &str) -> Result<Linked, String> {
    let mut linked = Linked { source: String::new(), constants: Vec::new() };
    paste(root, &format!("{kernel}.wgsl"), &mut BTreeSet::new(), &mut linked)?;
    Ok(linked)
}

fn paste(root: &Path, file: &str, seen: &mut BTreeSet<String>, linked: &mut Linked) -> Result<(), String> {
    // Entered before its own imports are read, so that a cycle ends.
    if !seen.insert(file.to_string()) {
        return Ok(());
    }
    let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
    for (number, line) in text.lines().enumerate() {
        let at = || format!("wgsl/{file}:{}", number + 1);
        if let Some(rest) = line.strip_prefix("#import ") {
            let name = rest.trim().strip_prefix('"').and_then(|s| s.strip_suffix('"'));
            paste(root, name.ok_or_else(|| format!("{}: #import \"file\" expected", at()))?, seen, linked)?;
        } else if let Some(rest) = line.strip_prefix("#const ") {
            let constant =
                constant(rest).ok_or_else(|| format!("{}: #const NAME: type in a, b expected", at()))?;
            match linked.constants.iter().find(|c| c.name == constant.name) {
                Some(other) if *other != constant => {
                    return Err(format!("{}: declared differently before", at()))
                }
                Some(_) => {}
                None => linked.constants.push(constant),
            }
        } else if line.starts_with('#') {
            return Err(format!("{}: unknown directive", at()));
        } else if !line.trim_start().starts_with("//") {
            linked.source.push_str(line);
            linked.source.push('\n');
        }
    }
    Ok(())
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
