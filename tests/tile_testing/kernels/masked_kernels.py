"""Products of masked scores, with masks by position as authors write them: ``CASES``, by the mask's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case, Cases, ints, rand

Mask = Callable[[Any, Any], Any]
# which scores are kept, of the queries' and the keys' positions
MASKS: dict[str, Mask] = {
    "causal": lambda i, j: i >= j,
    "strictly_causal": lambda i, j: j < i,
    "anticausal": lambda i, j: j >= i,
    "strictly_anticausal": lambda i, j: i < j,
    "later_keys": lambda i, j: j <= i + 13,
    "window": lambda i, j: (j <= i) & (i - j < 21),
    "window_by_logic": lambda i, j: torch.logical_and(j - 9 <= i, i <= j + 30),
    "sinks": lambda i, j: (j < 5) | (j > i - 18),
    "not_above": lambda i, j: ~(j > i),
    "neither": lambda i, j: torch.logical_not((j > i) | (j + 40 < i)),
    "others": lambda i, j: i != j,
    "not_itself": lambda i, j: ~(j == i + 3),
    "short_keys": lambda i, j: (j < 44) & (i >= 0),
}
ARGS = tuple(ints(5, 70, 16, seed=n).half() - 2 for n in range(3))


def _positions(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(q.size(0))[:, None], torch.arange(k.size(0))[None, :]


def _selected(mask: Mask) -> tuple[Any, Callable[..., torch.Tensor]]:
    def masked(q, k, v):
        out = torch.empty(q.size(0), v.size(1), device=q.device)
        for tm in tfl.tile(q.size(0)):
            acc = tfl.zeros([tm, v.size(1)])
            for tn in tfl.tile(k.size(0)):
                scores = tfl.dot(q[tm, :], k[tn, :].T)
                kept = torch.where(mask(tm.index[:, None], tn.index[None, :]), scores * 0.25, 0.5)
                acc = tfl.dot(kept.to(v.dtype), v[tn, :], acc=acc)
            out[tm, :] = acc
        return out

    def wanted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.where(mask(*_positions(q, k)), q.float() @ k.float().T * 0.25, 0.5) @ v.float()

    return tileflow.kernel(masked), wanted


def _filled(mask: Mask) -> tuple[Any, Callable[..., torch.Tensor]]:
    def masked(q, k, v):
        """The loop over keys begins or ends nowhere in particular; a mask of what is left out."""
        out = torch.empty(q.size(0), v.size(1), device=q.device)
        for tm in tfl.tile(q.size(0)):
            acc = tfl.zeros([tm, v.size(1)])
            for tn in tfl.tile(3, k.size(0) - 2):
                scores = tfl.dot(q[tm, :], k[tn, :].T) * 0.25
                kept = scores.masked_fill(~mask(tm.index[:, None], tn.index[None, :]), 0.5)
                acc = tfl.dot(kept.to(v.dtype), v[tn, :], acc=acc)
            out[tm, :] = acc
        return out

    def wanted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        kept = torch.where(mask(*_positions(q, k)), q.float() @ k.float().T * 0.25, 0.5)
        return kept[:, 3:-2] @ v[3:-2].float()

    return tileflow.kernel(masked), wanted


def _softmax(mask: Mask, scale: float) -> tuple[Any, Callable[..., torch.Tensor]]:
    def masked(q, k, v):
        """The loop over keys ends with the tile of rows, and a row may have no key at all."""
        out = torch.empty(q.size(0), v.size(1), dtype=v.dtype, device=q.device)
        for tm in tfl.tile(q.size(0)):
            top, total, acc = tfl.full([tm], float("-inf")), tfl.zeros([tm]), tfl.zeros([tm, v.size(1)])
            for tn in tfl.tile(tm.end):
                scores = tfl.dot(q[tm, :], k[tn, :].T) / math.sqrt(q.size(1)) * scale
                scores = torch.where(mask(tm.index[:, None], tn.index[None, :]), scores, float("-inf"))
                new = torch.maximum(top, scores.amax(1))
                base = torch.where(new == float("-inf"), 0.0, new)
                p, shrink = torch.exp(scores - base[:, None]), torch.exp(top - base)
                total = total * shrink + p.sum(1)
                acc = tfl.dot(p.to(v.dtype), v[tn, :], acc=acc * shrink[:, None])
                top = new
            out[tm, :] = (acc / torch.where(total == 0.0, 1.0, total)[:, None]).to(v.dtype)
        return out

    def wanted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        i, j = _positions(q, k)
        scores = q.float() @ k.float().T / math.sqrt(q.size(1)) * scale
        p = torch.softmax(torch.where(mask(i, j) & (j <= i), scores, float("-inf")), 1).nan_to_num()
        return (p @ v.float()).half()

    return tileflow.kernel(masked), wanted


CAUSAL = ("causal", "strictly_causal", "window", "not_above", "neither")
CASES = Cases()


def _add(name: str, made: tuple[Any, Any], args: tuple[torch.Tensor, ...], *sizes: tuple[int, int]) -> None:
    kernel, wanted = made
    for tm, tn in sizes:
        case = f"{name}_{tm}x{tn}"
        CASES[case] = Case(kernel, args, wanted, (("block:tm", tm), ("block:tn", tn)))
        globals()[case] = kernel  # another process finds kernels by name


for _name, _mask in MASKS.items():
    _add(_name, _selected(_mask), ARGS, (16, 16), (16, 32), (64, 16))
    _add(f"{_name}_filled", _filled(_mask), ARGS, (16, 16), (16, 32), (64, 16))
for _name in CAUSAL:  # of 70 rows and of 65, of which the last tile has one
    _add(f"{_name}_softmax", _softmax(MASKS[_name], 1.0), ARGS, (16, 16), (16, 32), (64, 16), (32, 64))
    _add(f"{_name}_softmax_of_65", _softmax(MASKS[_name], 0.5), tuple(a[:65] for a in ARGS), (16, 32), (64, 16))


# ---- what the passes must leave alone ------------------------------------------------------------

Q, K = (rand(70, 16, seed=n).half() for n in range(2))
SQUARE = rand(70, 70, seed=3)
LOWER = torch.ones(70, 70, dtype=torch.bool).tril()
INFINITE = float("-inf")


def _scores() -> torch.Tensor:
    return Q.float() @ K.float().T


@CASES.case(
    Q,
    K,
    wanted=lambda q, k: torch.logsumexp(_scores().masked_fill(LOWER.tril(-20), INFINITE), 1),
    tm=16,
    tn=16,
)
@tileflow.kernel
def from_the_lowest_number(q, k):
    """A usual guard for rows without a key; times ``log2(e)`` it is minus infinity."""
    out = torch.empty(q.size(0), device=q.device)
    for tm in tfl.tile(q.size(0)):
        top, total = tfl.full([tm], -3.4e38), tfl.zeros([tm])
        for tn in tfl.tile(k.size(0)):
            s = tfl.dot(q[tm, :], k[tn, :].T)
            s = torch.where(tm.index[:, None] - tn.index[None, :] < 20, s, float("-inf"))
            new = torch.maximum(top, s.amax(1))
            total = total * torch.exp(top - new) + torch.exp(s - new[:, None]).sum(1)
            top = new
        out[tm] = top + torch.log(total)
    return out


@CASES.case(Q, K, torch.full((70, 70), -3e38), wanted=lambda q, k, mask: torch.full((70,), 70.0))
@tileflow.kernel
def with_a_mask_in_memory(q, k, mask):
    """The sum is the product's own, which adds to the mask."""
    out = torch.empty(q.size(0), device=q.device)
    for tm in tfl.tile(q.size(0)):
        total = tfl.zeros([tm])
        for tn in tfl.tile(k.size(0), block_size=128):
            s = tfl.dot(q[tm, :], k[tn, :].T) + mask[tm, tn]
            total = total + torch.exp(s - s.amax(1)[:, None]).sum(1)
        out[tm] = total
    return out


@CASES.case(Q, K, torch.zeros(1), wanted=lambda q, k, t: torch.arange(1, 71).float())
@tileflow.kernel
def by_a_root_of_zero(q, k, t):
    out = torch.empty(q.size(0), device=q.device)
    for tm in tfl.tile(q.size(0)):
        total = tfl.zeros([tm])
        for tn in tfl.tile(k.size(0), block_size=128):
            s = tfl.dot(q[tm, :], k[tn, :].T) * torch.sqrt(t[0])
            s = torch.where(tm.index[:, None] >= tn.index[None, :], s, float("-inf"))
            total = total + torch.exp(s - s.amax(1)[:, None]).sum(1)
        out[tm] = total
    return out


@CASES.case(Q.float(), wanted=lambda k: torch.zeros(70), tm=16, tn=64)
@tileflow.kernel
def by_roots_of_lanes(k):
    """Those past the end are 0."""
    out = torch.empty(k.size(0), device=k.device)
    for tm in tfl.tile(k.size(0)):
        total = tfl.zeros([tm])
        for tn in tfl.tile(tm.end):
            norms = k[tm, :].pow(2).sum(1)[:, None] * k[tn, :].pow(2).sum(1)[None, :]
            s = torch.where(tm.index[:, None] >= tn.index[None, :], 1.0, float("-inf")) * torch.sqrt(norms)
            total = total + torch.exp(s - 150.0).sum(1)
        out[tm] = total
    return out


def _by_columns(x: torch.Tensor) -> torch.Tensor:
    """Of tiles of 16 rows and all keys before their end."""
    found = []
    for begin in range(0, 70, 16):
        end = min(begin + 16, 70)
        s = x[begin:end, :end].masked_fill(~LOWER[begin:end, :end], INFINITE)
        found.append(torch.exp(s - s.amax(0)[None, :]).sum(1))
    return torch.cat(found)


@CASES.case(SQUARE, wanted=_by_columns)
@tileflow.kernel
def less_the_largest_of_columns(x):
    """A column past the end has nothing but minus infinity."""
    out = torch.empty(x.size(0), device=x.device)
    for tm in tfl.tile(x.size(0), block_size=16):
        total = tfl.zeros([tm])
        for tn in tfl.tile(tm.end, block_size=128):
            s = torch.where(tm.index[:, None] >= tn.index[None, :], x[tm, tn], float("-inf"))
            total = total + torch.exp(s - s.amax(0)[None, :]).sum(1)
        out[tm] = total
    return out


def _without_nan(x: torch.Tensor) -> torch.Tensor:
    s = x.masked_fill(~LOWER.tril(-1), INFINITE)
    found = torch.exp(s - s.amax(1)[:, None]).nan_to_num(nan=1.0).sum(1)
    found[0] = 16.0  # keys of the first tile
    return found


@CASES.case(SQUARE, wanted=_without_nan)
@tileflow.kernel
def with_another_number_for_nan(x):
    out = torch.empty(x.size(0), device=x.device)
    for tm in tfl.tile(x.size(0), block_size=16):
        total = tfl.zeros([tm])
        for tn in tfl.tile(tm.end, block_size=128):
            s = torch.where(tm.index[:, None] > tn.index[None, :], x[tm, tn], float("-inf"))
            total = total + torch.nan_to_num(torch.exp(s - s.amax(1)[:, None]), nan=1.0).sum(1)
        out[tm] = total
    return out


def _pairs(a: torch.Tensor) -> torch.Tensor:
    """Of each block of keys its keys times those that are kept."""
    row = torch.arange(70)
    end, found = ((row // 16 + 1) * 16).clamp(max=70), torch.zeros(70)
    for begin in range(0, 70, 32):
        keys = (end - begin).clamp(0, 32)
        found += keys * torch.minimum((row + 1 - begin).clamp(min=0), keys)
    return found


@CASES.case(torch.zeros(70), wanted=_pairs)
@tileflow.kernel
def of_pairs_of_lanes(a):
    """A tile's lanes in two dimensions, of which the mask speaks of one."""
    out = torch.empty(a.size(0), device=a.device)
    for tm in tfl.tile(a.size(0), block_size=16):
        total = tfl.zeros([tm])
        for tn in tfl.tile(tm.end, block_size=32):
            pairs = torch.exp(a[tn][:, None, None] + a[tn][None, None, :])
            kept = torch.where((tm.index[:, None] >= tn.index[None, :])[None, :, :], pairs, 0.0)
            total = total + kept.sum(0).sum(1)
        out[tm] = total
    return out


@CASES.case(Q, K, wanted=lambda q, k: K.float()[_scores().masked_fill(~LOWER, INFINITE).argmax(1)], tm=16, tn=16)
@tileflow.kernel
def next_to_the_largest(q, k):
    """A temperature next to 0."""
    out = torch.empty(q.size(0), k.size(1), device=q.device)
    for tm in tfl.tile(q.size(0)):
        top, total, acc = tfl.full([tm], float("-inf")), tfl.zeros([tm]), tfl.zeros([tm, k.size(1)])
        for tn in tfl.tile(tm.end):
            s = tfl.dot(q[tm, :], k[tn, :].T) / 1e-9
            s = torch.where(tm.index[:, None] >= tn.index[None, :], s, float("-inf"))
            new = torch.maximum(top, s.amax(1))
            p, shrink = torch.exp(s - new[:, None]), torch.exp(top - new)
            total = total * shrink + p.sum(1)
            acc = tfl.dot(p.to(k.dtype), k[tn, :], acc=acc * shrink[:, None])
            top = new
        out[tm, :] = acc / total[:, None]
    return out


@CASES.case(SQUARE, 0.0, wanted=lambda x, divisor: x / divisor, t=16)
@tileflow.kernel
def over_a_number_of_the_call(x, divisor: float):
    """Zero, by which Python's numbers do not divide."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t, :] = x[t, :] / divisor
    return out
