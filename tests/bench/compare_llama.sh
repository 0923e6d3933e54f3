#!/bin/bash
# Compares lean with llama.cpp's CPU backend on one file, with the same threads, in one run.
#
#   tests/bench/compare_llama.sh FILE.gguf [--threads 1,2] [--rounds 3] [--depth 4096] [--precision exact] [--busy 0]
#
# llama.cpp comes from the source distribution of llama-cpp-python, compiled for this processor into .cache/llama-venv (some
# minutes, once), unless LLAMA_PYTHON names a python that has it or the prebuilt wheel `xllamacpp`, or LLAMA_BENCH names an
# installed llama-bench. A round is lean, llama.cpp, llama.cpp, lean; the table has the medians of all and their ratios.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${LLAMA_PYTHON:-.cache/llama-venv/bin/python}
if [ -n "${LLAMA_BENCH:-}" ]; then python=python3; fi
if [ -z "${LLAMA_BENCH:-}${LLAMA_PYTHON:-}" ] && [ ! -x "$python" ]; then
  python3 -m venv .cache/llama-venv
  CMAKE_ARGS="-DGGML_NATIVE=ON" .cache/llama-venv/bin/pip install --quiet --no-binary llama-cpp-python llama-cpp-python
fi
[ -n "${LEAN_BIN:-}" ] || { cargo build --release --workspace --bins; LEAN_BIN=target/release/lean; }
LEAN_BIN=$LEAN_BIN exec "$python" tests/bench/compare_llama.py "$@"
