"""Further spellings of what is made in registers: factories, aranges, fills, parts of tiles, numbers of tensors."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch
import torch.nn.functional as F

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


@helion.kernel(static_shapes=True)
def mixed_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile(x.shape):
        a = torch.zeros((tile_m, tile_n.block_size)) + torch.ones(tile_m.block_size, tile_n, device=x.device)
        b = torch.full((tile_m, 1), 2, dtype=x.dtype) + torch.zeros_like(torch.empty([1, tile_n]))
        c = x.new_ones(tile_m, tile_n) + x.new_full((tile_m, tile_n), 1.0) + torch.full_like(x[tile_m, tile_n], 4)
        out[tile_m, tile_n] = x[tile_m, tile_n] * (a + b + c) + hl.full([tile_m, tile_n], 1) + hl.zeros([tile_n])
    return out


@helion.kernel(static_shapes=True)
def dtypes_of_factories(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=torch.float32, device=x.device)
    for tile in hl.tile(x.size(0)):
        whole, real = torch.full([tile], 7), torch.full([tile], 0.5)
        assert whole.dtype == torch.int64 and real.dtype == torch.float32
        assert torch.zeros([tile]).dtype == torch.float32 and x.new_zeros([tile]).dtype == x.dtype
        out[tile] = whole // 2 + real
    return out


@helion.kernel(static_shapes=True)
def torch_arange_over_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        rows = torch.arange(tile.begin, tile.end, device=x.device)
        shifted = tile.begin + hl.arange(tile.block_size)
        out[rows] = x[rows] + hl.load(x, [shifted], extra_mask=shifted < x.size(0))
    return out


@helion.kernel(static_shapes=True)
def arange_downwards(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), 8], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, hl.arange(7, -1, -1)] + x[tile, torch.arange(start=1, end=25, step=3)]
    return out


@helion.kernel(static_shapes=True)
def arange_from_what_is_loaded(starts: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([starts.size(0), 8], dtype=x.dtype, device=x.device)
    for i in hl.grid(starts.size(0)):
        begin = starts[i]
        out[i, :] = x[hl.arange(begin, begin + 8)]
    return out


@helion.kernel(static_shapes=True)
def filled_with_nothing_less(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        keep = hl.arange(x.size(1))[None, :] < 20
        out[tile] = hl.load(x, [tile, slice(None)], extra_mask=keep, other=float("-inf")).amax(-1)
    return out


@helion.kernel(static_shapes=True)
def parts_of_other_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        a, b, c = torch.split(x[tile, :], [5, 30, 1], dim=-1)
        out[tile, :] = torch.cat((c, a * 2, b), dim=-1)
    return out


@helion.kernel(static_shapes=True)
def groups_of_nine(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        groups = x[tile, :].reshape(tile, 4, 9)
        out[tile, :] = (groups - groups.mean(-1, keepdim=True)).view(tile, 36)
    return out


@helion.kernel(static_shapes=True)
def rows_repeated(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), 2 * x.size(1)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :].repeat(1, 2) + torch.stack([x[tile, :], x[tile, :]], 1).reshape(tile, 72)
    return out


@helion.kernel(static_shapes=True)
def pairs_by_what_is_left(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), x.size(1) // 2], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile(x.shape, block_size=[None, 16]):
        out[tile_m, tile_n.begin // 2 + hl.arange(8)] = x[tile_m, tile_n].reshape(tile_m, -1, 2).amax(-1)
    return out


@helion.kernel(static_shapes=True)
def counted_in_groups(x: torch.Tensor) -> torch.Tensor:
    """Counts by a block's size in a shape of it, where the last tile is shorter."""
    out = torch.empty([x.size(0), 4], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        counts = hl.arange(tile.block_size * 4).reshape(tile.block_size, 4) % 4
        out[tile, :] = counts.view(tile.block_size, 4) + x[tile, 0][:, None]
    return out


@helion.kernel(static_shapes=True)
def numbers_of_tensors(x: torch.Tensor, scale: torch.Tensor, flag: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(x.size(0)):
        total = torch.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(n):
            total += torch.where(flag, x[tile_m, tile_n] * scale, 0.0).sum(-1)
        out[tile_m] = total + torch.exp(scale) + max(scale, 0.0)
    return out


@helion.kernel(static_shapes=True)
def whole_tensors_stored(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    a, b, c = torch.empty_like(w), torch.empty_like(w), torch.empty_like(x)
    for _ in hl.grid(1):
        a[...] = w[...] * 2
        b[:] = 3
    for tile in hl.tile(x.size(0)):
        c[tile] = w[:]
    return a, b, c


def cases() -> Iterator[Case]:
    x = torch.randn(24, 36)
    yield "mixed_sizes", mixed_sizes, (x,), lambda x: x * 9 + 1
    yield "dtypes_of_factories", dtypes_of_factories, (x[:, 0].half(),), lambda x: torch.full([24], 3.5)
    yield "torch_arange_over_a_tile", torch_arange_over_a_tile, (torch.randn(45),), lambda x: 2 * x
    yield "arange_downwards", arange_downwards, (x,), lambda x: x[:, :8].flip(1) + x[:, 1:25:3]
    starts = torch.tensor([3, 0, 11])
    yield (
        "arange_from_what_is_loaded",
        arange_from_what_is_loaded,
        (starts, x[0].clone()),
        lambda s, x: torch.stack([x[b : b + 8] for b in s.tolist()]),
    )
    yield "filled_with_nothing_less", filled_with_nothing_less, (-x.abs(),), lambda x: x[:, :20].amax(1)
    yield (
        "parts_of_other_sizes",
        parts_of_other_sizes,
        (x,),
        lambda x: torch.cat([x[:, 35:], 2 * x[:, :5], x[:, 5:35]], 1),
    )
    yield (
        "groups_of_nine",
        groups_of_nine,
        (x,),
        lambda x: (x.view(24, 4, 9) - x.view(24, 4, 9).mean(-1, True)).view(24, 36),
    )
    yield "rows_repeated", rows_repeated, (x,), lambda x: 2 * x.repeat(1, 2)
    yield "pairs_by_what_is_left", pairs_by_what_is_left, (torch.randn(24, 64),), lambda x: F.max_pool1d(x, 2)
    yield "counted_in_groups", counted_in_groups, (x[:21],), lambda x: x[:, :1] + torch.arange(4)
    numbers = torch.tensor(1.5), torch.tensor(True), torch.tensor(30)
    yield (
        "numbers_of_tensors",
        numbers_of_tensors,
        (x, *numbers),
        lambda x, s, f, n: (x[:, :30] * s).sum(1) + s.exp() + s,
    )
    yield (
        "whole_tensors_stored",
        whole_tensors_stored,
        (x, x[0].clone()),
        lambda x, w: (2 * w, 0 * w + 3, w.expand(24, 36).clone()),
    )
