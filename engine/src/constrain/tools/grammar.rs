//! The reply as generated values: text, and sequences of literals and arguments.

use super::ToolSyntax;
use crate::constrain::lower::Low;
use crate::constrain::node::DefId;
use crate::constrain::{json_text, pattern};
use llguidance::derivre::RegexAst;

/// The reply, the calls of it, and one call; behind them the definitions of each tool.
const REPLY: DefId = 0;
const CALLS: DefId = 1;
const CALL: DefId = 2;

/// Definitions of a reply; the reply itself is the first. `text` is whether it may be text, `several` whether it may
/// have more than one call.
pub(super) fn reply(syntax: ToolSyntax, tools: &[(&str, &[Low])], text: bool, several: bool) -> Vec<Low> {
    let mut defs = vec![Low::default(), Low::default(), Low::default()];
    for (name, lows) in tools {
        let first = defs.len();
        defs.extend(lows.iter().map(|low| moved(low, first)));
        let (before, after) = around(syntax, name);
        let call = [literal(&before), reference(first)].into_iter().chain(after.map(literal));
        defs[CALL].seqs.push(call.collect());
    }
    let (between, end) = between(syntax);
    defs[CALLS].seqs.push(std::iter::once(reference(CALL)).chain(end.map(literal)).collect());
    if several {
        defs[CALLS].seqs.push(vec![reference(CALL), literal(between), reference(CALLS)]);
    }
    let mut begin = Vec::new();
    match (syntax.marker(), text) {
        (Some(marker), true) => {
            defs[REPLY].scalar = Some(without(marker));
            begin.push(scalar(up_to(marker)));
        }
        (Some(marker), false) => begin.push(literal(marker)),
        (None, true) => defs[REPLY].scalar = Some(not_beginning(CALL_JSON)),
        (None, false) => {}
    }
    if syntax == ToolSyntax::Pythonic {
        begin.push(literal("["));
    }
    begin.push(reference(CALLS));
    defs[REPLY].seqs.push(begin);
    defs
}

/// How a reply begins that is a call.
pub(super) const CALL_JSON: &str = "{\"name\": \"";

/// What stands before and after a call's arguments.
fn around(syntax: ToolSyntax, name: &str) -> (String, Option<&'static str>) {
    let name_json = json_text(name);
    match syntax {
        ToolSyntax::Hermes => {
            (format!("\n{{\"name\": {name_json}, \"arguments\": "), Some("}\n</tool_call>"))
        }
        ToolSyntax::Llama | ToolSyntax::Gemma => {
            (format!("{{\"name\": {name_json}, \"parameters\": "), Some("}"))
        }
        // The arguments bring their brackets along.
        ToolSyntax::Pythonic => (name.to_string(), None),
    }
}

/// What stands between two calls, and after the last.
fn between(syntax: ToolSyntax) -> (&'static str, Option<&'static str>) {
    match syntax {
        ToolSyntax::Hermes => ("\n<tool_call>", None),
        ToolSyntax::Llama => ("; ", None),
        ToolSyntax::Gemma => ("\n", None),
        ToolSyntax::Pythonic => (", ", Some("]<|tool_call_end|>")),
    }
}

fn scalar(ast: RegexAst) -> Low {
    Low { scalar: Some(ast), ..Low::default() }
}

fn literal(text: &str) -> Low {
    scalar(RegexAst::Literal(text.to_string()))
}

fn reference(def: DefId) -> Low {
    Low { refs: vec![def], ..Low::default() }
}

fn any() -> RegexAst {
    RegexAst::Regex(pattern::ANY_STRING.into())
}

/// Text in which a marker does not occur.
fn without(marker: &str) -> RegexAst {
    let with = RegexAst::Concat(vec![any(), RegexAst::Literal(marker.into()), any()]);
    RegexAst::And(vec![any(), RegexAst::Not(Box::new(with))])
}

/// Text up to the first marker, which it ends with.
fn up_to(marker: &str) -> RegexAst {
    let earlier =
        RegexAst::Concat(vec![any(), RegexAst::Literal(marker.into()), RegexAst::Regex("(?s:.)+".into())]);
    let ends = RegexAst::Concat(vec![any(), RegexAst::Literal(marker.into())]);
    RegexAst::And(vec![ends, RegexAst::Not(Box::new(earlier))])
}

/// Text that does not begin so.
fn not_beginning(prefix: &str) -> RegexAst {
    let begins = RegexAst::Concat(vec![RegexAst::Literal(prefix.into()), any()]);
    RegexAst::And(vec![any(), RegexAst::Not(Box::new(begins))])
}

/// The same values with definitions counted from `first`. Values nest 128 deep at most.
fn moved(low: &Low, first: DefId) -> Low {
    let mut low = low.clone();
    each_part(&mut low, &mut |part| part.refs.iter_mut().for_each(|def| *def += first));
    low
}

/// Calls a function with every part of a union of values, itself first.
pub(super) fn each_part(low: &mut Low, f: &mut dyn FnMut(&mut Low)) {
    f(low);
    for array in &mut low.arrays {
        let classes = array.classes.iter_mut().flat_map(|c| c.prefix.iter_mut().chain([&mut c.rest]));
        for part in array.prefix.iter_mut().chain([&mut array.rest]).chain(classes) {
            each_part(part, f);
        }
    }
    for object in &mut low.objects {
        let values = object.fields.iter_mut().map(|f| &mut f.value);
        for part in values.chain(object.rest.iter_mut().map(|(_, v)| v)) {
            each_part(part, f);
        }
    }
    low.seqs.iter_mut().flatten().for_each(|part| each_part(part, f));
}
