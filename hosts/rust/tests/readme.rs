//! The README's example is `examples/readme.rs`, word for word, and runs.

mod common;

use std::process::Command;

#[test]
fn the_readmes_example_is_the_one_that_runs_here() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let example = std::fs::read_to_string(folder.join("examples/readme.rs")).unwrap();
    let shown = readme.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(shown, example);

    let program = common::built("examples/client_readme");
    let out =
        Command::new(program).env("LEAN_BRIDGE", common::built("lean-bridge")).env("MODEL", "echo").output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "Ada\n");
}
