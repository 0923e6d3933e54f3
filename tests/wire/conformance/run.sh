#!/usr/bin/env bash
# Plays the conformance scripts with the runner of every host whose toolchain is here; the bridge must have been built.
#
#   tests/wire/conformance/run.sh            all hosts
#   tests/wire/conformance/run.sh node go    only these (node, python, go, kotlin, swift, rust)
#
# Ends each host with `N passed, N failed, N skipped`; a host without its toolchain is skipped by name.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
scripts=$(find tests/wire/conformance -name '*.jsonl' | wc -l)
log=$(mktemp) && trap 'rm -f "$log"' EXIT
status=0

# The runner's own counts, or its failure where it gave none.
report() {
  local code=$1 passed=$2 failed=$3 skipped=$4
  if [ "$code" != 0 ] && [ "${failed:-0}" = 0 ]; then failed=1; fi
  printf '%d passed, %d failed, %d skipped\n' "${passed:-0}" "${failed:-0}" "${skipped:-0}"
  [ "${failed:-0}" = 0 ] && [ $((${passed:-0} + ${skipped:-0})) -ge "$scripts" ] || status=1
}

missing() { echo "SKIPPED: $1 is missing"; echo "0 passed, 0 failed, 1 skipped"; }

run_python() {
  command -v python3 >/dev/null || { missing python3; return; }
  (cd hosts/python && PYTHONDONTWRITEBYTECODE=1 python3 -m unittest -v tests.test_conformance) 2>&1 | tee "$log"
  local code=${PIPESTATUS[0]}
  report "$code" "$(grep -c ' \.\.\. ok$' "$log")" "$(grep -cE ' \.\.\. (FAIL|ERROR)$' "$log")" "$(grep -c ' \.\.\. skipped' "$log")"
}

run_node() {
  command -v node >/dev/null || { missing node; return; }
  # The port needs koffi; where it is not to be had, its tests say so.
  [ -d hosts/node/node_modules/koffi ] || (cd hosts/node && npm install --no-save --no-package-lock --no-audit --no-fund) >&2
  (cd hosts/node && node --test --test-timeout=600000 --test-reporter=tap test/conformance.test.js) 2>&1 | tee "$log"
  local code=${PIPESTATUS[0]}
  count() { sed -n "s/^# $1 //p" "$log" | tail -n 1; }
  report "$code" "$(count pass)" "$(count fail)" "$(count skipped)"
}

run_go() {
  command -v go >/dev/null || { missing go; return; }
  local root=$PWD
  (cd hosts/go && CGO_CFLAGS="-I$root/include" CGO_LDFLAGS="-L$root/target/debug -Wl,-rpath,$root/target/debug" \
    go test -tags lean_cgo -v -count=1 -run '^TestConformance$' .) 2>&1 | tee "$log"
  local code=${PIPESTATUS[0]}
  report "$code" "$(grep -c '^    --- PASS' "$log")" "$(grep -c '^    --- FAIL' "$log")" "$(grep -c '^    --- SKIP' "$log")"
}

run_kotlin() {
  command -v mvn >/dev/null || { missing maven; return; }
  (cd hosts/kotlin && mvn -B -ntp test -Dtest=ConformanceTest) 2>&1 | tee "$log"
  local code=${PIPESTATUS[0]}
  count() { grep 'Tests run:' "$log" | tail -n 1 | sed -n "s/.*$1: \([0-9]*\).*/\1/p"; }
  local ran failed skipped
  ran=$(count 'Tests run') failed=$(($(count Failures) + $(count Errors))) skipped=$(count Skipped)
  report "$code" "$((ran - failed - skipped))" "$failed" "$skipped"
}

run_swift() {
  # One that is here already: scripts/test.sh swift fetches it.
  . scripts/swift.sh
  { swift_recent || [ -e "$swift_root/.complete" ]; } && swift_setup >/dev/null || { missing "Swift 6"; return; }
  { swift_in hosts/swift swift build --build-tests -j 2 && swift_in hosts/swift swift test --skip-build --filter ConformanceTests; } 2>&1 | tee "$log"
  local code=${PIPESTATUS[0]}
  report "$code" "$(grep -c '^script .* ok$' "$log")" "$(grep -c '^script .* FAILED$' "$log")" "$(grep -c '^script .* SKIPPED' "$log")"
}

run_rust() {
  command -v cargo >/dev/null || { missing cargo; return; }
  cargo test --workspace --test conformance -- --nocapture 2>&1 | tee "$log"
  local code=${PIPESTATUS[0]}
  report "$code" "$(grep -c '^script .* ok$' "$log")" "$(grep -c '^script .* FAILED$' "$log")" "$(grep -c '^script .* SKIPPED' "$log")"
}

for host in ${*:-node python go kotlin swift rust}; do
  echo "---- $host"
  "run_$host"
done
exit $status
