"""Where the bridge binary is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Optional, Union

from .errors import not_found

BINARY = "lean-bridge.exe" if os.name == "nt" else "lean-bridge"
_PACKAGE = Path(__file__).resolve().parent


def _developed() -> list[Path]:
    """The repository's builds, newest first, for whoever works on lean itself."""
    repository = _PACKAGE.parents[2] if len(_PACKAGE.parents) > 2 else _PACKAGE
    if not (repository / "bridge" / "Cargo.toml").is_file():
        return []
    target = Path(os.environ.get("CARGO_TARGET_DIR") or repository / "target")
    builds = [target / profile / BINARY for profile in ("release", "debug")]
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
    for candidate in [packaged, *_developed()]:
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
