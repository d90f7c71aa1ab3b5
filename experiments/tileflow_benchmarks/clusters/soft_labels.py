"""Cross-entropy with a probability for each class, and the gradient of its logits at once: a long row that is read,
reduced three times, and read again."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(m: int, n: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """Return logits and the probabilities that they should give, [m, n] each."""
    logits = torch.randn(m, n, dtype=dtype, device=device)
    return logits, torch.softmax(torch.randn(m, n, dtype=dtype, device=device), 1)


def reference(logits: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's loss, float32 [m], and the gradient of the logits [m, n]."""
    x, p = logits.float(), wanted.float()
    logs = torch.log_softmax(x, 1)
    return -(p * logs).sum(1), (logs.exp() - p).to(logits.dtype)


@tileflow.kernel(inputs=inputs, reference=reference)
def soft_cross_entropy(logits: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of each row, and its gradient. The rows of ``wanted`` sum to 1."""
    m = logits.size(0)
    loss = torch.empty(m, dtype=torch.float32, device=logits.device)
    grad = torch.empty_like(logits)
    for tile in tfl.tile(m):
        x, p = logits[tile, :].float(), wanted[tile, :].float()
        shifted = x - torch.amax(x, 1)[:, None]
        exponentials = torch.exp(shifted)
        total = torch.sum(exponentials, 1)
        loss[tile] = torch.log(total) - torch.sum(p * shifted, 1)
        grad[tile, :] = exponentials / total[:, None] - p
    return loss, grad
