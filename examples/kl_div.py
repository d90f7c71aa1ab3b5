"""Kullback-Leibler divergence of a batch of distributions, as ``torch.nn.functional.kl_div`` defines it."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.float32, device: str = "cpu", log_target: bool = False
) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Return the logarithms of random distributions, and random targets, as logarithms where ``log_target``."""
    log_q, log_p = (torch.randn(m, n, device=device).log_softmax(dim=1) for _ in range(2))
    return log_q.to(dtype), (log_p if log_target else log_p.exp()).to(dtype), log_target


def reference(log_q: torch.Tensor, p: torch.Tensor, log_target: bool) -> torch.Tensor:
    """Compute torch's divergence, averaged over the batch."""
    return F.kl_div(log_q, p, reduction="batchmean", log_target=log_target)


@tileflow.kernel(inputs=inputs, reference=reference)
def kl_div(log_q: torch.Tensor, p: torch.Tensor, log_target: bool = False) -> torch.Tensor:
    """The mean over rows of the sum of ``p * (log p - log q)``, in float32. ``log_target``: ``p`` holds logarithms."""
    m = log_q.size(0)
    losses = torch.empty(m, dtype=torch.float32, device=log_q.device)
    for tile_m in tfl.tile(m):
        target, guess = p[tile_m, :].float(), log_q[tile_m, :].float()
        if log_target:
            terms = torch.exp(target) * (target - guess)
        else:
            terms = torch.where(target > 0, target * (torch.log(target) - guess), 0.0)
        losses[tile_m] = terms.sum(dim=1)
    return losses.sum() / m
