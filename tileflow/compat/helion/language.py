"""``helion.language``: its documented names, on top of :mod:`tileflow.language`.

A name that means the same is tileflow's own function, looked up when it is asked for; those whose arguments differ are
thin functions below; what single kernels on single GPUs do not have is refused by name.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import torch

from ... import language as tfl
from ...language.marks import inline
from . import renamed
from .names import RENAMED, SAME
from .refusals import absent, refusal
from .triton_functions import jit_function

LAUNCHES = "end the launch instead: the next one sees all of its stores"
COLLECTIVE = "call torch.distributed's collectives between launches"
REFUSED = {
    "AsyncCopyDescriptor": COLLECTIVE, "ProcessGroupName": COLLECTIVE,
    "SparseTensor": "pass its values, offsets and coordinates as tensors",
    "device_scope": "write for _ in hl.grid(1) around these lines",
    "load_bfloat16_x16_to_float16": "load, then convert with .to(torch.float16)",
    "load_float4_e2m1fn_x16_to_float16": "load the bytes, then hl.float4_e2m1fn_x2_to_float32 and .to(torch.float16)",
    "make_async_remote_copy": COLLECTIVE, "remote_barrier": COLLECTIVE,
    "signal": LAUNCHES, "wait": LAUNCHES,
}  # fmt: skip


def missing() -> tuple[str, ...]:
    """The documented names that tileflow's language does not have yet."""
    return tuple(sorted(name for name in SAME if not hasattr(tfl, name)))


def __getattr__(name: str) -> Any:
    if name in SAME:
        return getattr(tfl, name)
    if name in RENAMED:
        return getattr(renamed, name)
    if name == "vtile":  # what jagged_tile was called first
        return renamed.jagged_tile
    if name in REFUSED:
        one = REFUSED[name] in (COLLECTIVE, LAUNCHES)
        reason = "a kernel works on one GPU's tensors" if one else "tileflow has another way for this"
        return refusal(f"hl.{name}", REFUSED[name], reason)
    return absent(__name__, name)


# ---- those whose arguments differ ---------------------------------------------------------------


def _items(index: Any) -> tuple[Any, ...]:
    return tuple(index) if isinstance(index, (list, tuple)) else (index,)


if TYPE_CHECKING:
    constexpr = Any
else:

    class constexpr(tfl.constexpr):
        """Annotates a parameter whose value is a constant of the kernel; called, it gives what it is called with."""

        def __new__(cls, value: Any) -> Any:
            """The value itself: it is a plain number outside device code."""
            return value


@inline
def zeros(shape: Any, dtype: torch.dtype = torch.float32, device: Any = None) -> Any:
    """A register tile of zeros. A kernel runs on one device: ``device`` says nothing."""
    return tfl.zeros(shape, dtype)


@inline
def full(shape: Any, value: Any, dtype: torch.dtype = torch.float32, device: Any = None) -> Any:
    """A register tile of ``value``."""
    return tfl.full(shape, value, dtype)


@inline
def arange(
    start_or_end: Any, end: Any = None, step: Any = 1, *, dtype: torch.dtype | None = None, device: Any = None
) -> Any:
    """Every ``step``-th int of ``[start, end)`` in registers, int32 unless told."""
    return tfl.arange(start_or_end, end, step, dtype=torch.int32 if dtype is None else dtype)


@inline
def dot_scaled(
    mat1: Any,
    mat1_scale: Any,
    mat1_format: str,
    mat2: Any,
    mat2_scale: Any,
    mat2_format: str,
    acc: Any = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """The product of two tiles in a format of few bits, with a scale for each 32 elements of the inner dimension."""
    product = tfl.dot_scaled(mat1, mat1_scale, mat1_format, mat2, mat2_scale, mat2_format, acc)
    return product if out_dtype is None else product.to(out_dtype)


@inline
def breakpoint() -> None:
    """Python's own: it stops a kernel that runs as plain Python, HELION_INTERPRET=1."""
    builtins.breakpoint()


@inline
def float4_e2m1fn_x2_to_float32(value: Any) -> Any:
    """The low and the high numbers of bytes that hold two of 4 bits: a sign, two bits of exponent, one of mantissa."""
    pairs = value.to(torch.int32)
    return _of_four_bits(pairs & 15), _of_four_bits((pairs >> 4) & 15)


@inline
def _of_four_bits(bits: Any) -> Any:
    steps = (bits & 7).to(torch.float32)
    size = torch.where(steps < 4.0, steps * 0.5, torch.where(steps < 6.0, steps - 2.0, steps * 2.0 - 8.0))
    return torch.where(bits < 8, size, -size)


@inline
def load(tensor: Any, index: Any, extra_mask: Any = None, eviction_policy: str | None = None, other: Any = 0) -> Any:
    """``tensor[index]``, ``other`` where ``extra_mask`` is false; ``index`` is a list, one item a dimension."""
    return tfl.load(tensor, _items(index), extra_mask=extra_mask, eviction_policy=eviction_policy, other=other)


@inline
def store(tensor: Any, index: Any, value: Any, extra_mask: Any = None) -> Any:
    """``tensor[index] = value`` where ``extra_mask`` is true."""
    return tfl.store(tensor, _items(index), value, extra_mask=extra_mask)


@inline
def subscript(tensor: Any, index: Any) -> Any:
    """``tensor[index]`` of a tile in registers."""
    return tensor[_items(index)]


@inline
def reduce(combine_fn: Any, input_tensor: Any, dim: Any = None, other: Any = None, keep_dims: bool = False) -> Any:
    """``combine_fn`` over a dimension. Without ``other``, lanes past a tile's end are left out, not taken as 0."""
    return tfl.reduce(_undecorated(combine_fn), input_tensor, dim, keep_dims, other)


@inline
def associative_scan(combine_fn: Any, input_tensor: Any, dim: Any, reverse: bool = False) -> Any:
    """``combine_fn`` over all elements up to each one."""
    return tfl.associative_scan(_undecorated(combine_fn), input_tensor, dim, reverse)


def _undecorated(combine_fn: Any) -> Any:
    """What combines may be decorated as a kernel, which here means nothing."""
    from .kernel import Kernel

    return combine_fn.fn if isinstance(combine_fn, Kernel) else combine_fn


@inline
def register_reduction_dim(size: Any) -> Any:
    """A size that is reduced over: the size itself, since a knob decides how."""
    return size


@inline
def rand(shape: Any, seed: Any, device: Any = None, offsets: Any = None) -> Any:
    """Uniform in [0, 1), float32: ``tl.rand`` at ``offsets``, or at the elements' positions, row by row; a row is as
    long as the loop of its tile."""
    return tfl.rand_at(seed, tfl.positions(shape, by_length=True) if offsets is None else offsets.to(torch.int64))


@inline
def randint(shape: Any, low: int, high: int, seed: Any, device: Any = None) -> Any:
    """Uniform ints in [low, high), int32: ``low + abs(tl.randint) % (high - low)`` at the elements' positions."""
    return tfl.randint_at(seed, tfl.positions(shape, by_length=True), low, high)


@inline
def rand4x(seed: Any, offsets: Any, device: Any = None) -> Any:
    """Four uniform tiles of the shape of ``offsets``."""
    return tfl.rand4x(seed, offsets.to(torch.int64))


@inline
def triton_kernel(triton_source_or_fn: Any, args: Any, output_like: Any, *, reference: Any = None) -> Any:
    """What a ``@triton.jit`` function gives, named or as it is or as text; of the type of ``output_like``.
    ``reference``: what it means as plain Python."""
    return tfl.triton_kernel(jit_function(triton_source_or_fn), args, output_like, reference=reference)


@inline
def tile_index(tile: Any) -> Any:
    """The indices of the tile's lanes, a 1-D tile of ints."""
    return tile.index


@inline
def tile_begin(tile: Any) -> Any:
    """The tile's first index."""
    return tile.begin


@inline
def tile_end(tile: Any) -> Any:
    """The index behind the tile's last one."""
    return tile.end


@inline
def tile_id(tile: Any) -> Any:
    """The number of the tile in its loop, counted from 0."""
    return tile.id


@inline
def tile_block_size(tile: Any) -> Any:
    """The block size of the tile's loop."""
    return tile.block_size


@inline
def pdl_wait() -> None:
    """Launches of one stream run one after another here: there is nothing to wait for."""


@inline
def pdl_launch_dependents() -> None:
    """The next launch begins when this one has ended."""
