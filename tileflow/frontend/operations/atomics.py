"""The traced meaning of atomics: one ``atomic`` op, indexed and masked as a store is."""

from __future__ import annotations

from typing import Any

from ...errors import TraceError
from ...ir.attributes import AtomicAttrs
from ...ir.kinds import OpKind
from ...ir.types import TileType
from ...language.atomics import DTYPES, check
from ..indexing import destination
from ..language_registry import DEVICE, Meaning
from ..part_views import in_memory
from ..trace import Tracer


def _atomic(t: Tracer, fn: str, ref: Any, index: Any, values: tuple[Any, ...], sem: str, extra_mask: Any) -> Any:
    ref = in_memory(t, ref, f"atomic_{fn} updates")
    check(fn, ref.dtype_name, sem, t.location())
    index = tuple(index) if isinstance(index, (tuple, list)) else (index,)
    if any(item is None for item in index):
        raise TraceError("an atomic's index inserts no dimension", got="None", where=t.location())
    place = destination(t, ref, index, values, extra_mask)
    site = t.names.numbered(f"atomic:{ref.path}")
    attrs = AtomicAttrs(ref.path, place.items, site, extra_mask is not None, fn, sem)
    return t.emit(OpKind.ATOMIC, place.inputs, TileType(ref.dtype_name, place.dims), attrs)


def _meaning(fn: str) -> Meaning:
    def update(t: Tracer, tensor: Any, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None) -> Any:
        return _atomic(t, fn, tensor, index, (value,), sem, extra_mask)

    def swap(
        t: Tracer, tensor: Any, index: Any, expected: Any, value: Any, sem: str = "relaxed", *, extra_mask: Any = None
    ) -> Any:
        return _atomic(t, fn, tensor, index, (expected, value), sem, extra_mask)

    return swap if fn == "cas" else update


DEVICE.update({f"atomic_{fn}": _meaning(fn) for fn in DTYPES})
