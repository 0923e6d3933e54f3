#!/usr/bin/env bash
# Builds the engine for WebAssembly and runs tiny models in Node, compared with the native build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. scripts/wasm.sh

wasm_setup
# With the crate of the web package: the same features for both.
wasm_cargo build -p lean-web -p lean-wasm-test --lib
# As scripts/test.sh builds, so that nothing is compiled twice.
cargo build --workspace --all-targets
target/debug/lean-wasm-bindgen "$(wasm_output lean_wasm_test)" target/wasm-test nodejs
node tests/wasm/compare.mjs target/wasm-test/lean_wasm_test.js target/debug/lean-wasm-test \
  tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf tests/fixtures/models/lfm2-hd64-tied.s1.q4_0.gguf
