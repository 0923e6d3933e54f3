//! Makes a JavaScript package of a wasm file: `lean-wasm-bindgen IN.wasm OUT_DIR nodejs|web`.
//!
//! The same as the `wasm-bindgen` command, which must have exactly the version of the `wasm-bindgen` crate; as
//! a member of the workspace it always has.

use std::process::ExitCode;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, out, target] = args.as_slice() else {
        eprintln!("usage: lean-wasm-bindgen IN.wasm OUT_DIR nodejs|web");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(input).typescript(true);
    let chosen = match target.as_str() {
        "nodejs" => bindgen.nodejs(true),
        "web" => bindgen.web(true),
        other => {
            eprintln!("unknown target {other}: nodejs or web");
            return ExitCode::from(2);
        }
    };
    match chosen.and_then(|b| b.generate(out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        }
    }
}
