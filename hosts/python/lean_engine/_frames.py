"""Frames: a 16-byte little-endian header, a head, a tail; and a reader that takes bytes in any cuts."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, Optional

from ._codec import WireError, encode_head
from ._messages import MESSAGES

MAGIC = b"\x89LEAN\r\n\x1a"
MAX_FRAME_DEFAULT = 1 << 20
CHUNK_BYTES = 256 << 10
END = 1
ERROR = 2
CRITICAL = 4

#: body_len, request, kind, flags, head_len
HEADER = struct.Struct("<IIHHI")


class Frame(NamedTuple):
    """A frame as it was read, its head not decoded yet."""

    request: int
    kind: int
    flags: int
    head: bytes
    tail: bytes


def frame_bytes(request: int, kind: int, flags: int, head: bytes, tail: bytes = b"") -> bytes:
    """The bytes of a frame from raw parts."""
    return b"".join((HEADER.pack(len(head) + len(tail), request, kind, flags, len(head)), head, tail))


def message_bytes(request: int, name: str, fields: dict[str, Any], tail: bytes = b"", flags: int = 0) -> bytes:
    """The bytes of a frame from a message."""
    return frame_bytes(request, MESSAGES[name].kind, flags, encode_head(name, fields), tail)


class FrameReader:
    """Turns a byte stream, cut anywhere, into frames. A ``WireError`` from it is final."""

    def __init__(self, max_frame: int = MAX_FRAME_DEFAULT, magic: bool = True) -> None:
        self.max_frame = max_frame
        self._expect_magic = magic
        self._buffer = bytearray()
        self._failed: Optional[WireError] = None

    @property
    def buffered(self) -> int:
        """Bytes held."""
        return len(self._buffer)

    def push(self, data: bytes) -> None:
        """Hands over the next bytes."""
        self._buffer += data

    def next(self) -> Optional[Frame]:
        """The next whole frame, or None if more bytes are needed."""
        if self._failed is not None:
            raise self._failed
        try:
            return self._parse()
        except WireError as error:
            self._failed = error
            self._buffer.clear()
            raise

    def finish(self) -> None:
        """To be called at the end of the stream: an unfinished frame raises."""
        if self._failed is not None:
            raise self._failed
        if self._buffer or self._expect_magic:
            raise WireError("truncated", f"the stream ended {len(self._buffer)} bytes into a frame")

    def _parse(self) -> Optional[Frame]:
        if self._expect_magic and not self._take_magic():
            return None
        if len(self._buffer) < HEADER.size:
            return None
        body_len, request, kind, flags, head_len = HEADER.unpack_from(self._buffer)
        if body_len > self.max_frame:
            raise WireError("frame_too_large", f"a frame of {body_len} bytes; at most {self.max_frame} are allowed")
        if head_len > body_len:
            raise WireError("bad_header", f"a head of {head_len} bytes in a body of {body_len}")
        end = HEADER.size + body_len
        if len(self._buffer) < end:
            return None
        split = HEADER.size + head_len
        head, tail = bytes(self._buffer[HEADER.size : split]), bytes(self._buffer[split:end])
        del self._buffer[:end]
        return Frame(request, kind, flags, head, tail)

    def _take_magic(self) -> bool:
        """Whether the magic is behind us; a wrong byte is noticed as soon as it arrives."""
        found = bytes(self._buffer[: len(MAGIC)])
        if not MAGIC.startswith(found):
            text = bytes(self._buffer[:60]).decode("latin-1")
            raise WireError("bad_magic", f"the stream does not begin with the lean magic but with {text!r}")
        if len(found) < len(MAGIC):
            return False
        del self._buffer[: len(MAGIC)]
        self._expect_magic = False
        return True
