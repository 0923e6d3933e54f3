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


def _named(given: Optional[Union[str, os.PathLike[str]]], argument: str, variable: str) -> Optional[str]:
    """The file that the caller names, or else the environment; that there is none is an error, and no reason to look on."""
    for path, source in ((given, f"the `{argument}` argument"), (os.environ.get(variable), variable)):
        if path:
            if os.path.isfile(path):
                return os.fspath(path)
            raise not_found(f"{source} names {os.fspath(path)}, where there is no file")
    return None


def _carried(packaged: Path) -> Optional[str]:
    """The file in this package, or else the newest build of the repository that this file lies in."""
    return next((str(c) for c in [packaged, *_developed(packaged.name)] if c.is_file()), None)


def find_bridge(given: Optional[Union[str, os.PathLike[str]]] = None) -> str:
    """The binary that ``spawn`` starts.

    It is the caller's, else ``LEAN_BRIDGE``, else the one in this package, else the newest build of the repository
    that this file lies in, else ``lean-bridge`` on the PATH. Raises ``BridgeNotFound``.
    """
    packaged = _PACKAGE / "bin" / BINARY
    found = _named(given, "bridge", "LEAN_BRIDGE") or _carried(packaged)
    if found:
        return found
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
    packaged = _PACKAGE / "lib" / LIBRARY
    found = _named(given, "library", "LEAN_LIBRARY") or _carried(packaged)
    if found:
        return found
    known = ctypes.util.find_library("lean")
    if known:
        return known
    raise not_found(
        f"no {LIBRARY} was found: not as {packaged}, and the system's loader knows none. Build it with "
        "`cargo build --release -p lean-ffi` and set LEAN_LIBRARY to where it is, or use the process: it needs no library."
    )
