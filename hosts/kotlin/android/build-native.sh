#!/usr/bin/env bash
# Builds liblean for Android into build/jniLibs, its segments aligned to pages of 16 KiB, and checks that they are.
# NOT RUN HERE: the project's tests have no NDK.
#
#   ANDROID_NDK_HOME=.. ./build-native.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
: "${ANDROID_NDK_HOME:?names the folder of the NDK, 27 or newer}"
tools=$(echo "$ANDROID_NDK_HOME"/toolchains/llvm/prebuilt/*/bin)
api=26

build() { # TARGET ABI
  local target=$1 abi=$2 name
  name=$(tr a-z- A-Z_ <<<"$target")
  rustup target add "$target"
  env "CARGO_TARGET_${name}_LINKER=$tools/$target$api-clang" "CC_${target//-/_}=$tools/$target$api-clang" \
    "CXX_${target//-/_}=$tools/$target$api-clang++" "AR_${target//-/_}=$tools/llvm-ar" \
    "CARGO_TARGET_${name}_RUSTFLAGS=-C link-arg=-Wl,-z,max-page-size=16384" \
    cargo build --profile dist -p lean-ffi --target "$target"
  mkdir -p "$here/build/jniLibs/$abi"
  cp "target/$target/dist/liblean.so" "$here/build/jniLibs/$abi/"
  # Every loaded segment has to say 0x4000 or a multiple.
  "$tools/llvm-readelf" -lW "$here/build/jniLibs/$abi/liblean.so" | awk '$1 == "LOAD" && strtonum($NF) % 16384 {bad = 1} END {exit bad}' ||
    { echo "liblean.so for $abi is not aligned to 16 KiB" >&2; exit 1; }
}

build aarch64-linux-android arm64-v8a
build x86_64-linux-android x86_64
