#!/usr/bin/env bash
# Makes what a release ships, for this platform, in dist/: programs, library, headers, the packages of the hosts, the licences of
# what is compiled in, and SHA256SUMS. It publishes nothing.
#
#   scripts/release.sh                  builds and packs (minutes: optimised for size, stripped)
#   scripts/release.sh --built FOLDER   packs the programs and the library that lie there, such as target/debug
#   scripts/release.sh --out FOLDER     another folder than dist
#   scripts/release.sh --dry-run        says what would be made, and does nothing
#   scripts/release.sh --check          tries what was made: installs it where nothing else is, and runs it
#
# What needs a tool that is missing is left out by name, and makes the exit status 1. Run on Linux only; on others see
# .github/workflows/release.yml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=dist built='' dry='' check=''
while [ $# -gt 0 ]; do
  case $1 in
    --built) built=${2:?--built wants a folder} && shift ;;
    --out) out=${2:?--out wants a folder} && shift ;;
    --dry-run) dry=1 ;;
    --check) check=1 ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
case $(uname -s) in Linux) system=linux ;; Darwin) system=darwin ;; *) echo "not made for $(uname -s)" >&2; exit 2 ;; esac
case $(uname -m) in x86_64) cpu=x64 ;; aarch64 | arm64) cpu=arm64 ;; *) cpu=$(uname -m) ;; esac
library=liblean.so; [ "$system" = linux ] || library=liblean.dylib
platform=$system-$cpu
# The same commit gives the same archives, but for what compilers make differently.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH

# name | needs | what it is
artefacts="
THIRD_PARTY_LICENSES.txt                | python3 cargo | licences of the crates that are compiled in
lean-$version-$platform.tar.gz          |               | lean, lean-bridge, liblean, lean.h, lean.hpp, CMake package, lean.pc
lean_engine-$version-*.whl              | python3       | the Python package with bridge and library
lean-node-$version.tgz                  | npm           | the Node package
lean-node-$platform-$version.tgz        | npm           | the bridge for it
lean-go-$version.zip                    | git           | the Go module
lean-swift-$version.zip                 | git           | the Swift package
lean-kotlin-$version.jar                | mvn javac     | the Kotlin client
lean-web-$version.tgz                   | npm           | the package for the web, if hosts/web/build.sh has built it
SHA256SUMS                              | sha256sum     | of all of these
"

# What of the tools is missing, if anything.
missing() { local tool; for tool in $1; do command -v "$tool" >/dev/null || { echo "$tool"; return; }; done; }

if [ -n "$dry" ]; then
  echo "lean $version for $platform, into $out/:"
  while IFS='|' read -r name needs about; do
    name=${name%% *}
    [ -n "$name" ] || continue
    lacks=$(missing "$needs")
    case $name in lean-web-*) [ -f hosts/web/dist/index.js ] || lacks=hosts/web/dist ;; esac
    printf '  %-42s %s%s\n' "$name" "${about# }" "${lacks:+ (left out: $lacks is missing)}"
  done <<<"$artefacts"
  [ -n "$built" ] || echo "after: cargo build --profile dist -p lean-bridge -p lean-cli -p lean-ffi"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
left_out=()

# ---- what is compiled -----------------------------------------------------------------------------------------

if [ -z "$built" ] && [ -z "$check" ]; then
  cargo build --locked --profile dist -p lean-bridge -p lean-cli -p lean-ffi
  built=${CARGO_TARGET_DIR:-target}/dist
fi

# Copies of the programs and the library without what only a debugger reads.
strip_all() {
  local file
  mkdir "$work/bin"
  for file in lean lean-bridge "$library"; do
    [ -f "$built/$file" ] || { echo "there is no $file in $built" >&2; exit 1; }
    if [ "$system" = linux ]; then strip -o "$work/bin/$file" "$built/$file"; else cp "$built/$file" "$work/bin/" && strip -x "$work/bin/$file"; fi
    chmod 755 "$work/bin/$file"
  done
}

# ---- the artefacts --------------------------------------------------------------------------------------------

# Archives that do not say who made them, and when.
archive() { # FOLDER NAME FILE
  tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$2" | gzip -9n >"$3"
}

licenses=(LICENSE-MIT LICENSE-APACHE)

make_native() {
  local name=lean-$version-$platform
  scripts/install.sh "$work/$name" "$work/bin" >/dev/null
  install -d "$work/$name/bin" "$work/$name/share/doc/lean"
  install -m 755 "$work/bin/lean" "$work/bin/lean-bridge" "$work/$name/bin/"
  install -m 644 README.md CHANGELOG.md docs/versions.md "${licenses[@]}" "$out/THIRD_PARTY_LICENSES.txt" "$work/$name/share/doc/lean/"
  archive "$work" "$name" "$out/$name.tar.gz"
}

make_python() {
  python3 hosts/python/make_wheel.py --bridge "$work/bin/lean-bridge" --library "$work/bin/$library" --out "$out" \
    --licenses "${licenses[@]}" "$out/THIRD_PARTY_LICENSES.txt" >/dev/null
}

# npm's archives have the times of their files for nobody to see: it sets them itself.
pack() { (cd "$1" && npm pack --silent --pack-destination "$out" >/dev/null); }

make_node() {
  local main=$work/node here=$work/node-platform
  mkdir -p "$main" "$here/bin"
  cp -r hosts/node/src hosts/node/index.cjs hosts/node/index.d.cts hosts/node/index.d.ts hosts/node/README.md "${licenses[@]}" "$main/"
  install -m 755 "$work/bin/lean-bridge" "$here/bin/"
  cp "${licenses[@]}" "$out/THIRD_PARTY_LICENSES.txt" "$here/"
  echo "The lean bridge for $platform: installed with lean-node." >"$here/README.md"
  node - "$main" "$here" "$version" "$system" "$cpu" <<'JS'
const { readFileSync, writeFileSync } = require('node:fs');
const [main, here, version, os, cpu] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync('hosts/node/package.json', 'utf8'));
const { private: _, scripts, devDependencies, ...shipped } = manifest;
// All that are built for a release; npm installs the one that fits.
const platforms = ['linux-x64', 'linux-arm64', 'darwin-arm64', 'win32-x64'];
shipped.optionalDependencies = Object.fromEntries(platforms.map((p) => [`lean-node-${p}`, version]));
const platform = {
  name: `lean-node-${os}-${cpu}`, version, description: `The lean bridge for ${os}-${cpu}`, license: manifest.license,
  os: [os], cpu: [cpu], ...(os === 'linux' ? { libc: ['glibc'] } : {}), files: ['bin', 'THIRD_PARTY_LICENSES.txt'], preferUnplugged: true,
};
writeFileSync(`${main}/package.json`, JSON.stringify(shipped, null, 2) + '\n');
writeFileSync(`${here}/package.json`, JSON.stringify(platform, null, 2) + '\n');
JS
  pack "$main"
  pack "$here"
}

make_go() {
  # What is committed: a module has nothing else.
  git archive --format=zip --prefix="lean@v$version/" -o "$out/lean-go-$version.zip" HEAD:hosts/go
}

make_swift() { git archive --format=zip --prefix="lean-swift-$version/" -o "$out/lean-swift-$version.zip" HEAD:hosts/swift; }

make_kotlin() {
  (cd hosts/kotlin && mvn -B -ntp -q -DskipTests package)
  cp "hosts/kotlin/target/lean-kotlin-$version.jar" "$out/"
}

make_web() {
  [ -f hosts/web/dist/index.js ] || return 3
  mkdir "$work/web"
  cp -r hosts/web/dist hosts/web/README.md "${licenses[@]}" "$work/web/"
  node -e '
    const { private: _, scripts, devDependencies, ...shipped } = JSON.parse(require("fs").readFileSync("hosts/web/package.json"));
    require("fs").writeFileSync(process.argv[1], JSON.stringify(shipped, null, 2) + "\n");' "$work/web/package.json"
  pack "$work/web"
}

# Makes one, or says why not.
attempt() { # NAME TOOLS
  local lacks status=0
  lacks=$(missing "$2")
  if [ -n "$lacks" ]; then left_out+=("$1: $lacks is missing"); return; fi
  ( set -e; "make_$1" ) || status=$?
  case $status in 0) ;; 3) left_out+=("$1: hosts/web/build.sh has not built it") ;; *) left_out+=("$1: FAILED with status $status") ;; esac
}

build_all() {
  rm -rf "$out"
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  scripts/licenses.py >"$out/THIRD_PARTY_LICENSES.txt"
  strip_all
  make_native
  attempt python python3
  attempt node npm
  attempt go git
  attempt swift git
  attempt kotlin 'mvn javac'
  attempt web npm
  (cd "$out" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS && chmod 644 SHA256SUMS)
  (cd "$out" && ls -l | awk 'NR > 1 {printf "%10d  %s\n", $5, $9}')
}

if [ -z "$check" ] || [ -n "$built" ]; then build_all; fi
[ -z "$check" ] || tests/release/check.sh "$out" || left_out+=("the check failed")
for reason in ${left_out[@]+"${left_out[@]}"}; do echo "LEFT OUT: $reason"; done
[ ${#left_out[@]} = 0 ]
