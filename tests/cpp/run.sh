#!/usr/bin/env bash
# Compiles the C++ header's harness against liblean and runs it: plain, and under AddressSanitizer (with leaks) and
# UndefinedBehaviorSanitizer; then installs the library into an empty prefix and builds the README's example there, by
# CMake's find_package and by pkg-config. The library must have been built.
#
#   tests/cpp/run.sh [FOLDER]    the folder of liblean; target/debug unless said
#
# Prints a line a check and, last, `N passed, N failed, N skipped`. CXX chooses the compiler.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

library=$(cd "${1:-target/debug}" && pwd) || exit 1
tiny=tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf
adapter=tests/fixtures/adapters/llama-all-r4.gguf
real=${LEAN_MODEL_DIR:-.cache/models}/SmolLM2-135M-Instruct.Q4_1.gguf
cxx=${CXX:-c++}
warnings=(-Wall -Wextra -Wpedantic -Werror -Iinclude)
link=("-L$library" -llean "-Wl,-rpath,$library" -pthread)
passed=0 failed=0 skipped=0

pass() { passed=$((passed + 1)); echo "ok   $*"; }
fail() { failed=$((failed + 1)); echo "FAIL $*"; }
skip() { skipped=$((skipped + 1)); echo "skip $*"; }
try() {
  local what=$1
  shift
  if "$@" >"$work/try.log" 2>&1; then pass "$what"; else fail "$what"; cat "$work/try.log"; fi
}

# A run of the harness, whose own lines are the checks. One that dies without a failed check is one.
harness() {
  local what=$1 program=$2 status bad
  echo "---- $what"
  mkdir -p "$work/state"
  "$program" test "$tiny" "$adapter" "$work/state" >"$work/run.log" 2>&1
  status=$?
  cat "$work/run.log"
  bad=$(grep -c '^FAIL ' "$work/run.log")
  passed=$((passed + $(grep -c '^ok ' "$work/run.log"))) failed=$((failed + bad))
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then fail "$what: exit status $status"; else pass "$what: ends well"; fi
}

# A bug of the program ends it, and says which.
aborts() {
  "$work/harness" abort "$1" >"$work/try.log" 2>&1
  if [ $? -gt 127 ] && grep -q "$2" "$work/try.log"; then pass "abort: $2"; else fail "abort: $2"; cat "$work/try.log"; fi
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
printf '#include <lean.hpp>\n#include <lean.hpp>\nint main() { return lean::version().empty(); }\n' >"$work/empty.cpp"

for mode in "-std=c++17" "-std=c++20" "-std=c++17 -fno-exceptions -fno-rtti" "-std=c++17 -O2"; do
  # shellcheck disable=SC2086
  try "header: $mode" "$cxx" $mode "${warnings[@]}" -c "$work/empty.cpp" -o "$work/empty.o"
done
try "the harness compiles" "$cxx" -std=c++17 -g -O1 "${warnings[@]}" tests/cpp/main.cpp -o "$work/harness" "${link[@]}"
try "the harness compiles with sanitizers" "$cxx" -std=c++17 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
  "${warnings[@]}" tests/cpp/main.cpp -o "$work/sanitized" "${link[@]}"
harness "plain" "$work/harness"
export ASAN_OPTIONS=detect_leaks=1
harness "sanitizers" "$work/sanitized"
aborts value "in use"
aborts error "the error of a result that has a value"

# The README's example, from an empty prefix that was moved after it was installed.
cp -r tests/cpp/consumer "$work/consumer"
sed -n '/^```cpp$/,/^```$/p' README.md | sed '1d;$d' >"$work/consumer/main.cpp"
try "scripts/install.sh" scripts/install.sh "$work/first" "$library"
mv "$work/first" "$work/prefix"
if command -v cmake >/dev/null; then
  try "find_package: configures" cmake -S "$work/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx"
  try "find_package: builds" cmake --build "$work/build"
else
  skip "find_package: cmake is missing"
fi
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
  # shellcheck disable=SC2046
  try "pkg-config: builds" "$cxx" -std=c++17 $(pkg-config --cflags lean) "$work/consumer/main.cpp" -o "$work/by-pkg-config" $(pkg-config --libs lean)
else
  skip "pkg-config is missing"
fi
if [ -f "$real" ]; then
  ln -s "$(realpath "$real")" "$work/smollm2.gguf"
else
  # Random weights say anything, of the type all the same.
  ln -s "$(realpath "$tiny")" "$work/smollm2.gguf"
fi
for program in build/example by-pkg-config; do
  [ -x "$work/$program" ] || continue
  try "README.md: the example runs ($program)" env LD_LIBRARY_PATH="$work/prefix/lib" sh -c 'cd "$1" && "./$2"' _ "$work" "$program"
  cat "$work/try.log"
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
