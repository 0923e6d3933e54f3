#!/usr/bin/env python3
"""Builds a wheel of lean-engine that carries the bridge for this platform.

    cargo build --release -p lean-bridge
    hosts/python/make_wheel.py --bridge target/release/lean-bridge --out dist

pip builds the pure wheel; this adds the binary and says which platform the wheel is for: on Linux that is the oldest
glibc with every symbol version that the binary asks for. Written for Linux, macOS and Windows, run on Linux only.
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


def platform_tag(binary: bytes) -> str:
    """The platform of a binary that was built on this one."""
    plain = re.sub(r"[-.]", "_", sysconfig.get_platform())
    if sys.platform != "linux":
        return plain
    needed = {tuple(map(int, version)) for version in re.findall(rb"GLIBC_(\d+)\.(\d+)", binary)}
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


def add_bridge(pure: pathlib.Path, bridge: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """Writes the wheel of one platform."""
    binary = bridge.read_bytes()
    tag = f"py3-none-{platform_tag(binary)}"
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
        add(f"lean_engine/bin/{BINARY}", binary, 0o755)
        add_record = zipfile.ZipInfo(record, EPOCH)
        add_record.external_attr = 0o100644 << 16
        target.writestr(add_record, "\n".join([*records, f"{record},,", ""]))
    return wheel


def main() -> None:
    about = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    about.add_argument("--bridge", type=pathlib.Path, required=True, help="the lean-bridge binary")
    about.add_argument("--out", type=pathlib.Path, default=pathlib.Path("dist"), help="the folder of the wheel")
    given = about.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        print(add_bridge(pure_wheel(pathlib.Path(folder)), given.bridge, given.out))


if __name__ == "__main__":
    main()
