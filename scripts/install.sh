#!/usr/bin/env bash
# Installs the C and C++ library under a prefix: liblean, lean.h, lean.hpp, the CMake package and lean.pc. What is
# installed can be moved.
#
#   scripts/install.sh PREFIX            builds a release and installs it
#   scripts/install.sh PREFIX FOLDER     installs the library that lies in a folder, such as target/debug
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# = 1 ] || [ $# = 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
prefix=$1

if [ $# = 2 ]; then
  from=$2
else
  cargo build --release -p lean-ffi
  from=${CARGO_TARGET_DIR:-target}/release
fi
for library in liblean.so liblean.dylib ''; do [ -z "$library" ] || [ ! -e "$from/$library" ] || break; done
[ -n "$library" ] || { echo "there is no liblean in $from" >&2; exit 1; }
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

mkdir -p "$prefix/lib/cmake/lean" "$prefix/lib/pkgconfig" "$prefix/include"
install -m 644 include/lean.h include/lean.hpp "$prefix/include/"
if [ "$library" = liblean.so ]; then
  # What is linked asks for the name with the ABI's number (ffi/build.rs, docs/versions.md).
  soname=liblean.so.0
  install -m 755 "$from/$library" "$prefix/lib/$library.$version"
  ln -sf "$library.$version" "$prefix/lib/$soname"
  ln -sf "$soname" "$prefix/lib/$library"
  named="IMPORTED_SONAME $soname"
else
  install -m 755 "$from/$library" "$prefix/lib/"
  named="IMPORTED_NO_SONAME TRUE"
fi
fill() {
  sed -e "s/@VERSION@/$version/g" -e "s/@LIBRARY@/$library/g" -e "s/@NAMED@/$named/g" "ffi/package/$1.in" >"$2/$1"
  chmod 644 "$2/$1"
}
fill leanConfig.cmake "$prefix/lib/cmake/lean"
fill leanConfigVersion.cmake "$prefix/lib/cmake/lean"
fill lean.pc "$prefix/lib/pkgconfig"
echo "installed lean $version in $prefix"
