"""Atomic updates of tensors that several programs write: each reads, combines and writes as one step.

``index`` takes what ``tensor[...]`` does; ``value`` is broadcast to it and converted to the tensor's dtype. Each
returns what stood there before, in the index's shape; lanes where ``extra_mask`` is false update nothing and return 0.
``sem`` orders other memory operations against it, for all programs of the device: ``relaxed`` (not at all),
``acquire``, ``release`` or ``acq_rel``. An index may name an element in several lanes: each lane updates it once. On a
device the order of updates is not defined, so that sums of floats may differ in the last bits from run to run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import Location, TraceError
from . import eager_calls, eager_memory, eager_session
from .alignment import stood
from .dim_identity import lanes_of, tag
from .eager_indexing import IndexedElements, listed
from .marks import device

_INTS = ("int32", "int64")
_WORDS = (*_INTS, "float32", "float64")
DTYPES = {
    "add": ("float16", "bfloat16", *_WORDS),
    "min": _WORDS,
    "max": _WORDS,
    "and": _INTS,
    "or": _INTS,
    "xor": _INTS,
    "xchg": _WORDS,
    "cas": _WORDS,
}
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")

Mask = torch.Tensor | None


@device
def atomic_add(
    tensor: torch.Tensor, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Mask = None
) -> torch.Tensor:
    """``tensor[index] += value``. float16, bfloat16, float32, float64, int32, int64; bfloat16 before sm_90 and both
    half types on AMD are a loop of compare-and-swap, which is slow where many lanes meet."""
    return _update("add", tensor, index, (value,), sem, extra_mask)


@device
def atomic_min(
    tensor: torch.Tensor, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Mask = None
) -> torch.Tensor:
    """``tensor[index] = min(tensor[index], value)``. float32, float64, int32, int64. Floats are compared as their
    bits order them: the result is not defined where one is NaN."""
    return _update("min", tensor, index, (value,), sem, extra_mask)


@device
def atomic_max(
    tensor: torch.Tensor, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Mask = None
) -> torch.Tensor:
    """``tensor[index] = max(tensor[index], value)``; see :func:`atomic_min`."""
    return _update("max", tensor, index, (value,), sem, extra_mask)


@device
def atomic_and(
    tensor: torch.Tensor, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Mask = None
) -> torch.Tensor:
    """``tensor[index] &= value``. int32, int64."""
    return _update("and", tensor, index, (value,), sem, extra_mask)


@device
def atomic_or(
    tensor: torch.Tensor, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Mask = None
) -> torch.Tensor:
    """``tensor[index] |= value``. int32, int64."""
    return _update("or", tensor, index, (value,), sem, extra_mask)


@device
def atomic_xor(
    tensor: torch.Tensor, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Mask = None
) -> torch.Tensor:
    """``tensor[index] ^= value``. int32, int64."""
    return _update("xor", tensor, index, (value,), sem, extra_mask)


@device
def atomic_xchg(
    tensor: torch.Tensor, index: Any, value: Any, sem: str = "relaxed", *, extra_mask: Mask = None
) -> torch.Tensor:
    """``tensor[index] = value``. float32, float64, int32, int64."""
    return _update("xchg", tensor, index, (value,), sem, extra_mask)


@device
def atomic_cas(
    tensor: torch.Tensor, index: Any, expected: Any, value: Any, sem: str = "relaxed", *, extra_mask: Mask = None
) -> torch.Tensor:
    """``tensor[index] = value`` where it holds the bits of ``expected``. float32, float64, int32, int64."""
    return _update("cas", tensor, index, (expected, value), sem, extra_mask)


def check(fn: str, dtype: str, sem: str, where: Location | None = None) -> None:
    """Raises TraceError for a dtype that no device has this atomic for, and for an unknown ``sem``."""
    if dtype not in DTYPES[fn]:
        raise TraceError(
            f"atomic_{fn} updates a tensor of {', '.join(DTYPES[fn])}",
            got=dtype,
            where=where,
            hint="accumulate into a tensor of such a dtype and convert it afterwards",
        )
    if sem not in SEMANTICS:
        raise TraceError(
            f"sem is one of {', '.join(SEMANTICS)}",
            got=repr(sem),
            where=where,
            hint="relaxed orders nothing else; acq_rel orders the accesses around it",
        )


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    whole = torch.int32 if a.element_size() == 4 else torch.int64
    return a.view(whole) == b.view(whole)


_COMBINE: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "min": torch.minimum,
    "max": torch.maximum,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "xchg": lambda old, value: value,
    "cas": lambda old, expected, value: torch.where(_same_bits(old, expected), value, old),
}


def _update(
    fn: str, tensor: torch.Tensor, index: Any, values: tuple[Any, ...], sem: str, extra_mask: Mask
) -> torch.Tensor:
    """The eager meaning: one lane after another; lanes that name different elements go together."""
    eager_session.current(f"atomic_{fn}")
    check(fn, str(tensor.dtype).removeprefix("torch."), sem)
    tensor = eager_memory.memory_of(tensor, f"atomic_{fn} updates")
    place = IndexedElements(tensor, listed(index), masked=extra_mask is not None)
    values = eager_calls.widened(values)
    place.check_once(values)
    given = [place.fit(_as_index(place, v)) for v in values]
    indices, inside = place.everywhere(extra_mask)
    chosen = torch.ones(place.shape, dtype=torch.bool, device=tensor.device)
    chosen = chosen if inside is None else chosen & inside
    memory = tensor.as_strided(
        (1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)),), (1,)
    )
    offsets = torch.zeros(place.shape, dtype=torch.long, device=tensor.device)
    for along, size, stride in zip(indices, tensor.shape, tensor.stride(), strict=True):
        offsets = offsets + along % size * stride
    offsets, lanes = offsets[chosen], [v.expand(place.shape)[chosen] for v in given]
    found = torch.empty(len(offsets), dtype=tensor.dtype, device=tensor.device)
    for turn in _turns(offsets):
        here = offsets[turn]
        old = memory.index_select(0, here)
        found.index_copy_(0, turn, old)
        memory.index_copy_(0, here, _COMBINE[fn](old, *(v[turn] for v in lanes)))
    old = torch.zeros(place.shape, dtype=tensor.dtype, device=tensor.device).masked_scatter(chosen, found)
    return tag(old, place.lanes)


def _as_index(place: IndexedElements, value: Any) -> torch.Tensor:
    """A value in the tensor's dtype, a tile's dimension opposite the index's."""
    made = torch.as_tensor(value, device=place.tensor.device)
    return stood(tag(made.to(place.tensor.dtype), lanes_of(made)), place.lanes, place.shape)


def _turns(offsets: torch.Tensor) -> list[torch.Tensor]:
    """The lanes in groups: the first of each element, the second of each ..."""
    if not len(offsets):
        return []
    order = offsets.argsort(stable=True)
    ordered = offsets[order]
    turn = torch.arange(len(order), device=order.device) - torch.searchsorted(ordered, ordered)
    return [order[turn == n] for n in range(int(turn.max()) + 1)]
