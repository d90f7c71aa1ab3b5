"""How many numbers a program takes whose sums all programs share."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def moments(x: torch.Tensor) -> torch.Tensor:
    """Sixteen sums of all numbers, which one statement adds to."""
    out = torch.zeros(16, device=x.device)
    for t in tfl.tile(x.numel()):
        powers = x[t][None, :] * torch.arange(16, device=x.device)[:, None]
        tfl.atomic_add(out, [slice(None)], powers.sum(1))
    return out


@tileflow.kernel
def distances(x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """How far eight matrices are from their mean: two dimensions of blocks, of which one is 1 at first."""
    out = torch.zeros(8, device=x.device)
    for i, j in tfl.tile(mean.shape):
        tfl.atomic_add(out, [slice(None)], (x[:, i, j] - mean[i, j]).square().sum(dim=(1, 2)))
    return out


@tileflow.kernel
def own_sums(x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """Sums of which each row of programs has its own."""
    out = torch.zeros(mean.size(0), device=x.device)
    for i, j in tfl.tile(mean.shape):
        tfl.atomic_add(out, [i], (x[:, i, j] - mean[i, j]).square().sum(dim=(0, 2)))
    return out


def elements(kernel: tileflow.Kernel, *args: torch.Tensor) -> int:
    default = kernel.lower(args, H200).default
    return max(size for name, size in default.items if name.startswith("block:") and isinstance(size, int))


@pytest.mark.parametrize(("numbers", "more"), [(1 << 16, 1), (1 << 24, 2)])
def test_a_statement_counts_with_each_element_that_it_adds_to(numbers: int, more: int) -> None:
    few = elements(moments, torch.empty(1 << 16, device="meta"))
    assert elements(moments, torch.empty(numbers, device="meta")) >= more * few


def test_of_several_blocks_the_one_that_is_more_than_one_grows() -> None:
    x = torch.empty(8, 4096, 4096, device="meta")
    assert elements(distances, x, x[0]) >= 2 * elements(own_sums, x, x[0])
