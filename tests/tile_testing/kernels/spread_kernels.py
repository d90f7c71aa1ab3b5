"""Launches of few programs with loops over tiles: whose turns are independent, and whose are not."""

from __future__ import annotations

from itertools import pairwise

import torch

import tileflow
import tileflow.language as tfl


def routed_inputs(
    experts: int, m: int, n: int, k: int, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, w = torch.randn(m, k, dtype=dtype, device=device), torch.randn(experts, k, n, dtype=dtype, device=device)
    shares = torch.arange(experts + 1, device=device) ** 2
    return x, w, (shares * m // experts**2).int()


def routed_reference(x: torch.Tensor, w: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    bounds = offsets.tolist()
    return torch.cat([x[b:e] @ w[i] for i, (b, e) in enumerate(pairwise(bounds))])


@tileflow.kernel(inputs=routed_inputs, reference=routed_reference)
def routed(x: torch.Tensor, w: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """A program an expert, which runs through all tiles of its rows and columns."""
    k = x.shape[1]
    experts, _, n = w.shape
    out = torch.empty(x.shape[0], n, dtype=x.dtype, device=x.device)
    for expert in tfl.grid(experts):
        for tile_m in tfl.tile(offsets[expert], offsets[expert + 1]):
            for tile_n in tfl.tile(n):
                acc = tfl.zeros([tile_m, tile_n])
                for tile_k in tfl.tile(k):
                    acc = torch.addmm(acc, x[tile_m, tile_k], w[expert, tile_k, tile_n])
                out[tile_m, tile_n] = acc
    return out


def rows_inputs(b: int, m: int, n: int, device: str = "cpu") -> tuple[torch.Tensor]:
    return (torch.randn(b, m, n, device=device),)


@tileflow.kernel(inputs=rows_inputs)
def sums_of_rows(x: torch.Tensor) -> torch.Tensor:
    """Bounds known before the launch."""
    out = torch.empty(x.shape[:2], device=x.device)
    for batch in tfl.grid(x.size(0)):
        for tile_m in tfl.tile(x.size(1)):
            acc = tfl.zeros([tile_m])
            for tile_n in tfl.tile(x.size(2)):
                acc = acc + x[batch, tile_m, tile_n].sum(1)
            out[batch, tile_m] = acc
    return out


@tileflow.kernel(inputs=rows_inputs)
def running(x: torch.Tensor) -> torch.Tensor:
    """Each turn adds to what the turns before it found."""
    out = torch.empty(x.shape[:2], device=x.device)
    for batch in tfl.grid(x.size(0)):
        before = tfl.zeros([])
        for tile_m in tfl.tile(x.size(1)):
            acc = tfl.zeros([tile_m])
            for tile_n in tfl.tile(x.size(2)):
                acc = acc + x[batch, tile_m, tile_n].sum(1)
            before = before + acc.sum()
            out[batch, tile_m] = acc + before
    return out


@tileflow.kernel(inputs=rows_inputs)
def overwritten(x: torch.Tensor) -> torch.Tensor:
    """Every turn stores to one element: the last one's stays."""
    out = torch.empty(x.size(0), device=x.device)
    for batch in tfl.grid(x.size(0)):
        for tile_m in tfl.tile(x.size(1)):
            acc = tfl.zeros([tile_m])
            for tile_n in tfl.tile(x.size(2)):
                acc = acc + x[batch, tile_m, tile_n].sum(1)
            out[batch] = acc.sum()
    return out


@tileflow.kernel(inputs=rows_inputs)
def read_again(x: torch.Tensor) -> torch.Tensor:
    """A turn reads the row that another turn writes."""
    out = torch.zeros(x.shape[:2], device=x.device)
    for batch in tfl.grid(x.size(0)):
        for tile_m in tfl.tile(x.size(1)):
            acc = tfl.zeros([tile_m]) + out[batch, 0]
            for tile_n in tfl.tile(x.size(2)):
                acc = acc + x[batch, tile_m, tile_n].sum(1)
            out[batch, tile_m] = acc
    return out


@tileflow.kernel(inputs=rows_inputs)
def after_a_sum(x: torch.Tensor) -> torch.Tensor:
    """A loop beside it, which every program would repeat."""
    out = torch.empty(x.shape[:2], device=x.device)
    for batch in tfl.grid(x.size(0)):
        whole = tfl.zeros([])
        for tile_n in tfl.tile(x.size(2)):
            whole = whole + x[batch, 0, tile_n].sum()
        for tile_m in tfl.tile(x.size(1)):
            acc = tfl.zeros([tile_m])
            for tile_n in tfl.tile(x.size(2)):
                acc = acc + x[batch, tile_m, tile_n].sum(1)
            out[batch, tile_m] = acc + whole
    return out


@tileflow.kernel(inputs=rows_inputs)
def beside_a_store(x: torch.Tensor) -> torch.Tensor:
    """A store beside it, which every program would do."""
    out = torch.empty(x.size(0), x.size(1) + 1, device=x.device)
    for batch in tfl.grid(x.size(0)):
        out[batch, x.size(1)] = x[batch, 0, 0]
        for tile_m in tfl.tile(x.size(1)):
            acc = tfl.zeros([tile_m])
            for tile_n in tfl.tile(x.size(2)):
                acc = acc + x[batch, tile_m, tile_n].sum(1)
            out[batch, tile_m] = acc
    return out


@tileflow.kernel(inputs=rows_inputs)
def behind_a_whole(x: torch.Tensor) -> torch.Tensor:
    """A maximum of all, in front of the loop: in one piece each program has it, as a loop it would be repeated."""
    out = torch.empty_like(x)
    for batch in tfl.tile(x.size(0)):
        most = x[batch, :, :].amax((1, 2))[:, None, None]
        for tile_m, tile_n in tfl.tile([x.size(1), x.size(2)]):
            out[batch, tile_m, tile_n] = x[batch, tile_m, tile_n] / most
    return out
