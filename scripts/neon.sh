# Functions for running the kernels' tests as 64-bit ARM code under qemu; source this file from the root of the repository.
#
#   neon_setup             makes compiler, linker and emulator available, or fails
#   neon_cargo test ...    cargo for the target
#
# rustup's own target is used where it can be had. Where it cannot, Debian's rustc-web comes with the sources of the
# standard library, which is then built along (-Zbuild-std).

neon_target=aarch64-unknown-linux-gnu
neon_from_source=

neon_setup() {
  local libs
  scripts/apt-install.sh gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static || return 1
  libs=$(rustc --print target-libdir --target $neon_target)
  if [ -d "$libs" ] && [ -n "$(ls "$libs"/libstd-*.rlib 2>/dev/null)" ]; then return; fi
  if command -v rustup >/dev/null && timeout 300 rustup target add $neon_target; then return; fi
  echo "rustup cannot add $neon_target; building the standard library from Debian's sources"
  scripts/apt-install.sh rustc-web rust-web-src || return 1
  neon_from_source=1
}

neon_cargo() {
  local command=$1
  shift
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -cpu max -L /usr/aarch64-linux-gnu"
  if [ -z "$neon_from_source" ]; then
    cargo "$command" --target $neon_target "$@"
    return
  fi
  RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1 \
    cargo "$command" -Zbuild-std=std,panic_unwind,test --target $neon_target --target-dir target/neon-std "$@"
}
