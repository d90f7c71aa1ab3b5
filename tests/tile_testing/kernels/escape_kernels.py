"""Kernels that leave the language, with what they must give beside them: ``CASES``."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases

CASES = Cases()
case = CASES.case
V = torch.randn(37, generator=torch.Generator().manual_seed(0))
N = torch.arange(40, dtype=torch.int32) * 65537
SLOPE = tl.constexpr(0.5)
OFFSET = 3

# ---- assembly -----------------------------------------------------------------------------------


def byte_reversed(x: torch.Tensor) -> torch.Tensor:
    return ((x & 0xFF) << 24) | ((x & 0xFF00) << 8) | ((x >> 8) & 0xFF00) | ((x >> 24) & 0xFF)


@case(N, wanted=byte_reversed, tile=16)
@tileflow.kernel
def reverse_bytes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.inline_asm_elementwise(
            "prmt.b32 $0, $1, 0, 0x0123;", "=r,r", [x[tile]], torch.int32, reference=byte_reversed
        )
    return out


def both_ways(x: torch.Tensor, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return x + y, x - y


@case(N, wanted=lambda x: x + 5 + (x - 5), tile=16)
@tileflow.kernel
def two_results(x: torch.Tensor) -> torch.Tensor:
    """Two results, four lanes of a number that broadcasts."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        a, b = tfl.inline_asm_elementwise(
            "add.s32 $0, $2, $3;\nsub.s32 $1, $2, $3;", "=r,=r,r,r", (x[tile], 5), (torch.int32, torch.int32),
            is_pure=False, reference=both_ways,
        )  # fmt: skip
        out[tile] = a + b
    return out


@tileflow.kernel
def without_a_reference(x: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.size(0)):
        x[tile] = tfl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x[tile]], torch.int32)
    return x


@tileflow.kernel
def for_amd(x: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.size(0)):
        x[tile] = tfl.inline_asm_elementwise("v_mov_b32 $0, $1", "=v,v", [x[tile]], torch.int32)
    return x


# ---- Triton text --------------------------------------------------------------------------------


@case(V.bfloat16(), wanted=lambda x: (x.float() * 2 + 1).to(torch.bfloat16), tile=8)
@tileflow.kernel
def triton_expression(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        y = x[tile]
        out[tile] = tfl.inline_triton(
            "tl.fma({0}.to(tl.float32), {1}, {2})",
            (y, 2.0, 1.0),
            y,
            reference=lambda y, a, b: (y.float() * a + b).to(y),
        )
    return out


def stored(out: torch.Tensor, row: int, stride: int, index: torch.Tensor, value: torch.Tensor, n: int) -> None:
    out.view(-1).index_copy_(0, row * stride + index.long(), value)


@case(V, wanted=lambda x: torch.stack([x.clamp(min=0), -x]), tile=8)
@tileflow.kernel
def triton_statements(x: torch.Tensor) -> torch.Tensor:
    """Statements, names of their own, a loop, several results, sizes and pointers."""
    n = x.size(0)
    out = torch.zeros(2, n)
    for tile in tfl.tile(n):
        y = x[tile]
        total = tfl.inline_triton(
            """
            v0 = tl.zeros_like({y})
            for i in tl.static_range(2):
                v0 += {y} / 2
            tl.maximum(v0, {low})
            """,
            {"y": y, "low": 0.0}, y, reference=lambda y, low: y.clamp(min=low),
        )  # fmt: skip
        first, second = (
            tfl.inline_triton(
                "(-{0}, {0} * {1})", (y, n), (y, y[:, None]), reference=lambda y, n: (-y, (y * n)[:, None])
            )
            if n < 0
            else (total, -y)
        )
        out[0, tile] = first
        tfl.inline_triton(
            "tl.store({out} + {row} * {stride} + {index}, {value}, mask={index} < {n})",
            {"out": out, "row": 1, "stride": out.stride(0), "index": tile.index, "value": second, "n": n},
            None,
            reference=stored,
        )
    return out


# ---- Triton functions ---------------------------------------------------------------------------


@triton.jit
def scaled(x, factor: tl.constexpr):
    return x * factor * SLOPE


@triton.jit
def activated(x, y, factor: tl.constexpr = 2):
    """Calls another function, and reads constants."""
    z = tl.where(x > 0, x, scaled(x, factor))
    return z + y + OFFSET, tl.exp(z)


@case(V, wanted=lambda x: torch.where(x > 0, x, x * 2) + x + 3 + torch.where(x > 0, x, x * 2).exp(), tile=8)
@tileflow.kernel
def calls_triton(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        y = x[tile]
        a, b = tfl.triton_kernel(activated, {"x": y, "y": y, "factor": 4}, (y, y), reference=activated_reference)
        out[tile] = a + b
    return out


def activated_reference(x: torch.Tensor, y: torch.Tensor, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    z = torch.where(x > 0, x, x * factor * 0.5)
    return z + y + 3, z.exp()


# ---- printing -----------------------------------------------------------------------------------


@tileflow.kernel
def prints(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        tfl.device_print("values ", x[tile])
        print("id and size", tile.id, x.size(0))
        out[tile] = x[tile]
    return out
