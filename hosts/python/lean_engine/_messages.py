"""Every message of the protocol: kind and fields in order.

tests/wire/messages.json is the same table, and a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple

MAJOR = 1
MINOR = 0


class Message(NamedTuple):
    """A kind of message and the fields of its head, as (name, wire type)."""

    name: str
    kind: int
    fields: tuple[tuple[str, str], ...]


def _message(name: str, kind: int, fields: str = "") -> Message:
    pairs = [field.rsplit(" ", 1) for field in fields.split(", ")] if fields else []
    return Message(name, kind, tuple((pair[0], pair[1]) for pair in pairs))


MESSAGES = {
    message.name: message
    for message in (
        _message("HELLO_ACK", 1, "minor u32, credit u32, max_frame option<u32>"),
        _message(
            "LOAD",
            2,
            "path string, backend option<string>, threads option<u32>, context option<u32>, progress bool",
        ),
        _message("UNLOAD", 3, "model u32"),
        _message("MODEL_INFO", 4, "model u32"),
        _message(
            "GENERATE",
            5,
            "model option<u32>, session option<u32>, checkpoint option<u32>, keep bool, events bool",
        ),
        _message("SESSION_OPEN", 6, "model u32, checkpoint option<u32>, context option<u32>"),
        _message("SESSION_APPEND", 7, "session u32, replace bool"),
        _message("SESSION_FORK", 8, "session u32"),
        _message("SESSION_CLOSE", 9, "session u32"),
        _message("CHECKPOINT_TAKE", 10, "session option<u32>, generation option<u32>"),
        _message("CHECKPOINT_SAVE", 11, "checkpoint u32, path option<string>"),
        _message("CHECKPOINT_LOAD", 12, "model u32, path option<string>"),
        _message("CHECKPOINT_DROP", 13, "checkpoint u32"),
        _message("CANCEL", 14),
        _message("CREDIT", 15, "events u32"),
        _message("SHUTDOWN", 16),
        _message("CHUNK", 17, "offset u64, digest option<u32>"),
        _message(
            "GENERATE_BRANCH",
            18,
            "group u32, members u32, model option<u32>, session option<u32>, checkpoint option<u32>, "
            "keep bool, events bool",
        ),
        _message("MODEL_STATS", 19, "model u32"),
        _message("MODEL_PREFIX_CACHE", 20, "model u32, bytes u64"),
        _message("SESSION_CUT", 21, "session u32, begin u32, end option<u32>"),
        _message("ADAPTER_LOAD", 24, "model u32, path string"),
        _message("ADAPTER_DROP", 25, "adapter u32"),
        _message("SESSION_ADAPT", 26, "session u32, adapters seq<u32>, scales seq<f32>"),
        _message(
            "HELLO",
            0x8001,
            "major u32, minor_min u32, minor_max u32, engine string, max_frame u32, capabilities seq<string>",
        ),
        _message("PROGRESS", 0x8002, "done u64, total u64"),
        _message("PREFILL", 0x8003, "done u32, total u32"),
        _message("TOKENS", 0x8004, "ids seq<u32>, forced bool"),
        _message("PARTIAL", 0x8005, "path string, final_bytes u32"),
        _message("CANDIDATES", 0x8006),
        _message("LOADED", 0x8010, "model u32"),
        _message("INFO", 0x8011),
        _message("GENERATED", 0x8012, "checkpoint option<u32>"),
        _message("SESSION", 0x8013, "session u32, tokens u32"),
        _message("CHECKPOINT", 0x8014, "checkpoint u32, tokens u32"),
        _message("SAVED", 0x8015, "size u64, digest u32"),
        _message("OK", 0x8016),
        _message("ADAPTER", 0x8018, "adapter u32"),
        _message("ERROR", 0x80FF, "code u32, class u32, retryable bool, name string, message string"),
    )
}

BY_KIND = {message.kind: message for message in MESSAGES.values()}
