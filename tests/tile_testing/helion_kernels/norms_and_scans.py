"""Torch's larger functions on tiles, scans along more than a block, masked loads, text that is printed."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch
import torch.nn.functional as F
from torch._higher_order_ops import associative_scan

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]
Pair = tuple[torch.Tensor, torch.Tensor]


@helion.kernel(static_shapes=True)
def long_cumulative_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = torch.cumsum(x[tile, :], dim=1)
    return out


@helion.kernel(static_shapes=True)
def carried_cumulative_sum(x: torch.Tensor) -> Pair:
    out, totals = torch.empty_like(x), torch.empty_like(x[:, 0])
    for tile_m in hl.tile(x.size(0)):
        carry = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(x.size(1)):
            out[tile_m, tile_n] = torch.cumsum(x[tile_m, tile_n], dim=1) + carry[:, None]
            carry = carry + x[tile_m, tile_n].sum(1)
        totals[tile_m] = carry
    return out, totals


def _add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def _affine(left: Pair, right: Pair) -> Pair:
    return left[0] * right[0], left[1] * right[0] + right[1]


def _add_named(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"b": a["b"] + b["b"]}


def _affine_listed(left: list[torch.Tensor], right: list[torch.Tensor]) -> list[torch.Tensor]:
    return [left[0] * right[0], left[1] * right[0] + right[1]]


def _affine_apart(la: Any, lb: Any, ra: Any, rb: Any) -> Pair:
    return la * ra, lb * ra + rb


@helion.kernel(static_shapes=True)
def scan_of_torch(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = associative_scan(_add, x[tile, :], dim=1)
    return out


@helion.kernel(static_shapes=True)
def scan_of_pairs_of_torch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        _, out[tile, :] = associative_scan(_affine, (a[tile, :], b[tile, :]), dim=1)
    return out


@helion.kernel(static_shapes=True)
def generic_scan_of_torch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """As torch takes it on a CPU too, from the end, over a list and over names."""
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        largest = associative_scan(torch.maximum, a[tile, :], 1, combine_mode="generic")
        sums = associative_scan(_add_named, {"b": b[tile, :]}, dim=1, reverse=True, combine_mode="generic")
        pair = associative_scan(_affine_listed, [a[tile, :], b[tile, :]], dim=1, combine_mode="generic")
        out[tile, :] = largest + sums["b"] + pair[1]
    return out


@helion.kernel(static_shapes=True)
def scan_of_pairs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        pair = hl.associative_scan(_affine_apart, (a[tile, :], b[tile, :]), dim=1)
        out[tile, :] = pair[1]
    return out


@helion.kernel(static_shapes=True)
def scan_from_the_end(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = hl.associative_scan(_add, x[tile, :], dim=1, reverse=True)
    return out


@helion.kernel(static_shapes=True)
def group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :, :] = F.group_norm(x[tile, :, :], 4, weight[:], bias[:])
    return out


@helion.kernel(static_shapes=True)
def instance_norm(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :, :] = F.instance_norm(x[tile, :, :])
    return out


@helion.kernel(static_shapes=True)
def batch_norm(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = F.batch_norm(x[tile, :], mean[:], var[:], weight[:])
    return out


@helion.kernel(static_shapes=True)
def average_pool(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), x.size(1) // 4], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = F.avg_pool1d(x[tile, :], 4)
    return out


@helion.kernel(static_shapes=True)
def largest_pool(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), x.size(1) // 4], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = F.max_pool1d(x[tile, :], 4)
    return out


@helion.kernel(static_shapes=True)
def filled_outside(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        mask = (tile.index % 3 == 0)[:, None] & (hl.arange(x.size(1)) > 4)[None, :]
        out[tile, :] = hl.load(x, [tile, slice(None)], extra_mask=mask, other=-7.0)
    return out


@helion.kernel(static_shapes=True)
def printed(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        print("x:", x[tile])
        out[tile] = x[tile] + 1
    return out


def product(precision: str) -> Callable[..., Any]:
    """A product by a precision's name, which the call already may refuse."""

    def called(x: torch.Tensor, y: torch.Tensor) -> Any:
        @helion.kernel(static_shapes=True, dot_precision=precision)
        def multiplied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = torch.empty([x.size(0), y.size(1)], device=x.device)
            for tile_m, tile_n in hl.tile([x.size(0), y.size(1)]):
                out[tile_m, tile_n] = x[tile_m, :] @ y[:, tile_n]
            return out

        return multiplied(x, y)

    return called


@helion.kernel(static_shapes=True)
def halved_until_small(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in hl.grid(x.size(0)):
        value = x[i]
        while value > 1.0:
            value = value * 0.5
        out[i] = value
    return out


def a_config_of_scalars(x: torch.Tensor) -> Any:
    @helion.kernel(config=helion.Config(block_sizes=16, num_warps=4))
    def tripled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in hl.tile(x.size(0)):
            out[tile] = x[tile] * 3
        return out

    return tripled(x)


@helion.kernel(static_shapes=True)
def stacked(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    for tile in hl.tile(a.size(0)):
        out[tile, :] = torch.stack([a[tile], b[tile]], dim=1)
    return out


@helion.kernel(static_shapes=True)
def whole_tensor_stored(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), w.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = w[:] + x[tile][:, None]
    return out


def halved(x: torch.Tensor) -> torch.Tensor:
    while (x > 1).any():
        x = torch.where(x > 1, x * 0.5, x)
    return x


def scanned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    rows, carry = [], torch.zeros_like(a[:, 0])
    for i in range(a.size(1)):
        carry = carry * a[:, i] + b[:, i]
        rows.append(carry)
    return torch.stack(rows, 1)


def cases() -> Iterator[Case]:
    x = torch.randn(12, 40)
    yield "long_cumulative_sum", long_cumulative_sum, (torch.randn(4, 3000),), lambda x: x.cumsum(1)
    yield "carried_cumulative_sum", carried_cumulative_sum, (x,), lambda x: (x.cumsum(1), x.sum(1))
    yield "scan_of_torch", scan_of_torch, (x,), lambda x: x.cumsum(1)
    pair = torch.rand(12, 32), torch.randn(12, 32)
    yield "scan_of_pairs_of_torch", scan_of_pairs_of_torch, pair, scanned
    yield (
        "generic_scan_of_torch",
        generic_scan_of_torch,
        pair,
        lambda a, b: a.cummax(1).values + b.flip(1).cumsum(1).flip(1) + scanned(a, b),
    )
    yield "scan_of_pairs", scan_of_pairs, pair, scanned
    yield "scan_from_the_end", scan_from_the_end, (x,), lambda x: x.flip(1).cumsum(1).flip(1)
    y, weight, bias = torch.randn(6, 8, 16), torch.randn(8), torch.randn(8)
    yield "group_norm", group_norm, (y, weight, bias), lambda y, w, b: F.group_norm(y, 4, w, b)
    yield "instance_norm", instance_norm, (y,), F.instance_norm
    statistics = torch.randn(40), torch.rand(40) + 0.5, torch.randn(40)
    yield "batch_norm", batch_norm, (x, *statistics), F.batch_norm
    yield "average_pool", average_pool, (x,), lambda x: F.avg_pool1d(x, 4)
    yield "largest_pool", largest_pool, (x,), lambda x: F.max_pool1d(x, 4)
    keep = (torch.arange(12) % 3 == 0)[:, None] & (torch.arange(40) > 4)
    yield "filled_outside", filled_outside, (x,), lambda x: torch.where(keep, x, -7.0)
    yield "printed", printed, (x[0].clone(),), lambda x: x + 1
    for precision in ("ieee", "default", "high", "highest"):
        yield f"product_{precision}", product(precision), (x, torch.randn(40, 9)), torch.matmul
    yield "halved_until_small", halved_until_small, (x.abs()[0] * 9,), halved
    yield "a_config_of_scalars", a_config_of_scalars, (x[0].clone(),), lambda x: x * 3
    yield "stacked", stacked, (x[0].clone(), x[1].clone(), torch.empty(40, 2)), lambda a, b, out: torch.stack([a, b], 1)
    yield "whole_tensor_stored", whole_tensor_stored, (x[:, 0].clone(), x[0].clone()), lambda x, w: w + x[:, None]
