"""Products of masked scores, with masks by position as authors write them: ``CASES``, by the mask's name."""

from __future__ import annotations

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


CASES = Cases()
for _name, _mask in MASKS.items():
    for _suffix, _made in (("", _selected), ("_filled", _filled)):
        _kernel, _wanted = _made(_mask)
        for _tm, _tn in ((16, 16), (16, 32), (64, 16)):
            _config = (("block:tm", _tm), ("block:tn", _tn))
            _case = f"{_name}{_suffix}_{_tm}x{_tn}"
            CASES[_case] = Case(_kernel, ARGS, _wanted, _config)
            globals()[_case] = _kernel  # another process finds kernels by name
