"""Tiles of sizes that the author writes, as plain Python: factories, counted numbers, other dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch

from ..errors import TraceError
from .dim_identity import BLOCK, lanes_of, tag
from .eager_calls import call, followed_call
from .eager_indexing import lanes_by, tile_between
from .eager_session import current
from .eager_tiles import EagerTile
from .rules import (
    AS_WIDE,
    CONVERTED,
)

RESHAPES = frozenset({"reshape", "view"})


EXPANDS = frozenset({"expand", "broadcast_to"})


# those of numbers, which are on the kernel's device too
OF_NUMBERS = (torch.tensor, torch.as_tensor, torch.scalar_tensor, torch.eye, torch.linspace)


# torch's factories, and how many of their arguments stand before the sizes
FACTORIES: dict[Any, int] = {
    torch.zeros: 0,
    torch.ones: 0,
    torch.empty: 0,
    torch.full: 0,
    torch.Tensor.new_zeros: 1,
    torch.Tensor.new_ones: 1,
    torch.Tensor.new_empty: 1,
    torch.Tensor.new_full: 1,
}


def of_factory(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """What a factory makes, on the kernel's device, its dimensions tagged by the block sizes among its sizes."""
    first = FACTORIES[func]
    shape = kwargs["size"] if "size" in kwargs else args[first:]
    shape = shape[0] if shape and isinstance(shape[0], (list, tuple)) else shape
    if not first:
        kwargs = {"device": current(func.__name__).device, **kwargs}
    made: torch.Tensor = func(*args, **kwargs)
    return tag(made, tuple(map(lanes_by, shape[: made.ndim])))


def counted(args: Any, kwargs: Any) -> torch.Tensor:
    """``torch.arange``, of the language's dtypes."""
    named = {name: kwargs[name] for name in ("start", "end", "step") if name in kwargs}
    given = dict(zip(("start", "end", "step"), args, strict=False)) | named
    if "end" not in given:
        given = {"start": 0, "end": given["start"]}
    return counting(given.get("start", 0), given["end"], given.get("step", 1), kwargs.get("dtype"))


def counting(start: Any, stop: Any, step: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """``start``, ``start + step`` ... up to ``stop``; int32 unless a number is a float. From one end of a running tile
    to the other they are its lanes, else those of the block size that says how many."""
    if dtype is None:
        dtype = torch.float32 if any(isinstance(x, float) for x in (start, stop, step)) else torch.int32
    here = current("arange")
    made = torch.arange(_number(start), _number(stop), _number(step), dtype=dtype, device=here.device)
    between = tile_between(start, stop) if isinstance(step, int) and step == 1 else None
    lanes = between[0].lanes if between is not None and not between[1] else None
    if lanes is None and not isinstance(stop, EagerTile):
        length = stop if isinstance(start, int) and start == 0 else stop - start
        lanes = lanes_by(length if isinstance(step, int) and step == 1 else -(-length // step))
    return tag(made, (lanes,))


def _number(x: Any) -> Any:
    return len(x) if isinstance(x, EagerTile) else x.item() if isinstance(x, torch.Tensor) else x


def as_whole(func: Any, tensor: torch.Tensor, *sizes: Any) -> torch.Tensor | None:
    """A slice by block sizes under its tiles' dimensions, ``x[t.begin * 2 : t.begin * 2 + 2 * b].reshape(t, 2)``: at a
    loop's end it is longer than they are, until it meets one of them. None where it is not."""
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    there = lanes_of(tensor)
    short = [isinstance(s, EagerTile) and len(s) < s.block_size and s.lanes not in there for s in shape]
    whole = [size.block_size if cut else size for size, cut in zip(shape, short, strict=True)]
    if not any(short) or not tensor.numel() or prod(int(size.__index__()) for size in whole) != tensor.numel():
        return None  # no elements are as many by either length
    own = tuple(BLOCK if cut else getattr(size, "lanes", None) for size, cut in zip(shape, short, strict=True))
    made: torch.Tensor = call(func, (tensor, whole), {})
    return tag(made, own)


def reshaped(func: Any, args: Sequence[Any]) -> Any:
    """A reshape, its dimensions tagged by the block sizes among its sizes."""
    cut = _as_short(*args)
    return of_sizes(followed_call(func, cut, {}, lambda *given: call(func, given, {})), cut)


def of_sizes(made: Any, args: Sequence[Any]) -> Any:
    """What a function made of the sizes behind its first argument, its dimensions tagged by the tiles among them."""
    sizes = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
    if not isinstance(made, torch.Tensor) or made.ndim != len(sizes):
        return made
    return tag(made, tuple(lanes_by(size) or own for size, own in zip(sizes, lanes_of(made), strict=True)))


def _as_short(tensor: torch.Tensor, *sizes: Any) -> tuple[Any, ...]:
    """The arguments of a reshape; of a tile that is shorter than its block, the block's size stands for its own."""
    own = lanes_of(tensor)
    running = [tile for loop in current("reshape").loops for tile in loop if tile.lanes in own]
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    lengths = [next((len(tile) for tile in running if tile.block_size is size), size) for size in shape]
    return (tensor, *sizes) if not running or isinstance(shape[0], torch.dtype) else (tensor, lengths)


def check_bits(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises TraceError for a tile's bits as a dtype of another width."""
    dtype = kwargs.get("dtype", args[-1]) if name == "view" and args else None
    if isinstance(dtype, torch.dtype) and args[0].dtype.itemsize != dtype.itemsize:
        raise TraceError(AS_WIDE, got=f"{args[0].dtype} as {dtype}".replace("torch.", ""), hint=CONVERTED)
