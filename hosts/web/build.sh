#!/usr/bin/env bash
# Builds the package into hosts/web/dist: the engine's WebAssembly, the client and the studio.
#
#   hosts/web/build.sh          small and fast, for people: takes minutes
#   hosts/web/build.sh --dev    as the tests are built, so that nothing is compiled twice
#
# `--model URL`, as often as wanted: models that the studio offers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. scripts/wasm.sh

dist=hosts/web/dist
dev= models=()
while [ $# -gt 0 ]; do
  case $1 in
    --dev) dev=1 ;;
    --model) models+=("${2:?--model wants a URL}") && shift ;;
    *) echo "unknown option $1: --dev, --model URL" >&2 && exit 2 ;;
  esac
  shift
done
wasm_setup
if [ -n "$dev" ]; then
  wasm_profile=debug
  # With the crate of the other WebAssembly test: the same features for both.
  wasm_cargo build -p lean-web -p lean-wasm-test --lib
  wasm_threads_cargo build -p lean-web --no-default-features --lib
else
  wasm_profile=web
  CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=-Ctarget-feature=+simd128 wasm_cargo build --profile web -p lean-web
  wasm_threads_cargo build --profile web -p lean-web --no-default-features --lib
fi
# As scripts/test.sh builds, so that nothing is compiled twice.
[ -n "${LEAN_BUILT:-}" ] || cargo build --workspace --all-targets

rm -rf $dist
mkdir -p $dist/client
target/debug/lean-wasm-bindgen "$(wasm_output lean_web)" $dist/engine web
target/debug/lean-wasm-bindgen "$wasm_threads_target/$wasm_target/$wasm_profile/lean_web.wasm" $dist/engine-threads web
# The client is Node's: all of it that knows no process.
for part in hosts/node/src/*.js; do
  case $(basename "$part") in index.js | process.js | bridge-path.js) ;; *) cp "$part" $dist/client/ ;; esac
done
cp hosts/node/index.d.cts $dist/client/types.d.ts
cp hosts/web/src/*.js hosts/web/src/*.d.ts $dist/
cp -r hosts/web/studio $dist/studio
mkdir $dist/studio/check
fixture=tests/fixtures/models/llama-hd64-tied.s1.q4_1
cp $fixture.gguf $dist/studio/check/model.gguf
# What the native build makes of it, for the device check.
for prompt in 'Once upon a time' 'The weather in Oslo' 'Invent a user.'; do
  target/debug/lean generate --model $fixture.gguf --portable -n 32 --prompt "$prompt" |
    node -e 'console.log(JSON.stringify({ prompt: process.argv[1], tokens: 32, text: require("fs").readFileSync(0, "utf8").slice(0, -1) }))' "$prompt"
done > $dist/studio/check/expected.jsonl
node -e 'console.log(JSON.stringify(process.argv.slice(1).map((url) => ({ url }))))' -- "${models[@]}" > $dist/studio/models.json
for wasm in $dist/engine/lean_web_bg.wasm $dist/engine-threads/lean_web_bg.wasm; do
  echo "$wasm: $(stat -c %s $wasm) bytes, compressed $(gzip -9 -c $wasm | wc -c)"
done
