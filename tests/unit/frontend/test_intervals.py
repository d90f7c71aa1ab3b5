"""What the numbers of an index can be: read off the loads of the kernel that is written with it."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def looked_up(table, index):
    out = torch.empty_like(index, dtype=table.dtype)
    for t in tfl.tile(index.size(0)):
        out[t] = table[index[t] % table.size(0)]
    return out


@tileflow.kernel
def bisected(x, edges, depth: tfl.constexpr):
    out = torch.empty_like(x, dtype=torch.int64)
    for t in tfl.tile(x.size(0)):
        low = torch.zeros_like(x[t], dtype=torch.int64)
        high = low + edges.size(0)
        for _ in range(depth):
            middle = (low + high) // 2
            right = edges[torch.clamp(middle, 0, edges.size(0) - 1)] < x[t]
            low = torch.where(right, middle + 1, low)
            high = torch.where(right, high, middle)
        out[t] = low
    return out


def load_of_table(table_size: int) -> str:
    index = torch.zeros(300, dtype=torch.int64)
    lowered = looked_up.lower((torch.zeros(table_size), index), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)
    (line,) = [line for line in source.text.splitlines() if "tl.load(table" in line]
    return line


def test_a_remainder_by_a_size_of_0_is_no_index():
    assert "mask=t_mask," in load_of_table(7)
    assert "mask=t_mask & (v1 < 0)," in load_of_table(0)


@pytest.mark.timeout(60)
def test_a_search_of_many_steps_is_lowered_in_linear_time():
    """Each step reads the last one's bounds twice: by paths there are 2 ** 14 ways to the first."""
    bisected.lower((torch.zeros(300), torch.zeros(1000), 14), target("nvidia-h200"))
