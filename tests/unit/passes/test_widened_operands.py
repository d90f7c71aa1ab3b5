"""Products of halves that were widened first take the halves (passes/widened_operands.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.kinds import OpKind
from tileflow.target import target


def product(x, w, scale):
    (m, k), n = x.shape, w.size(0)
    out = torch.empty(m, n, dtype=x.dtype)
    for tm, tn in tfl.tile([m, n]):
        total = tfl.zeros([tm, tn])
        for tk in tfl.tile(k):
            total += x[tm, tk].float() @ w[tn, tk].float().T
        out[tm, tn] = total
    return out


def scaled_first(x, w, scale):
    """What is computed of a half is no half."""
    out = torch.empty(x.size(0), w.size(0), dtype=x.dtype)
    for tm, tn in tfl.tile([x.size(0), w.size(0)]):
        out[tm, tn] = (x[tm, :].float() * scale) @ w[tn, :].float().T
    return out


def heads(x, w, scale):
    """Views behind the cast, which are of the half then."""
    out = torch.empty(x.size(0), 2, w.size(0))
    for tm in tfl.tile(x.size(0)):
        rows = x[tm, :].to(torch.float32).reshape(tm, 2, x.size(1) // 2).permute(1, 0, 2)
        out[tm, :, :] = (rows @ w[:, : x.size(1) // 2].float().T[None, :, :]).permute(1, 0, 2)
    return out


def operands(kernel: Any, x: torch.dtype, w: torch.dtype) -> set[str]:
    args = torch.empty(64, 128, dtype=x, device="meta"), torch.empty(64, 128, dtype=w, device="meta"), 2.0
    (ir,) = tileflow.kernel(kernel).lower(args, target("nvidia-h200")).regions
    return {v.type.dtype for op in ir.walk() if op.kind is OpKind.DOT for v in op.values[:2]}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kernel", [product, heads])
def test_halves_are_multiplied_as_they_are(kernel: Any, dtype: torch.dtype) -> None:
    """By the matrix units at once: of float32 six products of parts were made, of operands out of registers."""
    assert operands(kernel, dtype, dtype) == {str(dtype).removeprefix("torch.")}


@pytest.mark.parametrize(
    ("kernel", "x", "w"),
    [
        (product, torch.float32, torch.float16),
        (product, torch.float16, torch.bfloat16),
        (product, torch.float8_e5m2, torch.float8_e5m2),
        (product, torch.int8, torch.int8),
        (scaled_first, torch.float16, torch.float16),
    ],
)
def test_others_are_multiplied_in_float32(kernel: Any, x: torch.dtype, w: torch.dtype) -> None:
    assert operands(kernel, x, w) == {"float32"}
