"""lean for Python: typed values out of local language models, through a bridge process.

>>> import lean_engine as lean
>>> with lean.spawn() as engine:
...     model = engine.load("smollm2.gguf")
...     user = model.generate(User, "Invent a user.")

``User`` is a dataclass, pydantic model, ``TypedDict``, annotation, type expression or JSON Schema: see ``type_of``.
"""

from ._adapter import Adapter
from ._aio import AsyncStream
from ._annotations import Bounds
from ._bridge_path import find_bridge, find_library
from ._checkpoint import Checkpoint
from ._connection import CancelToken
from ._engine import Engine, GenerateOptions, Model, Session, StreamOptions, spawn
from ._generation import Event, Partial, Prefill, Result, Stream, Token, Usage
from ._many import Branch
from ._requests import Block, chat
from ._types import Type, choice, expr, regex, schema, text, tools, type_of
from .errors import (
    BridgeExited,
    BridgeNotFound,
    Cancelled,
    InputError,
    InternalError,
    LeanError,
    ProtocolError,
    ResourceError,
    TimedOut,
)

__version__ = "0.1.0"

__all__ = [
    "Adapter",
    "AsyncStream",
    "Block",
    "Bounds",
    "Branch",
    "BridgeExited",
    "BridgeNotFound",
    "CancelToken",
    "Cancelled",
    "Checkpoint",
    "Engine",
    "Event",
    "GenerateOptions",
    "InputError",
    "InternalError",
    "LeanError",
    "Model",
    "Partial",
    "Prefill",
    "ProtocolError",
    "ResourceError",
    "Result",
    "Session",
    "Stream",
    "StreamOptions",
    "TimedOut",
    "Token",
    "Type",
    "Usage",
    "chat",
    "choice",
    "expr",
    "find_bridge",
    "find_library",
    "regex",
    "schema",
    "spawn",
    "text",
    "tools",
    "type_of",
]
