"""Attention as it is first written: a mask in each turn, a division by ``sqrt(d)``, exponentials of the base e."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

import tileflow
import tileflow.language as tfl
from tileflow.kernels import flash

from .attention import AttentionCase


@tileflow.kernel(inputs=flash.inputs, reference=flash.reference)
def attention(q, k, v, causal=False, with_lse=False):  # type: ignore[no-untyped-def]
    """(batch, heads, m, d) by as many keys and heads."""
    batch, heads, m, d = q.shape
    out = torch.empty_like(q)
    q, k, v, flat = (x.flatten(0, 1) for x in (q, k, v, out))
    for head, rows in tfl.tile([batch * heads, m], block_size=[1, None]):
        at = head.begin
        peak, total = tfl.full([rows], float("-inf")), tfl.zeros([rows])
        acc = tfl.zeros([rows, d])
        for keys in tfl.tile(rows.end if causal else m):
            scores = tfl.dot(q[at, rows, :], k[at, keys, :].T) / math.sqrt(d)
            if causal:
                scores = torch.where(rows.index[:, None] >= keys.index[None, :], scores, float("-inf"))
            new_peak = torch.maximum(peak, scores.amax(dim=1))
            weights = torch.exp(scores - new_peak[:, None])
            shrink = torch.exp(peak - new_peak)
            total = total * shrink + weights.sum(dim=1)
            acc = acc * shrink[:, None] + tfl.dot(weights.to(v.dtype), v[at, keys, :])
            peak = new_peak
        flat[at, rows, :] = (acc / total[:, None]).to(flat.dtype)
    return out


@dataclass(frozen=True, slots=True)
class WrittenCase(AttentionCase):
    """One call of that kernel."""

    kernel: ClassVar[str] = "tileflow_benchmarks.ratios.written:attention"
