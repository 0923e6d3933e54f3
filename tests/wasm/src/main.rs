//! The native half of the comparison: `lean-wasm-test MODEL.gguf FIXTURE.json` prints the report.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, fixture] = args.as_slice() else {
        eprintln!("usage: lean-wasm-test MODEL.gguf FIXTURE.json");
        return ExitCode::from(2);
    };
    match run(model, fixture) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run(model: &str, fixture: &str) -> Result<String, String> {
    let model = std::fs::read(model).map_err(|e| format!("{model}: {e}"))?;
    let fixture = std::fs::read_to_string(fixture).map_err(|e| format!("{fixture}: {e}"))?;
    Ok(lean_wasm_test::report(model, &fixture)?.to_string())
}
