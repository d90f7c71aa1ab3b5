"""Networks and pictures of data that go several ways: landmarks, tapes, liquids, machines of two sides, messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .cohorts import hashed
from .stranger import randn, stranger


def landmark_ref(q: Any, k: Any, v: Any, marks: int, turns: int = 6) -> Any:
    q, k, v = (x.double() for x in (q, k, v))
    _, n, d = q.shape
    ql, kl = (x.unflatten(1, (marks, n // marks)).mean(2) for x in (q, k))
    first = torch.softmax(q @ kl.mT / d**0.5, -1)
    middle = torch.softmax(ql @ kl.mT / d**0.5, -1)
    last = torch.softmax(ql @ k.mT / d**0.5, -1)
    eye = torch.eye(marks, dtype=torch.float64)
    z = middle.mT / (middle.abs().sum(1).amax(-1) * middle.abs().sum(2).amax(-1))[:, None, None]
    for _ in range(turns):
        az = middle @ z
        z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
    return (first @ (z @ (last @ v))).bfloat16()


@stranger(
    lambda heads, n, d, marks: (*(randn(heads, n, d, dtype=torch.bfloat16) for _ in range(3)), marks),
    landmark_ref,
    {"heads": 3, "n": 96, "d": 16, "marks": 16},
    {"heads": 64, "n": 8192, "d": 64, "marks": 64},
)
@tileflow.kernel
def landmark_attention(q, k, v, marks: int, turns: int = 6):
    """Xiong and others, 2021 (Nyström): attention by a few means of rows, whose inverse comes by products."""
    heads, n, d = q.shape
    per = n // marks
    scale = d**-0.5
    means = [torch.empty(heads, marks, d, dtype=torch.float32, device=q.device) for _ in range(2)]
    for h, m in tfl.tile([heads, marks]):
        for x, mean in zip((q, k), means, strict=True):
            mean[h, m, :] = x.view(heads, marks, per, d)[h, m, :, :].float().mean(2)
    ql, kl = means
    inner = torch.empty(heads, marks, marks, device=q.device)
    mixed = torch.empty(heads, marks, d, device=q.device)
    for h in tfl.grid(heads):
        landmarks = ql[h, :, :] * scale
        inner[h, :, :] = torch.softmax(landmarks @ kl[h, :, :].T, dim=-1)
        top = torch.full([marks], -float("inf"))
        total = torch.zeros([marks])
        acc = torch.zeros([marks, d])
        for t in tfl.tile(n):
            scores = landmarks @ k[h, t, :].float().T
            new = torch.maximum(top, scores.amax(1))
            p = torch.exp(scores - new[:, None])
            old = torch.exp(top - new)
            total = total * old + p.sum(1)
            acc = acc * old[:, None] + p @ v[h, t, :].float()
            top = new
        mixed[h, :, :] = acc / total[:, None]
    core = torch.empty_like(mixed)
    for h in tfl.grid(heads):
        a = inner[h, :, :]
        eye = torch.eye(marks)
        z = a.T / (a.sum(0).amax() * a.sum(1).amax())
        for _ in range(turns):
            az = a @ z
            z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
        core[h, :, :] = z @ mixed[h, :, :]
    out = torch.empty_like(q)
    for h, t in tfl.tile([heads, n]):
        scores = torch.baddbmm(torch.zeros(h, t, marks), q[h, t, :].float(), kl[h, :, :].mT, alpha=scale)
        out[h, t, :] = (torch.softmax(scores, -1) @ core[h, :, :]).to(out.dtype)
    return out


@dataclass(frozen=True)
class Head:
    """What a controller tells a head at each step."""

    key: torch.Tensor
    strength: torch.Tensor
    gate: torch.Tensor
    shift: torch.Tensor
    sharpness: torch.Tensor
    erase: torch.Tensor
    add: torch.Tensor


def make_head(batch: int, steps: int, width: int, slots: int) -> Any:
    head = Head(
        randn(batch, steps, width), F.softplus(randn(batch, steps)), torch.rand(batch, steps),
        torch.softmax(randn(batch, steps, 3), -1), 1 + F.softplus(randn(batch, steps)),
        torch.rand(batch, steps, width), randn(batch, steps, width),
    )  # fmt: skip
    return head, torch.randn(batch, slots, width), torch.softmax(randn(batch, slots), -1)


def turing_ref(head: Head, memory: Any, weights: Any) -> Any:
    m, w = memory.double(), weights.double()
    key, strength, gate, shift, sharp, erase, add = (
        getattr(head, name).double() for name in ("key", "strength", "gate", "shift", "sharpness", "erase", "add")
    )
    reads = []
    for s in range(key.size(1)):
        content = torch.softmax(strength[:, s, None] * F.cosine_similarity(m, key[:, s, None], dim=-1), -1)
        mixed = gate[:, s, None] * content + (1 - gate[:, s, None]) * w
        moved = sum(shift[:, s, i : i + 1] * mixed.roll(i - 1, 1) for i in range(3))
        w = moved ** sharp[:, s, None]
        w = w / w.sum(1, keepdim=True)
        reads.append((w[..., None] * m).sum(1))
        m = m * (1 - w[..., None] * erase[:, s, None]) + w[..., None] * add[:, s, None]
    return torch.stack(reads, 1).float(), m.float(), w.float()


@stranger(
    make_head,
    turing_ref,
    {"batch": 3, "steps": 5, "width": 11, "slots": 24},
    {"batch": 1024, "steps": 64, "width": 32, "slots": 128},
)
@tileflow.kernel
def turing_memory(head: Head, memory, weights):
    """Graves and others, 2014: a tape that is read and written by a head that moves by what it looks for."""
    batch, _, width = memory.shape
    steps = head.key.size(1)
    reads = torch.empty(batch, steps, width, device=memory.device)
    new_memory, new_weights = torch.empty_like(memory), torch.empty_like(weights)
    for b in tfl.grid(batch):
        tape, w = memory[b, :, :], weights[b, :]
        for s in range(steps):
            alike = F.cosine_similarity(tape, head.key[b, s, :][None, :], dim=-1)
            content = torch.softmax(head.strength[b, s] * alike, dim=0)
            gate = head.gate[b, s]
            w = torch.lerp(w, content, gate)
            w = head.shift[b, s, 0] * w.roll(-1, 0) + head.shift[b, s, 1] * w + head.shift[b, s, 2] * w.roll(1, 0)
            w = w ** head.sharpness[b, s]
            w = w / w.sum()
            reads[b, s, :] = (w[:, None] * tape).sum(0)
            tape = tape * (1 - torch.outer(w, head.erase[b, s, :])) + torch.outer(w, head.add[b, s, :])
        new_memory[b, :, :] = tape
        new_weights[b, :] = w
    return reads, new_memory, new_weights


def liquid_ref(x: Any, w: Any, u: Any, bias: Any, tau: Any, a: Any, gaps: Any, unfolds: int = 4) -> Any:
    x, w, u, bias, tau, a = (y.double() for y in (x, w, u, bias, tau, a))
    h = torch.zeros(x.size(1), w.size(1), dtype=torch.float64)
    out = []
    for s in range(x.size(0)):
        drive = x[s] @ w + bias
        step = gaps[:, s, None].double() / unfolds
        for _ in range(unfolds):
            f = torch.sigmoid(drive + h @ u)
            h = (h + step * f * a) / (1 + step * (1 / tau + f))
        out.append(h)
    return torch.stack(out).half(), h.float()


@stranger(
    lambda steps, batch, d, hidden: (
        randn(steps, batch, d, dtype=torch.float16),
        randn(d, hidden, dtype=torch.float16) / 4,
        randn(hidden, hidden, dtype=torch.float16) / 4,
        torch.randn(hidden),
        0.5 + torch.rand(hidden),
        torch.randn(hidden),
        torch.rand(batch, steps) + 0.1,
    ),
    liquid_ref,
    {"steps": 5, "batch": 13, "d": 24, "hidden": 32},
    {"steps": 64, "batch": 4096, "d": 64, "hidden": 64},
)
@tileflow.kernel
def liquid_cells(x, w, u, bias, tau, a, gaps, unfolds: int = 4):
    """Hasani and others, 2021: cells whose time constants depend on what comes in, by fused steps between samples."""
    steps, batch, _ = x.shape
    hidden = w.size(1)
    out = torch.empty(steps, batch, hidden, dtype=x.dtype, device=x.device)
    final = torch.empty(batch, hidden, device=x.device)
    for b in tfl.tile(batch):
        h = torch.zeros(b, hidden)
        for s in range(steps):
            drive = (
                torch.addmm(bias[:].float(), x[s, b, :], w[:, :])
                if x.dtype == torch.float32
                else (tfl.dot(x[s, b, :], w[:, :]) + bias[:])
            )
            step = gaps[b, s][:, None] / unfolds
            for _ in range(unfolds):
                f = torch.sigmoid(tfl.dot(h, u[:, :].float(), acc=drive))
                h = (h + step * f * a[:]) / (1 + step * (tau[:].reciprocal() + f))
            out[s, b, :] = h.half()
        final[b, :] = h
    return out, final


def boltzmann_ref(v: Any, w: Any, bv: Any, bh: Any, seed: int, rate: float, turns: int = 2) -> Any:
    n, hidden = v.size(0), w.size(1)
    w64, v0 = w.double(), v.double()
    at = lambda width: torch.arange(n)[:, None] * width + torch.arange(width)  # noqa: E731
    ph0 = torch.sigmoid(v0 @ w64 + bh)
    h = (hashed(seed, at(hidden)) < ph0).double()
    for turn in range(turns):
        v1 = (hashed(seed + 2 * turn + 1, at(v.size(1))) < torch.sigmoid(h @ w64.T + bv)).double()
        ph = torch.sigmoid(v1 @ w64 + bh)
        h = (hashed(seed + 2 * turn + 2, at(hidden)) < ph).double()
    return (
        (w64 + rate / n * (v0.T @ ph0 - v1.T @ ph)).float(),
        (bv + rate * (v0 - v1).mean(0)).float(),
        (bh + rate * (ph0 - ph).mean(0)).float(),
    )


@stranger(
    lambda n, visible, hidden: (
        torch.rand(n, visible) < 0.3,
        randn(visible, hidden) / 8,
        torch.randn(visible),
        torch.randn(hidden),
        77,
        0.1,
    ),
    boltzmann_ref,
    {"n": 21, "visible": 18, "hidden": 34},
    {"n": 8192, "visible": 784, "hidden": 512},
)
@tileflow.kernel
def boltzmann_step(v, w, bv, bh, seed: int, rate: float, turns: int = 2):
    """Hinton, 2002: a step of contrastive divergence; both sides of a machine are sampled in turns."""
    n, visible = v.shape
    hidden = w.size(1)

    def side(source, weights, bias, number):
        width = weights.size(1)
        chance = torch.empty(n, width, device=w.device)
        sample = torch.empty(n, width, dtype=torch.bool, device=w.device)
        return source, weights, bias, number, chance, sample

    chain = [side(v, w, bh, seed)]
    for turn in range(turns):
        chain.append(side(chain[-1][-1], w.T, bv, seed + 2 * turn + 1))
        chain.append(side(chain[-1][-1], w, bh, seed + 2 * turn + 2))
    for source, weights, bias, number, chance, sample in chain:
        for i, j in tfl.tile([n, weights.size(1)]):
            acc = tfl.zeros([i, j])
            for k in tfl.tile(weights.size(0)):
                acc += source[i, k].float() @ weights[k, j]
            p = torch.sigmoid(acc + bias[j])
            chance[i, j] = p
            place = i.index.long()[:, None] * weights.size(1) + j.index[None, :]
            sample[i, j] = hashed(number, place) < p
    v1, ph0, ph = chain[-2][-1], chain[0][4], chain[-1][4]
    new_w, new_bv, new_bh = torch.empty_like(w), torch.empty_like(bv), torch.empty_like(bh)
    for a, b in tfl.tile([visible, hidden]):
        data, model = tfl.zeros([a, b]), tfl.zeros([a, b])
        for t in tfl.tile(n):
            data = torch.addmm(data, v[t, a].T.float(), ph0[t, b])
            model = torch.addmm(model, v1[t, a].T.float(), ph[t, b])
        new_w[a, b] = w[a, b] + rate / n * (data - model)
    for a in tfl.tile(visible):
        total = tfl.zeros([a])
        for t in tfl.tile(n):
            total += (v[t, a].int() - v1[t, a].int()).sum(0)
        new_bv[a] = bv[a] + rate * total / n
    for b in tfl.tile(hidden):
        total = tfl.zeros([b])
        for t in tfl.tile(n):
            total += (ph0[t, b] - ph[t, b]).sum(0)
        new_bh[b] = bh[b] + rate * total / n
    return new_w, new_bv, new_bh


def gromov_ref(c1: Any, c2: Any, plan: Any) -> Any:
    a, b, t = c1.double(), c2.double(), plan.double()
    p, q = t.sum(1), t.sum(0)
    cost = (a.square() @ p)[:, None] + (b.square() @ q)[None] - 2 * a @ t @ b.T
    return cost.float(), (cost * t).sum().float(), (cost.argmin(1)).int()


@stranger(
    lambda n, m: (torch.rand(n, n), torch.rand(m, m), torch.rand(n, m) / (n * m)),
    gromov_ref,
    {"n": 23, "m": 31},
    {"n": 2048, "m": 1536},
)
@tileflow.kernel
def gromov_costs(c1, c2, plan):
    """Peyré and others, 2016: what a plan costs between spaces of which only the inner distances are known."""
    n, m = plan.shape
    half = torch.empty(n, m, device=plan.device)
    left, right = plan.new_zeros(n), plan.new_zeros(m)
    for i, j in tfl.tile([n, m]):
        acc = tfl.zeros([i, j])
        for k in tfl.tile(n):
            acc += c1[i, k] @ plan[k, j]
        half[i, j] = acc
        tfl.atomic_add(left, [i], plan[i, j].sum(1))
        tfl.atomic_add(right, [j], plan[i, j].sum(0))
    squares = []
    for c, own in ((c1, left), (c2, right)):
        found = torch.empty_like(own)
        for i in tfl.tile(c.size(0)):
            acc = tfl.zeros([i])
            for k in tfl.tile(c.size(1)):
                acc += torch.mv(c[i, k] ** 2, own[k])
            found[i] = acc
        squares.append(found)
    cost = torch.empty_like(plan)
    total = torch.zeros((), device=plan.device)
    for i, j in tfl.tile([n, m]):
        acc = tfl.zeros([i, j])
        for k in tfl.tile(m):
            acc += half[i, k] @ c2[j, k].T
        value = squares[0][i][:, None] + squares[1][j][None, :] - 2 * acc
        cost[i, j] = value
        tfl.atomic_add(total, [], (value * plan[i, j]).sum())
    nearest = torch.empty(n, dtype=torch.int32, device=plan.device)
    for i in tfl.tile(n):
        nearest[i] = cost[i, :].argmin(dim=1)
    return cost, total, nearest


def affinity_ref(s: Any, turns: int, damping: float) -> Any:
    s = s.double()
    n = len(s)
    r, a = torch.zeros_like(s), torch.zeros_like(s)
    eye = torch.eye(n, dtype=torch.bool)
    for _ in range(turns):
        both = s + a
        top = both.topk(2, 1)
        best = torch.where(torch.arange(n) == top.indices[:, :1], top.values[:, 1:], top.values[:, :1])
        r = damping * r + (1 - damping) * (s - best)
        up = torch.where(eye, r, r.clamp(min=0))
        new = up.sum(0) - up
        new = torch.where(eye, new, new.clamp(max=0))
        a = damping * a + (1 - damping) * new
    return (a + r).argmax(1), r.float(), a.float()


def make_affinity(n: int, turns: int) -> Any:
    points = torch.randn(n, 2) + 4 * torch.randint(0, 3, (n, 1))
    s = -(points[:, None] - points).square().sum(-1)
    s.diagonal().fill_(-8.0)
    return s, turns, 0.5


@stranger(make_affinity, affinity_ref, {"n": 29, "turns": 5}, {"n": 4096, "turns": 8})
@tileflow.kernel
def pass_affinities(s, turns: int, damping: float):
    """Frey and Dueck, 2007: points choose those that speak for them, by messages that go along rows and columns."""
    n = s.size(0)
    r, a = torch.zeros_like(s), torch.zeros_like(s)
    for _ in range(turns):
        for i in tfl.tile(n):
            both = s[i, :] + a[i, :]
            best, which = both.max(dim=1, keepdim=True)
            is_best = torch.arange(n)[None, :] == which
            second = both.masked_fill(is_best, float("-inf")).amax(1, keepdim=True)
            r[i, :] = damping * r[i, :] + (1 - damping) * (s[i, :] - torch.where(is_best, second, best))
        tfl.barrier()
        for j in tfl.tile(n):
            total = tfl.zeros([j])
            for i in tfl.tile(n):
                on_diagonal = i.index[:, None] == j.index[None, :]
                total += torch.where(on_diagonal, r[i, j], r[i, j].clamp(min=0)).sum(0)
            for i in tfl.tile(n):
                on_diagonal = i.index[:, None] == j.index
                rest = total - torch.where(on_diagonal, r[i, j], r[i, j].relu())
                a[i, j] = damping * a[i, j] + (1 - damping) * torch.where(on_diagonal, rest, rest.clamp(max=0))
        tfl.barrier()
    chosen = torch.empty(n, dtype=torch.int64, device=s.device)
    for i in tfl.tile(n):
        chosen[i] = (a[i, :] + r[i, :]).argmax(-1)
    return chosen, r, a


def embedding_ref(y: Any, starts: Any, columns: Any, p: Any, momentum: Any, rate: float, decay: float) -> Any:
    y64 = y.double()
    rows = torch.repeat_interleave(torch.arange(len(y)), starts.diff().long())
    q = 1 / (1 + (y64[:, None] - y64).square().sum(2))
    q = q.masked_fill(torch.eye(len(y), dtype=torch.bool), 0)
    push = (q.square()[..., None] * (y64[:, None] - y64)).sum(1) / q.sum()
    pull = torch.zeros_like(y64)
    apart = y64[rows] - y64[columns.long()]
    pull.index_add_(0, rows, (p * q[rows, columns.long()])[:, None] * apart)
    new = decay * momentum - rate * 4 * (pull - push)
    return (y64 + new).float(), new.float(), q.sum()


def make_embedding(n: int, neighbours: int) -> Any:
    lengths = torch.randint(0, neighbours, (n,))
    starts = F.pad(lengths.cumsum(0), (1, 0)).int()
    total = int(starts[-1])
    p = torch.rand(total)
    return (
        torch.randn(2, n).T, starts, torch.randint(0, n, (total,), dtype=torch.int32), p / p.sum(),
        torch.zeros(n, 2), 10.0, 0.8,
    )  # fmt: skip


@stranger(make_embedding, embedding_ref, {"n": 37, "neighbours": 7}, {"n": 1 << 14, "neighbours": 90}, loops=True)
@tileflow.kernel
def embedding_step(y, starts, columns, p, momentum, rate: float, decay: float):
    """Van der Maaten and Hinton, 2008: a step of points in a plane that neighbours pull and all others push."""
    n, d = y.shape
    push = torch.empty(n, d, device=y.device)
    total = torch.zeros(1, dtype=torch.float64, device=y.device)
    for i in tfl.tile(n):
        force, sums = tfl.zeros([i, d]), tfl.zeros([i])
        for j in tfl.tile(n):
            apart = y[i, :][:, None, :] - y[j, :][None, :, :]
            q = 1 / (1 + apart.square().sum(-1))
            q = torch.where(i.index[:, None] == j.index[None, :], 0.0, q)
            sums += q.sum(1)
            force += ((q * q)[:, :, None] * apart).sum(1)
        push[i, :] = force
        tfl.atomic_add(total, [0], sums.double().sum())
    new_y, new_momentum = torch.empty_like(y), torch.empty_like(momentum)
    for i in tfl.tile(n):
        first = starts[i]
        pull = tfl.zeros([i, d])
        for k in tfl.jagged_tile(starts[i + 1] - first):
            at = first[:, None] + k.index[None, :]
            apart = y[i, :][:, None, :] - y[columns[at], :]
            near = p[at] / (1 + (apart**2).sum(-1))
            pull += (near.unsqueeze(-1) * apart).sum(1)
        moved = decay * momentum[i, :] - rate * 4 * (pull - push[i, :] / total[0].float())
        new_momentum[i, :] = moved
        new_y[i, :] = y[i, :] + moved
    return new_y, new_momentum, total[0]


@dataclass
class HeadWeights:
    """How rows become heads' queries, keys and values, and heads rows again."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    out: torch.Tensor


def make_heads(batch: int, n: int, d: int, heads: int, groups: int, width: int) -> Any:
    def of(*shape: int) -> torch.Tensor:
        return randn(*shape, dtype=torch.bfloat16) / 8

    weights = HeadWeights(of(heads, d, width), of(groups, d, width), of(groups, d, width), of(heads, width, d))
    return randn(batch, n, d, dtype=torch.bfloat16), weights


def heads_ref(x: Any, weights: HeadWeights) -> Any:
    x64, heads, groups = x.double(), weights.query.size(0), weights.key.size(0)
    q = torch.einsum("bsd,hdk->bhsk", x64, weights.query.double()).bfloat16().double()
    k, v = (
        torch.einsum("bsd,gdk->bsgk", x64, w.double()).bfloat16().double().repeat_interleave(heads // groups, 2)
        for w in (weights.key, weights.value)
    )
    scores = torch.einsum("bhsk,bthk->bhst", q, k) / q.size(-1) ** 0.5
    mixed = torch.einsum("bhst,bthk->bshk", scores.softmax(-1), v).bfloat16().double()
    return torch.einsum("bshk,hkd->bsd", mixed, weights.out.double()).bfloat16()


@stranger(
    make_heads,
    heads_ref,
    {"batch": 3, "n": 21, "d": 40, "heads": 6, "groups": 3, "width": 16},
    {"batch": 4, "n": 2048, "d": 2048, "heads": 32, "groups": 8, "width": 128},
)
@tileflow.kernel
def notated_heads(x, weights: HeadWeights):
    """Shazeer, 2019: heads that share keys, each step as its letters are written down."""
    batch, n, d = x.shape
    heads, _, width = weights.query.shape
    groups = weights.key.size(0)
    share = heads // groups
    q = x.new_empty(batch, heads, n, width)
    for b, h, s in tfl.tile([batch, heads, n]):
        acc = tfl.zeros([b, h, s, width])
        for c in tfl.tile(d):
            acc += torch.einsum("bsd,hdk->bhsk", x[b, s, c], weights.query[h, c, :])
        q[b, h, s, :] = acc.to(q.dtype)
    shared = {name: x.new_empty(batch, n, groups, width) for name in ("key", "value")}
    for name, target in shared.items():
        w = getattr(weights, name)
        for b, s, g in tfl.tile([batch, n, groups]):
            acc = tfl.zeros([b, s, g, width])
            for c in tfl.tile(d):
                acc += torch.einsum("bsd,gdk->bsgk", x[b, s, c], w[g, c, :])
            target[b, s, g, :] = acc.to(target.dtype)
    mixed = x.new_empty(batch, n, heads, width)
    for b, h in tfl.grid([batch, heads]):
        k, v = shared["key"][b, :, h // share], shared["value"][b, :, h // share]
        for s in tfl.tile(n):
            best, total = torch.full([s], -float("inf")), torch.zeros([s])
            acc = tfl.zeros([s, width])
            for t in tfl.tile(n):
                scores = torch.einsum("sk,tk->st", q[b, h, s, :], k[t, :]).float() * width**-0.5
                top = torch.maximum(best, scores.amax(-1))
                p, old = torch.exp(scores - top[:, None]), torch.exp(best - top)
                total, best = total * old + p.sum(-1), top
                acc = acc * old[:, None] + torch.einsum("st,tk->sk", p.to(x.dtype), v[t, :])
            mixed[b, s, h, :] = (acc / total[:, None]).to(x.dtype)
    out = torch.empty_like(x)
    for b, s, c in tfl.tile([batch, n, d]):
        acc = tfl.zeros([b, s, c])
        for h in tfl.tile(heads):
            acc += torch.einsum("bshk,hkd->bsd", mixed[b, s, h, :], weights.out[h, :, c])
        out[b, s, c] = acc
    return out
