"""Rows of different lengths, one after another in memory; ``offsets`` says where each begins."""

import itertools

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[2, 8, 4]))
def jagged_mean(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    rows, m = offsets.size(0) - 1, x.size(1)
    out = torch.zeros([rows, m], dtype=x.dtype, device=x.device)
    flat = x.view(-1)
    for tile_b in hl.tile(rows):
        starts = offsets[tile_b]
        lengths = offsets[tile_b.index + 1] - starts
        longest = lengths.amax()
        for tile_m in hl.tile(m):
            total = hl.zeros([tile_b, tile_m], dtype=x.dtype)
            for tile_k in hl.tile(longest):
                place = starts[:, None] + tile_k.index[None, :]
                place = place[:, :, None] * m + tile_m.index[None, None, :]
                inside = (tile_k.index[None, :] < lengths[:, None])[:, :, None] & (tile_m.index < m)[None, None, :]
                total = total + hl.load(flat, [place], extra_mask=inside).sum(dim=1)
            count = lengths.to(torch.float32)
            out[tile_b, tile_m] = torch.where(count[:, None] > 0, total / count[:, None], 0.0)
    return out


def mean_reference(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    parts = [x[a:b] for a, b in itertools.pairwise(offsets)]
    return torch.stack([p.mean(0) if len(p) else torch.zeros(x.size(1)) for p in parts])


@helion.kernel(config=helion.Config(block_sizes=[2, 8, 4]))
def jagged_sum(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    rows, m = offsets.size(0) - 1, x.size(1)
    out = torch.zeros([rows, m], dtype=x.dtype, device=x.device)
    flat = x.view(-1)
    for tile_b in hl.tile(rows):
        starts = offsets[tile_b]
        lengths = offsets[tile_b.index + 1] - starts
        for tile_m in hl.tile(m):
            total = hl.zeros([tile_b, tile_m], dtype=x.dtype)
            for tile_k in hl.jagged_tile(lengths):
                place = starts[:, None] + tile_k.index[None, :]
                place = place[:, :, None] * m + tile_m.index[None, None, :]
                total = total + hl.load(flat, [place]).sum(dim=1)
            out[tile_b, tile_m] = total
    return out


def sum_reference(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[a:b].sum(0) for a, b in itertools.pairwise(offsets)])


@helion.kernel(config=helion.Config(block_sizes=[8, 4, 4]))
def jagged_softmax(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    rows, m = offsets.size(0) - 1, x.size(1)
    out = torch.zeros_like(x)
    for row in hl.grid(rows):
        start, end = offsets[row], offsets[row + 1]
        for tile_m in hl.tile(m):
            highest = hl.full([tile_m], float("-inf"), dtype=torch.float32)
            total = hl.zeros([tile_m], dtype=torch.float32)
            for tile_k in hl.tile(start, end):
                part = x[tile_k, tile_m]
                higher = torch.maximum(highest, part.amax(dim=0))
                total = total * torch.exp(highest - higher) + torch.exp(part - higher[None, :]).sum(dim=0)
                highest = higher
            for tile_k in hl.tile(start, end):
                out[tile_k, tile_m] = torch.exp(x[tile_k, tile_m] - highest[None, :]) / total[None, :]
    return out


@helion.kernel(config=helion.Config(block_sizes=[2, 8, 4, 4]))
def jagged_softmax_tiles(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    rows, m = offsets.size(0) - 1, x.size(1)
    out = torch.zeros(x.numel(), dtype=x.dtype, device=x.device)
    flat = x.view(-1)
    for tile_b in hl.tile(rows):
        starts = offsets[tile_b]
        lengths = offsets[tile_b.index + 1] - starts
        longest = lengths.amax()
        for tile_m in hl.tile(m):
            highest = hl.full([tile_b, tile_m], -1e30, dtype=x.dtype)
            total = hl.full([tile_b, tile_m], 0.0, dtype=x.dtype)
            for tile_k in hl.tile(longest):
                place = (starts[:, None] + tile_k.index[None, :])[:, :, None] * m + tile_m.index[None, None, :]
                inside = (tile_k.index[None, :] < lengths[:, None])[:, :, None] & (tile_m.index < m)[None, None, :]
                part = hl.load(flat, [place], extra_mask=inside)
                higher = torch.maximum(highest, torch.where(inside, part, -1e30).amax(dim=1))
                powers = torch.exp(torch.where(inside, part - higher[:, None, :], float("-inf")))
                total = total * torch.exp(highest - higher) + powers.sum(dim=1)
                highest = higher
            for tile_k in hl.tile(longest):
                place = (starts[:, None] + tile_k.index[None, :])[:, :, None] * m + tile_m.index[None, None, :]
                inside = (tile_k.index[None, :] < lengths[:, None])[:, :, None] & (tile_m.index < m)[None, None, :]
                part = hl.load(flat, [place], extra_mask=inside)
                result = torch.exp(part - highest[:, None, :]) / total[:, None, :]
                hl.store(out, [place], result, extra_mask=inside)
    return out.reshape(x.shape)


def softmax_reference(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.softmax(x[a:b], 0) for a, b in itertools.pairwise(offsets)])


@helion.kernel(config=helion.Config(block_sizes=[2, 8, 4]))
def jagged_dense_add(x: torch.Tensor, offsets: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows = offsets.size(0) - 1
    assert rows == y.size(0)
    out = torch.zeros_like(y)
    for tile_b in hl.tile(rows):
        starts = offsets[tile_b]
        lengths = offsets[tile_b.index + 1] - starts
        longest = lengths.amax()
        for tile_n in hl.tile(longest):
            part = hl.load(
                x, [starts[:, None] + tile_n.index[None, :]], extra_mask=tile_n.index[None, :] < lengths[:, None]
            )
            out[tile_b, tile_n] = y[tile_b, tile_n] + part
        for tile_n in hl.tile(longest, out.size(1)):
            out[tile_b, tile_n] = y[tile_b, tile_n]
    return out


def dense_reference(x: torch.Tensor, offsets: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = y.clone()
    for row, (a, b) in enumerate(itertools.pairwise(offsets)):
        out[row, : b - a] += x[a:b]
    return out


def cases():
    offsets = torch.tensor([0, 3, 3, 14, 19, 21])
    x = torch.randn(21, 11)
    yield "jagged_mean", jagged_mean, (x, offsets), mean_reference
    yield "jagged_sum", jagged_sum, (x, offsets), sum_reference
    yield "jagged_softmax", jagged_softmax, (x, offsets), softmax_reference
    yield "jagged_softmax_tiles", jagged_softmax_tiles, (x, offsets), softmax_reference
    yield "jagged_dense_add", jagged_dense_add, (x[:, 0].contiguous(), offsets, torch.randn(5, 17)), dense_reference
