"""Which loop's lanes the dimensions of an eager tensor are: the identity of dimensions, followed through torch.

Indexing asks it (1-D tiles of ints of one dimension go together, of several they are an outer product), and so do
reductions over a jagged tile, in which each lane of the parent tile has lanes of its own. A tensor that nobody tagged
has dimensions of no loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch

from ..lazy_dataclass import dataclass
from .elementwise import meets_by_loops

Identity = tuple["Lanes | None", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """The lanes of one tile, of indices from ``begin``. ``lengths``: of a jagged tile, how many indices each lane of
    ``parent`` has. ``elastic``: as many as a block size says, of no loop; where they meet a shorter tile, as many as it
    has."""

    begin: int = 0
    parent: Lanes | None = None
    lengths: torch.Tensor | None = None
    elastic: bool = False


BLOCK = Lanes(elastic=True)  # the lanes of a slice by block size


def is_elastic(own: Lanes | None) -> bool:
    """Whether the lanes are those of a block size, of no loop: shorter ones that they meet decide their number."""
    return own is not None and own.elastic


def tag(tensor: torch.Tensor, lanes: Identity) -> torch.Tensor:
    """Say what the dimensions of ``tensor`` are; returns it."""
    if any(lanes):
        tensor.tileflow_lanes = lanes  # type: ignore[attr-defined]
    return tensor


def lanes_of(tensor: torch.Tensor) -> Identity:
    """What the dimensions of ``tensor`` are."""
    found: Identity = getattr(tensor, "tileflow_lanes", ())
    return found if len(found) == tensor.ndim else (None,) * tensor.ndim


def counted(lanes: Identity, shape: Sequence[int], device: torch.device) -> torch.Tensor | None:
    """Which elements of a tensor of such dimensions count: bool, broadcasts to ``shape``; None where all do."""
    mask = None
    for axis, own in enumerate(lanes):
        if own is None or own.lengths is None or own.parent not in lanes:
            continue
        index = _along(torch.arange(own.begin, own.begin + shape[axis], device=device), axis, len(shape))
        counts = index < _along(own.lengths, lanes.index(own.parent), len(shape))
        mask = counts if mask is None else mask & counts
    return mask


def _along(vector: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    return vector.reshape([-1 if a == axis else 1 for a in range(rank)])


# ---- through torch's functions ------------------------------------------------------------------

_REDUCTIONS = frozenset({
    "sum", "nansum", "prod", "any", "all", "max", "amax", "argmax", "min", "amin", "argmin", "aminmax", "mean", "var",
    "std", "var_mean", "std_mean", "logsumexp", "norm", "linalg_vector_norm", "count_nonzero",
})  # fmt: skip
_TRANSPOSED = (torch.Tensor.T.__get__, torch.Tensor.mT.__get__)  # type: ignore[attr-defined]
_ORDERS = frozenset({"t", "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis"})
_PRODUCTS = frozenset({"matmul", "__matmul__", "mm", "bmm", "dot"})
_ALONG = frozenset({"cat", "concat", "split", "chunk", "flip"})  # what is changed along some dimensions
_PAIRED = frozenset({"linalg_vecdot", "cosine_similarity"})  # two tensors reduced along one dimension
_REARRANGED = frozenset({"reshape", "view", "flatten", "ravel", "unflatten", "rot90", "one_hot", "linalg_norm"})


def follow(func: Any, args: Sequence[Any], kwargs: Any, result: Any) -> Any:
    """``result`` of a torch function, its dimensions tagged with what they are of the arguments'."""
    if not any(lane for a in tensors_of(args) for lane in getattr(a, "tileflow_lanes", ())):
        return result
    for place, out in enumerate(tensors_of(result if isinstance(result, (tuple, list)) else (result,))):
        with suppress(AttributeError):  # a result that is an argument of another type
            tag(out, _identity(func, args, kwargs, out, place))
    return result


def tensors_of(items: Any) -> Iterator[torch.Tensor]:
    """The tensors among some arguments, those of tuples and lists too."""
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (tuple, list)):
            yield from tensors_of(item)


def _identity(func: Any, args: Any, kwargs: Any, out: torch.Tensor, place: int) -> Identity:
    name = getattr(func, "__name__", "")
    first = lanes_of(args[0]) if args and isinstance(args[0], torch.Tensor) else ()
    if func in _TRANSPOSED or name in _ORDERS:
        return tuple(first[a] for a in _order(func, len(first), args[1:], kwargs))
    if name == "unsqueeze":
        axis = kwargs.get("dim", args[1] if len(args) > 1 else 0) % out.ndim
        return (*first[:axis], None, *first[axis:])
    if name == "squeeze":
        return _squeezed(args[0], kwargs.get("dim", args[1] if len(args) > 1 else None))
    if name == "stack":
        axis = kwargs.get("dim", args[1] if len(args) > 1 else 0) % out.ndim
        own = tuple(_meeting([*tensors_of(args)], a, out.select(axis, 0)) for a in range(out.ndim - 1))
        return (*own[:axis], None, *own[axis:])
    if name == "unbind":
        axis = kwargs.get("dim", args[1] if len(args) > 1 else 0) % len(first)
        return (*first[:axis], *first[axis + 1 :])
    if name == "einsum":
        return _of_letters(args)
    if name in _REDUCTIONS:
        return _reduced(first, args, kwargs, out)
    if name in _PAIRED:
        return _reduced(met(*args[:2]), args[1:], {"dim": -1 if name == "linalg_vecdot" else 1} | kwargs, out)
    if name in _PRODUCTS and out.ndim == len(first):
        return _product_of(args[0], args[1])
    if name in ("addmm", "baddbmm"):
        return tuple(_first_loops(own) for own in zip(_aligned(first, out), _product_of(args[1], args[2]), strict=True))
    if name in _ALONG:
        return _along_some(name, args, kwargs, out)
    given = [*tensors_of((*args, *kwargs.values()))]
    if name in _REARRANGED and out.shape == given[0].shape and out.ndim < 3:
        return first
    if name in _REARRANGED or not meets_by_loops(name) or out.ndim != max(tensor.ndim for tensor in given):
        return _by_length(func, args, kwargs, given, out, place)
    return tuple(_meeting(given, axis, out) for axis in range(out.ndim))


def _by_length(
    func: Any, args: Any, kwargs: Any, given: Sequence[torch.Tensor], out: torch.Tensor, place: int
) -> Identity:
    """Which lanes the dimensions of the result at that place are: torch says how long they are where those of each
    tile have a length of their own. Nothing where such lengths do not fit the other arguments."""
    least = 2 * (1 + sum(tensor.numel() for tensor in given))  # more than sizes of other dimensions make together
    named = dict.fromkeys(own for tensor in given for own in lanes_of(tensor) if own is not None)
    lengths = {own: least + number for number, own in enumerate(named)}

    def alike(argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            pairs = zip(lanes_of(argument), argument.shape, strict=True)
            is_int = not (argument.dtype.is_floating_point or argument.dtype == torch.bool)  # any names elements here
            dtype = torch.int64 if is_int else argument.dtype
            return torch.empty([n if own is None else lengths[own] for own, n in pairs], dtype=dtype, device="meta")
        if isinstance(argument, (tuple, list)) and [*tensors_of(argument)]:
            return [alike(item) for item in argument]
        return argument

    try:
        made = func(*map(alike, args), **{key: alike(value) for key, value in kwargs.items()})
    except (RuntimeError, TypeError, ValueError, IndexError):  # NotImplementedError too: torch makes no such metadata
        return ()
    shape = [*tensors_of(made if isinstance(made, (tuple, list)) else (made,))][place].shape
    found = {length: own for own, length in lengths.items()}
    return tuple(found.get(length) for length in shape) if len(shape) == out.ndim else ()


def met(*tensors: torch.Tensor) -> Identity:
    """What the dimensions of tensors are where they are broadcast to each other."""
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))  # type: ignore[no-untyped-call]
    like = torch.empty(shape, device="meta")
    return tuple(_meeting(tensors, axis, like) for axis in range(like.ndim))


def _squeezed(tensor: torch.Tensor, dims: Any) -> Identity:
    chosen = range(tensor.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {d % tensor.ndim for d in chosen if tensor.shape[d] == 1}
    return tuple(own for axis, own in enumerate(lanes_of(tensor)) if axis not in gone)


def _of_letters(args: Any) -> Identity:
    """What ``torch.einsum`` makes of the dimensions that its equation has letters for; nothing where it has dots."""
    equation, operands = args[0].replace(" ", ""), [*tensors_of(args[1:])]
    if "." in equation:
        return ()
    given, _, asked = equation.partition("->")
    found: dict[str, Lanes | None] = {}
    for letters, operand in zip(given.split(","), operands, strict=True):
        for letter, own in zip(letters, lanes_of(operand), strict=True):
            found[letter] = _first_loops([found.get(letter), own])
    once = sorted(letter for letter in found if given.count(letter) == 1)
    return tuple(found[letter] for letter in (asked if "->" in equation else once))


def _along_some(name: str, args: Any, kwargs: Any, out: torch.Tensor) -> Identity:
    """What is changed along some dimensions has the others' lanes."""
    if name == "flip":
        dims = kwargs["dims"] if "dims" in kwargs else args[1] if isinstance(args[1], (tuple, list)) else args[1:]
    else:
        place = 2 if name in ("split", "chunk") else 1
        dims = [kwargs.get("dim", args[place] if len(args) > place else 0)]
    changed = {d % out.ndim for d in dims}
    own = [_first_loops(lanes) for lanes in zip(*map(lanes_of, tensors_of(args[:1])), strict=True)]
    return tuple(None if axis in changed else lanes for axis, lanes in enumerate(own))


def _product_of(a: torch.Tensor, b: torch.Tensor) -> Identity:
    first, second = lanes_of(a), lanes_of(b)
    batch = first[:-2] if len(first) >= len(second) else second[:-2]
    return (*batch, *first[-2:-1], second[-1])


def _order(func: Any, rank: int, rest: Any, kwargs: Any) -> list[int]:
    """Which dimension each one of a result was, which torch says of a tensor whose dimensions differ in length."""
    made = func(torch.empty([*range(1, rank + 1)], device="meta"), *rest, **kwargs)
    return [size - 1 for size in made.shape]


def _reduced(first: Identity, args: Any, kwargs: Any, out: torch.Tensor) -> Identity:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if dim is None or isinstance(dim, torch.Tensor):
        return (None,) * out.ndim if not isinstance(dim, torch.Tensor) else first
    dropped = {d % len(first) for d in ([dim] if isinstance(dim, int) else dim)}
    if out.ndim == len(first):
        return tuple(None if a in dropped else own for a, own in enumerate(first))
    return tuple(own for a, own in enumerate(first) if a not in dropped)


def _meeting(tensors: Sequence[torch.Tensor], axis: int, out: torch.Tensor) -> Lanes | None:
    """The lanes of the first argument that has a loop's in this dimension, aligned at the right; else one of
    a block size; those of a slice where all have them."""
    found = []
    for tensor in tensors:
        position = axis - (out.ndim - tensor.ndim)
        if position >= 0 and tensor.shape[position] == out.shape[axis]:
            found.append(lanes_of(tensor)[position])
    return _first_loops(found)


def _aligned(lanes: Identity, out: torch.Tensor) -> Identity:
    return (None,) * (out.ndim - len(lanes)) + lanes


def _first_loops(found: Sequence[Lanes | None]) -> Lanes | None:
    named = [lanes for lanes in found if lanes is not None and lanes is not BLOCK]
    loops = [lanes for lanes in named if not lanes.elastic]
    if named:
        return (loops or named)[0]
    return BLOCK if found and all(lanes is BLOCK for lanes in found) else None
