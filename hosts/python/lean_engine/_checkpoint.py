"""Checkpoints: handles of states in the bridge, and their bytes."""

from __future__ import annotations

import json
import os
import weakref
import zlib
from typing import TYPE_CHECKING, Any, Optional, Union

from . import errors
from ._connection import CancelToken
from ._frames import CHUNK_BYTES, CRITICAL, END, message_bytes

if TYPE_CHECKING:
    from ._engine import Engine

#: What a checkpoint can be restored from: itself, its bytes, or the path of its file.
CheckpointLike = Union["Checkpoint", bytes, bytearray, memoryview, str, "os.PathLike[str]"]


class Checkpoint:
    """A state to continue from; it outlives the session it came from. Freed when collected, or with ``drop()``."""

    def __init__(
        self, engine: Engine, handle: int, tokens: Optional[int] = None, restored: Optional[str] = None
    ) -> None:
        #: Tokens it holds, if known.
        self.tokens = tokens
        #: What was done to it, where ``policy`` said what may be done: imported, converted or reprefilled.
        self.restored = restored
        self._engine = engine
        self._handle: Optional[int] = handle
        connection = engine.connection
        self._forgotten = weakref.finalize(self, connection.post, "CHECKPOINT_DROP", {"checkpoint": handle})
        self._forgotten.atexit = False

    def handle_on(self, engine: Engine) -> int:
        """The handle, for requests to the engine that it lives in."""
        if self._handle is None:
            raise errors.invalid("the checkpoint was dropped")
        if engine is not self._engine:
            raise errors.invalid("the checkpoint lives in another bridge process: hand over its to_bytes()")
        return self._handle

    def to_bytes(self, *, cancel: Optional[CancelToken] = None, timeout: Optional[float] = None) -> bytes:
        """Its self-describing bytes, for ``restore`` in any process with the same model."""
        head = {"checkpoint": self.handle_on(self._engine)}
        request = self._engine.connection.open("CHECKPOINT_SAVE", head, cancel=cancel, timeout=timeout)
        data = bytearray()
        try:
            for message in request.events():
                if message.name != "CHUNK":
                    continue
                if message.head["offset"] != len(data):
                    raise _damaged(f"a chunk at {message.head['offset']} where {len(data)} was due")
                data += message.tail
        finally:
            request.close()
        assert request.answer is not None
        saved = request.answer.head
        if len(data) != saved["size"] or zlib.crc32(data) != saved["digest"]:
            raise _damaged("size or digest do not match")
        return bytes(data)

    def save(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        cancel: Optional[CancelToken] = None,
        timeout: Optional[float] = None,
    ) -> int:
        """Writes it to a file (a temporary one that is flushed and renamed) and returns its size in bytes."""
        head = {"checkpoint": self.handle_on(self._engine), "path": os.path.abspath(os.fspath(path))}
        answer = self._engine.connection.call("CHECKPOINT_SAVE", head, cancel=cancel, timeout=timeout)
        return int(answer.head["size"])

    def drop(self) -> None:
        """Frees it now."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._forgotten.detach()
            self._engine.connection.call("CHECKPOINT_DROP", {"checkpoint": handle})

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def __repr__(self) -> str:
        return f"<Checkpoint of {'?' if self.tokens is None else self.tokens} tokens>"


def _damaged(reason: str) -> errors.LeanError:
    return errors.InputError(f"the checkpoint was damaged on its way: {reason}", code=300, name="bad_checkpoint")


def load_checkpoint(
    engine: Engine,
    model: int,
    source: CheckpointLike,
    *,
    policy: Optional[str] = None,
    cancel: Optional[CancelToken] = None,
    timeout: Optional[float] = None,
) -> Checkpoint:
    """A checkpoint for a model, from itself, from bytes, or from a file."""
    if policy not in (None, "exact", "convert", "reprefill"):
        raise errors.invalid(f"policy: exact, convert or reprefill, and not {policy!r}")
    tail = b"" if policy is None else json.dumps({"restore": policy}).encode()
    if isinstance(source, Checkpoint):
        source.handle_on(engine)
        return source
    head: dict[str, Any] = {"model": model}
    if isinstance(source, (str, os.PathLike)):
        head["path"] = os.path.abspath(os.fspath(source))
        answer = engine.connection.call("CHECKPOINT_LOAD", head, tail, cancel=cancel, timeout=timeout)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        request = engine.connection.open("CHECKPOINT_LOAD", head, tail, cancel=cancel, timeout=timeout)
        try:
            _upload(engine, request.id, bytes(source), request)
            answer = request.wait()
        finally:
            request.close()
    else:
        raise errors.invalid(f"a checkpoint is restored from bytes or from the path of a file, and not from {source!r}")
    restored = json.loads(answer.tail)["restored"] if answer.tail else None
    return Checkpoint(engine, answer.head["checkpoint"], answer.head["tokens"], restored)


def _upload(engine: Engine, request_id: int, data: bytes, request: Any) -> None:
    for offset in range(0, max(1, len(data)), CHUNK_BYTES):
        request.look()
        if request.cancelled or request.over:
            return
        last = offset + CHUNK_BYTES >= len(data)
        head = {"offset": offset, "digest": zlib.crc32(data) if last else None}
        piece = data[offset : offset + CHUNK_BYTES]
        engine.connection.send_now(message_bytes(request_id, "CHUNK", head, piece, CRITICAL | (END if last else 0)))
