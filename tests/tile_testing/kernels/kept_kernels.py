"""Attention whose queries are computed before the loop over keys, of which the last ones do not count."""

from __future__ import annotations

import math

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def shifted_queries(q, shift, k, v, length):
    """A branch of the turn masks keys past ``length``."""
    b, t, heads, d = q.shape
    out = torch.empty_like(q)
    for tb, th, tq in tfl.tile([b, heads, t], block_size=[1, 1, None]):
        i, h = tb.begin, th.begin
        keys = tfl.arange(t)
        scores = ((q[i, tq, h, :] + shift[h, :]) @ k[i, :, h, :].T).float() * d**-0.5
        scores = scores.masked_fill(keys[None, :] >= length[i], float("-inf"))
        out[i, tq, h, :] = torch.softmax(scores, 1).to(v.dtype) @ v[i, :, h, :]
    return out


@tileflow.kernel
def all_keys(q, shift, k, v):
    """The same without a mask: a turn has a branch only where the config has one for full blocks."""
    b, t, heads, d = q.shape
    out = torch.empty_like(q)
    for tb, th, tq in tfl.tile([b, heads, t], block_size=[1, 1, None]):
        i, h = tb.begin, th.begin
        scores = ((q[i, tq, h, :] + shift[h, :]) @ k[i, :, h, :].T).float() * d**-0.5
        out[i, tq, h, :] = torch.softmax(scores, 1).to(v.dtype) @ v[i, :, h, :]
    return out


def arguments(b: int, t: int, heads: int, d: int, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """Arguments of ``shifted_queries``; the first four are those of ``all_keys``."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(b, t, heads, d, device=device).to(torch.bfloat16) for _ in range(3))
    length = torch.randint(t // 2, t + 1, (b,), device=device)
    return q, torch.randn(heads, d, device=device).to(torch.bfloat16), k, v, length


def wanted(q, shift, k, v, length=None):
    """What torch makes of them, in float32."""
    q, k, v = ((x + y).to(x.dtype).float().transpose(1, 2) for x, y in ((q, shift), (k, 0), (v, 0)))
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if length is not None:
        keys = torch.arange(k.size(2), device=k.device)
        scores = scores.masked_fill(keys >= length[:, None, None, None], float("-inf"))
    return (torch.softmax(scores, -1) @ v).transpose(1, 2)
