"""What to write for an assignment into a tile in registers, which is a value: a choice per element."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import torch

from ..parsing import module_tree

ASSIGNED = "a tile in registers cannot be assigned to by index"
GENERAL = "x = torch.where(mask, value, x), or store to a tensor"


def instead_of_assignment(index: Any, rank: int, value_rank: int) -> str:
    """The text for ``x[index] = value``, of a tile with ``rank`` dimensions, where one of them is named by a number, by
    a tile of ints, or cut by a slice; a general one for other indices. ``value_rank``: 0 of a number."""
    items = [*index] if isinstance(index, tuple) else [index]
    for place in [n for n, item in enumerate(items) if item is Ellipsis]:
        items[place : place + 1] = [slice(None)] * (rank - len(items) + 1)
    named = [axis for axis, item in enumerate(items) if not _is_whole(item)]
    if len(named) == len(items) == rank == 2 and [_rank_of_ints(item) for item in items] == [1, 1]:
        value = "value[:, None]" if value_rank else "value"
        chosen = f"torch.where(index[:, None] == tfl.arange(x.size(1)), {value}, x)"
        return f"{GENERAL}; here, of one element of each row, x = {chosen}"
    if len(named) != 1 or len(items) > rank:
        return GENERAL
    (axis,) = named
    item = items[axis]
    if not _is_plain(item):
        return _instead_of_places(_rank_of_ints(item), axis, rank, value_rank)
    is_cut = isinstance(item, slice)
    if is_cut and value_rank:
        return f"{GENERAL}; parts side by side: torch.cat((value, x[..., n:]), -1)"
    value = "value" + _among(["None" if a == axis else ":" for a in range(rank)] if value_rank and axis else ())
    lanes = f"tfl.arange(x.size({axis}))" + _among([":"] + ["None"] * (rank - axis - 1) if axis < rank - 1 else ())
    mask = _between(lanes, axis, item) if is_cut else f"{lanes} == {_counted(axis, item)}"
    return f"{GENERAL}; here x = torch.where({mask}, {value}, x)"


def _instead_of_places(index_rank: int | None, axis: int, rank: int, value_rank: int) -> str:
    """The text for ``x[..., index, ...] = value`` with a tile of ints, which a tile compares its places with."""
    places = f"tfl.arange(x.size({axis}))"
    behind = _among([":"] + ["None"] * (rank - axis - 1) if axis < rank - 1 else ())
    if index_rank == 0 and not value_rank:
        return f"{GENERAL}; here x = torch.where({places}{behind} == index, value, x)"
    if index_rank == 1 and not value_rank:
        return f"{GENERAL}; here x = torch.where((index[:, None] == {places}).any(0){behind}, value, x)"
    if index_rank == value_rank == rank == 1:
        chosen = "torch.where(hit, value[:, None], 0).sum(0)"
        return (
            f"{GENERAL}; here, of an index that names no place twice, hit = index[:, None] == {places}, then "
            f"x = torch.where(hit.any(0), {chosen}, x)"
        )
    return GENERAL


def _rank_of_ints(item: Any) -> int | None:
    """The dimensions of a tile of ints, 0 of a scalar of the kernel; None of other items."""
    if isinstance(item, int):
        return 0
    is_tile = not isinstance(item, slice) and hasattr(item, "ndim") and hasattr(item, "dtype")
    return item.ndim if is_tile and item.dtype is not torch.bool else None


def instead_of_a_view(text: str, kept: Sequence[bool]) -> str:
    """``out[t, k] = value`` for ``out[t][:, k] = value``, which torch stores through a view; empty where ``text`` says
    no such thing. ``kept``: of each dimension of the tensor, whether the first index leaves it."""
    statement = _statement(text)
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Subscript() as view, slice=within)]):
            sign = "="
        case ast.AugAssign(target=ast.Subscript(value=ast.Subscript() as view, slice=within)):
            sign = f"{ast.unparse(statement).removeprefix(ast.unparse(statement.target)).split('=')[0].strip()}="
        case _:
            return ""
    items = _joined(_items(view.slice), _items(within), kept)
    stored = f"{ast.unparse(view.value)}[{', '.join(items)}] {sign} {ast.unparse(statement.value)}"
    return f"what is loaded is a copy: store by one index, {stored}" if items else ""


def _statement(text: str) -> ast.stmt | None:
    """The one statement of a line; None where it goes on in others."""
    with suppress(SyntaxError):
        body = module_tree(text.strip()).body
        return body[0] if len(body) == 1 else None
    return None


def _items(index: ast.expr) -> list[str]:
    return [ast.unparse(e) for e in (index.elts if isinstance(index, ast.Tuple) else [index])]


def _joined(first: list[str], second: list[str], kept: Sequence[bool]) -> list[str]:
    """One index in place of two; none where there is no such one."""
    if {"None", "..."} & {*first, *second} or len(first) > len(kept) or len(second) > sum(kept):
        return []
    rest, found = iter(second), []
    for item, is_kept in zip_longest(first, kept, fillvalue=":"):
        within = next(rest, ":") if is_kept else ":"
        if ":" not in (item, within):
            return []  # a part of a part
        found.append(within if item == ":" else str(item))
    return found


def _is_whole(item: Any) -> bool:
    return isinstance(item, slice) and item.start is item.stop is item.step is None


def _is_plain(item: Any) -> bool:
    ends = (item.start, item.stop) if isinstance(item, slice) else (item,)
    has_no_step = not isinstance(item, slice) or item.step is None
    return has_no_step and all(e is None or type(e) is int for e in ends) and item is not None


def _among(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]" if items else ""


def _counted(axis: int, number: int) -> str:
    """An index from the front."""
    return f"x.size({axis}) - {-number}" if number < 0 else str(number)


def _between(lanes: str, axis: int, item: slice) -> str:
    ends = [(">=", item.start), ("<", item.stop)]
    parts = [f"{lanes} {sign} {_counted(axis, end)}" for sign, end in ends if end is not None]
    return parts[0] if len(parts) == 1 else " & ".join(f"({part})" for part in parts)
