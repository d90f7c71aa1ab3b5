"""Block-wide tiles that meet a loop's tile, which at the loop's end may be shorter.

As long as the iteration goes on in which they meet, the result has the tile's lanes. What outlives it, an accumulator,
is block-wide again: lanes beyond the tile keep the value of the block-wide operand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch

from ..lazy_dataclass import dataclass
from .dim_identity import Identity, Lanes, is_elastic, lanes_of, tag

_PRODUCTS = {"matmul": 0, "__matmul__": 0, "mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}  # where the operands begin


@dataclass(frozen=True, slots=True, eq=False)
class PartialTile:
    """What a tensor becomes again. ``old``: block-wide; ``met``: by dimension the tile's lanes that it met, or None;
    ``during``: the iteration of the innermost loop."""

    old: torch.Tensor
    met: Identity
    during: object


def widen(value: Any, running: Collection[object]) -> Any:
    """``value`` with every tensor inside block-wide again where the iteration in which it met a tile is not one of
    those that are ``running``."""
    if type(value) in (tuple, list):
        return type(value)(widen(v, running) for v in value)
    partial: PartialTile | None = getattr(value, "tileflow_partial", None) if isinstance(value, torch.Tensor) else None
    if partial is None or any(partial.during is iteration for iteration in running):
        return value
    result = partial.old.to(value.dtype, copy=True)
    result[tuple(slice(0, n) for n in value.shape)] = value
    lanes = zip(partial.met, lanes_of(partial.old), lanes_of(value), strict=True)
    return tag(result, tuple(wide if met else own for met, wide, own in lanes))


def fitted(func: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments of a function, block-wide tiles cut to the shorter tiles of loops that they meet."""
    if not any(is_elastic(own) for a in args if isinstance(a, torch.Tensor) for own in lanes_of(a)):
        return args
    found = list(args)
    for is_contracted, members in _meetings(func, args):
        fixed = [args[n].shape[p] for n, p in members if is_contracted or _is_a_loops(lanes_of(args[n])[p])]
        for n, position in members:
            tensor, lanes = found[n], lanes_of(args[n])
            if fixed and is_elastic(lanes[position]) and min(fixed) < tensor.shape[position]:
                found[n] = tag(tensor.narrow(position, 0, min(fixed)), lanes)
    return found


def keep_partial(func: Any, before: Sequence[Any], args: Sequence[Any], out: Any, during: object) -> None:
    """Note at ``out`` what it becomes after the iteration, ``args`` being what ``fitted`` made of ``before``."""
    if not isinstance(out, torch.Tensor):
        return
    first = _PRODUCTS.get(func.__name__)
    for wide, cut in list(zip(before, args, strict=True))[:first]:
        if not isinstance(wide, torch.Tensor) or cut.shape != out.shape:
            continue
        if (wide.dtype == torch.bool) != (out.dtype == torch.bool):
            continue
        partial: PartialTile | None = getattr(wide, "tileflow_partial", None)
        now = lanes_of(out)
        if partial is None:
            pairs = zip(lanes_of(wide), now, strict=True)
            met = tuple(new if is_elastic(old) and _is_a_loops(new) else None for old, new in pairs)
            partial = PartialTile(wide, met, during)
        if any(partial.met) and all(own in (None, new) for own, new in zip(partial.met, now, strict=True)):
            out.tileflow_partial = partial  # type: ignore[attr-defined]
            return


def _is_a_loops(own: Lanes | None) -> bool:
    return own is not None and not own.elastic


def _meetings(func: Any, args: Sequence[Any]) -> Iterator[tuple[bool, list[tuple[int, int]]]]:
    """Dimensions that must be of one length, as (argument, position from the right); whether a product sums over it."""
    ranks = {n: a.ndim for n, a in enumerate(args) if isinstance(a, torch.Tensor)}
    most = max(ranks.values(), default=0)
    a = _PRODUCTS.get(func.__name__)
    groups = [(False, [(n, position) for n in ranks]) for position in range(-most, 0 if a is None else -2)]
    if a is not None:
        groups += [(True, [(a, -1), (a + 1, -2)]), (False, [(0, -2), (a, -2)]), (False, [(0, -1), (a + 1, -1)])]
        groups = groups if a else groups[:-2]
    for is_contracted, members in groups:
        yield is_contracted, [(n, position) for n, position in members if ranks.get(n, 0) >= -position]
