"""Functions called by the names that the dialect gives their parameters."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch
from helion.autotuner import PowerOfTwoFragment

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


@helion.kernel(static_shapes=True)
def scaled_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product, and a tunable whose choices are named first."""
    scale = hl.register_tunable(fragment=PowerOfTwoFragment(1, 4, 2), name="scale")
    out = torch.empty([a.size(0), b.size(1)], device=a.device)
    for tile_m, tile_n in hl.tile([a.size(0), b.size(1)]):
        product = hl.dot(mat1=a[tile_m, :], mat2=b[:, tile_n], out_dtype=torch.float32)
        out[tile_m, tile_n] = product * scale / scale
    return out


@helion.kernel(static_shapes=True)
def folded_pairs(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Scans, halves and atomics."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        rows = x[tile, :]
        sums = hl.cumsum(input_tensor=rows, dim=1)
        powers = hl.cumprod(input_tensor=torch.ones_like(rows) * 2, dim=1, reverse=True)
        first, second = hl.split(tensor=hl.join(tensor0=sums, tensor1=powers))
        out[tile, :] = first * second
        hl.atomic_add(target=total, index=[slice(None)], value=rows.sum(0))
    return out


@helion.kernel(static_shapes=True)
def every_second(x: torch.Tensor) -> torch.Tensor:
    """Turns that are written out, with a step."""
    out = torch.zeros([x.size(0)], device=x.device)
    for tile in hl.tile(x.size(0)):
        found = hl.zeros([tile])
        for column in hl.static_range(x.size(1), step=2):
            found = found + x[tile, column]
        out[tile] = found
    return out


@helion.kernel(static_shapes=True)
def doubled_in_text(x: torch.Tensor) -> torch.Tensor:
    """Triton's text by name; what it means as plain Python beside it."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = hl.inline_triton(
            triton_source="{0} * 2", args=[x[tile]], output_like=x[tile], reference=lambda v: v * 2
        )
    return out


def _folded(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    total += x.sum(0)
    return x.cumsum(1) * 2.0 ** torch.arange(x.size(1), 0, -1)


def cases() -> Iterator[Case]:
    x = torch.randn(20, 6)
    yield "scaled_product", scaled_product, (torch.randn(9, 16), torch.randn(16, 20)), torch.matmul
    yield "folded_pairs", folded_pairs, (x, torch.zeros(6)), _folded
    yield "every_second", every_second, (x,), lambda x: x[:, ::2].sum(1)
    yield "doubled_in_text", doubled_in_text, (torch.randn(37),), lambda x: 2 * x
