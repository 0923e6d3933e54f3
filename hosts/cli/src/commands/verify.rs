//! `lean verify`: ids, rendered chat, logits and greedy tokens against transformers (format lean-ref-1).

use super::bench::argmax;
use crate::args::{read_text, DeviceArgs, VerifyArgs};
use crate::{loading, output, table};
use lean_engine::tokenizer::Specials;
use lean_engine::{Adapter, Chat, Error, KvType, Model, Precision, Result, SessionOptions};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Most that a logit of the reference's top 20 may differ from float32 transformers.
const TOLERANCE: f32 = 1e-3;

#[derive(Deserialize)]
struct Fixture {
    format: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    text: String,
    messages: Option<Vec<serde_json::Value>>,
    tools: Option<Vec<serde_json::Value>>,
    add_special: bool,
    input_ids: Vec<u32>,
    decoded: String,
    prefill_top: Vec<(u32, f32)>,
    prompt_argmax: Vec<u32>,
    greedy_ids: Vec<u32>,
}

/// One row of the result.
#[derive(Serialize, Debug)]
pub struct Row {
    fixture: String,
    case: String,
    chat: Option<bool>,
    ids: bool,
    decoded: bool,
    logits: bool,
    max_difference: f32,
    argmax: String,
    greedy: bool,
    greedy_equal: usize,
    greedy_total: usize,
    /// Whether everything holds that is asked of this precision and this type of keys and values.
    pub passed: bool,
}

/// Whether logits and greedy tokens have to be the reference's, or their differences are only measured.
fn gated(device: &DeviceArgs) -> bool {
    device.precision == Precision::Exact && matches!(device.kv, KvType::F32 | KvType::F24)
}

pub fn run(args: &VerifyArgs) -> Result<ExitCode> {
    let rows = compare(args)?;
    let failed = rows.iter().filter(|r| !r.passed).count();
    if args.json {
        let (kv, precision) = (args.device.kv.name(), args.device.precision.name());
        let line = serde_json::json!({"kv": kv, "precision": precision, "tolerance": TOLERANCE, "failed": failed, "cases": rows});
        output::line(line)?;
    } else {
        print(&rows)?;
        output::line(summary(&args.device, &rows))?;
        output::line(format_args!("{} passed, {failed} failed", rows.len() - failed))?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// A row for each case of each fixture.
pub fn compare(args: &VerifyArgs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (model_path, fixture_path) in pairs(args)? {
        let fixture = read_fixture(&fixture_path)?;
        let model = loading::load(&model_path, &args.device)?;
        let adapters = args.lora.load(&model)?;
        let stem = model_path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for case in &fixture.cases {
            rows.push(check(&model, &adapters, gated(&args.device), &stem, case)?);
        }
    }
    Ok(rows)
}

fn pairs(args: &VerifyArgs) -> Result<Vec<(PathBuf, PathBuf)>> {
    if let (Some(model), Some(fixture)) = (&args.model, &args.fixture) {
        return Ok(vec![(model.clone(), fixture.clone())]);
    }
    let dir =
        args.dir.as_ref().ok_or_else(|| Error::invalid("--dir", "give --model and --fixture, or --dir"))?;
    let io = |e: std::io::Error| Error::io(dir, e);
    let mut pairs = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let model = entry.map_err(io)?.path();
        let fixture = model.with_extension("json");
        if model.extension().is_some_and(|e| e == "gguf") && fixture.is_file() {
            pairs.push((model, fixture));
        }
    }
    pairs.sort();
    if pairs.is_empty() {
        return Err(Error::invalid(
            "--dir",
            format!("{} holds no .gguf with a .json beside it", dir.display()),
        ));
    }
    Ok(pairs)
}

fn read_fixture(path: &Path) -> Result<Fixture> {
    let bad = |reason: String| Error::io(path, reason);
    let fixture: Fixture =
        serde_json::from_str(&read_text(path)?).map_err(|e| bad(format!("not a fixture: {e}")))?;
    match fixture.format.as_str() {
        "lean-ref-1" if fixture.cases.is_empty() => Err(bad("the fixture has no cases".into())),
        "lean-ref-1" => Ok(fixture),
        other => Err(bad(format!("format {other:?}, expected \"lean-ref-1\""))),
    }
}

fn check(model: &Model, adapters: &[(Adapter, f32)], gated: bool, stem: &str, case: &Case) -> Result<Row> {
    let chat = case.messages.as_ref().map(|messages| render(model, messages, case)).transpose()?;
    let mut ids = model.encode(&case.text, Specials::Parse)?;
    if let (true, true, Some(bos)) = (case.add_special, model.tokenizer().add_bos(), model.info().bos) {
        ids.insert(0, bos);
    }
    // What follows is checked on the reference's ids, so that each column fails for its own reason.
    let mut session = model.session(SessionOptions::default())?;
    session.set_adapters(adapters)?;
    let all = session.forward_all(&case.input_ids)?;
    let last = all.last().ok_or_else(|| Error::Internal("no logits came back".into()))?;
    let max_difference = case
        .prefill_top
        .iter()
        .map(|(id, want)| last.get(*id as usize).map_or(f32::INFINITY, |got| (got - want).abs()))
        // `max` below would pass over a NaN.
        .map(|difference| if difference.is_nan() { f32::INFINITY } else { difference })
        .fold(0.0, f32::max);
    let argmax_equal =
        all.iter().zip(&case.prompt_argmax).filter(|(row, want)| argmax(row) == **want).count();
    let mut next = argmax(last);
    let mut greedy_equal = 0;
    for (i, want) in case.greedy_ids.iter().enumerate() {
        if next != *want {
            break;
        }
        greedy_equal += 1;
        if i + 1 < case.greedy_ids.len() {
            next = argmax(&session.forward(&[*want])?);
        }
    }
    let (greedy, logits) = (greedy_equal == case.greedy_ids.len(), max_difference <= TOLERANCE);
    let (ids, decoded) = (ids == case.input_ids, model.decode(&case.input_ids, true) == case.decoded);
    Ok(Row {
        fixture: stem.to_string(),
        case: case.name.clone(),
        chat,
        ids,
        decoded,
        logits,
        max_difference,
        argmax: format!("{argmax_equal}/{}", case.prompt_argmax.len()),
        greedy,
        greedy_equal,
        greedy_total: case.greedy_ids.len(),
        passed: chat != Some(false) && ids && decoded && (!gated || (logits && greedy)),
    })
}

fn render(model: &Model, messages: &[serde_json::Value], case: &Case) -> Result<bool> {
    let chat = Chat {
        messages: messages.to_vec(),
        tools: case.tools.clone(),
        add_generation_prompt: true,
        trusted: true,
        variables: Default::default(),
    };
    Ok(model.render_chat(&chat)? == case.text)
}

/// The errors of all rows together.
fn summary(device: &DeviceArgs, rows: &[Row]) -> String {
    let worst = rows.iter().map(|r| r.max_difference).fold(0.0, f32::max);
    let (equal, total) = rows.iter().fold((0, 0), |(e, t), r| (e + r.greedy_equal, t + r.greedy_total));
    let measured = if gated(device) { "" } else { " (measured, not required)" };
    let DeviceArgs { kv, precision, .. } = device;
    format!("{precision}, kv {kv}: largest |dlogit| {worst:.1e}, {equal} of {total} greedy tokens equal{measured}")
}

fn print(rows: &[Row]) -> Result<()> {
    let word = |ok: bool| if ok { "equal" } else { "DIFFERENT" }.to_string();
    let header = ["model", "case", "chat", "ids", "decoded", "max |dlogit|", "argmax", "greedy", "result"];
    let mut lines = vec![header.map(String::from).to_vec()];
    for row in rows {
        lines.push(vec![
            row.fixture.clone(),
            row.case.clone(),
            row.chat.map_or("-".into(), word),
            word(row.ids),
            word(row.decoded),
            format!("{:.2e}", row.max_difference),
            row.argmax.clone(),
            format!("{}/{}", row.greedy_equal, row.greedy_total),
            if row.passed { "pass" } else { "FAIL" }.into(),
        ]);
    }
    table::print(&lines)
}
