"""Generalised Jensen-Shannon divergence for distillation (Agarwal et al., 2023, arXiv:2306.13649), with its gradient.

With the mixture ``M = beta * P + (1 - beta) * Q`` the loss is ``beta * KL(P || M) + (1 - beta) * KL(Q || M)``; at 0 it
is ``KL(P || Q)``, at 1 ``KL(Q || P)``. Both inputs are read once: the gradient of ``log Q`` needs nothing more.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.float32, device: str = "cpu", beta: float = 0.5
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return the logarithms of two random distributions per row, and ``beta``."""
    log_q, log_p = (torch.randn(m, n, device=device).log_softmax(dim=1).to(dtype) for _ in range(2))
    return log_q, log_p, beta


def reference(log_q: torch.Tensor, log_p: torch.Tensor, beta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the loss of torch's divergences, and its gradient by autograd."""
    log_q = log_q.requires_grad_()
    if beta in (0, 1):
        a, b = (log_q, log_p) if beta == 0 else (log_p, log_q)
        loss = F.kl_div(a, b, reduction="batchmean", log_target=True)
    else:
        log_m = torch.log(beta * log_p.exp() + (1 - beta) * log_q.exp())
        to_p, to_q = (F.kl_div(log_m, x, reduction="batchmean", log_target=True) for x in (log_p, log_q))
        loss = beta * to_p + (1 - beta) * to_q
    return loss.detach(), torch.autograd.grad(loss, log_q)[0]


@tileflow.kernel(inputs=inputs, reference=reference)
def jsd(log_q: torch.Tensor, log_p: torch.Tensor, beta: tfl.constexpr = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean over rows, in float32, and its gradient with respect to ``log_q``."""
    m = log_q.size(0)
    losses = torch.empty(m, dtype=torch.float32, device=log_q.device)
    grad = torch.empty_like(log_q)
    for tile_m in tfl.tile(m):
        student, teacher = log_q[tile_m, :].float(), log_p[tile_m, :].float()
        q, p = torch.exp(student), torch.exp(teacher)
        if beta == 0:
            terms, slope = p * (teacher - student), -p
        elif beta == 1:
            terms = q * (student - teacher)
            slope = terms + q
        else:
            middle = torch.log(beta * p + (1 - beta) * q)
            slope = (1 - beta) * q * (student - middle)
            terms = beta * p * (teacher - middle) + slope
        losses[tile_m] = terms.sum(dim=1)
        grad[tile_m, :] = slope / m
    return losses.sum() / m, grad
