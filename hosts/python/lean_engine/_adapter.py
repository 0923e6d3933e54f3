"""LoRA adapters: handles in the bridge."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional, Union

from . import errors

if TYPE_CHECKING:
    from ._engine import Engine


class Adapter:
    """A LoRA adapter of a model; sessions that use it keep it. Freed when collected, or with ``drop()``."""

    def __init__(self, engine: Engine, handle: int, info: dict[str, Any]) -> None:
        #: What it says about itself.
        self.info = info
        self._engine = engine
        self._handle: Optional[int] = handle
        self._forgotten = weakref.finalize(self, engine.connection.post, "ADAPTER_DROP", {"adapter": handle})
        self._forgotten.atexit = False

    def handle_on(self, engine: Engine) -> int:
        """The handle, for requests to the engine that it lives in."""
        if self._handle is None:
            raise errors.invalid("the adapter was dropped")
        if engine is not self._engine:
            raise errors.invalid("the adapter lives in another bridge process: load it there")
        return self._handle

    def drop(self) -> None:
        """Frees it now."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._forgotten.detach()
            self._engine.connection.call("ADAPTER_DROP", {"adapter": handle})


def adapt_head(engine: Engine, session: int, adapters: Iterable[Union[Adapter, tuple[Adapter, float]]]) -> dict[str, Any]:
    """The head of SESSION_ADAPT."""
    handles, scales = [], []
    for item in adapters:
        adapter, scale = (item, 1.0) if isinstance(item, Adapter) else item
        if not isinstance(adapter, Adapter) or not math.isfinite(scale):
            raise errors.invalid("set_adapters: each is an Adapter or (adapter, scale) with a finite scale")
        handles.append(adapter.handle_on(engine))
        scales.append(float(scale))
    return {"session": session, "adapters": handles, "scales": scales}
