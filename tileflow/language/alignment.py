"""Where a tensor's dimensions stand opposite those of one with more, in the eager meaning: at the right as in torch, or
by their loops. ``a[t0, t1] + b[t0]`` gives each row a number of its own; torch would hold ``b`` against the columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import torch

from ..errors import ShapeError
from .dim_identity import Identity, lanes_of, tag
from .elementwise import meets_by_loops
from .rules import ORDER, TURNED


def opposite(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments of a function, a tile's dimension of one opposite the same tile's of the widest."""
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    if len(tensors) < 2 or not meets_by_loops(func.__name__):
        return args, kwargs
    if len({a.ndim for a in tensors if a.ndim}) < 2:
        for a, b in combinations(tensors, 2):
            check_order(a, lanes_of(b), b.shape)
        return args, kwargs
    widest = max(tensors, key=lambda a: a.ndim)

    def placed(a: Any) -> Any:
        return stood(a, lanes_of(widest), widest.shape) if isinstance(a, torch.Tensor) else a

    return [placed(a) for a in args], {name: placed(a) for name, a in kwargs.items()}


def facing(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors that are broadcast to each other, a tile's dimension of one opposite the same tile's of the widest."""
    widest = max(tensors, key=lambda a: a.ndim, default=torch.empty(0))
    return [stood(a, lanes_of(widest), widest.shape) for a in tensors]


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
