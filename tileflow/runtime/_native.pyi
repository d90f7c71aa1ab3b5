"""The C extension of ``_native.c``, where it was built."""

from collections.abc import Callable
from typing import Any

from .packing import Enqueue

VERSION: int
DECLINED: int

def bind(
    function: int, threads: int, shared: int, formats: bytes, launch: int, attributes: bytes, captured_launch: int,
    captured_attributes: bytes, is_capturing: int,
    exchange: Any = ..., device_type: int = ..., device_index: int = ..., /,
) -> Enqueue: ...  # fmt: skip
def stream_reader(exchange: Any, device_type: int, device_index: int, /) -> Callable[[], int]: ...
def metadata_reader(
    exchange: Any, types: tuple[type, ...], dtypes: tuple[tuple[int, int, Any], ...],
    otherwise: Callable[..., tuple[Any, ...]], /,
) -> Callable[..., tuple[Any, ...]]: ...  # fmt: skip
def tensor_reader(
    exchange: Any, types: tuple[type, ...], grad_enabled: Callable[[], bool], /
) -> Callable[..., bytes]: ...
