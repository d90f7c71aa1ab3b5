"""Warp-specialised kernels on a Hopper card: their values, for the shapes that their schedule serves."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from schedule_kernels import grouped_queries, inputs, softmax_reference, windowed, windowed_reference

from examples.attention import attention, attention_scored
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.device import identity
from tileflow.target import Target, target

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]


@pytest.fixture
def card() -> Target:
    found = target(identity().device_class)
    if not found.has_wgmma:
        pytest.skip(f"{found.name} has no warp groups that multiply into registers")
    return found


def specialised(kernel: Kernel, args: tuple[Any, ...], card: Target, keys: int, mode: str, **more: Choice) -> Any:
    """The call under a warp-specialised config of two groups."""
    lowered = kernel.lower(args, card, mode=mode)
    (block,) = (k.name for k in lowered.space.knobs if k.role == "block" and k.name != "block:tile_m")
    choices = {"schedule": "warp_specialised", "block:tile_m": 128, block: keys, "num_stages": 2, **more}
    return kernel.compile(lowered, lowered.space.complete(choices), "cuda")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 80, 96, 128, 192, 256])
def test_attention(card: Target, d: int, causal: bool, mode: str) -> None:
    args = attention.inputs(batch=2, heads=3, m=1000, d=d, causal=causal, with_lse=True, device="cuda")
    call = specialised(attention, args, card, 64, mode)
    verdict = check_call(call, args, make_reference(attention.reference, args), repeats=5)
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("stages", [2, 3])
def test_rings_and_orders(card: Target, stages: int, ping_pong: bool) -> None:
    args = attention.inputs(batch=1, heads=2, m=4096, d=128, device="cuda")
    call = specialised(attention, args, card, 128, "static", num_stages=stages, ping_pong=ping_pong)
    verdict = check_call(call, args, make_reference(attention.reference, args), repeats=20)
    assert verdict.ok, verdict.reason


def test_scores_that_load(card: Target) -> None:
    args = attention_scored.inputs(batch=2, heads=4, m=1000, n=700, d=128, device="cuda")
    call = specialised(attention_scored, args, card, 128, "static")
    verdict = check_call(call, args, make_reference(attention_scored.reference, args), repeats=5)
    assert verdict.ok, verdict.reason


def test_heads_that_share_keys_and_windows(card: Target) -> None:
    for kernel, reference, heads in ((grouped_queries, softmax_reference, 4), (windowed, windowed_reference, 1)):
        args = inputs(4, 1100, 1100, 64, groups=heads, device="cuda")
        got = specialised(kernel, args, card, 64, "static")(*args)
        wanted = reference(*(a.cpu() for a in args)).float()
        assert math.isclose(float((got.cpu().float() - wanted).abs().max()), 0.0, abs_tol=3e-2)


def test_one_launch_after_another_is_the_same(card: Target) -> None:
    """A race would show as bits that change."""
    args = attention.inputs(batch=4, heads=16, m=2048, d=128, causal=True, device="cuda")
    call = specialised(attention, args, card, 128, "static")
    first = call(*args)
    assert all(torch.equal(call(*args), first) for _ in range(50))
