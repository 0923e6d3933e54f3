#!/usr/bin/env python3
"""Lists what is compiled into lean's programs and libraries, with the licences, and refuses what may not be.

    scripts/licenses.py > THIRD_PARTY_LICENSES.txt
    scripts/licenses.py --check                        # only says whether all is allowed
    scripts/licenses.py --check --metadata FILE        # of another workspace's `cargo metadata`

What counts are the crates that `cargo metadata` reaches from what is shipped, over normal dependencies of this platform.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

#: What is shipped.
SHIPPED = ("lean-bridge", "lean-cli", "lean-ffi")
#: Licences that ask for no more than to be named. An expression needs one way through it that uses only these.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "CDLA-Permissive-2.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unicode-DFS-2016", "Unlicense", "Zlib",
}  # fmt: skip
ROOT = pathlib.Path(__file__).resolve().parents[1]


class NotAllowed(Exception):
    """A licence that may not be shipped, or none."""


def allowed(expression: str) -> bool:
    """Whether an SPDX expression can be satisfied; `/` is an old way to write OR."""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def one() -> bool:
        if not tokens:
            raise ValueError(f"the licence expression {expression!r} ends early")
        token = tokens.pop(0)
        if token == "(":
            value = either()
            if not tokens or tokens.pop(0) != ")":
                raise ValueError(f"a bracket is missing in {expression!r}")
            return value
        if tokens[:1] == ["WITH"]:
            token = " ".join([token, *tokens[:2]])
            del tokens[:2]
        return token in ALLOWED

    def both() -> bool:
        value = one()
        while tokens[:1] == ["AND"]:
            tokens.pop(0)
            value = one() and value
        return value

    def either() -> bool:
        value = both()
        while tokens[:1] == ["OR"]:
            tokens.pop(0)
            value = both() or value
        return value

    value = either()
    if tokens:
        raise ValueError(f"the licence expression {expression!r} goes on with {tokens[0]!r}")
    return value


def metadata() -> dict:
    host = next(
        line.split()[1]
        for line in subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
        if line.startswith("host:")
    )
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)


def shipped(data: dict) -> list[dict]:
    """The packages of others that are compiled into what is shipped."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    own = set(data["workspace_members"])
    waiting = [id for id in own if packages[id]["name"] in SHIPPED]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((packages[id] for id in seen - own), key=lambda p: (p["name"], p["version"]))


def refuse(packages: list[dict]) -> None:
    wrong = []
    for package in packages:
        expression = package["license"]
        if not expression:
            wrong.append(f"{package['name']} {package['version']} names no licence")
        elif not allowed(expression):
            wrong.append(f"{package['name']} {package['version']} is under {expression}")
    if wrong:
        raise NotAllowed("\n".join(wrong))


def texts(package: dict) -> list[str]:
    """Its licence and notice files."""
    folder = pathlib.Path(package["manifest_path"]).parent
    wanted = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)
    files = sorted(f for f in folder.iterdir() if f.is_file() and wanted.match(f.name)) if folder.is_dir() else []
    return [file.read_text("utf-8", errors="replace").strip() for file in files]


def write(packages: list[dict]) -> None:
    print("lean is under MIT or Apache-2.0, at your choice. Compiled into its programs and libraries are these crates:\n")
    for package in packages:
        print(f"{package['name']} {package['version']}: {package['license']}  {package['repository'] or ''}".rstrip())
    users: dict[str, list[str]] = collections.defaultdict(list)
    for package in packages:
        for text in texts(package) or [f"(no licence file in the package; it is under {package['license']})"]:
            users[text].append(f"{package['name']} {package['version']}")
    for text, names in sorted(users.items(), key=lambda pair: pair[1]):
        print("\n" + "-" * 100 + "\n" + ", ".join(names) + "\n\n" + text)


def main() -> None:
    about = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    about.add_argument("--check", action="store_true", help="write no list")
    about.add_argument("--metadata", type=pathlib.Path, help="the output of cargo metadata, instead of asking for it")
    given = about.parse_args()
    packages = shipped(json.loads(given.metadata.read_text("utf-8")) if given.metadata else metadata())
    try:
        refuse(packages)
    except NotAllowed as wrong:
        sys.exit(f"not allowed (scripts/licenses.py says what is):\n{wrong}")
    if given.check:
        print(f"{len(packages)} crates, all allowed")
    else:
        write(packages)


if __name__ == "__main__":
    main()
