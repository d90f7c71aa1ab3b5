"""Tensors like a meta tensor, made while host code is traced: as torch makes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing import ROOT

from tileflow.frontend.meta_likes import MetaLikes

LIKES = [torch.empty_like, torch.zeros_like, torch.ones_like, torch.rand_like]
TENSORS = [
    torch.empty(3, 4, device="meta"),
    torch.empty(3, 0, device="meta"),
    torch.empty((), dtype=torch.int8, device="meta"),
    torch.empty(3, 4, device="meta").t(),
    torch.empty(6, 4, device="meta")[::2],
    torch.empty(3, 4),
]


@pytest.mark.parametrize("like", LIKES)
@pytest.mark.parametrize("options", [{}, {"dtype": torch.float16}, {"dtype": None}, {"device": "cpu"}])
def test_likes_are_torchs(like: Callable[..., Any], options: dict[str, Any]) -> None:
    for tensor in TENSORS:
        if like is torch.rand_like and not tensor.is_floating_point() and options.get("dtype") is None:
            continue
        expected = like(tensor, **options)
        with MetaLikes():
            found = like(tensor, **options)
        facts = [(t.shape, t.stride(), t.dtype, t.device, t.requires_grad) for t in (found, expected)]
        assert facts[0] == facts[1]


def test_a_workers_first_kernel_does_not_load_sympy() -> None:
    """Neither lowering it nor running its host code for what it launches."""
    script = """
import sys
import torch
from tileflow.build.compile import build
from tileflow.target import target
from tileflow_cluster.pipeline import count_launches
from examples.rms_norm import rms_norm
x, weight = torch.empty(64, 64, device="meta"), torch.empty(64, device="meta")
lowered = rms_norm.lower((x, weight, 1e-6), target("nvidia-h200"))
lowered.space
print("sympy" in sys.modules)
binaries = tuple(build(source, lowered.target) for source in lowered.emit(lowered.default))
print(len(count_launches(rms_norm, lowered.default, binaries, lowered)), "sympy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "1", "False"]
