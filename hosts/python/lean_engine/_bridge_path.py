"""Where the bridge binary is, and the library."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import sys
from pathlib import Path
from typing import Optional, Union

from .errors import not_found

BINARY = "lean-bridge.exe" if os.name == "nt" else "lean-bridge"
LIBRARY = "lean.dll" if os.name == "nt" else "liblean.dylib" if sys.platform == "darwin" else "liblean.so"
_PACKAGE = Path(__file__).resolve().parent


def _developed(name: str) -> list[Path]:
    """The repository's builds, newest first, for whoever works on lean itself."""
    repository = _PACKAGE.parents[2] if len(_PACKAGE.parents) > 2 else _PACKAGE
    if not (repository / "bridge" / "Cargo.toml").is_file():
        return []
    target = Path(os.environ.get("CARGO_TARGET_DIR") or repository / "target")
    builds = [target / profile / name for profile in ("release", "debug")]
    return sorted((b for b in builds if b.is_file()), key=lambda b: b.stat().st_mtime, reverse=True)


def find_bridge(given: Optional[Union[str, os.PathLike[str]]] = None) -> str:
    """The binary that ``spawn`` starts.

    It is the caller's, else ``LEAN_BRIDGE``, else the one in this package, else the newest build of the repository
    that this file lies in, else ``lean-bridge`` on the PATH. Raises ``BridgeNotFound``.
    """
    for path, source in ((given, "the `bridge` argument"), (os.environ.get("LEAN_BRIDGE"), "LEAN_BRIDGE")):
        if path:
            if os.path.isfile(path):
                return os.fspath(path)
            raise not_found(f"{source} names {os.fspath(path)}, where there is no file")
    packaged = _PACKAGE / "bin" / BINARY
    for candidate in [packaged, *_developed(BINARY)]:
        if candidate.is_file():
            return str(candidate)
    on_path = shutil.which(BINARY)
    if on_path:
        return on_path
    raise not_found(
        f"no {BINARY} was found: not as {packaged}, and not on the PATH. Install a wheel of lean-engine that carries it "
        "(hosts/python/make_wheel.py builds one), or build it with `cargo build --release -p lean-bridge` and set "
        "LEAN_BRIDGE to where it is."
    )


def find_library(given: Optional[Union[str, os.PathLike[str]]] = None) -> str:
    """The library that ``spawn(transport="port")`` loads.

    It is the caller's, else ``LEAN_LIBRARY``, else the one in this package, else the newest build of the repository that
    this file lies in, else whatever the system's loader knows as liblean. Raises ``BridgeNotFound``.
    """
    for path, source in ((given, "the `library` argument"), (os.environ.get("LEAN_LIBRARY"), "LEAN_LIBRARY")):
        if path:
            if os.path.isfile(path):
                return os.fspath(path)
            raise not_found(f"{source} names {os.fspath(path)}, where there is no file")
    packaged = _PACKAGE / "lib" / LIBRARY
    for candidate in [packaged, *_developed(LIBRARY)]:
        if candidate.is_file():
            return str(candidate)
    known = ctypes.util.find_library("lean")
    if known:
        return known
    raise not_found(
        f"no {LIBRARY} was found: not as {packaged}, and the system's loader knows none. Build it with "
        "`cargo build --release -p lean-ffi` and set LEAN_LIBRARY to where it is, or use the process: it needs no library."
    )
