"""Products with what follows them in one kernel, for :mod:`.products`: two of one left operand with their gate, and one
with a residual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tileflow.api import Kernel
from tileflow.kernels.gated import gated_linear
from tileflow.kernels.residual import linear_add

from .divided_cases import Configs

# by name: rows and columns of a tile, of all products, stages, whether groups have tiles of their own, tiles in a band
_SHAPES: dict[str, tuple[int, int, int, bool, int]] = {
    "128 x 256, rows shared, bands of 8": (128, 256, 4, False, 8),
    "128 x 256, rows shared, bands of 16": (128, 256, 4, False, 16),
    "256 x 128, rows shared, bands of 16": (256, 128, 4, False, 16),
    "128 x 128, ping-pong, bands of 4": (128, 128, 6, True, 4),
}


@dataclass(frozen=True, slots=True)
class FollowedCase:
    """One call. ``activation``: that of two products' gate; empty for one product with a residual."""

    name: str
    m: int
    n: int
    k: int
    activation: str = ""

    @property
    def loaded(self) -> Kernel:
        """The kernel."""
        found: Kernel = gated_linear if self.activation else linear_add
        return found

    @property
    def products(self) -> int:
        """How many products there are."""
        return 2 if self.activation else 1

    def args(self, device: str) -> tuple[Any, ...]:
        """Return the kernel's arguments for the case on ``device``."""
        options: dict[str, Any] = {"activation": self.activation} if self.activation else {}
        args: tuple[Any, ...] = self.loaded.inputs(m=self.m, n=self.n, k=self.k, device=device, **options)
        return args

    @property
    def peer(self) -> Callable[..., Any]:
        """Return what the kernel is timed beside: torch's products and their compiled gate, or addmm."""
        if not self.activation:
            return lambda x, weight, residual: torch.addmm(residual, x, weight.T)
        assert self.loaded.reference is not None
        return torch.compile(self.loaded.reference, dynamic=False)

    @property
    def flops(self) -> float:
        """The floating-point operations of the products."""
        return 2.0 * self.m * self.n * self.k * self.products

    def tried(self) -> Configs:
        """The configs to try, by name."""
        return {
            name: {
                "schedule": "warp_specialised",
                "block:tile_m": m,
                "block:tile_n": n // self.products,
                "block:tile_k": 64,
                "num_stages": stages,
                "consumers": 2,
                "ping_pong": ping_pong,
                "group": band,
            }
            for name, (m, n, stages, ping_pong, band) in _SHAPES.items()
        }


CASES: tuple[FollowedCase, ...] = (
    FollowedCase("gated 4096x14336x4096", 4096, 14336, 4096, "silu"),
    FollowedCase("gated 8192x5632x2048", 8192, 5632, 2048, "silu"),
    FollowedCase("gated 512x14336x4096", 512, 14336, 4096, "silu"),
    FollowedCase("gated 1000x11008x4096", 1000, 11008, 4096, "silu"),
    FollowedCase("gated by gelu 4096x14336x4096", 4096, 14336, 4096, "gelu"),
    FollowedCase("gated by gelu 512x14336x4096", 512, 14336, 4096, "gelu"),
    FollowedCase("residual 4096^3", 4096, 4096, 4096),
    FollowedCase("residual 4096x4096x14336", 4096, 4096, 14336),
    FollowedCase("residual 512x4096x14336", 512, 4096, 14336),
)
