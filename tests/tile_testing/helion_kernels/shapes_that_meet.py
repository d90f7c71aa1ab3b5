"""Dimensions that meet: a tile's with the same tile's, sizes of 1, sums padded to powers of two, whole tensors."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


@helion.kernel(static_shapes=True)
def a_row_of_one_tile(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for t0, t1 in hl.tile(a.shape):
        out[t0, t1] = a[t0, t1] + b[t0][:, None]
    return out


@helion.kernel(static_shapes=True)
def by_the_tiles_identity(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for t0, t1 in hl.tile(a.shape):
        out[t0, t1] = a[t0, t1] + b[t1]
    return out


@helion.kernel(static_shapes=True)
def a_size_of_one_under_a_tile(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for t0, t1 in hl.tile(a.shape):
        out[t0, t1] = a[t0, t1] + b[t0, t1]
    return out


@helion.kernel(static_shapes=True)
def a_tile_over_one(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for t0, t1 in hl.tile(a.shape):
        out[t0, t1] = a[t0, t1].sum(1, keepdim=True) + a[t0, t1]
    return out


@helion.kernel(static_shapes=True)
def sums_meet_their_size(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        row = a[tile, :]
        out[tile, :] = row / row.sum(-1, keepdim=True) * w[None, :]
    return out


@helion.kernel(static_shapes=True)
def columns_added_up(a: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([a.size(1)], dtype=a.dtype, device=a.device)
    for tile in hl.tile(a.size(0)):
        hl.atomic_add(out, [slice(None)], a[tile, :].sum(0))
    return out


@helion.kernel(static_shapes=True)
def a_number_stored_everywhere(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = 1.5
    return out


@helion.kernel(static_shapes=True)
def a_row_stored_in_every_row(a: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = row[:]
    return out


@helion.kernel(static_shapes=True)
def a_column_stored_in_every_column(a: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for t0, t1 in hl.tile(a.shape):
        out[t0, t1] = column[t0][:, None]
    return out


@helion.kernel(static_shapes=True)
def a_number_of_a_tensor(a: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = a[tile, :] * scale
    return out


@helion.kernel(static_shapes=True)
def a_number_read_by_nothing(a: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = a[tile, :] * scale[()]
    return out


@helion.kernel(static_shapes=True)
def arange_from_a_tile(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        rows = hl.arange(tile.begin, tile.begin + tile.block_size)
        out[tile] = a[rows] * 2
    return out


@helion.kernel(static_shapes=True)
def arange_with_a_step(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty([a.size(0), 8], dtype=a.dtype, device=a.device)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = a[tile, hl.arange(0, 16, 2)]
    return out


@helion.kernel(static_shapes=True)
def torch_arange_with_a_step(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty([a.size(0), 8], dtype=a.dtype, device=a.device)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = a[tile, torch.arange(1, 17, 2, device=a.device)]
    return out


@helion.kernel(static_shapes=True)
def halves(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty([a.size(0), a.size(1) // 2], dtype=a.dtype, device=a.device)
    b = hl.register_block_size(16, 32)
    for tile_m, tile_n in hl.tile([a.size(0), a.size(1)], block_size=[None, b]):
        pairs = a[tile_m, tile_n].reshape(tile_m.block_size, b // 2, 2)
        out[tile_m, tile_n.begin // 2 + hl.arange(b // 2)] = pairs.sum(-1)
    return out


@helion.kernel(static_shapes=True)
def chunks_of_three(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty([a.size(0), 12], dtype=a.dtype, device=a.device)
    for tile in hl.tile(a.size(0)):
        q, k, v = a[tile, :].chunk(3, -1)
        out[tile, :] = q * k + v
    return out


@helion.kernel(static_shapes=True)
def gated_linear_unit(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty([a.size(0), 18], dtype=a.dtype, device=a.device)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = torch.nn.functional.glu(a[tile, :], dim=-1)
    return out


@helion.kernel(static_shapes=True)
def joined(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty([a.size(0), a.size(1) + b.size(1)], dtype=a.dtype, device=a.device)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = torch.cat([a[tile, :], b[tile, :]], dim=1) * 2
    return out


@helion.kernel(static_shapes=True)
def repeated(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty([a.size(0), 3 * a.size(1)], dtype=a.dtype, device=a.device)
    for tile in hl.tile(a.size(0)):
        out[tile, :] = a[tile, :].repeat_interleave(3, dim=1)
    return out


def cases() -> Iterator[Case]:
    a = torch.randn(24, 36)
    yield "a_row_of_one_tile", a_row_of_one_tile, (a, a[:, 0].clone()), lambda a, b: a + b[:, None]
    yield "by_the_tiles_identity", by_the_tiles_identity, (a, a[0].clone()), lambda a, b: a + b
    one = torch.randn(1, 36), torch.randn(24, 1), torch.randn(1, 1)
    for n, b in enumerate(one):
        yield f"a_size_of_one_under_a_tile_{n}", a_size_of_one_under_a_tile, (a, b), torch.add
    yield "a_tile_over_one", a_tile_over_one, (a[:, :1].contiguous(),), lambda a: a + a
    positive = a.abs()[:, :23].contiguous()
    yield (
        "sums_meet_their_size",
        sums_meet_their_size,
        (positive, positive[0].clone()),
        lambda a, w: a / a.sum(-1, True) * w,
    )
    yield "columns_added_up", columns_added_up, (a[:, :23].contiguous(),), lambda a: a.sum(0)
    yield "a_number_stored_everywhere", a_number_stored_everywhere, (a,), lambda a: torch.full_like(a, 1.5)
    yield "a_row_stored_in_every_row", a_row_stored_in_every_row, (a, a[3].clone()), lambda a, r: r.expand_as(a)
    columns = a, a[:, 3].clone()
    yield (
        "a_column_stored_in_every_column",
        a_column_stored_in_every_column,
        columns,
        lambda a, c: c[:, None].expand_as(a),
    )
    yield "a_number_of_a_tensor", a_number_of_a_tensor, (a, torch.tensor(1.25)), torch.mul
    yield "a_number_read_by_nothing", a_number_read_by_nothing, (a, torch.tensor(1.25)), torch.mul
    yield "arange_from_a_tile", arange_from_a_tile, (torch.randn(64),), lambda a: a * 2
    yield "arange_with_a_step", arange_with_a_step, (a,), lambda a: a[:, 0:16:2]
    yield "torch_arange_with_a_step", torch_arange_with_a_step, (a,), lambda a: a[:, 1:17:2]
    yield "halves", halves, (torch.randn(24, 64),), lambda a: a.view(24, 32, 2).sum(-1)
    yield "chunks_of_three", chunks_of_three, (a,), lambda a: a[:, :12] * a[:, 12:24] + a[:, 24:]
    yield "gated_linear_unit", gated_linear_unit, (a,), lambda a: torch.nn.functional.glu(a, dim=-1)
    yield "joined", joined, (a, torch.randn(24, 5)), lambda a, b: torch.cat([a, b], 1) * 2
    yield "repeated", repeated, (a,), lambda a: a.repeat_interleave(3, dim=1)
