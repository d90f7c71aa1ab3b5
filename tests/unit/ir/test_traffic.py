"""What a call must move, no more of a tensor than its accesses name, and what it must compute."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels.computed_kernels import int4_scaled, looked_up, meta_of

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.target import target


@tileflow.kernel
def picked(logits, labels):
    out = torch.empty(labels.size(0), device=logits.device)
    for rows in tfl.tile(labels.size(0)):
        out[rows] = logits[rows.index, labels[rows]]
    return out


@tileflow.kernel
def rows_of_a_table(table, ids):
    out = torch.empty(ids.size(0), table.size(1), device=table.device)
    for rows, columns in tfl.tile(out.shape):
        out[rows, columns] = table[ids[rows], columns]
    return out


@tileflow.kernel
def shuffled(x):
    """Every element, by an index that also says which program asks."""
    n, m = x.shape
    out = torch.empty_like(x)
    flat, given = out.view(-1), x.view(-1)
    for row in tfl.grid(n):
        for columns in tfl.tile(m):
            place = row * m + (columns.index + 1) % m
            flat[place] = given[place]
    return out


@tileflow.kernel
def copied(x):
    out = torch.empty_like(x)
    for rows, columns in tfl.tile(x.shape):
        out[rows, columns] = x[rows, columns]
    return out


X, IDS = torch.empty(512, 32000), torch.zeros(512, dtype=torch.int64)


@pytest.mark.parametrize(
    ("kernel", "args", "nbytes"),
    [
        (picked, (X, IDS), 512 * (4 + 8 + 4)),  # it was the whole matrix: a share of the roofline of 4088 %
        (rows_of_a_table, (X, IDS[:16]), 16 * (8 + 2 * 4 * 32000)),
        (shuffled, (X[:64],), 2 * 4 * X[:64].numel()),
        (copied, (X,), 2 * 4 * X.numel()),
    ],
    ids=lambda value: value.__name__ if isinstance(value, Kernel) else "",
)
def test_bytes(kernel: Kernel, args: tuple[torch.Tensor, ...], nbytes: int) -> None:
    assert kernel.lower(args, target("nvidia-h200")).traffic.bytes == nbytes


@pytest.mark.parametrize("kernel", [int4_scaled, looked_up], ids=["rows", "columns"])
def test_operations_of_turns_whose_length_is_the_authors(kernel: Kernel) -> None:
    """One turn was counted, and of the packed dimension one number a byte: 1/64 of the products, where the bytes of a
    slice that starts with the turn were 1/64 of its tensor's."""
    m, n, k = 256, 512, 2048
    x, packed, scales, *others = args = meta_of(kernel, m=m, n=n, k=k)
    found = kernel.lower(args, target("nvidia-h200")).traffic
    assert 2 * m * n * k <= found.flops < 1.1 * 2 * m * n * k and found.flop_dtype == "bfloat16"
    tensors = [x, packed, scales, *others]
    assert found.bytes == sum(t.numel() * t.element_size() for t in tensors) + 2 * m * n


@tileflow.kernel
def summed_again(x, y):
    m, n = x.size(0), y.size(1)
    out = torch.empty(m, n, device=x.device)
    for rows, columns in tfl.tile([m, n]):
        total, running = tfl.zeros([rows, columns]), tfl.zeros([rows, columns])
        for _turn in tfl.tile(4096, block_size=32):
            total += (x[rows, :] @ y[:, columns]).abs()
            running = tfl.dot(x[rows, :], y[:, columns], acc=running)
        out[rows, columns] = total + running
    return out


def test_what_each_turn_computes_alike_is_counted_once() -> None:
    """A compiler may take it out of the loop, so that no bound on the time has it in each turn; a sum has all turns."""
    m, k, n, turns = 256, 64, 512, 128
    args = torch.empty(m, k, dtype=torch.float16), torch.empty(k, n, dtype=torch.float16)
    found = summed_again.lower(tuple(a.to("meta") for a in args), target("nvidia-h200")).traffic
    product, additions = 2 * m * n * k, m * n * (turns + 2)
    assert product * (turns + 1) <= found.flops <= product * (turns + 1) + 2 * additions
