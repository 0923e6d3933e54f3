#!/usr/bin/env bash
# Checks model files of your own against transformers: ids, rendered conversations, logits and greedy tokens.
#
#   scripts/verify-real.sh MODEL.gguf...
#
# It fetches no model. For each file it makes the fixture (transformers in float32 on the weights in the file,
# dequantised), runs `lean verify` on it, and writes what came out to docs/runs/verify-MODEL.txt. The exit
# status is 0 only if every model passed. transformers needs 4 bytes of memory a weight, twice while it
# starts, and minutes for a large model; a fixture is made once and kept in .cache/verify.
#
#   LEAN_PYTHON   a Python that has what tests/reference/requirements.txt lists (default: an environment of
#                 its own, 5 GB, in .cache/reference)
#   LEAN_BIN      the lean command (default: built here, in release mode)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[ $# -gt 0 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
for model in "$@"; do [ -f "$model" ] || { echo "no such file: $model"; exit 2; }; done

lean=${LEAN_BIN:-$root/target/release/lean}
[ -n "${LEAN_BIN:-}" ] || (cd "$root" && cargo build --release -p lean-cli)
version="$("$lean" --version), $([ -n "${LEAN_BIN:-}" ] && basename "$lean" || git -C "$root" describe --always --dirty 2>/dev/null)"
mkdir -p "$root/.cache/verify" "$root/docs/runs"

make_fixture() {
  local arguments=("$1" --cases "$root/tests/fixtures/models/SmolLM2-135M-Instruct.Q4_1.given.json" --out "$2")
  if [ -n "${LEAN_PYTHON:-}" ]; then
    "$LEAN_PYTHON" -W ignore "$root/tests/reference/make_fixture.py" "${arguments[@]}"
  else
    "$root/tests/reference/make.sh" --one "${arguments[@]}"
  fi
}

failed=0
for model in "$@"; do
  stem=$(basename "$model" .gguf)
  digest=$(sha256sum "$model" | cut -d ' ' -f 1)
  fixture=$root/.cache/verify/$stem.${digest:0:12}.json
  log=$root/docs/runs/verify-$stem.txt
  [ -f "$fixture" ] || make_fixture "$(realpath "$model")" "$fixture"
  {
    echo "model      $(basename "$model"), $(stat -c %s "$model") bytes, sha256 $digest"
    echo "date       $(date -u +%F)"
    echo "lean       $version"
    echo "processor $(sed -n 's/^model name[^:]*://p' /proc/cpuinfo | head -n 1)"
    python3 -c 'import json, sys; print("reference ", json.load(open(sys.argv[1]))["reference"])' "$fixture"
    echo "command    lean verify --model $stem.gguf --fixture $stem.json"
    echo
    "$lean" verify --model "$model" --fixture "$fixture" 2>&1 || echo "exit status $?"
  } | tee "$log"
  ! grep -q '^exit status' "$log" || failed=1
done
exit $failed
