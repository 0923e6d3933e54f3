#!/usr/bin/env bash
# Installs Debian/Ubuntu packages that are missing: scripts/apt-install.sh PACKAGE...
# Uses sudo when not root. Fails with a sentence where there is no apt.
set -euo pipefail

missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || { echo "please install by hand (no apt-get here): ${missing[*]}" >&2; exit 1; }

as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "please install as root (no sudo here): ${missing[*]}" >&2; exit 1; }
  as_root=(sudo "${as_root[@]}")
fi
echo "installing ${missing[*]}" >&2
install() { "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null; }
# Package lists may be absent or old: update only if the first try fails.
install 2>/dev/null || { "${as_root[@]}" apt-get update -qq </dev/null >/dev/null && install; }
