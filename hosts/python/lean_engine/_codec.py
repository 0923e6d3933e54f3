"""The postcard subset of message heads: see bridge/PROTOCOL.md. Strict: one message has one encoding."""

from __future__ import annotations

import re
import struct
from typing import Any, Callable, NamedTuple

from ._messages import BY_KIND, MESSAGES, Message


class WireError(Exception):
    """Bytes that do not decode as what they should be; fatal for the connection.

    ``name`` is one of bad_magic, frame_too_large, bad_header, truncated, bad_head.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class _Reader:
    def __init__(self, head: bytes) -> None:
        self.head = head
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.head) - self.at

    def take(self, count: int, what: str) -> bytes:
        if count > self.left:
            raise _bad(f"the head ends inside {what} at byte {self.at}")
        self.at += count
        return self.head[self.at - count : self.at]

    def varint(self, bits: int) -> int:
        value = 0
        shift = 0
        while True:
            byte = self.take(1, "a number")[0]
            group = byte & 0x7F
            if shift >= bits or (shift + 7 > bits and group >> (bits - shift)):
                raise _bad(f"a number of more than {bits} bits at byte {self.at}")
            value |= group << shift
            if byte < 0x80:
                if byte == 0 and shift > 0:
                    raise _bad(f"an overlong number at byte {self.at}")
                return value
            shift += 7

    def flag(self, what: str) -> bool:
        byte = self.take(1, what)[0]
        if byte > 1:
            raise _bad(f"{what} of {byte} at byte {self.at}")
        return byte == 1


class _Codec(NamedTuple):
    put: Callable[[bytearray, Any], None]
    get: Callable[[_Reader], Any]


def _bad(reason: str) -> WireError:
    return WireError("bad_head", reason)


def _put_varint(out: bytearray, value: int, bits: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise ValueError(f"{value!r} is no u{bits}")
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _unsigned(bits: int) -> _Codec:
    return _Codec(lambda out, value: _put_varint(out, value, bits), lambda reader: reader.varint(bits))


def _put_i64(out: bytearray, value: int) -> None:
    _put_varint(out, (value << 1) ^ (value >> 63), 64)


def _get_i64(reader: _Reader) -> int:
    zigzag = reader.varint(64)
    return (zigzag >> 1) ^ -(zigzag & 1)


def _float(layout: str) -> _Codec:
    pack = struct.Struct(layout)
    return _Codec(
        lambda out, value: out.extend(pack.pack(value)),
        lambda reader: pack.unpack(reader.take(pack.size, "a float"))[0],
    )


def _put_bytes(out: bytearray, value: bytes) -> None:
    _put_varint(out, len(value), 64)
    out.extend(value)


def _get_string(reader: _Reader) -> str:
    raw = reader.take(reader.varint(64), "a string")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _bad(f"a string that is not UTF-8 before byte {reader.at}") from None


_TYPES: dict[str, _Codec] = {
    "bool": _Codec(lambda out, value: out.append(1 if value else 0), lambda reader: reader.flag("a bool")),
    "u32": _unsigned(32),
    "u64": _unsigned(64),
    "i64": _Codec(_put_i64, _get_i64),
    "f32": _float("<f"),
    "f64": _float("<d"),
    "string": _Codec(lambda out, value: _put_bytes(out, value.encode("utf-8")), _get_string),
    "bytes": _Codec(_put_bytes, lambda reader: reader.take(reader.varint(64), "bytes")),
}


def _option(inner: _Codec) -> _Codec:
    def put(out: bytearray, value: Any) -> None:
        out.append(0 if value is None else 1)
        if value is not None:
            inner.put(out, value)

    return _Codec(put, lambda reader: inner.get(reader) if reader.flag("an option") else None)


def _sequence(inner: _Codec) -> _Codec:
    def put(out: bytearray, value: Any) -> None:
        _put_varint(out, len(value), 64)
        for item in value:
            inner.put(out, item)

    def get(reader: _Reader) -> list[Any]:
        count = reader.varint(64)
        # Every element takes at least one byte, so a count beyond the rest of the head is a lie.
        if count > reader.left:
            raise _bad(f"a sequence of {count} in {reader.left} bytes at byte {reader.at}")
        return [inner.get(reader) for _ in range(count)]

    return _Codec(put, get)


def codec_of(name: str) -> _Codec:
    """The codec of a type by its name in the specification, such as ``option<u32>``."""
    if name not in _TYPES:
        match = re.fullmatch(r"(option|seq)<(.+)>", name)
        if match is None:
            raise ValueError(f"unknown wire type {name}")
        make = _option if match[1] == "option" else _sequence
        _TYPES[name] = make(codec_of(match[2]))
    return _TYPES[name]


def _empty(wire_type: str) -> Any:
    if wire_type.startswith("option"):
        return None
    if wire_type.startswith("seq"):
        return ()
    return {"bool": False, "string": ""}.get(wire_type, 0)


def encode_head(name: str, fields: dict[str, Any]) -> bytes:
    """Encodes a message's head. Absent fields are absent options, false, zero, or empty."""
    message = MESSAGES[name]
    unknown = set(fields) - {field for field, _ in message.fields}
    if unknown:
        raise ValueError(f"{name} has no field {', '.join(sorted(unknown))}")
    out = bytearray()
    for field, wire_type in message.fields:
        try:
            codec_of(wire_type).put(out, fields.get(field, _empty(wire_type)))
        except (ValueError, TypeError, AttributeError, struct.error, OverflowError) as error:
            raise ValueError(f"{field}: {error}") from None
    return bytes(out)


def decode_head(kind: int, head: bytes) -> dict[str, Any]:
    """Decodes a head of a known kind. HELLO may be longer than known here: newer bridges append fields."""
    message: Message = BY_KIND[kind]
    reader = _Reader(head)
    try:
        fields = {field: codec_of(wire_type).get(reader) for field, wire_type in message.fields}
    except WireError as error:
        raise WireError(error.name, f"{message.name}: {error}") from None
    if reader.left > 0 and message.name != "HELLO":
        raise _bad(f"{message.name}: {reader.left} bytes too many")
    return fields


def encode_value(wire_type: str, value: Any) -> bytes:
    """Encodes a single value; for tests and for nothing else."""
    out = bytearray()
    codec_of(wire_type).put(out, value)
    return bytes(out)


def decode_value(wire_type: str, raw: bytes) -> Any:
    """Decodes a single value that takes all of ``raw``; for tests and for nothing else."""
    reader = _Reader(raw)
    value = codec_of(wire_type).get(reader)
    if reader.left > 0:
        raise _bad(f"{reader.left} bytes too many")
    return value
