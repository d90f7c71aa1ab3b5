"""Grids and roads: flows of power, outages, loads along paths, lanes of cars, modes of travel, timetables."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_network(buses: Any, scenarios: Any) -> Any:
    degree = torch.randint(2, 7, (buses,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), degree.cumsum(0)]).int()
    nnz = 4 * buses if offsets.is_meta else int(offsets[-1])
    return (
        offsets,
        torch.randint(0, buses, (nnz,)).int(),
        randn(nnz) * 0.5,
        randn(nnz) * 5,
        1 + 0.05 * randn(scenarios, buses),
        0.2 * randn(scenarios, buses),
        randn(scenarios, buses),
        randn(scenarios, buses),
    )


def mismatch_ref(offsets: Any, column: Any, g: Any, b: Any, v: Any, angle: Any, p: Any, q: Any) -> Any:
    row = torch.repeat_interleave(torch.arange(offsets.numel() - 1), offsets.long().diff())
    j = column.long()
    dp, dq = [], []
    for vs, ts in zip(v.split(32), angle.split(32), strict=True):
        apart = ts[:, row] - ts[:, j]
        c, s = torch.cos(apart), torch.sin(apart)
        real = torch.zeros_like(vs).index_add(1, row, vs[:, j] * (g * c + b * s))
        imaginary = torch.zeros_like(vs).index_add(1, row, vs[:, j] * (g * s - b * c))
        dp.append(vs * real)
        dq.append(vs * imaginary)
    dp, dq = torch.cat(dp) - p, torch.cat(dq) - q
    return dp, dq, torch.maximum(dp.abs().amax(1), dq.abs().amax(1))


@stranger(make_network, mismatch_ref, {"buses": 37, "scenarios": 5}, {"buses": 8192, "scenarios": 512})
@tileflow.kernel
def power_flow_mismatch(offsets, column, g, b, v, angle, p, q):
    """Tinney and Hart, 1967: what Newton's method has still to settle at each bus, in many scenarios."""
    scenarios, n = v.shape
    dp = torch.empty_like(v)
    dq = torch.empty_like(v)
    worst = torch.zeros(scenarios, device=v.device)
    for ts, ti in tfl.tile([scenarios, n]):
        start = offsets[ti]
        here = angle[ts, ti]
        real = tfl.zeros([ts, ti])
        imaginary = tfl.zeros([ts, ti])
        for tj in tfl.jagged_tile(offsets[ti + 1] - start):
            at = start[:, None] + tj.index[None, :]
            j = column[at]
            apart = here[:, :, None] - angle[ts, j]
            c, s = torch.cos(apart), torch.sin(apart)
            real += (v[ts, j] * (g[at] * c + b[at] * s)).sum(-1)
            imaginary += (v[ts, j] * (g[at] * s - b[at] * c)).sum(-1)
        mp = v[ts, ti] * real - p[ts, ti]
        mq = v[ts, ti] * imaginary - q[ts, ti]
        dp[ts, ti] = mp
        dq[ts, ti] = mq
        tfl.atomic_max(worst, [ts], torch.maximum(mp.abs(), mq.abs()).amax(1))
    return dp, dq, worst


def outages_ref(factor: Any, flow: Any, rating: Any) -> Any:
    load, over = [], []
    for k in torch.arange(flow.numel()).split(1024):
        after = flow[:, None] + factor[:, k].to(flow.dtype) * flow[k]
        own = torch.arange(flow.numel())[:, None] == k[None, :]
        share = torch.where(own, 0.0, after.abs() / rating[:, None])
        load.append(share.amax(0))
        over.append(torch.relu(share - 1).square().sum(0))
    return torch.cat(load), torch.cat(over)


@stranger(
    lambda lines: (torch.randn(lines, lines).mul(0.1).half(), randn(lines), torch.rand(lines) + 0.5),
    outages_ref,
    {"lines": 43},
    {"lines": 12288},
)
@tileflow.kernel
def line_outages(factor, flow, rating):
    """Wood and Wollenberg: flows after the loss of each line by distribution factors, and how overloaded lines are."""
    n = flow.numel()
    load = torch.empty_like(flow)
    over = torch.empty_like(flow)
    for tk in tfl.tile(n):
        worst = tfl.zeros([tk])
        sum_over = tfl.zeros([tk])
        for tl in tfl.tile(n):
            after = flow[tl][:, None] + factor[tl, tk] * flow[tk][None, :]
            share = after.abs() / rating[tl][:, None]
            share = torch.where(tl.index[:, None] == tk.index[None, :], 0.0, share)
            worst = torch.maximum(worst, share.amax(0))
            sum_over += torch.relu(share - 1).square().sum(0)
        load[tk] = worst
        over[tk] = sum_over
    return load, over


def make_trips(origins: Any, nodes: Any, trips: Any) -> Any:
    node = torch.arange(nodes)  # whose predecessor is of a lower number, and nobody for the first
    tree = torch.where(torch.rand(origins, nodes) < 0.7, node // 2, node - 1)
    return (
        torch.where(node > 0, tree, -1).int(),
        torch.randint(0, origins, (trips,)).int(),
        torch.randint(0, nodes, (trips,)).int(),
        torch.randint(1, 5, (trips,)).int(),
    )


def loading_ref(tree: Any, origin: Any, goal: Any, cars: Any) -> Any:
    n = tree.size(1)
    load = torch.zeros(tree.numel(), dtype=torch.int32)
    hops = torch.zeros_like(origin)
    node, o = goal.long(), origin.long()
    for _ in range(n):
        before = tree[o, node].long()
        on = before >= 0
        if not on.any():
            break
        load.index_add_(0, (o * n + node)[on], cars[on])
        hops += on.int()
        node = torch.where(on, before, node)
    return load.view(tree.shape), hops


@stranger(
    make_trips,
    loading_ref,
    {"origins": 3, "nodes": 19, "trips": 23},
    {"origins": 256, "nodes": 4096, "trips": 1 << 18},
)
@tileflow.kernel
def all_or_nothing(tree, origin, goal, cars):
    """Dial, 1971: cars put on all links of the shortest paths to their goals, walked backwards."""
    load = torch.zeros_like(tree)
    hops = torch.empty_like(goal)
    for i in tfl.grid(goal.numel()):
        node = goal[i]
        before = tree[origin[i], node]
        n = 0
        while before >= 0:
            tfl.atomic_add(load, [origin[i], node], cars[i])
            node = before
            before = tree[origin[i], node]
            n += 1
        hops[i] = n
    return load, hops


def make_lanes(lanes: Any, cars: Any, steps: Any) -> Any:
    place = torch.rand(lanes, 5 * cars).argsort(1)[:, :cars].sort(1).values
    return (
        place.int(),
        torch.randint(0, 6, (lanes, cars)).int(),
        torch.rand(steps, lanes, cars) < 0.3,
        5 * cars,
        5,
    )


def lanes_ref(place: Any, speed: Any, dawdle: Any, length: int, fastest: int) -> Any:
    passed = torch.zeros(place.size(0), dtype=torch.int64)
    for slow in dawdle:
        gap = (place.roll(-1, 1) - place - 1) % length
        speed = torch.minimum((speed + 1).clamp(max=fastest), gap)
        speed = (speed - slow.int()).clamp(min=0)
        place = place + speed
        passed += (place >= length).sum(1)
        place = place % length
    return place.int(), speed.int(), passed


@stranger(
    make_lanes,
    lanes_ref,
    {"lanes": 5, "cars": 11, "steps": 4},
    {"lanes": 8192, "cars": 256, "steps": 32},
)
@tileflow.kernel
def traffic_lanes(place, speed, dawdle, length, fastest):
    """Nagel and Schreckenberg, 1992: cars in cells of circular lanes, who brake, dawdle and move at once."""
    lanes = place.size(0)
    after = torch.empty_like(place)
    fast = torch.empty_like(speed)
    passed = torch.empty(lanes, dtype=torch.int64, device=place.device)
    for t in tfl.tile(lanes):
        x = place[t, :]
        v = speed[t, :]
        count = tfl.zeros([t], dtype=torch.int64)
        for i in range(dawdle.size(0)):
            ahead = torch.roll(x, -1, dims=1)
            gap = (ahead - x - 1) % length
            v = torch.minimum(torch.clamp(v + 1, max=fastest), gap)
            v = torch.where(dawdle[i, t, :] & (v > 0), v - 1, v)
            x = x + v
            count += (x >= length).sum(1)
            x = x % length
        after[t, :] = x
        fast[t, :] = v
        passed[t] = count
    return after, fast, passed


def nested_ref(utility: Any, trips: Any, near: float, far: float) -> Any:
    u = utility.float() if utility.dtype == torch.bfloat16 else utility
    a, b = u[..., :2] / near, u[..., 2:] / far
    inclusive = torch.stack([near * a.logsumexp(-1), far * b.logsumexp(-1)], -1)
    nest = inclusive.softmax(-1)
    share = torch.cat([nest[..., :1] * a.softmax(-1), nest[..., 1:] * b.softmax(-1)], -1)
    return (share * trips[..., None]).sum(1), inclusive.logsumexp(-1)


@stranger(
    lambda o, d, dtype=torch.float32: (randn(o, d, 5, dtype=dtype), torch.rand(o, d) * 9, 0.5, 0.75),
    nested_ref,
    {"o": 7, "d": 29},
    {"o": 2048, "d": 2048, "dtype": torch.bfloat16},
)
@tileflow.kernel
def nested_logit(utility, trips, near, far):
    """McFadden, 1978: shares of five modes in two nests for each pair of zones, and trips by mode."""
    o, d, modes = utility.shape
    by_mode = torch.empty(o, modes, device=trips.device)
    access = torch.empty_like(trips)
    for to in tfl.tile(o):
        total = tfl.zeros([to, modes])
        for td in tfl.tile(d):
            u = utility[to, td, :].float()
            private, public = u[:, :, :2] / near, u[:, :, 2:] / far
            one = near * torch.logsumexp(private, -1)
            two = far * torch.logsumexp(public, -1)
            both = torch.logaddexp(one, two)
            access[to, td] = both
            first = torch.softmax(private, -1) * torch.exp(one - both)[:, :, None]
            second = torch.softmax(public, -1) * torch.exp(two - both)[:, :, None]
            share = torch.cat([first, second], -1)
            total += (share * trips[to, td][:, :, None]).sum(1)
        by_mode[to, :] = total
    return by_mode, access


def make_timetable(q: Any, stops: Any, c: Any) -> Any:
    leave = torch.randint(0, 1000, (c,)).sort().values
    return (
        torch.randint(0, stops, (q,)).int(),
        torch.randint(0, 500, (q,)).int(),
        torch.randint(0, stops, (c,)).int(),
        torch.randint(0, stops, (c,)).int(),
        leave.int(),
        (leave + torch.randint(1, 60, (c,))).int(),
        stops,
    )


def timetable_ref(start: Any, when: Any, a: Any, b: Any, leave: Any, arrive: Any, stops: int) -> Any:
    best = torch.full((start.numel(), stops), 1 << 30, dtype=torch.int32)
    best[torch.arange(start.numel()), start.long()] = when.int()
    rows = zip(a.tolist(), b.tolist(), leave.tolist(), arrive.tolist(), strict=True)
    for i, j, t0, t1 in rows:
        best[:, j] = torch.where(best[:, i] <= t0, best[:, j].clamp(max=t1), best[:, j])
    return best


@stranger(
    make_timetable,
    timetable_ref,
    {"q": 19, "stops": 7, "c": 45},
    {"q": 1 << 17, "stops": 64, "c": 512},
)
@tileflow.kernel
def connection_scan(start, when, a, b, leave, arrive, stops):
    """Dibbelt et al., 2013: earliest arrivals at all stops, by all connections in the order in which they leave."""
    q = start.numel()
    best = torch.full((q, stops), 1 << 30, dtype=torch.int32, device=start.device)
    for t in tfl.tile(q):
        best[t.index, start[t]] = when[t]
        for c in range(leave.numel()):
            reached = best[t, a[c]] <= leave[c]
            now = best[t, b[c]]
            best[t, b[c]] = torch.where(reached, torch.minimum(now, arrive[c]), now)
    return best
