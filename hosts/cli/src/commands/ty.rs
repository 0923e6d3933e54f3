//! `lean type`: the JSON Schema of a type expression.

use crate::args::TypeArgs;
use crate::output;
use lean_engine::{Error, Result, Type};
use std::process::ExitCode;

pub fn run(args: &TypeArgs) -> Result<ExitCode> {
    let ty = Type::expr(&args.expr)?;
    let schema =
        serde_json::to_string_pretty(ty.json_schema()).map_err(|e| Error::Internal(e.to_string()))?;
    output::line(schema)?;
    for warning in ty.warnings() {
        eprintln!("lean: note: {warning}");
    }
    Ok(ExitCode::SUCCESS)
}
