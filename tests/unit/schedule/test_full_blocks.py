"""Full blocks have no masks of the loop's end: which parts of a schedule ask for that, and that values are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels.schedule_bodies import edited

from examples.attention import LOG2_E, attention, attention_backward
from tileflow.emit.gluon.kernel import GluonKernel
from tileflow.emit.gluon.specialised import specialised_kernel
from tileflow.kernels.flash import by_key_head
from tileflow.schedule.evaluate import Program, Streamed
from tileflow.schedule.evaluate_gradients import GradientProgram
from tileflow.schedule.execute import at_random, execute
from tileflow.schedule.machine import ScheduleFault
from tileflow.schedule.types import Compute, IfFull, Schedule, Step, Turn, steps_of
from tileflow.target import target

H200 = target("nvidia-h200")
LAUNCHES = {1: ("block:tile_n@1", "block:block_m"), 2: ("block:tile_m@2", "block:block_n")}


def emitted(m: int, causal: bool, launch: int = 0) -> GluonKernel:
    """Attention, or a launch of its gradients, of two consumer groups and turns of 64."""
    kernel = attention if launch == 0 else attention_backward
    lowered = kernel.lower(kernel.inputs(batch=1, heads=1, m=m, d=64, causal=causal, device="meta"), H200)
    if launch == 0:
        config = lowered.default.with_({"schedule": "warp_specialised", "block:tile_m": 128, "block:block_n": 64})
    else:
        tile, block = LAUNCHES[launch]
        config = lowered.default.with_({f"schedule@{launch}": "warp_specialised", tile: 128, block: 64})
    regions = lowered.specialised_regions(lowered.space.normalise(config))
    found = specialised_kernel(regions[launch], lowered.space.normalise(config), H200, "all")
    found.run()
    return found


def programs(kernel: GluonKernel, tensors: dict[str, torch.Tensor], d: int = 64) -> list[Streamed]:
    """The launch's programs over one head, as bodies of its schedule."""
    kind: Any = Program if "q" in tensors and "out" in tensors else GradientProgram
    given = (kernel.plan.ir, kernel.structure, kernel.plan.config, tensors)
    scale = 1 / math.sqrt(d)
    scalars = {"scale": scale * LOG2_E if kind is Program else scale, "LOG2_E": LOG2_E}
    rows = kernel.structure.rows
    alone = {rows.replace("tile_m", axis).replace("tile_n", axis): 0 for axis in ("row", "head", "member")}
    return [kind(*given, scalars, alone | {rows: begin}) for begin in range(0, tensors["q"].size(-2), 128)]


def asks(schedule: Schedule) -> set[str]:
    """The parts that have a text for full blocks."""
    found = [s for s in steps_of(schedule.consumer.program) if isinstance(s, IfFull)]
    for step in found:
        (full,), (partial,) = step.steps, step.others
        assert isinstance(full, Compute) and isinstance(partial, Compute)
        assert full.full and not partial.full and full.part == partial.part
        assert step.turn == full.turn == partial.turn
    return {step.others[0].part for step in found if isinstance(step.others[0], Compute)}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("launch", "parts"), [(0, {"weigh", "narrow"}), (1, {"part_0", "part_1"}), (2, {"part_1"})])
def test_the_parts_that_mask_ask(launch: int, parts: set[str], causal: bool) -> None:
    """And none does where blocks divide what the loop goes over, or the author's causal mask leaves those keys out."""
    assert asks(emitted(200, causal, launch).specialised) == (set() if causal and launch == 0 else parts)
    assert asks(emitted(256, causal, launch).specialised) == set()


def attended(change: Callable[[Schedule], Schedule], causal: bool = False) -> float:
    """Attention over 200 keys by a changed schedule: how far it is off. The last block has 8 keys of 64."""
    torch.manual_seed(0)
    args = attention.inputs(batch=1, heads=1, m=200, d=64, causal=causal)
    q, k, v = by_key_head(args[0], 1), *args[1:3]
    tensors = {"q": q, "k": k, "v": v, "out": torch.zeros_like(q)}
    kernel = emitted(200, causal)
    for number, program in enumerate(programs(kernel, tensors)):
        execute(change(kernel.specialised), program, program.turns, at_random(number))
    wanted = attention.reference(*(a.float() if isinstance(a, torch.Tensor) else a for a in args))
    return float((tensors["out"].float() - by_key_head(wanted, 1)).abs().max())


def _of(change: Callable[[IfFull], Step]) -> Callable[[Schedule], Schedule]:
    return lambda s: edited(s, "consumer", lambda x: (change(x),) if isinstance(x, IfFull) else (x,))


def _masked(step: IfFull) -> Step:
    return step.others[0]


def _unmasked(step: IfFull) -> Step:
    return step.steps[0]


def _of_the_first_turn(step: IfFull) -> Step:
    return IfFull(Turn("first"), step.steps, step.others)


def _turned_round(step: IfFull) -> Step:
    return IfFull(step.turn, step.others, step.steps)


@pytest.mark.parametrize("causal", [False, True])
def test_values_are_the_same_with_the_masks_in_every_turn(causal: bool) -> None:
    assert attended(lambda s: s, causal) < 0.02
    assert attended(_of(_masked), causal) < 0.02


@pytest.mark.parametrize("plant", [_unmasked, _of_the_first_turn, _turned_round])
def test_a_partial_block_without_masks_is_a_fault(plant: Callable[[IfFull], Step]) -> None:
    with pytest.raises(ScheduleFault) as fault:
        attended(_of(plant))
    assert fault.value.kind == "unmasked"


def test_a_partial_block_without_masks_has_wrong_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fault stands for: zeros of the copy engine are scores like any other."""
    monkeypatch.setattr(Streamed, "is_full", lambda self, turn: True)
    assert attended(lambda s: s) > 0.05


@pytest.mark.parametrize("launch", [1, 2])
def test_gradients_of_partial_blocks(launch: int) -> None:
    """Their operands are zero past the end, whatever a part computes there: the fault is found all the same."""
    torch.manual_seed(0)
    args = attention_backward.inputs(batch=1, heads=1, m=200, d=64, causal=False)
    q, k, v, out, lse, grad_out = (by_key_head(x, 1) for x in args[:6])
    results = {name: torch.zeros_like(q) for name in ("grad_q", "grad_k", "grad_v")}
    delta = (out.float() * grad_out.float()).sum(-1)
    tensors = {"q": q, "k": k, "v": v, "grad_out": grad_out, "lse2": lse * LOG2_E, "delta": delta, **results}
    kernel = emitted(200, False, launch)
    for number, program in enumerate(programs(kernel, tensors)):
        execute(kernel.specialised, program, program.turns, at_random(number))
    wanted = attention_backward.reference(*(a.double() if isinstance(a, torch.Tensor) else a for a in args))
    named = dict(zip(("grad_q", "grad_k", "grad_v"), wanted, strict=True))
    for name in ("grad_q",) if launch == 2 else ("grad_k", "grad_v"):
        assert (results[name].double() - by_key_head(named[name], 1)).abs().max() < 0.03
    broken = _of(_unmasked)(kernel.specialised)
    with pytest.raises(ScheduleFault) as fault:
        execute(broken, program, program.turns, at_random(0))
    assert fault.value.kind == "unmasked"
