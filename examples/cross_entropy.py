"""Cross-entropy of logits over a large vocabulary, which is read once, and its gradient.

The logarithm of the sum of exponentials is updated while a row is read (Milakov and Gimelshein, 2018,
arXiv:1805.02867). The gradient computes the probabilities again from it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

IGNORED = -100


def inputs(
    m: int, v: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random logits and labels; every seventh row is ignored, the first one not."""
    rows = torch.arange(m, device=device)
    labels = torch.where(rows % 7 == 6, IGNORED, torch.randint(v, (m,), device=device))
    return torch.randn(m, v, dtype=dtype, device=device), labels


def reference(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return torch's mean loss and each row's logsumexp."""
    return F.cross_entropy(logits, labels, ignore_index=IGNORED), torch.logsumexp(logits, dim=1)


@tileflow.kernel(inputs=inputs, reference=reference)
def cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, ignore_index: int = IGNORED
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean loss of the rows that are not ignored, and each row's logsumexp, in float32."""
    m, v = logits.shape
    losses = torch.empty(m, dtype=torch.float32, device=logits.device)
    lse = torch.empty(m, dtype=torch.float32, device=logits.device)
    for tile_m in tfl.tile(m):
        peak = tfl.full([tile_m], float("-inf"))
        total = tfl.zeros([tile_m])
        for tile_v in tfl.tile(v):
            values = logits[tile_m, tile_v].float()
            new_peak = torch.maximum(peak, torch.amax(values, dim=1))
            shift = torch.where(new_peak == float("-inf"), 0.0, new_peak)  # so far all may be masked
            total = total * torch.exp(peak - shift) + torch.exp(values - shift[:, None]).sum(dim=1)
            peak = new_peak
        label = labels[tile_m]
        counts = label != ignore_index
        picked = logits[tile_m.index, torch.where(counts, label, 0)].float()
        row_lse = peak + torch.log(total)
        lse[tile_m] = row_lse
        losses[tile_m] = torch.where(counts, row_lse - picked, 0.0)
    return losses.sum() / (labels != ignore_index).sum(), lse


def bwd_inputs(
    m: int, v: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a random gradient of the loss, and the arguments and the logsumexp of a forward call."""
    logits, labels = inputs(m, v, dtype, device)
    return torch.randn((), device=device), logits, labels, torch.logsumexp(logits.float(), dim=1)


def bwd_reference(grad: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the logits by autograd."""
    logits = logits.requires_grad_()
    loss = F.cross_entropy(logits, labels, ignore_index=IGNORED)
    return torch.autograd.grad(loss, logits, grad.to(loss.dtype))[0]


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def cross_entropy_bwd(
    grad: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor, lse: torch.Tensor, ignore_index: int = IGNORED
) -> torch.Tensor:
    """The gradient of the logits. ``grad``: of the mean loss, no dimensions."""
    grad_logits = torch.empty_like(logits)
    scale = grad / (labels != ignore_index).sum()
    for tile_m, tile_v in tfl.tile(logits.shape):
        label = labels[tile_m]
        probability = torch.exp(logits[tile_m, tile_v].float() - lse[tile_m][:, None])
        wanted = (tile_v.index[None, :] == label[:, None]).float()
        row_scale = torch.where(label != ignore_index, scale[()], 0.0)
        grad_logits[tile_m, tile_v] = (probability - wanted) * row_scale[:, None]
    return grad_logits
