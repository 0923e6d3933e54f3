#!/usr/bin/env bash
# Makes the reference fixtures in tests/fixtures again, from transformers. Not part of the test command: torch takes
# 5 GB of disk (kept in .cache/reference).
#
#   tests/reference/make.sh                      everything in place: models, their fixtures, tokenizers, chats, block formats
#   tests/reference/make.sh --check              compare the models' fixtures instead of writing
#   tests/reference/make.sh [--check] M.gguf...  only these models
#   tests/reference/make.sh --one M.gguf ...     make_fixture.py with arguments of its own (a new model, other cases)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/reference
python=$root/.cache/reference/bin/python

# pip is asked each time: it is quick when nothing is missing, and an interrupted installation goes on.
[ -x "$python" ] || python3 -m venv "$root/.cache/reference"
"$python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"

if [ "${1:-}" = --one ]; then shift; exec "$python" "$here/make_fixture.py" "$@"; fi
check=()
if [ "${1:-}" = --check ]; then check=(--check); shift; fi

failed=0
run() { "$python" -W ignore "$here/make_fixture.py" "${check[@]}" "$@" || failed=1; }
if [ $# -gt 0 ]; then
  for model in "$@"; do run "$model"; done
else
  [ ${#check[@]} != 0 ] || "$python" "$here/make_models.py"
  for model in "$root"/tests/fixtures/models/*.gguf; do run "$model"; done
  model=$("$root/scripts/fetch-model.sh")
  "$python" -W ignore "$here/make_adapters.py" "${check[@]}" || failed=1
  if [ ${#check[@]} = 0 ]; then
    "$python" "$here/quant_vectors.py"
    "$python" "$here/tokenizer_goldens.py" "$model"
    "$python" -W ignore "$here/make_hf.py"
    "$python" "$here/chat_goldens.py"
  fi
  run "$model" --out "$root/tests/fixtures/models/SmolLM2-135M-Instruct.Q4_1.given.json"
fi
exit $failed
