"""Recommenders, graphs' messages, experts, and the losses of reinforcement learning."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_dlrm(b, f, v, d, dtype=torch.float32):
    return randn(b, d, dtype=dtype), [randn(v + i, d, dtype=dtype) for i in range(f)], torch.randint(0, v, (b, f))


def dlrm_ref(dense, tables, index):
    x = torch.stack([dense] + [t[index[:, i]] for i, t in enumerate(tables)], 1).float()
    z = x @ x.mT
    li, lj = torch.tril_indices(x.size(1), x.size(1), -1)
    return torch.cat([dense.float(), z[:, li, lj]], 1).to(dense.dtype)


@stranger(
    make_dlrm,
    dlrm_ref,
    {"b": 13, "f": 3, "v": 11, "d": 16},
    {"b": 16384, "f": 26, "v": 100000, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def dlrm_interaction(dense, tables: list[torch.Tensor], index):
    b, d = dense.shape
    f = len(tables) + 1
    li, lj = torch.tril_indices(f, f, -1, device=dense.device)
    out = torch.empty(b, d + f * (f - 1) // 2, dtype=dense.dtype, device=dense.device)
    for tb in tfl.tile(b):
        x = torch.stack([dense[tb, :]] + [t[index[tb, i], :] for i, t in enumerate(tables)], dim=1)
        z = torch.bmm(x, x.transpose(1, 2))
        out[tb, :d] = dense[tb, :]
        out[tb, d:] = z.flatten(1)[:, li[:] * f + lj[:]]
    return out


def make_fm(b, f, v, d, dtype=torch.float32):
    return torch.randint(0, v, (b, f)), torch.rand(b, f), randn(v, d, dtype=dtype), randn(v), torch.tensor(0.3)


def fm_ref(index, x, emb, w, bias):
    e = emb[index].float() * x[..., None]
    return torch.sigmoid(bias + (w[index] * x).sum(1) + 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1))


@stranger(make_fm, fm_ref, {"b": 13, "f": 7, "v": 11, "d": 5}, {"b": 65536, "f": 39, "v": 1000000, "d": 64})
@tileflow.kernel
def factorisation_machine(index, x, emb, w, bias):
    b = index.size(0)
    out = torch.empty(b, device=emb.device)
    for tb in tfl.tile(b):
        rows = index[tb, :]
        e = emb[rows, :].float() * x[tb, :, None]
        pairs = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1)
        out[tb] = torch.sigmoid(bias[()] + (w[rows] * x[tb, :]).sum(1) + pairs)
    return out


def make_edge(n, k, c, o, dtype=torch.float32):
    return (
        randn(n, c, dtype=dtype),
        torch.randint(0, n, (n, k)),
        randn(2 * c, o, dtype=dtype) * c**-0.5,
        randn(o, dtype=dtype),
    )


def edge_ref(x, nbr, w, bias):
    xf = x.float()
    e = torch.cat([xf[:, None].expand(-1, nbr.size(1), -1), xf[nbr] - xf[:, None]], -1)
    h = F.leaky_relu(e @ w.float() + bias.float(), 0.2)
    best, where = h.max(1)
    return best.to(x.dtype), where.int()


@stranger(
    make_edge,
    edge_ref,
    {"n": 21, "k": 5, "c": 16, "o": 19},
    {"n": 65536, "k": 20, "c": 64, "o": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def edge_conv(x, nbr, w, bias):
    """DGCNN, arXiv:1801.07829: the largest message, and which neighbour it came from."""
    n = x.size(0)
    k, o = nbr.size(1), w.size(1)
    out = torch.empty(n, o, dtype=x.dtype, device=x.device)
    where = torch.empty(n, o, dtype=torch.int32, device=x.device)
    for tn, to in tfl.tile([n, o]):
        own = x[tn, :]
        best = tfl.full([tn, to], float("-inf"))
        arg = tfl.zeros([tn, to], dtype=torch.int32)
        for j in range(k):
            other = x[nbr[tn, j], :]
            edge = torch.cat([own, other - own], dim=1)
            h = F.leaky_relu(edge @ w[:, to] + bias[to], 0.2)
            arg = torch.where(h > best, j, arg)
            best = torch.maximum(best, h)
        out[tn, to] = best
        where[tn, to] = arg
    return out, where


def make_gate(t, e, cap, dtype=torch.float32):
    return randn(t, e, dtype=dtype), cap


def gate_ref(logits, cap):
    p = torch.softmax(logits.float(), 1)
    w, idx = p.topk(2, 1)
    w = w / w.sum(1, keepdim=True)
    flat = idx.T.flatten()  # all firsts, then all seconds
    place = (F.one_hot(flat, logits.size(1)).cumsum(0) - 1).gather(1, flat[:, None])[:, 0].view(2, -1).T
    keep = place < cap
    return torch.where(keep, w, 0.0), idx.int(), torch.where(keep, place, -1).int()


@stranger(make_gate, gate_ref, {"t": 37, "e": 5, "cap": 12}, {"t": 16384, "e": 64, "cap": 640})
@helion.kernel(static_shapes=True)
def top2_capacity(logits: torch.Tensor, cap: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """GShard, arXiv:2006.16668: a token past an expert's capacity is dropped; first choices come before second ones."""
    t, e = logits.size()
    weight = torch.empty([t, 2], dtype=torch.float32, device=logits.device)
    expert = torch.empty([t, 2], dtype=torch.int32, device=logits.device)
    place = torch.empty([t, 2], dtype=torch.int32, device=logits.device)
    for tile in hl.tile(t):
        values, indices = torch.topk(torch.softmax(logits[tile, :].float(), dim=-1), 2, dim=-1)
        weight[tile, :] = values / values.sum(-1, keepdim=True)
        expert[tile, :] = indices.to(torch.int32)
    hl.barrier()
    for ie in hl.grid(e):
        used = hl.zeros([], dtype=torch.int32)
        for choice in hl.static_range(2):
            for tile in hl.tile(t):
                mine = expert[tile, choice] == ie
                at = used + torch.cumsum(mine.to(torch.int32), dim=0) - 1
                keep = mine & (at < cap)
                hl.store(place, [tile, choice], torch.where(keep, at, -1).to(torch.int32), extra_mask=mine)
                hl.store(weight, [tile, choice], 0.0, extra_mask=mine & (at >= cap))
                used = used + mine.to(torch.int32).sum()
    return weight, expert, place


def make_comb(t, k, n, d, dtype=torch.float32):
    order = torch.randperm(t * k)
    return randn(t * k, d, dtype=dtype), order.view(t, k).int(), torch.rand(t, k), randn(t, d, dtype=dtype)


def comb_ref(y, where, w, shared):
    return (shared.float() + (y[where.long()].float() * w[..., None]).sum(1)).to(y.dtype)


@stranger(
    make_comb,
    comb_ref,
    {"t": 13, "k": 3, "n": 4, "d": 21},
    {"t": 16384, "k": 8, "n": 64, "d": 4096, "dtype": torch.bfloat16},
)
@helion.kernel()
def expert_unpermute(
    y: torch.Tensor, where: torch.Tensor, weight: torch.Tensor, shared: torch.Tensor | None = None
) -> torch.Tensor:
    t, k = where.shape
    k = hl.specialize(k)
    d = y.size(1)
    out = torch.empty([t, d], dtype=y.dtype, device=y.device)
    for tile_t, tile_d in hl.tile([t, d]):
        acc = (
            shared[tile_t, tile_d].to(torch.float32)
            if shared is not None
            else hl.zeros([tile_t, tile_d], dtype=torch.float32)
        )
        for j in hl.static_range(k):
            acc = acc + y[where[tile_t, j], tile_d].to(torch.float32) * weight[tile_t, j][:, None]
        out[tile_t, tile_d] = acc.to(y.dtype)
    return out


class Batch(NamedTuple):
    state_q: Any
    next_q: Any
    target_q: Any
    action: Any
    reward: Any
    done: Any


def make_q(b, a):
    return (Batch(randn(b, a), randn(b, a), randn(b, a), torch.randint(0, a, (b,)), randn(b), torch.rand(b) < 0.2),)


def q_ref(batch, gamma=0.99, delta=1.0):
    best = batch.next_q.argmax(1, keepdim=True)
    target = batch.reward + gamma * (~batch.done) * batch.target_q.gather(1, best)[:, 0]
    error = batch.state_q.gather(1, batch.action[:, None])[:, 0] - target
    grad = torch.zeros_like(batch.state_q).scatter(1, batch.action[:, None], error.clamp(-delta, delta)[:, None])
    return F.huber_loss(error, torch.zeros_like(error), delta=delta), error.abs(), grad


@stranger(make_q, q_ref, {"b": 13, "a": 6}, {"b": 1 << 20, "a": 18})
@tileflow.kernel
def double_q_loss(batch: Batch, gamma: float = 0.99, delta: float = 1.0):
    """arXiv:1509.06461: the online network chooses the next action, the target network values it."""
    b = batch.state_q.size(0)
    loss = torch.zeros((), device=batch.reward.device)
    priority = torch.empty_like(batch.reward)
    grad = torch.zeros_like(batch.state_q)
    for t in tfl.tile(b):
        best = batch.next_q[t, :].argmax(dim=1)
        chosen = batch.target_q[t.index, best]
        target = batch.reward[t] + gamma * chosen * ~batch.done[t]
        error = batch.state_q[t.index, batch.action[t]] - target
        size = error.abs()
        huber = torch.where(size < delta, 0.5 * error**2, delta * (size - 0.5 * delta))
        tfl.atomic_add(loss, [], huber.sum() / b)
        priority[t] = size
        grad[t.index, batch.action[t]] = error.clamp(-delta, delta)
    return loss, priority, grad


def make_vtrace(t, b):
    return randn(t, b) * 0.3, randn(t, b), randn(t, b), randn(b), (torch.rand(t, b) > 0.1)


def vtrace_ref(log_rho, reward, value, bootstrap, alive, gamma=0.99, lam=0.95, rho_bar=1.0, c_bar=1.0):
    rho = log_rho.exp()
    clipped, c = rho.clamp(max=rho_bar), lam * rho.clamp(max=c_bar)
    disc = gamma * alive
    nxt = torch.cat([value[1:], bootstrap[None]])
    delta = clipped * (reward + disc * nxt - value)
    acc, vs = torch.zeros_like(bootstrap), torch.empty_like(value)
    for i in reversed(range(value.size(0))):
        acc = delta[i] + disc[i] * c[i] * acc
        vs[i] = acc + value[i]
    after = torch.cat([vs[1:], bootstrap[None]])
    return vs, clipped * (reward + disc * after - value)


@stranger(make_vtrace, vtrace_ref, {"t": 11, "b": 7}, {"t": 128, "b": 16384})
@tileflow.kernel
def v_trace(log_rho, reward, value, bootstrap, alive, gamma=0.99, lam=0.95, rho_bar=1.0, c_bar=1.0):
    """IMPALA, arXiv:1802.01561."""
    t, b = value.shape
    vs, advantage = torch.empty_like(value), torch.empty_like(value)
    for tb in tfl.tile(b):
        acc = tfl.zeros([tb])
        next_value, next_vs = bootstrap[tb], bootstrap[tb]
        for k in range(t):
            i = t - 1 - k
            rho = log_rho[i, tb].exp()
            discount = gamma * alive[i, tb]
            clipped = torch.clamp(rho, max=rho_bar)
            delta = clipped * (reward[i, tb] + discount * next_value - value[i, tb])
            acc = delta + discount * lam * rho.clamp(max=c_bar) * acc
            vs[i, tb] = acc + value[i, tb]
            advantage[i, tb] = clipped * (reward[i, tb] + discount * next_vs - value[i, tb])
            next_value, next_vs = value[i, tb], acc + value[i, tb]
    return vs, advantage
