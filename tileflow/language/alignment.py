"""Where a tensor's dimensions stand opposite those of one with more, in the eager meaning: at the right as in torch, or
by their loops. ``a[t0, t1] + b[t0]`` gives each row a number of its own; torch would hold ``b`` against the columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch

from ..errors import ShapeError
from .dim_identity import Identity, lanes_of, tag
from .rules import ORDER, TURNED

_ELEMENTWISE = frozenset(
    {"add", "sub", "mul", "div", "truediv", "true_divide", "divide", "floordiv", "floor_divide", "mod", "remainder",
     "fmod", "pow", "subtract", "multiply", "eq", "ne", "lt", "le", "gt", "ge", "minimum", "maximum", "where", "and",
     "or", "xor", "lshift", "rshift", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
     "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "addcmul", "addcdiv", "lerp", "clamp", "atan2",
     "hypot", "copysign"}
)  # fmt: skip


def opposite(func: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments of an elementwise function, a tile's dimension of one opposite the same tile's of the widest."""
    name = func.__name__.strip("_")
    if name not in _ELEMENTWISE and name.removeprefix("r") not in _ELEMENTWISE:
        return args
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if len({a.ndim for a in tensors if a.ndim}) < 2:
        for a, b in combinations(tensors, 2):
            check_order(a, lanes_of(b), b.shape)
        return args
    widest = max(tensors, key=lambda a: a.ndim)
    return [stood(a, lanes_of(widest), widest.shape) if isinstance(a, torch.Tensor) else a for a in args]


def stood(tensor: torch.Tensor, lanes: Identity, shape: Sequence[int]) -> torch.Tensor:
    """``tensor`` with dimensions of 1 where its tiles say that it lacks those of ``lanes``, which have ``shape``."""
    own = lanes_of(tensor)
    right = zip(own, lanes[len(lanes) - len(own) :], shape[len(shape) - len(own) :], strict=True)
    if not 0 < len(own) < len(lanes) or all(
        not _is_a_loops(a) or a is b or (b is None and n == 1) for a, b, n in right
    ):
        return tensor
    places: list[int] = []
    last = len(lanes)
    for a, n in zip(reversed(own), reversed(tensor.shape), strict=True):
        found = [i for i in range(last) if (lanes[i] is a if _is_a_loops(a) else lanes[i] is a and shape[i] == n)]
        if not found or (_is_a_loops(a) and lanes.count(a) > 1):
            return tensor
        last = found[-1]
        places.append(last)
    gaps = [i for i in range(len(lanes)) if i not in places]
    for axis in gaps:
        tensor = tensor.unsqueeze(axis)
    return tag(tensor, tuple(None if i in gaps else lanes[i] for i in range(len(lanes))))


def check_order(tensor: torch.Tensor, lanes: Identity, shape: Sequence[int]) -> None:
    """Raise ShapeError where ``tensor`` has the dimensions of ``lanes``, of ``shape``, in another order."""
    own = lanes_of(tensor)
    if Counter(map(id, own)) != Counter(map(id, lanes)):
        return
    pairs = zip(own, lanes, tensor.shape, shape, strict=True)
    if any(a is not b and (_is_a_loops(a) or _is_a_loops(b)) and m != 1 != n for a, b, m, n in pairs):
        raise ShapeError(ORDER, got=f"{tuple(tensor.shape)} and {tuple(shape)}", hint=TURNED)


def _is_a_loops(own: Any) -> bool:
    return own is not None and not own.elastic
