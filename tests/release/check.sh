#!/usr/bin/env bash
# Tries what scripts/release.sh made: installs each package where nothing else is, without a network, and runs the newcomer's
# example of its README with it.
#
#   tests/release/check.sh FOLDER
#
# Ends with `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
made=$(cd "${1:?the folder of the packages}" && pwd) || exit 1
root=$PWD passed=0 failed=0 skipped=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# Nothing of this checkout may help.
unset LEAN_BRIDGE LEAN_LIBRARY PYTHONPATH NODE_PATH CARGO_TARGET_DIR
export MODEL=echo

try() { # NAME COMMAND..
  if (cd "$work" && "${@:2}") >"$work/log" 2>&1; then
    echo "ok $1"
    passed=$((passed + 1))
  else
    echo "FAIL $1"
    cat "$work/log"
    failed=$((failed + 1))
  fi
}
skip() { echo "SKIPPED: $1"; skipped=$((skipped + 1)); }
example() { sed -n "/^\`\`\`$2\$/,/^\`\`\`\$/p" "$1" | sed '1d' | sed '/^```$/,$d'; }
prints() { local want=$1 got; shift; got=$("$@") || return 1; [ "$got" = "$want" ] || { echo "it printed: $got"; return 1; }; }

try "SHA256SUMS names every file" sh -c 'cd "$1" && sha256sum --quiet -c SHA256SUMS && [ "$(ls | wc -l)" = $(($(wc -l <SHA256SUMS) + 1)) ]' _ "$made"

# ---- programs, library, headers
tar -xzf "$made"/lean-[0-9]*.tar.gz -C "$work" && mv "$work"/lean-[0-9]* "$work/native"
lib=$work/native/lib
try "lean --version" "$work/native/bin/lean" --version
try "lean-bridge --version" "$work/native/bin/lean-bridge" --version
nothing_more() { # what nobody linked with may see
  local names
  names=$(nm -D --defined-only "$lib/liblean.so" | awk '{print $NF}' | grep -v '^lean_')
  [ -z "$names" ] || { echo "$names"; return 1; }
}
try "liblean exports only lean_*" nothing_more
named() { readelf -d "$1" | grep "$2" | grep -qF '[liblean.so.0]'; }
try "liblean is liblean.so.0" named "$lib/liblean.so" SONAME
for file in bin/lean bin/lean-bridge lib/liblean.so; do
  try "$file has no debug information" sh -c '! readelf -S "$1" | grep -q "\.debug_info"' _ "$work/native/$file"
done
if command -v cc >/dev/null && command -v pkg-config >/dev/null; then
  printf '#include "lean.h"\n#include <stdio.h>\nint main(void) { printf("%%u\\n", (unsigned)lean_abi_version()); return 0; }\n' >"$work/c.c"
  export PKG_CONFIG_PATH=$lib/pkgconfig
  # shellcheck disable=SC2046
  try "C: compiles with pkg-config" cc c.c -o c $(pkg-config --cflags --libs lean)
  try "C: asks for liblean.so.0" named "$work/c" NEEDED
  try "C: runs" prints "$(sed -n 's/^#define LEAN_ABI_VERSION //p' include/lean.h)" env LD_LIBRARY_PATH="$lib" "$work/c"
  if command -v cmake >/dev/null; then
    cp -r tests/cpp/consumer "$work/consumer"
    printf '#include <lean.hpp>\n#include <iostream>\nint main() { std::cout << lean::version() << "\\n"; }\n' >"$work/consumer/main.cpp"
    try "C++: CMake finds it" sh -c 'cmake -S consumer -B cmake -DCMAKE_PREFIX_PATH="$PWD/native" && cmake --build cmake'
    try "C++: runs" env LD_LIBRARY_PATH="$lib" "$work/cmake/example"
  else
    skip "cmake is missing"
  fi
else
  skip "a C compiler or pkg-config is missing"
fi

# ---- Python
wheel=$(ls "$made"/lean_engine-*.whl 2>/dev/null)
if [ -n "$wheel" ]; then
  example hosts/python/README.md python >"$work/example.py"
  try "Python: a clean environment" python3 -m venv "$work/venv"
  try "Python: the wheel installs offline" "$work/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-index "$wheel"
  try "Python: the README's example runs" prints Ada "$work/venv/bin/python" example.py
  cat >"$work/port.py" <<'PY'
import lean_engine as lean
with lean.spawn(transport="port") as engine:
    print(engine.load("echo").generate(str, "in the process"))
PY
  try "Python: the library in the wheel runs" prints "in the process" "$work/venv/bin/python" port.py
else
  skip "there is no wheel"
fi

# ---- Node
if ls "$made"/lean-node-[0-9]*.tgz >/dev/null 2>&1; then
  mkdir "$work/app" && echo '{"private": true}' >"$work/app/package.json"
  example hosts/node/README.md js >"$work/app/example.mjs"
  try "Node: the packages install offline" sh -c 'cd app && npm install --offline --no-audit --no-fund "$1"/lean-node-*.tgz' _ "$made"
  try "Node: the README's example runs" prints "Ada complete" sh -c 'cd app && node example.mjs'
  bytes=$(du -sb "$work/app/node_modules" | cut -f 1)
  echo "Node: installed $bytes bytes, downloaded $(cat "$made"/lean-node-*.tgz | wc -c)"
  try "Node: under 15 MB to download" [ "$(cat "$made"/lean-node-*.tgz | wc -c)" -lt 15000000 ]
else
  skip "there is no Node package"
fi

# ---- Go
if [ -e "$(echo "$made"/lean-go-*.zip)" ] && command -v go >/dev/null; then
  mkdir "$work/go" && python3 -m zipfile -e "$made"/lean-go-*.zip "$work/go"
  example hosts/go/README.md go >"$work/go/main.go"
  printf 'module example\n\ngo 1.23\n\nrequire lean v0.0.0\n\nreplace lean => ./%s\n' "$(cd "$work/go" && echo lean@*)" >"$work/go/go.mod"
  try "Go: the README's example runs" prints Ada env GOFLAGS=-mod=mod GOPROXY=off GOWORK=off GOTOOLCHAIN=local CGO_ENABLED=0 \
    LEAN_BRIDGE="$work/native/bin/lean-bridge" sh -c 'cd go && go run .'
else
  skip "there is no Go module, or no Go"
fi

# ---- Swift
if [ -e "$(echo "$made"/lean-swift-*.zip)" ]; then
  try "Swift: the archive is a package" sh -c 'python3 -m zipfile -l "$1"/lean-swift-*.zip | grep -q "^lean-swift-[^/]*/Package.swift"' _ "$made"
else
  skip "there is no Swift package"
fi

# ---- Kotlin
if [ -e "$(echo "$made"/lean-kotlin-*.jar)" ]; then
  try "Kotlin: the jar has the client" sh -c 'python3 -m zipfile -l "$1"/lean-kotlin-*.jar | grep -q "^lean/Lean.class"' _ "$made"
else
  skip "there is no jar"
fi

[ "$root" = "$PWD" ]
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
