#!/usr/bin/env bash
# What can be said about a release without making one: the licences of what is compiled in, and the list of what is made. What was
# made is tried by check.sh.
#
# Ends with `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
passed=0 failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

try() { # NAME COMMAND..
  if "${@:2}" >"$work/log" 2>&1; then echo "ok $1" && passed=$((passed + 1)); else echo "FAIL $1" && cat "$work/log" && failed=$((failed + 1)); fi
}

# A workspace whose bridge depends on one crate, by a kind of dependency and under a licence.
depends() { # KIND LICENCE
  cat >"$work/metadata.json" <<JSON
{"packages": [
  {"id": "own", "name": "lean-bridge", "version": "1.0.0", "license": "MIT", "repository": null, "manifest_path": "/none/Cargo.toml"},
  {"id": "its", "name": "theirs", "version": "2.0.0", "license": $2, "repository": null, "manifest_path": "/none/Cargo.toml"}],
 "workspace_members": ["own"],
 "resolve": {"nodes": [{"id": "own", "deps": [{"pkg": "its", "dep_kinds": [{"kind": $1}]}]}, {"id": "its", "deps": []}]}}
JSON
}
takes() { depends "$1" "$2" && scripts/licenses.py --check --metadata "$work/metadata.json"; }
refuses() { local said; depends "$1" "$2"; ! said=$(scripts/licenses.py --check --metadata "$work/metadata.json" 2>&1) && grep -q 'theirs 2.0.0' <<<"$said"; }

try "licences: all that is compiled in may be shipped" scripts/licenses.py --check
for licence in '"MIT"' '"Apache-2.0 OR GPL-3.0-only"' '"MIT/GPL-2.0"' '"(GPL-2.0-only OR ISC) AND BSD-3-Clause"' '"Apache-2.0 WITH LLVM-exception"'; do
  try "licences: $licence is taken" takes null "$licence"
done
for licence in '"GPL-3.0-only"' '"MIT AND GPL-3.0-only"' '"Apache-2.0 WITH Something-else"' '"(MIT AND AGPL-3.0-only) OR LGPL-2.1-only"' null; do
  try "licences: $licence is refused by name" refuses null "$licence"
done
try "licences: tools of the build are not shipped" takes '"build"' '"GPL-3.0-only"'

before=$(ls)
try "release.sh --dry-run" bash -c 'scripts/release.sh --dry-run >"$1"' _ "$work/plan"
for artefact in THIRD_PARTY_LICENSES.txt lean- lean_engine- lean-node- lean-go- lean-swift- lean-kotlin- lean-web- SHA256SUMS; do
  try "release.sh --dry-run: $artefact" grep -q "^  $artefact" "$work/plan"
done
try "release.sh --dry-run makes nothing" [ "$before" = "$(ls)" ]
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" = 0 ]
