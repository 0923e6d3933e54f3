#!/usr/bin/env bash
# Builds liblean and the C harness, and runs it: plain, and under valgrind where there is one.
#
#   tests/c/run.sh [--no-build] [--no-valgrind]
#
# --no-build takes the library that is there (scripts/test.sh has just built it with everything else).
# Prints a line a check and, last, `N passed, N failed, N skipped`. The tiny model of tests/fixtures/models is
# enough; the real one (scripts/fetch-model.sh) is tried too where it is. LEAN_MODEL_DIR chooses its folder,
# CC and CXX the compilers.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

tiny=tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf
real=${LEAN_MODEL_DIR:-.cache/models}/SmolLM2-135M-Instruct.Q4_1.gguf
cc=${CC:-cc} cxx=${CXX:-c++}
warnings=(-Wall -Wextra -Wpedantic -Werror -Iinclude)
passed=0 failed=0 skipped=0

pass() { passed=$((passed + 1)); echo "ok   $*"; }
fail() { failed=$((failed + 1)); echo "FAIL $*"; }
skip() { skipped=$((skipped + 1)); echo "skip $*"; }
finish() { printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"; [ "$failed" = 0 ]; exit; }

# A command that is one check.
try() {
  local what=$1
  shift
  if "$@" >"$try_log" 2>&1; then pass "$what"; else fail "$what"; cat "$try_log"; fi
}

# A run of the harness, whose own lines are the checks. One that dies without a failed check is one.
harness() {
  local what=$1 status bad
  shift
  echo "---- $what"
  "$work/harness" "$@" >"$work/run.log" 2>&1
  status=$?
  cat "$work/run.log"
  bad=$(grep -c '^FAIL ' "$work/run.log")
  passed=$((passed + $(grep -c '^ok ' "$work/run.log"))) failed=$((failed + bad))
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then fail "$what: exit status $status"; fi
  # Strings that the harness does not print belong to the library, which never does.
  if grep -vqE '^(ok  |FAIL|    ) ' "$work/run.log"; then fail "$what: the library printed"; else pass "$what: the library printed nothing"; fi
}

# The same under valgrind, as one check: no error, no lost block. What valgrind calls possibly lost is not
# counted: Rust's hash tables, Arcs and threads are held by pointers into their blocks, and the dependencies'
# tables that are made once and live as long as the process are made of those. A leaked one is definitely lost.
memcheck() {
  local what="valgrind: $1: no error, no leak"
  shift
  if ! command -v valgrind >/dev/null || [ "$memory" = no ]; then skip "$what"; return; fi
  try "$what" valgrind -q --suppressions=tests/c/valgrind.supp --error-exitcode=9 --leak-check=full \
    --show-leak-kinds=definite,indirect \
    --errors-for-leak-kinds=definite,indirect "$work/harness" "$@"
}

# All of them, beside everything else: valgrind is slow and uses one core. Lines and counts go to files.
memchecks() {
  passed=0 failed=0 skipped=0 try_log=$work/memory.try
  export TMPDIR=$work/memory
  mkdir "$TMPDIR"
  memcheck "tiny model" test "$tiny"
  memcheck "tiny model, cut" cut "$tiny" "$TMPDIR/tiny"
  memcheck "tiny model, continue" resume "$tiny" "$TMPDIR/tiny"
  echo "$passed $failed $skipped" >"$work/memory.counts"
}

memory=yes build=yes
for option in "$@"; do
  case $option in
    --no-build) build=no ;;
    --no-valgrind) memory=no ;;
    *) echo "usage: tests/c/run.sh [--no-build] [--no-valgrind]"; exit 2 ;;
  esac
done
work=$(mktemp -d) || exit 1
try_log=$work/try.log
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work

target=$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
if [ "$build" = yes ]; then cargo build --workspace --all-targets || { fail "cargo build --workspace --all-targets"; finish; }; fi
if [ -n "$(find "$target/debug" -maxdepth 1 -name 'liblean.*' ! -name '*.d')" ]; then pass "liblean is built"; else fail "liblean is built"; finish; fi

try "header as C99" "$cc" -std=c99 "${warnings[@]}" -c tests/c/header.c -o "$work/header.o"
try "header as C11" "$cc" -std=c11 "${warnings[@]}" -c tests/c/header.c -o "$work/header.o"
try "header as C++17" "$cxx" -x c++ -std=c++17 "${warnings[@]}" -c tests/c/header.c -o "$work/header.o"

# The examples of the READMEs, as they stand there. That of the project's own names its model, so it finds it there.
link=("-L$target/debug" -llean "-Wl,-rpath,$target/debug")
for readme in README.md ffi/README.md; do
  sed -n '/^```c$/,/^```$/p' $readme | sed '1d;$d' >"$work/example.c"
  try "$readme: the example compiles" "$cc" -std=c99 "${warnings[@]}" "$work/example.c" -o "$work/${readme/\//-}.example" "${link[@]}"
done
"$cc" -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 "${warnings[@]}" tests/c/main.c tests/c/garbage.c tests/c/values.c \
  tests/c/sessions.c tests/c/limits.c tests/c/many.c tests/c/adapters.c tests/c/kv.c tests/c/port.c -o "$work/harness" "${link[@]}" -pthread || { fail "the harness compiles"; finish; }
pass "the harness compiles"
memchecks >"$work/memory.log" 2>&1 &
memchecks=$!

try "ffi/README.md: the example runs" "$work/ffi-README.md.example" "$tiny"
cat "$try_log"
harness "tiny model" test "$tiny"
harness "tiny model, cut a value in one process" cut "$tiny" "$work/tiny"
harness "tiny model, continue it in another" resume "$tiny" "$work/tiny"
if [ -f "$real" ]; then
  ln -s "$(realpath "$real")" "$work/smollm2.gguf"
  try "README.md: the example runs" bash -c 'cd "$1" && ./README.md.example' _ "$work"
  cat "$try_log"
  harness "real model" test "$real"
  harness "real model, cut a value in one process" cut "$real" "$work/real"
  harness "real model, continue it in another" resume "$real" "$work/real"
else
  skip "real model (scripts/fetch-model.sh fetches it)"
fi
wait "$memchecks" || fail "the runs under valgrind ended with status $?"
cat "$work/memory.log"
read -r ok bad left <"$work/memory.counts" || bad=1
passed=$((passed + ${ok:-0})) failed=$((failed + bad)) skipped=$((skipped + ${left:-0}))
finish
