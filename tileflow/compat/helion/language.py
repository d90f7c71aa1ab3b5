"""``helion.language``: its documented names, on top of :mod:`tileflow.language`.

A name that means the same is tileflow's own function, looked up when it is asked for; those whose arguments differ are
thin functions below; what single kernels on single GPUs do not have is refused by name.
"""

from __future__ import annotations

from typing import Any

import torch

from ... import language as tfl
from ...errors import UnsupportedOp
from ...language.marks import inline

SAME = (
    "Tile", "arange", "associative_scan", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min",
    "atomic_or", "atomic_xchg", "atomic_xor", "barrier", "breakpoint", "constexpr", "cumprod", "cumsum",
    "device_print", "dot", "dot_scaled", "grid", "inline_asm_elementwise", "inline_triton", "jagged_tile", "join",
    "reduce", "register_block_size", "register_tunable", "specialize", "split", "static_range", "tile",
    "triton_kernel",
)  # fmt: skip
ADAPTED = (
    "full", "load", "rand", "randint", "register_reduction_dim", "store", "subscript", "tile_begin",
    "tile_block_size", "tile_end", "tile_id", "tile_index", "zeros",
)  # fmt: skip
REFUSED = {
    "StackTensor": "pass the tensors as arguments of their own",
    "stacktensor_like": "pass the tensors as arguments of their own",
    "signal": "end the launch instead: the next one sees all of its stores",
    "wait": "end the launch instead: the next one sees all of its stores",
}


def missing() -> tuple[str, ...]:
    """The documented names that tileflow's language does not have yet."""
    needed = {"rand": "rand", "randint": "randint"} | {name: name for name in SAME}
    return tuple(sorted(name for name, ours in needed.items() if not hasattr(tfl, ours)))


def __getattr__(name: str) -> Any:
    if name in SAME:
        return getattr(tfl, name)
    if name in REFUSED:
        return _refusal(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _refusal(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedOp("a kernel works on one GPU's tensors", got=f"hl.{name}", hint=REFUSED[name])

    refuse.__name__ = name
    return refuse


# ---- those whose arguments differ ---------------------------------------------------------------


@inline
def zeros(shape: Any, dtype: torch.dtype = torch.float32, device: Any = None) -> Any:
    """A register tile of zeros. A kernel runs on one device: ``device`` says nothing."""
    return tfl.zeros(shape, dtype)


@inline
def full(shape: Any, value: Any, dtype: torch.dtype = torch.float32, device: Any = None) -> Any:
    """A register tile of ``value``."""
    return tfl.full(shape, value, dtype)


@inline
def load(tensor: Any, index: Any, extra_mask: Any = None, eviction_policy: str | None = None) -> Any:
    """``tensor[index]``, zero where ``extra_mask`` is false; ``index`` is a list, one item a dimension."""
    return tfl.load(tensor, tuple(index), extra_mask=extra_mask, eviction_policy=eviction_policy)


@inline
def store(tensor: Any, index: Any, value: Any, extra_mask: Any = None) -> Any:
    """``tensor[index] = value`` where ``extra_mask`` is true."""
    return tfl.store(tensor, tuple(index), value, extra_mask=extra_mask)


@inline
def subscript(tensor: Any, index: Any) -> Any:
    """``tensor[index]`` of a tile in registers."""
    return tensor[tuple(index)]


@inline
def register_reduction_dim(size: Any) -> Any:
    """A size that is reduced over: the size itself, since a knob decides how."""
    return size


@inline
def rand(shape: Any, seed: Any, device: Any = None) -> Any:
    """Uniform in [0, 1), float32."""
    return tfl.rand(shape, seed)  # type: ignore[attr-defined,unused-ignore]


@inline
def randint(shape: Any, low: int, high: int, seed: Any, device: Any = None) -> Any:
    """Uniform ints in [low, high), int32."""
    return tfl.randint(shape, low, high, seed)  # type: ignore[attr-defined,unused-ignore]


@inline
def tile_index(tile: Any) -> Any:
    return tile.index


@inline
def tile_begin(tile: Any) -> Any:
    return tile.begin


@inline
def tile_end(tile: Any) -> Any:
    return tile.end


@inline
def tile_id(tile: Any) -> Any:
    return tile.id


@inline
def tile_block_size(tile: Any) -> Any:
    return tile.block_size
