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
from .rules import ORDER, TURNED

# Functions of several tiles whose dimensions are their own: products, rows that indices name, tables, parameters of
# channels, what one tile says of another. The operands of every other function meet per element, as far as they do.
_OF_THEIR_OWN = frozenset(
    {"matmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "outer", "ger", "addmm", "addmv", "addr", "baddbmm", "addbmm",
     "linear", "bilinear", "einsum", "tensordot", "cdist", "kron", "multi_dot", "chain_matmul", "cross", "vecdot",
     "cosine_similarity", "pairwise_distance", "scaled_dot_product_attention", "trapezoid", "trapz",
     "cumulative_trapezoid", "gather", "take", "take_along_dim", "index_select", "embedding", "repeat_interleave",
     "getitem", "setitem", "searchsorted", "bucketize", "isin", "quantile", "nanquantile", "vander", "pad", "prelu",
     "topk", "kthvalue", "batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm", "reshape_as", "view_as",
     "type_as", "to", "type", "result_type", "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack",
     "column_stack", "row_stack"}
)  # fmt: skip
_FAMILIES = ("linalg.", "linalg_", "special.", "special_")


def meets_by_loops(name: str) -> bool:
    """Whether the operands of torch's function of that name, or of the operator that Python calls so, meet per element:
    a tile's dimension of one opposite the same tile's of another."""
    plain = name.strip("_")
    for family in _FAMILIES:
        plain = plain.removeprefix(family)
    return plain not in _OF_THEIR_OWN and not (name.startswith("__") and plain[1:] in _OF_THEIR_OWN)  # __rmatmul__


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
