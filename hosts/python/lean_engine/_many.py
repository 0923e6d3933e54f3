"""Several values that continue one context: a pass over the weights serves all of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from threading import Lock
from typing import Any, Callable, NamedTuple

from . import errors
from ._connection import Message, Request

#: How many values may be asked for at once.
MEMBERS = 63

_groups = itertools.count(1)


class Branch:
    """One of several values that continue one context: ``generate_many([Branch(User, "Ada: "), Branch(str, ..)])``."""

    def __init__(self, type_: Any, /, *blocks: Any, **options: Any) -> None:
        self.type = type_
        self.blocks = blocks
        self.options = options


class Group(NamedTuple):
    """What the members of one GENERATE_BRANCH have in common: the fields of their heads."""

    group: int
    members: int


def open_all(branches: Sequence[Any], open_one: Callable[[Any, Group], Request], turn: Lock) -> list[Request]:
    """Sends all of them; they begin once the last has arrived. ``turn`` is held meanwhile."""
    if not all(isinstance(branch, Branch) for branch in branches):
        raise errors.invalid("a Branch each is needed: Branch(type, *blocks, **options)")
    if not 1 <= len(branches) <= MEMBERS:
        raise errors.invalid(f"{len(branches)} values at once; from 1 to {MEMBERS} are possible")
    group = Group(next(_groups) % 0x7FFF_FFFF, len(branches))
    requests: list[Request] = []
    try:
        with turn:
            for branch in branches:
                requests.append(open_one(branch, group))
    except BaseException:
        close_all(requests)
        raise
    return requests


def _because_of_another(error: errors.LeanError) -> bool:
    """Whether a member only ended because another one of its group did."""
    return error.details.get("what") == "group"


def wait_all(requests: Sequence[Request]) -> list[Message]:
    """All answers, or the error of the first that failed; not that of one that ended because another did."""
    try:
        return [request.wait() for request in requests]
    except errors.LeanError as error:
        if not _because_of_another(error):
            raise
        for request in requests:
            request.cancel()
        for request in requests:
            try:
                request.wait()
            except errors.LeanError as other:
                if not _because_of_another(other) and other.code != 500:
                    raise other from None
        raise


def close_all(requests: Sequence[Request]) -> None:
    """Cancels what is left of them and waits until all have ended."""
    for request in requests:
        request.cancel()
    for request in requests:
        request.close()
