# Functions for building for wasm32-unknown-unknown; source this file from the root of the repository.
#
#   wasm_setup                 makes the target's standard library available
#   wasm_cargo build -p X ...  cargo for the target
#   wasm_threads_cargo ...     the same with threads: atomics and a shared memory, with a standard library built for them
#   wasm_output NAME           where a crate's .wasm file lies after `wasm_cargo build`, of the profile $wasm_profile
#
# rustup's own target is used where it can be had. Where it cannot, Debian's rustc-web comes with the sources of the
# standard library, which is then built along (-Zbuild-std) and linked by the lld of the Rust at hand.

wasm_target=wasm32-unknown-unknown
wasm_from_source=
wasm_profile=debug

wasm_setup() {
  local libs
  libs=$(rustc --print target-libdir --target $wasm_target)
  if [ -d "$libs" ] && [ -n "$(ls "$libs"/libstd-*.rlib 2>/dev/null)" ]; then return; fi
  if command -v rustup >/dev/null && timeout 300 rustup target add $wasm_target; then return; fi
  echo "rustup cannot add $wasm_target; building the standard library from Debian's sources"
  scripts/apt-install.sh rustc-web rust-web-src
  wasm_from_source=1
}

wasm_cargo() {
  local command=$1
  shift
  if [ -z "$wasm_from_source" ]; then
    cargo "$command" --target $wasm_target "$@"
    return
  fi
  RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1 \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$(wasm_lld) \
    cargo "$command" -Zbuild-std=std,panic_abort --target $wasm_target --target-dir target/wasm-std "$@"
}

wasm_threads_target=target/wasm-threads

wasm_threads_cargo() {
  local command=$1
  shift
  local flags='-Ctarget-feature=+simd128,+atomics,+bulk-memory,+mutable-globals'
  local export
  # Workers of a page are given the instance's memory, which may be as large as a page's can be.
  flags+=' -Clink-arg=--shared-memory -Clink-arg=--import-memory -Clink-arg=--max-memory=4294967296'
  for export in __wasm_init_tls __tls_size __tls_align __tls_base; do flags+=" -Clink-arg=--export=$export"; done
  local settings=(RUSTC_BOOTSTRAP=1 "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=$flags")
  if [ -n "$wasm_from_source" ]; then
    settings+=(RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$(wasm_lld)")
  elif [ ! -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
    timeout 300 rustup component add rust-src || { echo "the sources of the standard library are not to be had" >&2; return 1; }
  fi
  env "${settings[@]}" cargo "$command" -Zbuild-std=std,panic_abort --target $wasm_target --target-dir $wasm_threads_target "$@"
}

wasm_lld() {
  local host
  host=$(rustc -vV | sed -n 's/^host: //p')
  echo "$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld"
}

wasm_output() {
  local target=target
  [ -z "$wasm_from_source" ] || target=target/wasm-std
  echo "$target/$wasm_target/$wasm_profile/$1.wasm"
}
