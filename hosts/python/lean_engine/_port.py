"""A port of liblean as a transport: the bridge inside this process, through ctypes.

It needs the shared library and no process; a crash of the engine is then a crash of this program.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from typing import Any, Optional, Union

from . import errors
from ._bridge_path import find_library
from .errors import BridgeExited, LeanError

#: Values of lean.h.
_OK, _END = 0, 2
_WAIT_FOREVER = 0xFFFF_FFFF
_STATE_OPEN, _STATE_PROTOCOL = 0, 3

_handle = ctypes.c_void_p
#: The functions used here: their arguments (before the error) and whether they can fail.
_FUNCTIONS = {
    "lean_port_open": [ctypes.POINTER(_handle)],
    "lean_port_send": [_handle, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32],
    "lean_port_recv": [_handle, ctypes.c_uint32, ctypes.POINTER(_handle)],
    "lean_port_state": [_handle, ctypes.POINTER(ctypes.c_int32)],
    "lean_port_close": [_handle],
    "lean_bytes_data": [_handle, ctypes.POINTER(_handle), ctypes.POINTER(ctypes.c_size_t)],
}
_FREES = ("lean_port_free", "lean_bytes_free", "lean_error_free")


def _load(file: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(file)
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = ctypes.c_int32, [*arguments, ctypes.POINTER(_handle)]
        for name in _FREES:
            function = getattr(library, name)
            function.restype, function.argtypes = None, [_handle]
        library.lean_error_code.restype, library.lean_error_code.argtypes = ctypes.c_int32, [_handle]
        library.lean_error_name.restype, library.lean_error_name.argtypes = ctypes.c_char_p, [_handle]
        library.lean_error_message.restype = ctypes.c_char_p
        library.lean_error_message.argtypes = [_handle, _handle]
    except (OSError, AttributeError) as error:
        raise errors.not_found(f"{file} is no liblean that this client can use: {error}") from error
    return library


#: Ports that the end of this program has to close, or their threads would run while it is taken apart.
_open_ports: weakref.WeakSet[BridgePort] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for port in list(_open_ports):
        port.kill()


class BridgePort:
    """A bridge in this process: see ``_transport.Transport``."""

    def __init__(self, library: Optional[Union[str, os.PathLike[str]]] = None) -> None:
        self._owner = os.getpid()
        self.pid = self._owner
        self._port = _handle()
        self._ended = threading.Event()
        self._library = _load(find_library(library))
        self._call("lean_port_open", ctypes.byref(self._port))
        _open_ports.add(self)

    def read(self) -> bytes:
        received = _handle()
        if self._call("lean_port_recv", self._port, _WAIT_FOREVER, ctypes.byref(received)) == _END:
            self._ended.set()
            return b""
        try:
            data, length = _handle(), ctypes.c_size_t()
            self._call("lean_bytes_data", received, ctypes.byref(data), ctypes.byref(length))
            return ctypes.string_at(data.value or 0, length.value)
        finally:
            self._library.lean_bytes_free(received)

    def write(self, data: bytes) -> bool:
        return self._call("lean_port_send", self._port, data, len(data), _WAIT_FOREVER) == _OK

    def end(self) -> None:
        self._close()

    def kill(self) -> None:
        self._close()

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def account(self, patience: float) -> BridgeExited:
        state = ctypes.c_int32(_STATE_OPEN)
        self._close()
        self._call("lean_port_state", self._port, ctypes.byref(state))
        self._ended.set()
        return errors.exited("in this process ended", exit_status=2 if state.value == _STATE_PROTOCOL else 0)

    def release(self) -> None:
        """Nothing: another thread may be in a call, so the handle goes with this object."""

    def __del__(self) -> None:
        # The threads of a port do not survive a fork, and closing would wait for them.
        if self._port and os.getpid() == self._owner:
            self._library.lean_port_free(self._port)

    def _close(self) -> None:
        if os.getpid() == self._owner:
            self._call("lean_port_close", self._port)
            _open_ports.discard(self)

    def _call(self, name: str, *arguments: Any) -> int:
        """Calls a function; raises what it fails with."""
        error = _handle()
        status: int = getattr(self._library, name)(*arguments, ctypes.byref(error))
        if not error:
            return status
        try:
            code = self._library.lean_error_code(error)
            words = (self._library.lean_error_name(error), self._library.lean_error_message(error, None))
            word, message = (text.decode("utf-8", "replace") for text in words)
            raise LeanError(message, code=code, name=word)
        finally:
            self._library.lean_error_free(error)
