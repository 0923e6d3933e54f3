#!/usr/bin/env bash
# Measures the GPU backend: the fixtures' logits, then models of random weights and real dimensions.
#
#   tests/bench/gpu.sh [SIZE:TYPE ...]      by default 1.2b:q4_0 3b:q4_0 8b:q4_0 8b:q4_k_m
#
# LEAN_BIN is the command to measure (else a release build is made), GPU_ADAPTER an adapter of `lean devices` (a software
# one is taken only where it is named), GPU_PRECISION exact or fast, GPU_BENCH_DIR where the models are written (8b takes 5 GB; each is removed after
# its run) and the logs stay. The last thing printed is one table.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
[ -n "${LEAN_BIN:-}" ] || { cargo build --release --workspace --bins || exit 1; LEAN_BIN=target/release/lean; }
models=("$@")
[ $# -gt 0 ] || models=(1.2b:q4_0 3b:q4_0 8b:q4_0 8b:q4_k_m)
folder=${GPU_BENCH_DIR:-$(mktemp -d)}
mkdir -p "$folder"
gpu=(--backend gpu --precision "${GPU_PRECISION:-exact}")
[ -z "${GPU_ADAPTER:-}" ] || gpu+=(--adapter "$GPU_ADAPTER")

echo "==== devices"
"$LEAN_BIN" devices
echo "==== logits of the fixtures, against transformers"
"$LEAN_BIN" verify --dir tests/fixtures/models "${gpu[@]}" >"$folder/verify.log" 2>&1
verified=$?
tail -n 4 "$folder/verify.log"

# The first number of a line of `lean bench` that begins with these words.
number() { awk -v what="$1" 'index($0, what "  ") == 1 {sub(what " *", ""); print $1; exit}' "$2"; }

# What a line of `lean bench` says behind these words.
words() { awk -v what="$1" 'index($0, what "  ") == 1 {sub(what " *", ""); print; exit}' "$2"; }

rows=()
for model in "${models[@]}"; do
  size=${model%%:*} type=${model##*:} log=$folder/${model/:/-}.log file=$folder/model.gguf
  echo "==== $model"
  rm -f "$file"
  "$LEAN_BIN" synth --arch llama --shape "$size" --type "$type" "$file" || continue
  "$LEAN_BIN" bench "$file" "${gpu[@]}" --prefill 512 --decode 128 --depth 4096 --cancel 0 --checkpoint 0 \
    --branches 4 --kernels 2>&1 | tee "$log"
  rows+=("$(printf '%-12s %9s %9s %9s  %s; %s' "$model" "$(number 'prefill 512' "$log")" "$(number 'decode 128' "$log")" \
    "$(number 'decode 128 at depth 4096' "$log")" "$(words 'a token of the decode' "$log")" \
    "$(words 'kernels of a token' "$log"); idle $(words 'device idle in a decode' "$log")")")
done
rm -f "$folder/model.gguf"

printf '\nfixtures: %s\n' "$([ $verified = 0 ] && echo equal || echo "DIFFERENT, see $folder/verify.log")"
printf '%-12s %9s %9s %9s  %s\n' model 'pre 512' 'dec 128' 'at 4096' 'a token; its kernels'
printf '%s\n' "${rows[@]}"
exit $verified
