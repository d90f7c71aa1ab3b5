"""Indexes of databases: trees that are descended, keys that are ordered in place, visits, cubes of sums."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger

FANOUT = 16


def make_tree(n: int, queries: int, values: torch.dtype = torch.int64) -> Any:
    keys = torch.arange(n, dtype=values) * 3 + 1
    levels = [keys]
    while levels[-1].numel() > FANOUT:
        levels.append(levels[-1][::FANOUT])
    levels = [torch.cat([x, x.new_full((-len(x) % FANOUT,), torch.iinfo(values).max)]) for x in levels]
    return [x.view(-1, FANOUT) for x in reversed(levels)], torch.randint(0, 3 * n, (queries,), dtype=values), n


def tree_ref(levels: Any, wanted: Any, n: int) -> Any:
    keys = levels[-1].flatten()[:n]
    place = torch.searchsorted(keys, wanted, right=True) - 1
    return place, torch.where(place >= 0, keys[place.clamp(min=0)] == wanted, False)


@stranger(make_tree, tree_ref, {"n": 300, "queries": 67}, {"n": 1 << 24, "queries": 1 << 22})
@tileflow.kernel
def descend_tree(levels: list[torch.Tensor], wanted, n: int):
    """Bayer and McCreight, 1972, by nodes of sixteen keys: the last key that is not above each one wanted."""
    place = torch.empty(wanted.shape, dtype=torch.int64, device=wanted.device)
    found = torch.empty(wanted.shape, dtype=torch.bool, device=wanted.device)
    for t in tfl.tile(wanted.numel()):
        key = wanted[t]
        node = torch.zeros_like(key)
        for level in levels:
            children = level[node, :]
            slot = (children <= key[:, None]).sum(-1) - 1
            node = node * FANOUT + slot.clamp(min=0)
        last = levels[-1].view(-1)
        hit = last[node]
        place[t] = torch.where(hit > key, -1, node)
        found[t] = hit == key
    return place, found


def bitonic_ref(keys: Any, payload: Any) -> Any:
    order = keys.argsort(dim=-1, stable=True)
    return keys.gather(1, order), payload.gather(1, order)


@stranger(
    lambda rows, n: (torch.rand(rows, n).argsort(1).to(torch.int32), torch.randn(rows, n).half()),
    bitonic_ref,
    {"rows": 3, "n": 1024},
    {"rows": 8, "n": 1 << 18},
)
@tileflow.kernel
def bitonic_sort(keys, payload):
    """Batcher, 1968: keys and what goes with them ordered in memory, by exchanges of pairs that lie ever nearer."""
    rows, n = keys.shape
    assert n & (n - 1) == 0, "a power of two"
    keys, payload = keys.clone(), payload.clone()
    length = 2
    while length <= n:
        distance = length // 2
        while distance > 0:
            for r, t in tfl.tile([rows, n // 2]):
                left = t.index // distance * (2 * distance) + t.index % distance
                right = left + distance
                rising = (left & length) == 0
                a, b = keys[r, left], keys[r, right]
                swap = (a > b) == rising[None, :]
                x, y = payload[r, left], payload[r, right]
                keys[r, left] = torch.where(swap, b, a)
                keys[r, right] = torch.where(swap, a, b)
                payload[r, left], payload[r, right] = torch.where(swap, y, x), torch.where(swap, x, y)
            distance //= 2
        length *= 2
    return keys, payload


def make_visits(users: int, events: int) -> Any:
    gaps = torch.where(torch.rand(users, events) < 0.2, 2000, 60) * torch.rand(users, events)
    return gaps.cumsum(1).long(), torch.randint(0, 50, (events, users), dtype=torch.int16).T, 300


def visits_ref(times: Any, value: Any, gap: int) -> Any:
    users, events = times.shape
    begins = torch.nn.functional.pad(times.diff(dim=1) > gap, (1, 0), value=True)
    number = begins.cumsum(1) - 1
    sums = torch.zeros(users, events, dtype=torch.int64).scatter_add_(1, number, value.long())
    far = torch.iinfo(torch.int64).max
    first = torch.full((users, events), far).scatter_reduce_(1, number, times, "amin")
    last = torch.full((users, events), -1).scatter_reduce_(1, number, times, "amax")
    spent = torch.where(last >= 0, last - first, -1)
    top = torch.full((users, events), -1).scatter_reduce_(1, number, value.long(), "amax")
    running = torch.stack(
        [torch.where(number == number[:, i : i + 1], value, 0)[:, : i + 1].amax(1) for i in range(events)], 1
    )
    return number.int(), begins.sum(1), sums, spent, top.int(), running


def later(a: Any, b: Any) -> Any:
    """Whether a visit begins in either part, and the largest value since it did."""
    return a[0] | b[0], torch.where(b[0], b[1], torch.maximum(a[1], b[1]))


@stranger(make_visits, visits_ref, {"users": 7, "events": 45}, {"users": 1 << 15, "events": 1000}, loops=True)
@tileflow.kernel
def visits_of_users(times, value, gap: int):
    """Visits end where a user rests: which one each event is of, and the sum, span and maximum of each visit."""
    users, events = times.shape
    number = torch.empty(users, events, dtype=torch.int32, device=times.device)
    running = torch.empty_like(value)
    counts = torch.empty(users, dtype=torch.int64, device=times.device)
    sums = torch.zeros(users, events, dtype=torch.int64, device=times.device)
    first = torch.full_like(sums, torch.iinfo(torch.int64).max)
    last = torch.full_like(sums, -1)
    top = torch.full_like(number, -1)
    for u in tfl.tile(users):
        now = times[u, :]
        begins = torch.diff(now, dim=1, prepend=now[:, :1] - gap - 1) > gap
        which = begins.int().cumsum(1, dtype=torch.int32) - 1
        _, most = tfl.associative_scan(later, (begins, value[u, :]), dim=1)
        number[u, :] = which
        running[u, :] = most
        counts[u] = begins.sum(1)
        row = u.index[:, None]
        tfl.atomic_add(sums, [row, which], value[u, :])
        tfl.atomic_min(first, [row, which], now)
        tfl.atomic_max(last, [row, which], now)
        tfl.atomic_max(top, [row, which], most)
    spent = torch.empty_like(sums)
    for u, e in tfl.tile([users, events]):
        spent[u, e] = torch.where(last[u, e] < 0, -1, last[u, e] - first[u, e])
    return number, counts, sums, spent, top, running


def make_facts(n: int, sizes: tuple[int, ...]) -> Any:
    columns = {f"d{i}": torch.randint(0, size, (n,), dtype=torch.int8) for i, size in enumerate(sizes)}
    return columns, sizes, torch.randint(-100, 100, (n,), dtype=torch.int32), torch.rand(n) < 0.9


def cube_ref(columns: Any, sizes: Any, amount: Any, valid: Any) -> Any:
    out = {}
    for mask in range(1 << len(sizes)):
        key = torch.zeros(len(amount), dtype=torch.int64)
        total = 1
        for i, size in enumerate(sizes):
            if mask >> i & 1:
                key, total = key * size + columns[f"d{i}"].long(), total * size
        sums = torch.zeros(total, dtype=torch.int64).index_add_(0, key[valid], amount[valid].long())
        counts = torch.zeros(total, dtype=torch.int32).index_add_(0, key[valid], torch.ones_like(amount[valid]))
        out["".join(str(i) for i in range(len(sizes)) if mask >> i & 1)] = (sums, counts)
    return out


@stranger(make_facts, cube_ref, {"n": 203, "sizes": (3, 5, 4)}, {"n": 1 << 24, "sizes": (12, 31, 7)})
@tileflow.kernel
def data_cube(columns: dict[str, torch.Tensor], sizes: tuple[int, ...], amount, valid):
    """Gray and others, 1997: sums and counts by each choice of columns; the finest by its rows, others out of finer."""
    dims = len(sizes)
    full = 1
    for size in sizes:
        full *= size
    device = amount.device
    finest = (torch.zeros(full, dtype=torch.int64, device=device), torch.zeros(full, dtype=torch.int32, device=device))
    for t in tfl.tile(amount.size(0)):
        key = torch.zeros([t], dtype=torch.int32)
        for name, size in zip(columns, sizes, strict=True):
            key = key * size + columns[name][t]
        tfl.atomic_add(finest[0], [key], amount[t], extra_mask=valid[t])
        tfl.atomic_add(finest[1], [key], 1, extra_mask=valid[t])
    found = {"".join(map(str, range(dims))): finest}
    for mask in reversed(range((1 << dims) - 1)):
        left = next(i for i in range(dims) if not mask >> i & 1)  # the column that is summed over
        source = "".join(str(i) for i in range(dims) if (mask | 1 << left) >> i & 1)
        inner = 1
        for i in range(left + 1, dims):
            if mask >> i & 1:
                inner *= sizes[i]
        sums, counts = (x.view(-1, sizes[left], inner) for x in found[source])
        outer = sums.size(0)
        total, number = sums.new_empty(outer, inner), counts.new_empty(outer, inner)
        for a, b in tfl.tile([outer, inner]):
            total[a, b] = sums[a, :, b].sum(1)
            number[a, b] = counts[a, :, b].sum(1, dtype=torch.int32)
        found["".join(str(i) for i in range(dims) if mask >> i & 1)] = (total.view(-1), number.view(-1))
    return found
