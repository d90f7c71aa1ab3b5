"""Products of masked scores, with masks by position as authors write them: ``CASES``, by the mask's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case, Cases, ints

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
