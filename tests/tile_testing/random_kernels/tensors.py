"""Tensors of a generated kernel: its arguments, in layouts of their own, and what host code makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .values import Range

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "strided": lambda x: torch.stack([x, x], -1).flatten(-2)[..., ::2],
    "offset": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
    "padded": lambda x: torch.cat([x, x[..., :1]], -1)[..., : x.size(-1)],
    "broadcast": lambda x: x[:1].expand(x.shape),
}
HALVES = (torch.float16, torch.bfloat16)
SAFE_LAYOUTS = (
    "contiguous",
    "transposed",
    "strided",
    "offset",
    "padded",
)  # in which each element has a place of its own
RANGES = {
    torch.float32: Range(-2, 2, 0.25), torch.float16: Range(-2, 2, 0.25), torch.bfloat16: Range(-2, 2, 0.25),
    torch.int32: Range(-9, 9, 1), torch.int64: Range(-9, 9, 1), torch.int8: Range(-9, 9, 1),
    torch.uint8: Range(0, 9, 1), torch.bool: Range(0, 1, 1),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that device code indexes by ``name``."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    range: Range

    @property
    def may_be_read(self) -> bool:
        """Whether what is computed of it later is held to its own rounding: a number that is not exact may be the next
        one in 16 bits, which a result in float32 is not excused for."""
        return self.range.step > 0 or self.dtype not in HALVES


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor that a call is given."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    range: Range
    layout: str = "contiguous"

    @property
    def tensor(self) -> Tensor:
        return Tensor(self.name, self.dtype, self.sizes, self.range)

    def make(self, seed: int, device: str = "cpu") -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        steps = int((self.range.high - self.range.low) / self.range.step) + 1
        drawn = torch.randint(steps, self.sizes, generator=generator)
        made = (self.range.low + drawn * self.range.step).to(self.dtype).to(device)
        return LAYOUTS[self.layout](made) if made.ndim and made.numel() else made


@dataclass(frozen=True, slots=True)
class Number:
    """A number, a tuple of numbers or a flag that a call is given."""

    name: str
    value: Any

    def make(self, seed: int, device: str = "cpu") -> Any:
        return self.value
