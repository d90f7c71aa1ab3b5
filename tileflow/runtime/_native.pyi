"""The C extension of ``_native.c``, where it was built."""

from .packing import Enqueue

VERSION: int

def bind(launch: int, function: int, threads: int, shared: int, formats: bytes, attributes: bytes, /) -> Enqueue: ...
