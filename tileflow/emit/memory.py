"""The Triton text of loads and stores."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.attributes import AccessAttrs, LoadAttrs, site_of
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..space.knobs import EVICTION, LOAD_CACHE, STORE_CACHE
from . import descriptors, indexing
from .context import Context
from .dtypes import literal
from .table import TRITON


@TRITON.emits(OpKind.LOAD)
def load(e: Context, op: Op) -> None:
    """Write a load, by descriptor where the config asks for one, else by pointers."""
    if descriptors.wanted(e, op):
        descriptors.load(e, op)
    else:
        load_by_pointers(e, op)


def load_by_pointers(e: Context, op: Op) -> None:
    """A load whose lanes each have an address."""
    out = op.output
    text = f"tl.load({indexing.pointer(e, op, out.dims)}"
    mask = indexing.mask(e, out.dims, op)
    if mask:
        text += f", mask={mask}, other={literal(LoadAttrs.of(op).other, out.type.dtype)}"
    cache = e.plan.choice(LOAD_CACHE, site_of(op))
    if cache:
        text += f", cache_modifier='{cache}'"
    eviction = LoadAttrs.of(op).eviction or e.plan.choice(EVICTION, site_of(op))
    if eviction:
        text += f", eviction_policy='{eviction}'"
    e.define(out, text + ")", out.type.dtype)


@TRITON.emits(OpKind.STORE)
def store(e: Context, op: Op) -> None:
    """Write a store, by descriptor where the config asks for one, else by pointers."""
    if descriptors.wanted(e, op):
        descriptors.store(e, op)
    else:
        store_by_pointers(e, op)


def store_by_pointers(e: Context, op: Op, move: Callable[[str], str] = str) -> None:
    """A store whose lanes each have an address. ``move``: the name of what is stored, in the lanes that store it."""
    value = op.inputs[0]
    assert isinstance(value, Value)
    tensor = e.plan.ir.tensor(AccessAttrs.of(op).tensor)
    mask = indexing.mask(e, value.dims, op)
    text = f"tl.store({indexing.pointer(e, op, value.dims)}, {move(e.as_dtype(value, tensor.dtype))}"
    if mask:
        text += f", mask={mask}"
    cache = e.plan.choice(STORE_CACHE, site_of(op))
    if cache:
        text += f", cache_modifier='{cache}'"
    e.writer.line(text + ")")
