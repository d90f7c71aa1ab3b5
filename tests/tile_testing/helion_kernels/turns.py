"""Loops whose end the kernel finds while it runs: ``while`` on scalars."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


@helion.kernel(static_shapes=True)
def searched(table: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Binary search: ints that change together, a load by one of them, an if inside."""
    out = torch.empty([wanted.size(0)], dtype=torch.int32, device=table.device)
    for i in hl.grid(wanted.size(0)):
        low, high = 0, table.size(0)
        key = wanted[i]
        while low < high:
            middle = (low + high) // 2
            if table[middle] < key:
                low = middle + 1
            else:
                high = middle
        out[i] = low
    return out


@helion.kernel(static_shapes=False)
def common_divisors(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Euclid's: variables that swap."""
    out = torch.empty_like(a)
    for i in hl.grid(a.size(0)):
        x, y = a[i], b[i]
        while y != 0:
            x, y = y, x % y
        out[i] = x
    return out


@helion.kernel(static_shapes=True)
def followed(next_: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Lists in memory, with a count, an ``and`` and a ``continue``; a loop in a loop."""
    out = torch.zeros([start.size(0)], dtype=torch.int32, device=start.device)
    for i in hl.grid(start.size(0)):
        total = 0
        for j in range(2):
            at = start[i] + j
            steps = 0
            while at >= 0 and steps < 5:
                steps += 1
                at = next_[at]
                if at == 3:
                    continue
                total = total + 1
        out[i] = total
    return out


@helion.kernel(static_shapes=True)
def stored_in_turns(counts: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    for i in hl.grid(counts.size(0)):
        n = counts[i]
        while n > 0:
            n = n - 1
            m = n
            while m > 0:
                out[i, n] = out[i, n] + 1.0
                m = m // 2
    return out


@helion.kernel(static_shapes=True)
def python_first(x: torch.Tensor) -> torch.Tensor:
    """Turns that Python counts, and then those that the kernel does."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        value, n = x[tile], 3
        while n > 0:
            value = value * 2
            n -= 1
        out[tile] = value
    return out


@helion.kernel(static_shapes=True)
def beside_tiles(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Tiles before and after a loop of scalars."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        factor, total = 1.0, x[tile, :].sum(1)
        while factor < limit[0]:
            factor = factor * 2
        out[tile, :] = x[tile, :] * factor + total[:, None]
    return out


def _followed(next_: list[int], starts: list[int]) -> torch.Tensor:
    found = []
    for start in starts:
        total = 0
        for j in range(2):
            at, steps = start + j, 0
            while at >= 0 and steps < 5:
                steps, at = steps + 1, next_[at]
                total += at != 3
        found.append(total)
    return torch.tensor(found, dtype=torch.int32)


def _turns(counts: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.tensor([[n.bit_length() if n < c else 0 for n in range(out.size(1))] for c in counts.tolist()]).float()


def cases() -> Iterator[Case]:
    table, wanted = torch.randn(37).sort().values, torch.randn(9)
    yield "searched", searched, (table, wanted), lambda t, w: torch.searchsorted(t, w).int()
    a, b = torch.tensor([12, 35, 7, 0], dtype=torch.int32), torch.tensor([18, 14, 0, 5], dtype=torch.int32)
    yield "common_divisors", common_divisors, (a, b), torch.gcd
    links = torch.tensor([1, 3, 0, 4, -1, 2], dtype=torch.int32)
    starts = torch.tensor([0, 2, 4], dtype=torch.int32)
    yield "followed", followed, (links, starts), lambda n, s: _followed(n.tolist(), s.tolist())
    yield "stored_in_turns", stored_in_turns, (torch.tensor([3, 0, 6]), torch.zeros(3, 8)), _turns
    yield "python_first", python_first, (torch.randn(20),), lambda x: 8 * x
    x = torch.randn(6, 5)
    yield "beside_tiles", beside_tiles, (x, torch.tensor([5.0])), lambda x, n: 8 * x + x.sum(1, keepdim=True)
