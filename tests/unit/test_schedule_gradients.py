"""A loop of gradients: found in the author's kernels, run as a schedule under adversarial interleavings, its planted
faults found, refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from examples.attention import LOG2_E, attention_backward
from tileflow.api import Kernel
from tileflow.ir.graph import KernelIR
from tileflow.schedule.evaluate_gradients import GradientProgram
from tileflow.schedule.execute import NASTY, at_random, execute
from tileflow.schedule.gradient_loop import GradientLoop, find_gradient_loop
from tileflow.schedule.gradients import Box, ScoreShape, Shape, SumShape, gradients
from tileflow.schedule.types import Schedule
from tileflow.target import target

H200 = target("nvidia-h200")
BLOCK = {1: "block:block_m", 2: "block:block_n"}  # of a turn, by region


def shape_of(found: GradientLoop, depth: int, turn: int) -> Shape:
    """The boxes of matrices of so many columns, and of blocks of ``turn`` rows."""
    held = tuple(Box(op.attrs.tensor, (1, 64, depth), 2) for op in found.held)  # type: ignore[attr-defined]
    blocks = tuple(Box(op.attrs.tensor, (1, turn, depth), 2) for op in found.blocks)  # type: ignore[attr-defined]
    return Shape(
        held, blocks, tuple(ScoreShape(s.held, s.block, s.transposed) for s in found.scores),
        tuple(SumShape(s.block, s.transposed, s.part) for s in found.sums),
        tuple(Box("result", (1, 64, depth), 2) for _ in found.saved),
        tuple(n for n, ops in enumerate(found.ahead) if ops),
    )  # fmt: skip


def region(
    kernel: Kernel, args: tuple[Any, ...], number: int, choices: Mapping[str, Any]
) -> tuple[KernelIR, GradientLoop, Any]:
    """A region of a call with its masks in place, its structure, and its config."""
    lowered = kernel.lower(tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), H200)
    config = lowered.default.with_(choices)
    ir = lowered._variant(lowered._regions_under(config)[number], config)
    found = find_gradient_loop(ir)
    assert isinstance(found, GradientLoop), found
    return ir, found, config


def arguments(heads: int, m: int, d: int, causal: bool) -> tuple[tuple[Any, ...], dict[str, torch.Tensor]]:
    """Of the gradients' kernel, and the tensors that its second and third launch see."""
    torch.manual_seed(m)
    args = attention_backward.inputs(batch=1, heads=heads, m=m, d=d, causal=causal)
    q, k, v, out, lse, grad_out = (x.flatten(0, 1) for x in args[:6])
    delta = (out.float() * grad_out.float()).sum(-1)
    results = {name: torch.zeros_like(q) for name in ("grad_q", "grad_k", "grad_v")}
    return args, {"q": q, "k": k, "v": v, "grad_out": grad_out, "lse2": lse * LOG2_E, "delta": delta, **results}


def run(number: int, heads: int, m: int, d: int, causal: bool, turn: int, groups: int = 2) -> dict[str, torch.Tensor]:
    """Every program of a region, each under another interleaving."""
    args, tensors = arguments(heads, m, d, causal)
    ir, found, config = region(attention_backward, args, number, {found_rows(number): 64 * groups, BLOCK[number]: turn})
    schedule = gradients(shape_of(found, 1 << (d - 1).bit_length(), turn), groups, stages=2)
    scalars = {"scale": 1 / math.sqrt(d), "LOG2_E": LOG2_E}
    nasty = list(NASTY.values())
    places = [(h, b) for h in range(heads) for b in range(0, m, 64 * groups)]
    for n, (head, begin) in enumerate(places):
        program = GradientProgram(ir, found, config, tensors, scalars, {f"head@{number}": head, found.rows: begin})
        execute(schedule, program, program.turns, nasty[n % len(nasty)] if n % 2 else at_random(n))
    wanted = attention_backward.reference(*(a.double() if isinstance(a, torch.Tensor) else a for a in args))
    names = dict(zip(("grad_q", "grad_k", "grad_v"), (w.flatten(0, 1) for w in wanted), strict=True))
    return {name: (tensors[name].double() - names[name]).abs().max() for name in names}


def found_rows(number: int) -> str:
    return {1: "block:tile_n@1", 2: "block:tile_m@2"}[number]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("number", "results"), [(1, ("grad_k", "grad_v")), (2, ("grad_q",))])
def test_gradients_of_odd_sizes(number: int, results: tuple[str, ...], causal: bool) -> None:
    """80 columns in boxes of 128, 200 rows in tiles of 128, turns of 64 that the end cuts."""
    errors = run(number, heads=2, m=200, d=80, causal=causal, turn=64)
    assert all(errors[name] < 3e-2 for name in results), errors
    assert all(error > 0.5 for name, error in errors.items() if name not in results)  # the other launch's
