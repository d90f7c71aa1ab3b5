"""Kernels whose loads and stores can go by descriptor, and a check of each under several block sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def causal_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The loop over k ends inside the tensors, where a box holds elements that do not count."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(tile_m.begin + 3):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def batched(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A scalar index: boxes with a dimension of one."""
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        for tile_m in tfl.tile(x.size(1)):
            out[b, tile_m, :] = x[b, tile_m, :] @ y[b, :, :]
    return out


@tileflow.kernel
def row_sums(x: torch.Tensor) -> torch.Tensor:
    """The largest of a row: lanes past its end must not read as zero."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        best = tfl.full([tile_m], float("-inf"))
        for tile_n in tfl.tile(x.size(1)):
            best = torch.maximum(best, x[tile_m, tile_n].amax(1))
        out[tile_m] = best
    return out


@tileflow.kernel
def middle(x: torch.Tensor) -> torch.Tensor:
    """A grid over the inner part of a tensor: what is stored may not touch the rest."""
    out = torch.zeros_like(x)
    for tile_m, tile_n in tfl.tile([3, 4], [x.size(0), x.size(1)]):
        out[tile_m, tile_n] = x[tile_m, tile_n] * 2
    return out


@tileflow.kernel
def turned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What is stored lies columns first."""
    out = torch.empty(y.size(1), x.size(0), dtype=x.dtype, device=x.device).t()
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


def _middle(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    out[3:, 4:] = x[3:, 4:] * 2
    return out


def _causal(x: torch.Tensor, y: torch.Tensor, block: int) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1))
    for m in range(x.size(0)):
        k = m // block * block + 3
        out[m] = x[m, :k] @ y[:k]
    return out


_X, _Y = torch.randn(37, 44), torch.randn(44, 56)
_B, _C = torch.randn(3, 35, 32), torch.randn(3, 32, 32)
_XT, _YT, _CT = (
    torch.randn(44, 36).t(),
    torch.randn(56, 44).t(),
    torch.randn(32, 32, 3).permute(2, 1, 0).contiguous().mT,
)
REFERENCES: dict[str, tuple[Any, tuple[torch.Tensor, ...], Callable[..., torch.Tensor]]] = {
    "product": (product, (_X, _Y), lambda x, y, block: x @ y),
    "causal_product": (causal_product, (_X, _Y), _causal),
    "batched": (batched, (_B, _C), lambda x, y, block: x @ y),
    "batched_turned": (batched, (_B, _CT), lambda x, y, block: x @ y),
    "right_turned": (product, (_X, _YT), lambda x, y, block: x @ y),
    "left_turned": (product, (_XT, _Y), lambda x, y, block: x @ y),
    "all_turned": (turned, (_XT, _YT), lambda x, y, block: x @ y),
    "row_sums": (row_sums, (-_X.abs() - 1,), lambda x, block: x.amax(1)),
    "middle": (middle, (_X,), lambda x, block: _middle(x)),
}


# where lanes inside a tensor do not count, or are not to read as zero, loads go by pointers
BOXES: dict[str, set[str]] = {
    "product": {"x", "y", "out"},
    "causal_product": {"out"},
    "batched": {"x", "y", "out"},
    "batched_turned": {"x", "y", "out"},
    "right_turned": {"x", "y", "out"},
    "left_turned": {"x", "y", "out"},
    "all_turned": {"x", "y", "out"},
    "row_sums": set(),
    "middle": {"x", "out"},
}


def check(name: str, device: str = "cpu") -> list[str]:
    """What is wrong; empty when every config is right and goes by descriptors."""
    kernel, args, reference = REFERENCES[name]
    lowered = kernel.lower(args, target("nvidia-h200"))
    wrong = []
    for block in (16, 32):
        blocks = {k.name: block for k in lowered.space.knobs if k.role == "block"}
        boxes = {k.name: "descriptor" for k in lowered.space.knobs if k.name.endswith(".access")}
        config = lowered.space.repair(lowered.default.with_(blocks | boxes))
        sources = lowered.emit(config)
        boxes_used = {a.path for s in sources for a in s.args if a.kind == "descriptor"}
        if boxes_used != BOXES[name]:
            wrong.append(f"descriptors of {boxes_used} under {config}")
        result = kernel.compile(lowered, config, device)(*(a.to(device) for a in args)).cpu()
        expected = reference(*args, block=block)
        if not torch.allclose(result, expected, atol=1e-4, rtol=1e-4):
            wrong.append(f"{name} under {config}: off by {(result - expected).abs().max()}")
    return wrong
