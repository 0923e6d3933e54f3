#!/usr/bin/env bash
# Installs what the tests need, then runs all of them: the README's second command, and what CI runs.
#
#   scripts/test.sh             everything
#   scripts/test.sh rust node   only these suites
#   scripts/test.sh --list      what there is
#
# Made for Debian 12 and Ubuntu with Rust, Python and Node. Each suite's output also goes to
# .cache/test/SUITE.log. The last line is `N passed, N failed, N skipped`; the exit status is 0 only if nothing
# failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET

# The suites, in the order of running: name | how its log is counted | what it protects.
suites='
fmt    | exit  | formatting of the Rust code
rust   | cargo | unit, integration and documentation tests of every crate; the GPU on software Vulkan
c      | lines | the C ABI from C, under valgrind
cpp    | lines | the C++ header, under sanitizers, and from an installed CMake package
node   | node  | the Node package against the bridge process
python | unittest | the Python package against the bridge process
go     | go    | the Go module against the bridge process, under the race detector
kotlin | maven | the Kotlin client over the spawned bridge and over liblean, and the example of its README
swift  | swift | the Swift package over the spawned bridge and over liblean, with the Swift of Debian 13 where there is none
conformance | lines | the same conversations with the bridge, frame by frame, from every host
verify | lines | the engine against transformers (fixtures), through the lean command
wasm   | lines | the engine in WebAssembly, run in Node, against the native build
neon   | cargo | the CPU kernels as 64-bit ARM code, under qemu
web    | node  | the package for the web, in Node and in headless Chromium
release | lines | the licences of what is compiled in, and what scripts/release.sh would make
clippy | exit  | lints, with warnings as errors
'

# ---- the suites -----------------------------------------------------------------------------------------------

suite_fmt() {
  component rustfmt
  cargo fmt --all --check
}

suite_clippy() {
  component clippy
  compiler
  # Kernels walk several arrays by one index, errors carry the session they give back, and `% n == 0` is how block
  # sizes are written everywhere.
  cargo clippy --workspace --all-targets -- -D warnings -A clippy::needless_range_loop -A clippy::type_complexity \
    -A clippy::result_large_err -A clippy::manual_is_multiple_of
}

suite_rust() {
  build
  scripts/apt-install.sh mesa-vulkan-drivers libvulkan1
  scripts/fetch-model.sh
  local log=.cache/test/rust.log
  cargo test --workspace --no-fail-fast
  # A machine without a working Vulkan must not pass for one whose GPU tests passed.
  grep -q '^test .*gpu.* ok$' $log || { echo "no GPU test ran"; return 1; }
}

suite_c() {
  build
  scripts/apt-install.sh valgrind
  scripts/fetch-model.sh
  tests/c/run.sh --no-build
}

suite_cpp() {
  build
  scripts/apt-install.sh g++ cmake make pkg-config
  scripts/fetch-model.sh
  tests/cpp/run.sh target/debug
}

suite_node() {
  build
  scripts/fetch-model.sh
  cd hosts/node
  if [ -f package-lock.json ]; then npm ci --no-audit --no-fund; else npm install --no-save --no-package-lock --no-audit --no-fund; fi
  node --test --test-timeout=600000 --test-reporter=tap test/
}

suite_python() {
  command -v python3 >/dev/null || skip "python3 is missing"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "$(python3 --version) is older than 3.9"
  build
  scripts/fetch-model.sh
  # Only tests need it: without it, those of pydantic models are skipped, and counted.
  local packages=$PWD/.cache/python-packages
  PYTHONPATH=$packages python3 -c 'import pydantic' 2>/dev/null ||
    python3 -m pip install --quiet --disable-pip-version-check --no-input --target "$packages" 'pydantic>=2' ||
    echo "SKIPPED: pydantic is not to be had here"
  unset LEAN_BRIDGE
  cd hosts/python
  PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -v -t . -s tests
}

suite_go() {
  go_toolchain
  build
  scripts/fetch-model.sh
  unset LEAN_BRIDGE
  cd hosts/go
  local unformatted; unformatted=$(gofmt -l .)
  [ -z "$unformatted" ] || { echo "not formatted: $unformatted"; return 1; }
  # Without cgo, as most build it; then, for the tests, with liblean inside as well. The READMEs' examples run without.
  CGO_ENABLED=0 go vet ./...
  export CGO_CFLAGS="-I$PWD/../../include" CGO_LDFLAGS="-L$PWD/../../target/debug -Wl,-rpath,$PWD/../../target/debug"
  go vet -tags lean_cgo ./...
  go test -race -tags lean_cgo -v -count=1 -timeout 30m ./...
}

suite_kotlin() {
  command -v mvn >/dev/null && command -v javac >/dev/null || scripts/apt-install.sh maven openjdk-17-jdk-headless ||
    skip "Maven and a JDK are missing and not to be had here"
  build
  scripts/fetch-model.sh
  unset LEAN_BRIDGE
  cd hosts/kotlin
  local log=../../.cache/test/kotlin.log
  # What it needs is fetched first: a repository that cannot be reached is no failure of the client.
  mvn -B -ntp -q test-compile || { grep -qE 'Could not (resolve|transfer|find artifact)|could not be resolved' $log &&
    skip "Kotlin's compiler and libraries are not to be had here"; return 1; }
  mvn -B -ntp test
}

suite_swift() {
  . scripts/swift.sh
  swift_setup || skip "Swift 6 is missing and not to be had here"
  build
  scripts/fetch-model.sh
  unset LEAN_BRIDGE
  swift_in hosts/swift swift build --build-tests -j 2
  swift_in hosts/swift swift test --skip-build
}

suite_conformance() {
  build
  scripts/fetch-model.sh
  # A host without its toolchain is named and counts as skipped.
  (go_toolchain) || true
  newest_go
  unset LEAN_BRIDGE
  tests/wire/conformance/run.sh
}

suite_verify() {
  build
  local model fixtures=tests/fixtures/models status=0
  model=$(scripts/fetch-model.sh)
  target/debug/lean verify --dir $fixtures || status=1
  target/debug/lean verify --model "$model" --fixture $fixtures/SmolLM2-135M-Instruct.Q4_1.given.json || status=1
  return $status
}

suite_release() {
  command -v python3 >/dev/null || skip "python3 is missing"
  compiler
  tests/release/run.sh
}

suite_wasm() {
  build
  tests/wasm/run.sh
}

suite_neon() {
  compiler
  . scripts/neon.sh
  neon_setup || skip "a linker and an emulator for 64-bit ARM are not to be had here"
  neon_cargo test -p lean-kernels --lib
}

suite_web() {
  build
  command -v node >/dev/null || skip "node is missing"
  scripts/fetch-model.sh
  LEAN_BUILT=1 hosts/web/build.sh --dev
  hosts/web/test.sh
}

# ---- what they share ------------------------------------------------------------------------------------------

# Everything native is built by this one command: building crates one by one would give their dependencies other
# features each time, and compile them again and again.
build() {
  compiler
  cargo build --workspace --all-targets
}

# Ends a suite that cannot run here: it is named in the table, and counts as skipped.
skip() { echo "SKIPPED: $*"; exit 77; }

compiler() {
  command -v cargo >/dev/null || { echo "Rust is missing: cargo is not on the PATH"; return 1; }
  command -v cc >/dev/null && command -v c++ >/dev/null || scripts/apt-install.sh gcc g++ libc6-dev
}

# Puts the newest Go of the distribution first on the PATH, where it is newer than the one there.
newest_go() {
  local folder
  for folder in /usr/lib/go-*/bin; do
    [ -x "$folder/go" ] && ! recent_go && PATH=$folder:$PATH
  done
  return 0
}

recent_go() { [ "$(printf '%s\n' 1.23 "$(go env GOVERSION 2>/dev/null | sed 's/^go//')" | sort -V | head -n 1)" = 1.23 ]; }

# Go 1.23 or newer, and what its race detector links with.
go_toolchain() {
  local package
  command -v cc >/dev/null || scripts/apt-install.sh gcc libc6-dev
  newest_go
  for package in golang-go golang-1.24-go golang-1.23-go; do
    recent_go || { scripts/apt-install.sh "$package" && newest_go; } || true
  done
  recent_go || skip "Go 1.23 or newer is missing ($(go version 2>/dev/null || echo none is installed))"
}

component() {
  cargo "${1/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$1" || skip "$1 is not to be had here"
}

# Each prints "passed failed skipped" of a log.
count_exit() { echo "$((1 - ($2 != 0))) $(($2 != 0)) 0"; }
count_cargo() { awk '/^test result:/ {p += $4; f += $6; s += $8} END {print p + 0, f + 0, s + 0}' "$1"; }
count_node() { awk '/^# pass /{p = $3} /^# (fail|cancelled) /{f += $3} /^# (skipped|todo) /{s += $3} END {print p + 0, f + 0, s + 0}' "$1"; }
# The last lines are `Ran N tests in ..` and `OK` or `FAILED (failures=N, errors=N, skipped=N)`.
count_unittest() {
  awk '/^Ran [0-9]+ tests? in/ {n = $2}
    /^(OK|FAILED)( \(.*\))?$/ {
      for (i = split($0, part, /[(), ]+/); i > 0; i--) {
        split(part[i], pair, "=")
        if (pair[1] == "failures" || pair[1] == "errors") f += pair[2]
        if (pair[1] == "skipped") s += pair[2]
      }
    }
    END {p = n - f - s; print (p < 0 ? 0 : p), f + 0, s + 0}' "$1"
}
count_go() { awk '/^ *--- PASS:/ {p++} /^ *--- FAIL:/ {f++} /^ *--- SKIP:/ {s++} END {print p + 0, f + 0, s + 0}' "$1"; }
# The last summary; those of single classes end with a time.
count_maven() {
  awk '/Tests run: [0-9]+, Failures/ && !/Time elapsed/ {gsub(/,/, ""); for (i = 1; i < NF; i++) {
      if ($i == "run:") n = $(i + 1); if ($i == "Failures:") f = $(i + 1); if ($i == "Errors:") f += $(i + 1); if ($i == "Skipped:") s = $(i + 1) }}
    END {print n - f - s, f + 0, s + 0}' "$1"
}
# Test cases, and the conformance scripts that two of them play.
count_swift() {
  awk "/^Test Case '.*' passed/ || /^script .* ok\$/ {p++} /^Test Case '.*' failed/ || /^script .* FAILED\$/ {f++}
    /^Test Case '.*' skipped/ || /^script .* SKIPPED/ {s++} END {print p + 0, f + 0, s + 0}" "$1"
}
count_lines() { awk '/^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ {p += $1; f += $3; s += $5} END {print p + 0, f + 0, s + 0}' "$1"; }

rows=()
total_passed=0 total_failed=0 total_skipped=0

run_suite() {
  local name=$1 counter=$2 about=$3 log=.cache/test/$1.log start=$SECONDS status passed failed skipped note=
  printf '\n==== %s: %s\n' "$name" "$about"
  ( set -euo pipefail; "suite_$name" ) 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  if [ "$status" = 77 ]; then
    passed=0 failed=0 skipped=1 note=$(sed -n 's/^SKIPPED: /SKIPPED: /p' "$log" | tail -n 1)
  else
    read -r passed failed skipped < <("count_$counter" "$log" "$status")
    # A suite may fail before or beside its tests, and one that ran nothing has proved nothing.
    if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1 note="FAILED: exit status $status, see $log"; fi
    if [ $((passed + failed)) = 0 ]; then failed=1 note="FAILED: ran no test"; fi
  fi
  total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed)) total_skipped=$((total_skipped + skipped))
  rows+=("$(printf '%-11s %7d %7d %8d %6ds  %s' "$name" "$passed" "$failed" "$skipped" $((SECONDS - start)) "$note")")
}

# Software Vulkan, so that the GPU tests need no GPU and give the same everywhere.
lavapipe() {
  export VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.$(uname -m).json
  export VK_ICD_FILENAMES=$VK_DRIVER_FILES
  export LEAN_REQUIRE_GPU=1 WGPU_BACKEND=vulkan LP_NUM_THREADS=${LP_NUM_THREADS:-2} XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp}
}

main() {
  local name counter about chosen=" $* "
  if [ "${1:-}" = --list ]; then printf '%s' "${suites#?}"; exit 0; fi
  for name in "$@"; do
    grep -q "^$name " <<<"$suites" || { echo "no such suite: $name (scripts/test.sh --list)"; exit 2; }
  done
  mkdir -p .cache/test
  lavapipe
  [ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0
  export CARGO_TERM_COLOR=never
  while IFS='|' read -r name counter about; do
    name=${name// } counter=${counter// }
    [ -n "$name" ] || continue
    if [ $# -gt 0 ] && [[ $chosen != *" $name "* ]]; then continue; fi
    run_suite "$name" "$counter" "${about# }"
  done <<<"$suites"
  printf '\n%-11s %7s %7s %8s %7s\n' suite passed failed skipped time
  printf '%s\n' "${rows[@]}"
  printf '\n%d passed, %d failed, %d skipped\n' "$total_passed" "$total_failed" "$total_skipped"
  [ "$total_failed" = 0 ]
}

main "$@"
