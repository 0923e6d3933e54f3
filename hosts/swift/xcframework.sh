#!/usr/bin/env bash
# Builds liblean as Lean.xcframework for macOS, iOS and the iOS simulator, to be linked into apps that use the transport
# `.port()`. For a Mac with Xcode and rustup. NOT RUN HERE: the project's tests have no Mac.
#
#   ./xcframework.sh [OUTPUT_FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:-target/xcframework}
[ "$(uname -s)" = Darwin ] || { echo "an xcframework is made on a Mac, with xcodebuild and lipo" >&2; exit 1; }

targets=(aarch64-apple-darwin x86_64-apple-darwin aarch64-apple-ios aarch64-apple-ios-sim x86_64-apple-ios)
rustup target add "${targets[@]}"
export MACOSX_DEPLOYMENT_TARGET=14.0 IPHONEOS_DEPLOYMENT_TARGET=17.0
for target in "${targets[@]}"; do
  cargo rustc --release -p lean-ffi --lib --crate-type staticlib --target "$target"
done

rm -rf "$out"
mkdir -p "$out"/headers "$out"/macos "$out"/simulator
cp include/lean.h "$out/headers/"
printf 'module CLean {\n  header "lean.h"\n  export *\n}\n' >"$out/headers/module.modulemap"
fat() { lipo -create "target/$1/release/liblean.a" "target/$2/release/liblean.a" -output "$out/$3/liblean.a"; }
fat aarch64-apple-darwin x86_64-apple-darwin macos
fat aarch64-apple-ios-sim x86_64-apple-ios simulator

xcodebuild -create-xcframework \
  -library "$out/macos/liblean.a" -headers "$out/headers" \
  -library target/aarch64-apple-ios/release/liblean.a -headers "$out/headers" \
  -library "$out/simulator/liblean.a" -headers "$out/headers" \
  -output "$out/Lean.xcframework"
# The client finds the functions by name, so the linker must not drop what nobody calls.
echo "$out/Lean.xcframework: add it to the app's target, with the linker flags -force_load (of liblean.a) or -all_load"
