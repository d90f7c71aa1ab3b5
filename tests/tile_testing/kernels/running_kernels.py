"""Softmaxes that their authors make block by block, and what only looks like one."""

from __future__ import annotations

import math

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def log_sums(x):
    """The logarithm of a row's sum of exponentials."""
    out = x.new_empty(x.size(0))
    for tile_r in tfl.tile(x.size(0)):
        top, total = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r])
        for tile_k in tfl.tile(x.size(1)):
            score = x[tile_r, tile_k].float()
            new = torch.maximum(top, score.amax(1))
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            top = new
        out[tile_r] = top + torch.log(total)
    return out


@tileflow.kernel
def guarded(x, scale: float):
    """Weighted sums by a softmax of scaled scores, in powers of two, which takes 0 for a top that is not finite; a turn
    that found nothing yet is all -inf."""
    out, tops, sums = (x.new_empty(x.size(0)) for _ in range(3))
    for tile_r in tfl.tile(x.size(0)):
        top, total, acc = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r]), tfl.zeros([tile_r])
        own = tfl.zeros([tile_r])
        for tile_k in tfl.tile(x.size(1)):
            score = torch.where(tile_k.index[None, :] % 3 == 0, float("-inf"), x[tile_r, tile_k])
            new = torch.maximum(score.amax(1), top)
            base = torch.where(new == float("-inf"), 0.0, new)
            weight = torch.exp2(score * scale - (base * scale)[:, None])
            fade = torch.exp2(top * scale - base * scale)
            total = fade * total + weight.sum(1)
            acc = (weight * tile_k.index[None, :]).sum(1) / 100 + acc * fade
            own += torch.where(score > 0, score, 0).sum(1)
            top = new
        out[tile_r], tops[tile_r], sums[tile_r] = acc / total, top, own
    return out, tops, sums


@tileflow.kernel
def sunk(x, sink):
    """Softmax sums beside a sink: what the loop begins with counts once."""
    out = x.new_empty(x.size(0))
    for tile_r in tfl.tile(x.size(0)):
        top, total = sink[tile_r], tfl.full([tile_r], 1.0)
        for tile_k in tfl.tile(x.size(1)):
            score = x[tile_r, tile_k]
            new = torch.maximum(top, score.amax(1))
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            top = new
        out[tile_r] = top + torch.log(total)
    return out


@tileflow.kernel
def attention(q, k, v):
    """Causal attention of the last rows: later keys of a row are all -inf, whole blocks of them too."""
    m, d = q.shape
    n = k.size(0)
    out, lse = torch.empty_like(q), q.new_empty(m, dtype=torch.float32)
    for tile_r in tfl.tile(m):
        top, total = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r])
        acc = tfl.zeros([tile_r, d])
        rows = q[tile_r, :]
        for tile_k in tfl.tile(n):
            score = (rows @ k[tile_k, :].T).float() * (1.4426950408889634 / math.sqrt(d))
            score = torch.where(tile_r.index[:, None] * 3 >= tile_k.index[None, :], score, float("-inf"))
            new = torch.maximum(top, score.amax(-1))
            weight = torch.exp2(score - new[:, None])
            fade = torch.exp2(top - new)
            total = total * fade + weight.sum(-1)
            acc = acc * fade[:, None]
            acc = tfl.dot(weight.to(v.dtype), v[tile_k, :], acc=acc)
            top = new
        out[tile_r, :] = (acc / total[:, None]).to(q.dtype)
        lse[tile_r] = top + torch.log2(total)
    return out, lse


@tileflow.kernel
def class_sums(x, w):
    """Logarithms of sums over classes, of scores that are never stored: rows too long to stay make a loop in the
    loop."""
    out = torch.empty(x.size(0), device=x.device)
    for tile_r in tfl.tile(x.size(0)):
        top, total = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r])
        for tile_k in tfl.tile(w.size(0)):
            score = (x[tile_r, :] @ w[tile_k, :].T).float()
            new = torch.maximum(top, score.amax(1))
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            top = new
        out[tile_r] = top + torch.log(total)
    return out


@tileflow.kernel
def two_softmaxes(x, y):
    """Two tops, each with a sum of its own."""
    out = x.new_empty(x.size(0))
    for tile_r in tfl.tile(x.size(0)):
        top, total = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r])
        other_top, other = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r])
        for tile_k in tfl.tile(x.size(1)):
            score, rival = x[tile_r, tile_k], y[tile_r, tile_k]
            new = torch.maximum(top, score.amax(1))
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            newer = torch.maximum(other_top, rival.amax(1))
            other = other * torch.exp(other_top - newer) + torch.exp(rival - newer[:, None]).sum(1)
            top, other_top = new, newer
        out[tile_r] = top + torch.log(total) - other_top - torch.log(other)
    return out


@tileflow.kernel
def raised_so_often(x):
    """Beside a running maximum, how often it was raised: of that no block of a cluster knows another one's."""
    out, often = x.new_empty(x.size(0)), x.new_empty(x.size(0))
    for tile_r in tfl.tile(x.size(0)):
        top, total, times = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r]), tfl.zeros([tile_r])
        for tile_k in tfl.tile(x.size(1)):
            score = x[tile_r, tile_k]
            new = torch.maximum(top, score.amax(1))
            times += torch.where(new > top, 1.0, 0.0)
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            top = new
        out[tile_r], often[tile_r] = top + torch.log(total), times
    return out, often


@tileflow.kernel
def totals_of_totals(x):
    """Beside a running total, the sum of what it was in each turn."""
    out, totals = x.new_empty(x.size(0)), x.new_empty(x.size(0))
    for tile_r in tfl.tile(x.size(0)):
        top, total, sums = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r]), tfl.zeros([tile_r])
        for tile_k in tfl.tile(x.size(1)):
            score = x[tile_r, tile_k]
            new = torch.maximum(top, score.amax(1))
            sums += total
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            top = new
        out[tile_r], totals[tile_r] = top + torch.log(total), sums
    return out, totals


def _looped(turn, out_of=lambda top, total: top + torch.log(total)):
    """A loop over blocks of a row whose ``turn`` makes ``top, total`` of what it finds and the block's scores."""

    @tileflow.kernel
    def looped(x):
        out = x.new_empty(x.size(0))
        for tile_r in tfl.tile(x.size(0)):
            top, total = tfl.full([tile_r], float("-inf")), tfl.zeros([tile_r])
            for tile_k in tfl.tile(x.size(1)):
                top, total = turn(top, total, x[tile_r, tile_k])
            out[tile_r] = out_of(top, total)
        return out

    return looped


def _twice_as_fast(top, total, score):
    new = torch.maximum(top, score.amax(1))
    return new, total * torch.exp((top - new) * 2) + torch.exp(score - new[:, None]).sum(1)


def _squared(top, total, score):
    new = torch.maximum(top, score.amax(1))
    weight = torch.exp(score - new[:, None])
    return new, total * torch.exp(top - new) + (weight * weight).sum(1)


def _with_a_constant(top, total, score):
    new = torch.maximum(top, score.amax(1))
    return new, total * torch.exp(top - new) + (torch.exp(score - new[:, None]) + 1e-6).sum(1)


def _bounded(top, total, score):
    new = torch.maximum(top, score.amax(1))
    weight = torch.exp(score - new[:, None])
    return new, total * torch.exp(top - new) + torch.where(weight > 0.1, weight, 0).sum(1)


def _by_the_old_top(top, total, score):
    new = torch.maximum(top, score.amax(1))
    return new, total * torch.exp(top - new) + torch.exp(score - top[:, None]).sum(1)


def _decaying(top, total, score):
    new = torch.maximum(top * 0.9, score.amax(1))
    return new, total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)


def _of_another_base(top, total, score):
    new = torch.maximum(top, score.amax(1))
    return new, total * torch.exp2(top - new) + torch.exp(score - new[:, None]).sum(1)


def _limited(top, total, score):
    new = torch.maximum(top, score.amax(1))
    return new, (total * torch.exp(top - new)).clamp(max=3.0) + torch.exp(score - new[:, None]).sum(1)


def _by_what_it_found(top, total, score):
    new = torch.maximum(top, score.amax(1))
    return new, total * torch.exp(top - new) + (torch.exp(score - new[:, None]) * total[:, None]).sum(1)


UNLIKE = {
    its.__name__.lstrip("_"): _looped(its)
    for its in (
        _twice_as_fast,
        _squared,
        _with_a_constant,
        _bounded,
        _by_the_old_top,
        _decaying,
        _of_another_base,
        _limited,
        _by_what_it_found,
    )
} | {"raised_so_often": raised_so_often, "totals_of_totals": totals_of_totals}
