"""Stand-ins for the CUDA driver in C's calling convention."""

from __future__ import annotations

import ctypes
import time
from types import SimpleNamespace
from typing import Any

from tile_testing.fakes.drivers import FakeCuda

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)  # fmt: skip
TYPES = {
    "Q": ctypes.c_uint64, "q": ctypes.c_int64, "I": ctypes.c_uint32, "i": ctypes.c_int32, "H": ctypes.c_uint16,
    "h": ctypes.c_int16, "B": ctypes.c_uint8, "b": ctypes.c_int8, "f": ctypes.c_float, "d": ctypes.c_double,
    "N": ctypes.c_uint64,
}  # fmt: skip


class Recorder:
    """``cuLaunchKernel``, as C sees it: reads each parameter in its format, and answers ``status``."""

    def __init__(self, formats: str, status: int = 0, pause: bool = False) -> None:
        self.formats = formats
        self.status = status
        self.pause = pause
        self.launches: list[tuple[Any, ...]] = []
        self.callback = _LAUNCH(self._launch)
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value

    def _launch(self, function: int, *rest: Any) -> int:
        if self.pause:
            time.sleep(0)  # another thread may pack now
        *sizes, stream, params, extra = rest
        values = [
            params[i] if code == "M" else TYPES[code].from_address(params[i]).value
            for i, code in enumerate(self.formats)
        ]
        self.launches.append((function, tuple(sizes), stream, values, extra))
        return self.status


class Loading(FakeCuda):
    """A driver that launches natively at the recorder's address."""

    CUdriverProcAddress_flags = SimpleNamespace(CU_GET_PROC_ADDRESS_LEGACY_STREAM=1)

    def __init__(self, recorder: Recorder) -> None:
        super().__init__([])
        self.recorder = recorder

    def cuModuleGetFunction(self, *args: Any) -> tuple[int, int]:
        return 0, 77

    def cuGetProcAddress(self, *args: Any) -> tuple[int, int | None, int]:
        return 0, self.recorder.address, 0
