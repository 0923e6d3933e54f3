# Functions for building and testing the Swift package on Linux; source this file from the root of the repository.
#
#   swift_setup                  makes Swift 6 available, or says what is missing and fails
#   swift_in FOLDER COMMAND ..   runs a command in a folder of the repository, where `swift` is on the PATH
#
# A Swift that is installed is used where it is new enough. Where there is none, the one that Debian 13 has is unpacked
# into a folder of its own (.cache/swift, or LEAN_SWIFT_ROOT; 2 GB), with the C library that it was built for, and run there by
# chroot in a mount namespace of its own: nothing of it is installed, and no mount is left behind. That takes apt and
# dpkg, and either root or a kernel that lets users make namespaces.

swift_root=${LEAN_SWIFT_ROOT:-$PWD/.cache/swift}
swift_repository=$PWD
swift_native=

swift_setup() {
  if swift_recent; then swift_native=1; return; fi
  [ "$(uname -s)" = Linux ] || { echo "Swift 6 is missing"; return 1; }
  local tool
  for tool in apt-get dpkg-deb unshare chroot; do
    command -v $tool >/dev/null || { echo "Swift 6 is missing, and without $tool it is not to be had here"; return 1; }
  done
  # Before half a gigabyte is fetched.
  swift_isolated true || { echo "Swift 6 is missing, and no root folder can be mounted here to run one in"; return 1; }
  [ -e "$swift_root/.complete" ] || swift_unpack || { echo "Swift 6 is missing, and Debian's is not to be had here"; return 1; }
  swift_in . swift --version || { echo "the Swift of Debian 13 does not run here"; return 1; }
}

swift_recent() { command -v swift >/dev/null && swift --version 2>/dev/null | grep -qE 'Swift version ([6-9]|[1-9][0-9])'; }

# The server that the machine itself takes Debian from, in either form of apt's lists.
swift_mirror() {
  {
    awk '/^URIs:/ {print $2}' /etc/apt/sources.list.d/*.sources
    sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
  } 2>/dev/null | grep -m 1 '/debian/\?$'
}

# Debian's packages and what they depend on, unpacked side by side: no maintainer script runs.
swift_unpack() {
  local apt=$swift_root.apt key=/usr/share/keyrings/debian-archive-keyring.gpg mirror package
  [ -e $key ] || { echo "there is no $key"; return 1; }
  mirror=$(swift_mirror)
  [ -n "$mirror" ] || { echo "apt knows no server of Debian"; return 1; }
  rm -rf "$swift_root" "$apt"
  mkdir -p "$swift_root"/usr/{bin,sbin,lib,lib64} "$swift_root"/{tmp,proc,dev,etc,root} "$apt"/{etc,lists/partial,archives/partial}
  for package in bin sbin lib lib64; do ln -s usr/$package "$swift_root/$package"; done
  : >"$apt/status"
  echo "deb [signed-by=$key] $mirror trixie main" >"$apt/etc/sources.list"
  # The machine's own settings stay, such as a proxy; its lists and its state do not take part.
  cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/etc/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Cache::archives "$apt/archives";
Acquire::Languages "none";
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
END
  (
    export APT_CONFIG=$apt/apt.conf
    apt-get update -qq && apt-get install -y -qq --download-only -o Debug::NoLocking=1 \
      swiftlang libc6-dev libgcc-14-dev libstdc++-14-dev binutils bash coreutils libc-bin tzdata
  ) || return 1
  # Debuggers, editors' servers and archives for static linking are most of it, and not needed.
  find "$apt/archives" -name '*.deb' -print0 | xargs -0 -P 2 -n 1 sh -c '
    dpkg-deb --fsys-tarfile "$1" | tar -x -C "$0" --no-same-owner --keep-directory-symlink \
      --exclude="*/swift_static/*" --exclude="*lldb*" --exclude="*/sourcekit-lsp" --exclude="*clangd*" --exclude="*/docc*" \
      --exclude="*sourcekitd*" --exclude="*/swift/embedded/*" --exclude="*/FrameworkABIBaseline/*" --exclude="*/swift-format" \
      --exclude="*/share/doc/*" --exclude="*/share/man/*" --exclude="*/share/locale/*"' "$swift_root" || return 1
  rm -rf "$apt"
  cp /etc/passwd /etc/group "$swift_root/etc/"
  swift_isolated ldconfig && touch "$swift_root/.complete"
}

# Runs a command in the root, with the repository, /proc and /dev at their usual places.
swift_isolated() {
  local options=-m
  [ "$(id -u)" = 0 ] || options=-rm
  # shellcheck disable=SC2016
  unshare $options bash -euc '
    root=$1 here=$2; shift 2
    if [ "$1" = true ] && [ ! -e "$root/.complete" ]; then
      mkdir -p "$root/proc" && mount --rbind /proc "$root/proc" && chroot / true; exit
    fi
    mkdir -p "$root$here"
    mount --rbind /proc "$root/proc"; mount --rbind /dev "$root/dev"; mount --bind "$here" "$root$here"
    exec chroot "$root" "$@"' - "$swift_root" "$swift_repository" "$@"
}

swift_in() {
  local folder
  folder=$(cd "$1" && pwd) || return 1
  shift
  if [ -n "$swift_native" ]; then (cd "$folder" && "$@"); return; fi
  # shellcheck disable=SC2016
  swift_isolated env HOME=/root PATH=/usr/libexec/swift/bin:/usr/bin:/usr/sbin TMPDIR=/tmp bash -c 'cd "$0" && "$@"' "$folder" "$@"
}
