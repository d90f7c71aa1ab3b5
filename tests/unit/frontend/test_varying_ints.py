"""Ints of host code that one call's launches have many of are run-time values; few are constants."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def layers(x: torch.Tensor, w: torch.Tensor, n: int) -> torch.Tensor:
    """What a model of ``n`` layers does, one launch each: every second one scales."""
    out = torch.empty(n, x.size(0), w.size(2))
    for i in range(n):
        for a, c in tfl.tile([x.size(0), w.size(2)]):
            value = x[a, :] @ w[i, :, c]
            out[i, a, c] = value * 2 if i % 2 else value
    return out


@tileflow.kernel
def strides(x: torch.Tensor) -> torch.Tensor:
    """Each element meets those ever farther from it; host code swallows what it can."""
    x, failed = x.clone(), 0
    distance = 1
    while distance < x.size(0):
        try:
            for t in tfl.tile(x.size(0) // 2):
                left = t.index // distance * (2 * distance) + t.index % distance
                low, high = x[left], x[left + distance]
                x[left], x[left + distance] = torch.minimum(low, high), torch.maximum(low, high)
        except Exception:
            failed += 1
        distance *= 2
    assert not failed
    return x


@tileflow.kernel
def two_loops(x: torch.Tensor, n: int) -> torch.Tensor:
    """An int that varies in one loop is a constant of another one."""
    out = torch.empty(n, x.size(0))
    for i in range(n):
        for t in tfl.tile(x.size(0)):
            out[i, t] = x[t] * i
        if i < 2:
            for u in tfl.tile(x.size(0)):
                out[i, u] += i
    return out


def launches(kernel: Any, *args: Any, mode: str = "static") -> list[str]:
    lowered = kernel.lower(args, H200, mode=mode)
    return [source.text for source in lowered.emit(lowered.default)]


def layers_of(n: int) -> tuple[Any, ...]:
    return torch.empty(20, 32, device="meta"), torch.empty(n, 32, 48, device="meta"), n


def test_a_loop_of_many_launches_is_built_once_for_each_way_through_it() -> None:
    """It was built once for each launch: a model of 80 layers took minutes at its first call."""
    assert len(launches(layers, *layers_of(8))) == 8
    many = launches(layers, *layers_of(80))
    assert len(many) == 2 and all("    i,\n" in text for text in many)
    assert many == launches(layers, *layers_of(80))


def test_a_sort_in_memory_is_one_kernel() -> None:
    assert len(launches(strides, torch.empty(1 << 8, device="meta"))) == 8
    assert len(launches(strides, torch.empty(1 << 20, device="meta"))) == 1


def test_each_loop_decides_for_itself() -> None:
    first, *others = launches(two_loops, torch.empty(1000, device="meta"), 30)
    assert "    i,\n" in first and len(others) == 2
    assert all("    i,\n" not in text for text in others)
