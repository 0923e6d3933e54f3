//! `lean demo`: the README's first command.

use super::generate::drive;
use crate::args::DemoArgs;
use crate::{interrupt, loading, output};
use lean_engine::{Block, Error, Request, Result, SessionOptions, Type};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const TYPE: &str = r#"{"name": "string < 32", "age": "18 <= number.integer <= 99", "role": "'admin' | 'editor' | 'viewer'", "tags": "(string < 16)[] <= 3"}"#;
const PROMPT: &str = "Invent a user of a photo sharing app. Reply with JSON.";

pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    let path = fetch_model()?;
    let model = loading::load(&path, &args.device)?;
    let info = model.info();
    eprintln!("model   {} ({:.1} MB) on {}", info.name, info.file_bytes as f64 / 1e6, info.device);
    eprintln!("prompt  {PROMPT}");
    eprintln!("type    {TYPE}");

    let mut session = model.session(SessionOptions::default())?;
    session.append(&[Block::chat(&[("user", PROMPT)])])?;
    let mut request = Request::new(Type::expr(TYPE)?).max_tokens(256);
    request.cancel = interrupt::token();
    let output = drive(session.generate(&request)?, false)?;
    output::line(&output.text)?;
    let usage = &output.usage;
    eprintln!(
        "{} tokens, of which {} were forced by the type: {:.0} tokens per second",
        usage.generated_tokens(),
        usage.forced_tokens,
        usage.tokens_per_second(),
    );
    Ok(ExitCode::SUCCESS)
}

/// Runs the repository's fetch script, which is instant when the model is there.
fn fetch_model() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-model.sh");
    let failed = |reason: String| Error::ModelIo { path: script.display().to_string(), reason };
    if !script.is_file() {
        return Err(failed(
            "the demo runs from lean's repository; elsewhere use lean generate --model FILE".into(),
        ));
    }
    let output = Command::new("bash").arg(&script).stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| failed(e.to_string()))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if !output.status.success() || path.is_empty() {
        return Err(failed("the model could not be fetched (see above)".into()));
    }
    Ok(path.into())
}
