"""The C extension of ``_native.c``, where it was built."""

from collections.abc import Callable
from typing import Any

from .packing import Enqueue

VERSION: int

def bind(launch: int, function: int, threads: int, shared: int, formats: bytes, attributes: bytes, /) -> Enqueue: ...
def tensor_reader(
    exchange: Any, types: tuple[type, ...], grad_enabled: Callable[[], bool], /
) -> Callable[..., bytes]: ...
