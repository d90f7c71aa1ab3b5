"""Rows that the copy engine brings for products and that something else reads: loaded again around the loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels.read_again import TAKEN, kept_queries
from tile_testing.kernels.schedule_kernels import inputs

from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.emit.gluon.gradients import GradientsKernel
from tileflow.emit.gluon.kernel import GluonKernel
from tileflow.ir.graph import KernelIR
from tileflow.lowered import Lowered
from tileflow.schedule.chained import Chained
from tileflow.schedule.evaluate import Program
from tileflow.schedule.evaluate_gradients import GradientProgram
from tileflow.schedule.execute import NASTY, at_random, execute
from tileflow.schedule.gradient_loop import GradientLoop
from tileflow.schedule.structure import find_structure
from tileflow.schedule.types import Schedule
from tileflow.target import target

H200 = target("nvidia-h200")


def matrices(m: int, n: int, d: int, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """Queries, keys and values of one head."""
    return tuple(x[0] / 4 for x in inputs(1, m, n, d, device=device))


def specialised(lowered: Lowered) -> Config:
    return lowered.space.complete(
        {"schedule": "warp_specialised", "block:tile_m": 128, "block:tile_n": 64, "num_stages": 2}
    )


def region(kernel: Any, args: tuple[torch.Tensor, ...]) -> tuple[KernelIR, Config, Schedule]:
    """The region of a call with its masks in place, its config, and the schedule that is written for it."""
    lowered = kernel.lower(tuple(a.to("meta") for a in args), H200)
    config = specialised(lowered)
    (ir,) = lowered.specialised_regions(config)
    emission = (GluonKernel if isinstance(find_structure(ir), Chained) else GradientsKernel)(ir, config, H200, "all")
    emission.run()
    return ir, config, emission.specialised


@pytest.mark.parametrize("name", TAKEN)
def test_rows_that_are_read_around_the_loop_are_loaded_again(name: str) -> None:
    """The epilogue's own rows were asked for where nothing had loaded them: a KeyError of the emission."""
    torch.manual_seed(0)
    kernel, reference = TAKEN[name]
    args = matrices(200, 150, 64)
    ir, config, schedule = region(kernel, args)
    found = find_structure(ir)
    assert isinstance(found, Chained | GradientLoop)
    out = torch.zeros_like(args[0])
    tensors = dict(zip(("q", "k", "v", "out"), (*args, out), strict=True))
    for number, begin in enumerate(range(0, 200, 128)):
        program: Any
        if isinstance(found, Chained):
            program = Program(ir, found, config, tensors, {}, {"tile_m": begin})
        else:
            program = GradientProgram(ir, found, config, tensors, {}, {"tile_m": begin})
        for choose in (at_random(number), *NASTY.values()):
            execute(schedule, program, program.turns, choose)
    torch.testing.assert_close(out.float(), reference(*args), atol=3e-2, rtol=3e-2)


def test_what_the_loop_does_not_need_waits_until_it_is_over() -> None:
    """Half of the queries, which the author computes in front of the loop, would take registers all along it."""
    ir, _, _ = region(kept_queries, matrices(128, 128, 64))
    found = find_structure(ir)
    assert isinstance(found, Chained)
    tiles = [op for op in found.before if any(len(v.dims) == 2 for v in op.outputs)]
    assert found.query in tiles and found.query in found.after
    assert all(op.kind.value != "pointwise" or "abs" in str(op.attrs) for op in tiles)


@pytest.mark.parametrize("name", TAKEN)
def test_it_compiles(name: str) -> None:
    lowered = TAKEN[name][0].lower(matrices(512, 512, 128, "meta"), H200)
    (source,) = lowered.emit(specialised(lowered))
    assert source.language == "gluon" and build(source, H200).resources.spills == 0
