#!/usr/bin/env python3
"""Builds a wheel of lean-engine that carries the bridge, and the library if it is given, for this platform.

    cargo build --release -p lean-bridge -p lean-ffi
    hosts/python/make_wheel.py --bridge target/release/lean-bridge --library target/release/liblean.so --out dist

pip builds the pure wheel; this adds the binaries and says which platform the wheel is for: on Linux that is the oldest
glibc with every symbol version that they ask for. Written for Linux, macOS and Windows, run on Linux only.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BINARY = "lean-bridge.exe" if os.name == "nt" else "lean-bridge"
#: The same input gives the same wheel: zip's first day.
EPOCH = (1980, 1, 1, 0, 0, 0)


def platform_tag(binaries: list[bytes]) -> str:
    """The platform of binaries that were built on this one."""
    plain = re.sub(r"[-.]", "_", sysconfig.get_platform())
    if sys.platform != "linux":
        return plain
    versions = (version for binary in binaries for version in re.findall(rb"GLIBC_(\d+)\.(\d+)", binary))
    needed = {tuple(map(int, version)) for version in versions}
    if not needed:
        return plain
    major, minor = max(needed)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def pure_wheel(folder: pathlib.Path) -> pathlib.Path:
    """The wheel without the binary, made by pip from a copy, so that no build folder is left in the repository."""
    source = folder / "source"
    shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("tests", "__pycache__", "bin", "build", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def add_binaries(
    pure: pathlib.Path, bridge: pathlib.Path, library: pathlib.Path | None, more: list[pathlib.Path], out: pathlib.Path
) -> pathlib.Path:
    """Writes the wheel of one platform."""
    binaries = {f"lean_engine/bin/{BINARY}": bridge.read_bytes()}
    if library:
        binaries[f"lean_engine/lib/{library.name}"] = library.read_bytes()
    tag = f"py3-none-{platform_tag(list(binaries.values()))}"
    wheel = out / pure.name.replace("py3-none-any", tag)
    records = []
    with zipfile.ZipFile(pure) as source, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as target:

        def add(name: str, data: bytes, mode: int = 0o644) -> None:
            info = zipfile.ZipInfo(name, EPOCH)
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(info, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            records.append(f"{name},sha256={digest},{len(data)}")

        record = next(name for name in source.namelist() if name.endswith(".dist-info/RECORD"))
        for name in sorted(source.namelist()):
            data = source.read(name)
            if name.endswith(".dist-info/WHEEL"):
                text = data.decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
                data = re.sub(r"(?m)^Tag: .*$", f"Tag: {tag}", text).encode()
            if name != record:
                add(name, data)
        for name, binary in binaries.items():
            add(name, binary, 0o755)
        for file in more:
            add(f"{record.split('/')[0]}/licenses/{file.name}", file.read_bytes())
        add_record = zipfile.ZipInfo(record, EPOCH)
        add_record.external_attr = 0o100644 << 16
        target.writestr(add_record, "\n".join([*records, f"{record},,", ""]))
    return wheel


def main() -> None:
    about = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    about.add_argument("--bridge", type=pathlib.Path, required=True, help="the lean-bridge binary")
    about.add_argument("--library", type=pathlib.Path, help="liblean, for transport='port'")
    about.add_argument("--licenses", type=pathlib.Path, nargs="*", default=[], help="files about licences to carry along")
    about.add_argument("--out", type=pathlib.Path, default=pathlib.Path("dist"), help="the folder of the wheel")
    given = about.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pure = pure_wheel(pathlib.Path(folder))
        print(add_binaries(pure, given.bridge, given.library, given.licenses, given.out))


if __name__ == "__main__":
    main()
