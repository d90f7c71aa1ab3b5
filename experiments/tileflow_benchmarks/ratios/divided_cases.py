"""Products whose rows are of ragged groups, or whose inner dimension is divided among programs, as cases to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.config import Choice

_DEPTH = 64  # of a turn, in numbers of two bytes: 128 bytes

# of the axes rows, columns, parts: which two are the fastest, that bands are of
_ORDERS = {"of rows and columns": "2,0,1", "of columns and parts": "0,1,2"}

Configs = Mapping[str, Mapping[str, Choice]]


def _tried(rows: str, m: int, n: int, stages: int, groups: int, ping_pong: bool, band: int, deep: int = 1,
           parts: int = 0) -> dict[str, Choice]:  # fmt: skip
    """A config: rows (by that knob) and columns of a tile, stages, consumer groups, whether they have tiles of their
    own, tiles in a band, how many times 128 bytes a turn sums over, parts of the inner dimension."""
    found: dict[str, Choice] = {
        "schedule": "warp_specialised",
        rows: m,
        "block:tile_n": n,
        "block:tile_k": _DEPTH * deep,
        "num_stages": stages,
        "consumers": groups,
        "ping_pong": ping_pong,
        "group": band,
    }
    return found | ({"tunable:split_k": parts} if parts else {})


@dataclass(frozen=True, slots=True)
class GroupedCase:
    """Rows of ragged groups. ``skewed``: the first group has most rows, as routing gives them to experts, the n-th as
    many as one n-th of it; else sizes grow evenly."""

    name: str
    kernel: str
    groups: int
    m: int
    n: int
    k: int
    skewed: bool = False

    @property
    def loaded(self) -> Kernel:
        """The kernel, imported."""
        return load_kernel(self.kernel)

    def args(self, device: str) -> tuple[Any, ...]:
        """Return the kernel's arguments for the case on ``device``."""
        x, y, offsets = self.loaded.inputs(groups=self.groups, m=self.m, n=self.n, k=self.k, device=device)
        return x, y, self._offsets().to(device) if self.skewed else offsets

    def _offsets(self) -> torch.Tensor:
        shares = (1 / torch.arange(1, self.groups + 1, dtype=torch.float64)).cumsum(0)
        ends = (shares / shares[-1] * self.m).round().int()
        return torch.cat([torch.zeros(1, dtype=torch.int32), ends])

    @property
    def peer(self) -> Callable[..., Any]:
        """Return what the kernel is timed beside: torch, as its reference has it."""
        reference = self.loaded.reference
        assert reference is not None
        return reference

    @property
    def flops(self) -> float:
        """The floating-point operations of all groups' products."""
        return 2.0 * self.m * self.n * self.k

    def tried(self) -> Configs:
        """The configs to try, by name."""
        rows = "block:block_m" if self.kernel.endswith("_flat") else "block:tile_m"
        return {
            "128x256, rows shared, bands of 8": _tried(rows, 128, 256, 4, 2, False, 8),
            "128x256, rows shared, bands of 16": _tried(rows, 128, 256, 4, 2, False, 16),
            "128x128, ping-pong, bands of 4": _tried(rows, 128, 128, 6, 2, True, 4),
            "128x128, ping-pong, bands of 8": _tried(rows, 128, 128, 6, 2, True, 8),
            "64x256, ping-pong, bands of 8": _tried(rows, 64, 256, 4, 2, True, 8),
            "64x128 alone, bands of 8": _tried(rows, 64, 128, 4, 1, False, 8),
        }


@dataclass(frozen=True, slots=True)
class DividedCase:
    """One product by the kernel whose inner dimension is in parts, as many as a config says."""

    name: str
    m: int
    n: int
    k: int

    @property
    def loaded(self) -> Kernel:
        """The kernel, imported."""
        return load_kernel("examples.split_k:split_k_matmul")

    def args(self, device: str) -> tuple[Any, ...]:
        """Return the kernel's arguments for the case on ``device``."""
        found: tuple[Any, ...] = self.loaded.inputs(m=self.m, n=self.n, k=self.k, device=device)
        return found

    @property
    def peer(self) -> Callable[..., Any]:
        """Return what the kernel is timed beside: torch, as its reference has it."""
        reference = self.loaded.reference
        assert reference is not None
        return reference

    @property
    def flops(self) -> float:
        """The floating-point operations of the product."""
        return 2.0 * self.m * self.n * self.k

    def tried(self) -> Configs:
        """The configs to try, by name."""
        rows = "block:tile_m"
        if self.m > 64:
            return {
                f"{name}, {parts} parts, bands {order}": config | {"order": _ORDERS[order]}
                for parts in (1, 2)
                for name, config in (
                    ("128x256, rows shared", _tried(rows, 128, 256, 4, 2, False, 8, parts=parts)),
                    ("128x128, ping-pong", _tried(rows, 128, 128, 6, 2, True, 8, parts=parts)),
                )
                for order in _ORDERS
            }
        return {
            f"64x{n} alone, {parts} parts": _tried(rows, 64, n, stages, 1, False, 1, 2, parts)
            for n, stages in ((64, 6), (128, 4))
            for parts in ((1, 2, 4, 8) if self.n > 64 else (16, 32))
            if n <= self.n
        }


_BY_GROUP, _FLAT = "examples.grouped_matmul:grouped_matmul", "examples.grouped_matmul:grouped_matmul_flat"
CASES: tuple[GroupedCase | DividedCase, ...] = (
    GroupedCase("8 ragged experts", _FLAT, 8, 16384, 14336, 4096),
    GroupedCase("8 ragged experts, a program a group", _BY_GROUP, 8, 16384, 14336, 4096),
    GroupedCase("64 experts, skewed routing", _FLAT, 64, 24576, 2816, 2048, skewed=True),
    GroupedCase("64 experts, skewed routing, a program a group", _BY_GROUP, 64, 24576, 2816, 2048, skewed=True),
    DividedCase("split-K 64x8192x8192", 64, 8192, 8192),
    DividedCase("split-K 64x64x65536", 64, 64, 65536),
    DividedCase("split-K 4224x4352x4096", 4224, 4352, 4096),
)
