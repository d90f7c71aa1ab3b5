"""Sets of a graph's vertices, ranks within groups, joins of sorted columns, lists of documents."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_independent(n: int, most: int) -> Any:
    counts = torch.randint(0, most, (n,))
    start = F.pad(counts.cumsum(0), (1, 0))
    state = torch.randint(-1, 1, (n,), dtype=torch.int8)
    return start, torch.randint(0, n, (int(start[-1]),), dtype=torch.int32), torch.randperm(n).int(), state


def independent_ref(start: Any, neighbour: Any, priority: Any, state: Any) -> Any:
    n = len(state)
    row = torch.repeat_interleave(torch.arange(n), start.diff())
    col = neighbour.long()
    undecided = state == 0
    rival = undecided[col] & (priority[col] > priority[row])
    beaten = torch.zeros(n, dtype=torch.long).index_add(0, row, rival.long()) > 0
    chosen = undecided & ~beaten
    near = torch.zeros(n, dtype=torch.long).index_add(0, row, chosen[col].long()) > 0
    new = torch.where(chosen, 1, torch.where(undecided & near, -1, state)).to(torch.int8)
    return new, (new == 0).any()


@stranger(make_independent, independent_ref, {"n": 31, "most": 5}, {"n": 1_000_000, "most": 17})
@tileflow.kernel
def independent_set_round(start, neighbour, priority, state):
    """Luby, 1986: vertices that no undecided neighbour precedes join the set, and their neighbours leave."""
    n = state.numel()
    chosen = torch.zeros_like(state, dtype=torch.bool)
    new = state.clone()
    more = torch.zeros((), dtype=torch.bool, device=state.device)
    for v in tfl.grid(n):
        if state[v] == 0:
            mine = priority[v]
            beaten = False
            for te in tfl.tile(start[v], start[v + 1]):
                u = neighbour[te]
                beaten |= ((state[u] == 0) & (priority[u] > mine) & (te.index < start[v + 1])).any()
            chosen[v] = not beaten
    tfl.barrier()
    for v in tfl.grid(n):
        if chosen[v]:
            new[v] = 1
        elif state[v] == 0:
            near = False
            for te in tfl.tile(start[v], start[v + 1]):
                near = near or chosen[neighbour[te]].any()
            if near:
                new[v] = -1
            else:
                more[()] = True
    return new, more


def ranks_ref(group: Any, key: Any) -> Any:
    n = len(key)
    new_group = torch.cat([torch.ones(1, dtype=torch.bool), group[1:] != group[:-1]])
    new_key = torch.cat([torch.ones(1, dtype=torch.bool), key[1:] != key[:-1]]) | new_group
    i = torch.arange(n)
    first = torch.where(new_group, i, 0).cummax(0).values
    tie = torch.where(new_key, i, 0).cummax(0).values
    dense = new_key.long().cumsum(0)
    return i - first + 1, tie - first + 1, dense - dense[first] + 1


def make_ranks(n: int, groups: int) -> Any:
    group = torch.randint(0, groups, (n,)).sort().values.to(torch.int16)
    key = torch.randint(0, 5, (n,)).to(torch.float16)
    order = torch.argsort(group.long() * 10 + key.long())
    return group, key[order]


@stranger(make_ranks, ranks_ref, {"n": 43, "groups": 4}, {"n": 4_194_304, "groups": 2000})
@tileflow.kernel
def window_ranks(group, key):
    """SQL's ROW_NUMBER, RANK and DENSE_RANK over sorted rows: three scans, each carried from block to block."""
    (n,) = key.shape
    number, rank, dense = (torch.empty(n, dtype=torch.int64, device=key.device) for _ in range(3))
    for _ in tfl.grid(1):
        first, tie, count, base = 0, 0, 0, 0
        for t in tfl.tile(n):
            i = t.index
            before = (i - 1).clamp(min=0)
            new_group = (i == 0) | (group[t] != group[before])
            new_key = new_group | (key[t] != key[before])
            starts = torch.where(new_group, i, first).cummax(0)[0]
            ties = torch.where(new_key, i, tie).cummax(0).values
            keys = count + new_key.int().cumsum(0)
            bases = torch.where(new_group, keys - 1, base).cummax(dim=0).values
            number[t] = i - starts + 1
            rank[t] = ties - starts + 1
            dense[t] = keys - bases
            first, tie, count, base = starts.max(), ties.max(), keys.max(), bases.max()
    return number, rank, dense


def join_ref(left: Any, right: Any, weights: Any) -> Any:
    low, high = torch.searchsorted(right, left), torch.searchsorted(right, left, right=True)
    sums = F.pad(weights.to(torch.float64).cumsum(0), (1, 0))
    return high - low, torch.where(high > low, low, -1), (sums[high] - sums[low]).to(torch.float32)


@stranger(
    lambda m, n: (
        torch.randint(-50, 50, (m,)).sort(descending=True).values,
        torch.randint(-50, 50, (n,)).sort().values,
        torch.rand(n).half(),
    ),
    join_ref,
    {"m": 26, "n": 38},
    {"m": 1_000_000, "n": 3000},
)
@tileflow.kernel
def sorted_join(left, right, weights):
    """A join of sorted columns: for each row how many match it, the first of them, and the sum of their weights."""
    m, n = len(left), len(right)
    count = torch.empty(m, dtype=torch.int64, device=left.device)
    first = torch.full_like(count, -1)
    total = torch.zeros(m, device=left.device)

    def bound(value, strictly: bool):
        low, high = torch.zeros_like(value), torch.full_like(value, n)
        while (low < high).any():
            middle = (low + high) // 2
            there = right[middle.clamp(max=n - 1)]
            goes = (there < value) if strictly else (there <= value)
            open_ = low < high
            low, high = torch.where(open_ & goes, middle + 1, low), torch.where(open_ & ~goes, middle, high)
        return low

    for tm in tfl.tile(m):
        value = left[tm]
        lo, hi = bound(value, True), bound(value, strictly=False)
        count[tm] = hi - lo
        first[tm] = torch.where(hi > lo, lo, -1)
        at, acc = lo.clone(), tfl.zeros([tm])
        while (at < hi).any():
            acc += torch.where(at < hi, weights[torch.minimum(at, torch.tensor(n - 1))], 0)
            at += 1
        total[tm] = acc
    return count, first, total
