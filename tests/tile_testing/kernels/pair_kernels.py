"""Kernels that pick the halves of reshaped dimensions."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def butterflies(x):
    """Sums and differences of halves, of quarters, of eighths."""
    n, m = x.shape
    out = torch.empty_like(x)
    for t in tfl.tile(n):
        row = x[t, :]
        for layer in range(3):
            pairs = row.reshape(t, 1 << layer, 2, m >> (layer + 1))
            low, high = pairs[:, :, 0, :], pairs[:, :, 1, :]
            row = torch.stack([low + high, low - high], 2).reshape(t, m)
        out[t, :] = row
    return out


@tileflow.kernel
def last_halves(x, turns):
    """One half alone, of a last dimension, in a loop."""
    n, m = x.shape
    out = torch.empty(n, m // 2, device=x.device)
    for t in tfl.tile(n):
        half = x[t, :].reshape(t, m // 2, 2)[:, :, 1]
        for turn in range(turns):
            half = half + x[t, :].reshape(t, m // 2, 2)[:, :, 0] * turn
        out[t, :] = half
    return out
