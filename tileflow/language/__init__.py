"""What a kernel author writes inside a ``@tileflow.kernel`` function.

Each function's body here is its eager meaning on torch tensors; the tracer has one of its own by the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import torch

from . import eager
from .bounds import axes
from .eager import EagerTile as Tile
from .marks import device, host, loop

__all__ = [
    "Tile",
    "arange",
    "dot",
    "full",
    "grid",
    "load",
    "register_block_size",
    "register_tunable",
    "specialize",
    "store",
    "tile",
    "zeros",
]

Size = Any  # an int, a 0-d tensor, or a size of the kernel
Shape = Sequence[Any]  # of tiles, block sizes, sizes


@overload
def tile(begin_or_end: Size, end: Size | None = None, *, block_size: Size | None = None) -> Iterator[Tile]: ...
@overload
def tile(
    begin_or_end: Sequence[Size], end: Sequence[Size] | None = None, *, block_size: Sequence[Size] | None = None
) -> Iterator[tuple[Tile, ...]]: ...
@loop
def tile(begin_or_end: Any, end: Any = None, *, block_size: Any = None) -> Iterator[Any]:
    """Iterate over tiles of ``[begin, end)``, or of a box when sequences are given.

    Outermost, the iterations run in parallel as the grid of one launch; inside another tile loop they run in order
    within the GPU kernel. ``block_size`` fixes the size of a tile; without it the size is a knob ``block:<variable>``.
    """
    box = axes(begin_or_end, end, block_size)
    found = eager.tiles([int(b) for b in box.begins], [int(e) for e in box.ends], [b and int(b) for b in box.blocks])
    yield from found if box.several else (only for (only,) in found)


@loop
def grid(begin_or_end: Any, end: Any = None) -> Iterator[Any]:
    """Iterate over the ints of ``[begin, end)``, or tuples of them; outermost, one program of the grid for each."""
    box = axes(begin_or_end, end, 1)
    found = eager.tiles([int(b) for b in box.begins], [int(e) for e in box.ends], [1] * len(box.ends))
    for tiles in found:
        yield tuple(t.begin for t in tiles) if box.several else tiles[0].begin


def _length(size: Any) -> int:
    return len(size) if isinstance(size, Tile) else int(size)


@device
def zeros(shape: Shape, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A register tile of zeros; ``shape`` takes tiles, block sizes and ints."""
    return full(shape, 0, dtype)


@device
def full(shape: Shape, value: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A register tile of ``value``."""
    lengths = [_length(s) for s in shape]
    return torch.zeros(lengths, dtype=dtype, device=eager.current("full").device) + torch.as_tensor(value, dtype=dtype)


@device
def arange(start_or_end: Any, end: Any = None, *, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """The ints of ``[start, end)`` as a 1-D register tile. The length must be a block size or a constant."""
    start, stop = (0, start_or_end) if end is None else (start_or_end, end)
    return torch.arange(_length(start), _length(stop), dtype=dtype, device=eager.current("arange").device)


@device
def dot(
    a: torch.Tensor, b: torch.Tensor, acc: torch.Tensor | None = None, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """``a @ b + acc`` on the matrix units: (..., m, k) by (..., k, n). Half and fp8 operands accumulate in float32,
    int8 ones in int32; the result has ``acc``'s dtype, ``out_dtype``, or the accumulator's."""
    wide = torch.int32 if not a.dtype.is_floating_point else torch.promote_types(a.dtype, torch.float32)
    product = a.to(wide) @ b.to(wide)
    if acc is not None:
        return (acc + product).to(acc.dtype)
    return product if out_dtype is None else product.to(out_dtype)


@device
def load(
    tensor: torch.Tensor,
    index: Any,
    *,
    extra_mask: torch.Tensor | None = None,
    eviction_policy: str | None = None,
) -> torch.Tensor:
    """``tensor[index]``, zero where ``extra_mask`` is false. ``eviction_policy``: ``evict_first`` or ``evict_last``."""
    if extra_mask is None:
        return tensor[tuple(index) if isinstance(index, list) else index]
    places, chosen = eager.places(tensor, index, extra_mask)
    values = torch.zeros(chosen.shape, dtype=tensor.dtype, device=tensor.device)
    values[chosen] = tensor[places]
    return values


@device
def store(tensor: torch.Tensor, index: Any, value: torch.Tensor, *, extra_mask: torch.Tensor | None = None) -> None:
    """``tensor[index] = value`` where ``extra_mask`` is true."""
    if extra_mask is None:
        tensor[tuple(index) if isinstance(index, list) else index] = value
        return
    places, chosen = eager.places(tensor, index, extra_mask)
    tensor[places] = value.to(tensor.dtype).expand(chosen.shape)[chosen]


@host
def register_block_size(low: int, high: int | None = None) -> int:
    """A block size chosen by the config, known before the loop: between ``low`` (1 when only one number is given) and
    ``high``, a size it need not exceed. In host code only; the knob is named ``block:<variable>``."""
    limit = low if high is None else high
    return eager.block_size("register_block_size", limit)


@host
def register_tunable(name: str, choices: Sequence[int | str | bool]) -> Any:
    """A knob of the kernel's own, ``tunable:<name>``: one of ``choices``, the first by default. In host code only."""
    return eager.current("register_tunable").values.get(f"tunable:{name}", choices[0])


@device
def specialize(value: Any) -> Any:
    """``value`` as a constant of the kernel; each launch checks that it is still the same."""
    return value
