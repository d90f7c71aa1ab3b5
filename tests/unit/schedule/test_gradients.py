"""A loop of gradients: found in the author's kernels, run as a schedule under adversarial interleavings, refused by
name; and the faults that are planted in its schedule are found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from tile_testing.kernels.gradient_kernels import REFUSED, by_each_other, inputs, shared_keys, shared_keys_reference
from tile_testing.kernels.schedule_bodies import edited

from examples.attention import LOG2_E, attention_backward
from tileflow.api import Kernel
from tileflow.explain import explain
from tileflow.ir.graph import KernelIR
from tileflow.kernels.flash import by_key_head
from tileflow.schedule.chained import Refusal
from tileflow.schedule.evaluate_gradients import GradientProgram
from tileflow.schedule.execute import NASTY, at_random, execute, interleavings
from tileflow.schedule.gradient_loop import GradientLoop, find_gradient_loop
from tileflow.schedule.gradients import Box, ScoreShape, Shape, SumShape, gradients
from tileflow.schedule.machine import ScheduleFault
from tileflow.schedule.types import (
    Arrive,
    Await,
    Compute,
    Copy,
    Multiply,
    Repeat,
    Round,
    Schedule,
    Staged,
    Step,
    Turn,
    Wait,
    steps_of,
)
from tileflow.target import target

H200 = target("nvidia-h200")
BLOCK = {1: "block:block_m", 2: "block:block_n"}  # of a turn, by region


def shape_of(found: GradientLoop, depth: int, turn: int) -> Shape:
    """The boxes of matrices of so many columns, and of blocks of ``turn`` rows."""
    held = tuple(Box(op.attrs.tensor, (1, 1, 1, 64, depth), 2) for op in found.held)  # type: ignore[attr-defined]
    blocks = tuple(Box(op.attrs.tensor, (1, 1, 1, turn, depth), 2) for op in found.blocks)  # type: ignore[attr-defined]
    return Shape(
        held, blocks, tuple(ScoreShape(s.held, s.block, s.transposed) for s in found.scores),
        tuple(SumShape(s.block, s.transposed, s.part) for s in found.sums),
        tuple(Box("result", (1, 1, 1, 64, depth), 2) for _ in found.saved),
        tuple(n for n, ops in enumerate(found.ahead) if ops),
        tuple(None if op is None else Box("vector", (1, 1, 1, turn), 4) for op in found.vectors),
    )  # fmt: skip


def region(
    kernel: Kernel, args: tuple[Any, ...], number: int, choices: Mapping[str, Any]
) -> tuple[KernelIR, GradientLoop, Any]:
    """A region of a call with its masks in place, its structure, and its config."""
    lowered = kernel.lower(tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), H200)
    config = lowered.default.with_(choices)
    ir = lowered.specialised_regions(config)[number]
    found = find_gradient_loop(ir)
    assert isinstance(found, GradientLoop), found
    return ir, found, config


def arguments(heads: int, m: int, d: int, causal: bool) -> tuple[tuple[Any, ...], dict[str, torch.Tensor]]:
    """Of the gradients' kernel, and the tensors that its second and third launch see."""
    torch.manual_seed(m)
    args = attention_backward.inputs(batch=1, heads=heads, m=m, d=d, causal=causal)
    q, k, v, out, lse, grad_out = (by_key_head(x, heads) for x in args[:6])
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
        program = GradientProgram(
            ir,
            found,
            config,
            tensors,
            scalars,
            {f"row@{number}": 0, f"head@{number}": head, f"member@{number}": 0, found.rows: begin},
        )
        execute(schedule, program, program.turns, nasty[n % len(nasty)] if n % 2 else at_random(n))
    wanted = attention_backward.reference(*(a.double() if isinstance(a, torch.Tensor) else a for a in args))
    names = dict(zip(("grad_q", "grad_k", "grad_v"), (by_key_head(w, heads) for w in wanted), strict=True))
    return {name: (tensors[name].double() - names[name]).abs().max() for name in names}


def found_rows(number: int) -> str:
    return {1: "block:tile_n@1", 2: "block:tile_m@2"}[number]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("number", "results"), [(1, ("grad_k", "grad_v")), (2, ("grad_q",))])
def test_gradients_of_odd_sizes(number: int, results: tuple[str, ...], causal: bool) -> None:
    """80 columns in boxes of 128, 150 rows in tiles of 128, turns of 64 that the end cuts."""
    errors = run(number, heads=1, m=150, d=80, causal=causal, turn=64)
    assert all(errors[name] < 3e-2 for name in results), errors
    assert all(error > 0.5 for name, error in errors.items() if name not in results)  # the other launch's


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 80, 128])
def test_the_gradient_of_queries_by_the_blocks_of_the_default(d: int, causal: bool) -> None:
    """128 rows, turns of 128 keys of which the last one is cut."""
    assert run(2, heads=1, m=300, d=d, causal=causal, turn=128)["grad_q"] < 0.02


def test_queries_that_share_keys() -> None:
    """The gradient of queries where several heads have one head of keys, by the author's own formula."""
    torch.manual_seed(0)
    args = inputs(4, 130, 70, 64, groups=2)
    ir, found, config = region(shared_keys, args, 0, {"block:tile_m": 128, "block:tile_n": 64})
    names = ("q", "k", "v", "grad_out", "lse2", "delta")
    tensors = dict(zip(names, args, strict=True)) | {"grad_q": torch.zeros_like(args[0])}
    schedule = gradients(shape_of(found, 64, 64), groups=2, stages=2)
    for head in range(4):
        for begin in (0, 128):
            begins = {"head": head, "tile_m": begin}
            program = GradientProgram(ir, found, config, tensors, {"LOG2_E": LOG2_E}, begins)
            execute(schedule, program, program.turns, at_random(head))
    wanted = shared_keys_reference(*args)
    assert (tensors["grad_q"].float() - wanted).abs().max() < 1e-2 * wanted.abs().max()


def test_a_score_that_only_a_later_part_reads() -> None:
    """The first part computes nothing, and keeps its score. The emission had no name for it."""
    torch.manual_seed(0)
    args = inputs(1, 130, 70, 64)
    ir, found, config = region(by_each_other, args, 0, {"block:tile_m": 128, "block:tile_n": 64})
    assert found.kept(0) == (found.scores[0].product.output,)
    tensors = dict(zip(("q", "k", "v", "grad_out"), args, strict=False)) | {"grad_q": torch.zeros_like(args[0])}
    schedule = gradients(shape_of(found, 64, 64), groups=2, stages=2)
    for begin in (0, 128):
        program = GradientProgram(ir, found, config, tensors, {}, {"head": 0, "tile_m": begin})
        execute(schedule, program, program.turns, at_random(begin))
    q, k, v, grad_out = (x.float() for x in args[:4])
    wanted = ((q @ k.mT) * (grad_out @ v.mT)) @ k
    assert (tensors["grad_q"].float() - wanted).abs().max() < 1e-2 * wanted.abs().max()


@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_what_is_no_loop_of_gradients_is_refused_by_name(reason: str) -> None:
    args = inputs(1, 128, 128, 64, device="meta")
    lowered = REFUSED[reason].lower(args, H200)
    found = find_gradient_loop(lowered.regions[0])
    assert isinstance(found, Refusal) and reason in str(found), found
    assert "schedule" not in [k.name for k in lowered.space.knobs]
    assert reason in explain(lowered)


# ---- the schedule alone ----------------------------------------------------------------------------------------

ROWS, TURN, DEPTH = 4, 4, 8
PLAIN = Shape(
    tuple(Box(name, (ROWS, DEPTH), 2) for name in ("k", "v")),
    tuple(Box(name, (TURN, DEPTH), 2) for name in ("q", "grad")),
    (ScoreShape(0, 0, True), ScoreShape(1, 1, True)), (SumShape(1, False, 0), SumShape(0, False, 1)),
    (Box("grad_v", (ROWS, DEPTH), 2), Box("grad_k", (ROWS, DEPTH), 2)), (0, 1),
)  # fmt: skip


def made(groups: int = 2, stages: int = 2) -> Schedule:
    return gradients(PLAIN, groups, stages)


class Plain:
    """One program's matrices, and a body written down without the compiler: exponentials, and what passes back."""

    def __init__(self, groups: int, turns: int) -> None:
        generator = torch.Generator().manual_seed(turns)
        self.held = torch.randn(2, groups, ROWS, DEPTH, generator=generator)
        self.blocks = torch.randn(2, max(turns, 1), TURN, DEPTH, generator=generator)
        self.beside = torch.randn(2, max(turns, 1), TURN, generator=generator)
        self.saved: dict[tuple[str, int], torch.Tensor] = {}
        self.turns, self.groups = turns, groups

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        kind, _, number = buffer.rpartition("_")
        return self.held[int(number), group] if kind == "held" else self.blocks[int(number), turn]

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> dict[str, Any]:
        if part == "start":
            return {f"sums_{n}": torch.zeros(ROWS, DEPTH) for n in range(2)}
        if part == "finish":
            return {f"result_{n}": registers[f"sums_{n}"].clone() for n in range(2)}
        number = int(part[-1])
        if part.startswith("ahead"):
            return {f"ahead_{number}": self.beside[number, turn]}
        if number == 0:
            weights = torch.exp(0.1 * registers["scores_0"] - registers["ahead_0"])
            return {"kept_0": weights, "operand_0": weights.clone()}
        return {"kept_1": (), "operand_1": registers["kept_0"] * (registers["scores_1"] - registers["ahead_1"])}

    def save(self, name: str, value: torch.Tensor, group: int) -> None:
        self.saved[name, group] = value

    def expected(self, group: int) -> tuple[torch.Tensor, torch.Tensor]:
        key, value = self.held[:, group]
        query, grad = (block[: self.turns].flatten(0, 1) for block in self.blocks)
        lse, delta = (beside[: self.turns].flatten() for beside in self.beside)
        weights = torch.exp(0.1 * key @ query.mT - lse)
        return weights @ grad, (weights * (value @ grad.mT - delta)) @ query


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_right_schedules_pass_under_every_interleaving(groups: int, stages: int) -> None:
    for turns in (0, 1, 2, 5):
        for _, choose in interleavings(seeds=4):
            body = Plain(groups, turns)
            execute(made(groups, stages), body, turns, choose)
            for group in range(groups):
                for n, wanted in enumerate(body.expected(group)):
                    torch.testing.assert_close(body.saved[f"result_{n}", group], wanted)


def test_blocks_are_let_go_as_soon_as_nothing_reads_them() -> None:
    """A block that only a score reads goes before the turn's end, one that a sum reads at its end."""
    shape = replace(PLAIN, sums=(SumShape(0, False, 1),), saved=PLAIN.saved[:1])
    (turn,) = (s for s in steps_of(gradients(shape, 2, 2).consumer.program) if isinstance(s, Repeat))
    kinds = [s.barrier if isinstance(s, Arrive) else s.results for s in turn.steps if isinstance(s, Arrive | Await)]
    assert kinds == [("scores_0",), ("scores_1",), "block_1_empty", ("sums_0",), "block_0_empty"]


def _without(is_it: Callable[[Step], bool], role: str = "consumer") -> Callable[[Schedule], Schedule]:
    return lambda s: edited(s, role, lambda step: () if is_it(step) else (step,))


def _changed(change: Callable[[Step], Step], role: str = "consumer") -> Callable[[Schedule], Schedule]:
    return lambda s: edited(s, role, lambda step: (change(step),))


def _is(kind: type, barrier: str) -> Callable[[Step], bool]:
    return lambda s: isinstance(s, kind) and getattr(s, "barrier", None) == barrier


def _early(step: Step) -> Step:
    """The first score is read while both are under way."""
    return replace(step, pending=2) if step == Await(1, ("scores_0",)) else step


def _of_the_turn_before(step: Step) -> Step:
    is_sum = isinstance(step, Multiply) and step.into == "sums_1"
    return replace(step, right=replace(step.right, slot=Staged(Turn(offset=1)))) if is_sum else step  # type: ignore[union-attr]


def _swapped(step: Step) -> Step:
    other = {"block_0_full": "block_1_full", "block_1_full": "block_0_full"}
    return replace(step, full=other.get(step.full, step.full)) if isinstance(step, Copy) else step


def _wrong_round(step: Step) -> Step:
    return replace(step, round=Round(Turn())) if _is(Wait, "block_1_empty")(step) else step


def _let_go_early(schedule: Schedule) -> Schedule:
    """The blocks are let go before the sums that read them were awaited."""

    def change(step: Step) -> tuple[Step, ...]:
        if not isinstance(step, Repeat):
            return (step,)
        last = max(n for n, x in enumerate(step.steps) if isinstance(x, Await))
        return (replace(step, steps=(*step.steps[:last], *step.steps[last + 1 :], step.steps[last])),)

    return edited(schedule, "consumer", change)


def _one_slot_too_few(s: Schedule) -> Schedule:
    more = [replace(b, slots=b.slots + 1) if b.per == "stage" else b for b in s.barriers]
    return replace(s, stages=s.stages + 1, barriers=tuple(more))


def _not_a_turn_ahead(step: Step) -> Step:
    """What lies beside the blocks is loaded behind the loop's end."""
    is_next = isinstance(step, Compute) and step.turn == Turn("next")
    return replace(step, turn=Turn(offset=1)) if is_next else step  # type: ignore[arg-type]


# by planted fault, what it shows as under some interleaving
FAULTS: dict[str, tuple[Callable[[Schedule], Schedule], str]] = {
    "a block is never let go": (_without(_is(Arrive, "block_0_empty")), "deadlock"),
    "the producer waits for the wrong round": (_changed(_wrong_round, "producer"), "deadlock"),
    "the producer does not wait": (_without(_is(Wait, "block_0_empty"), "producer"), "race"),
    "one slot too few": (_one_slot_too_few, "race"),
    "blocks are let go early": (_let_go_early, "race"),
    "copies are told to the other barrier": (_changed(_swapped, "producer"), "early"),
    "rows are not waited for": (_without(_is(Wait, "held_0_full")), "early"),
    "a block is not waited for": (_without(_is(Wait, "block_1_full")), "early"),
    "a score is read too early": (_changed(_early), "early"),
    "a sum reads another turn": (_changed(_of_the_turn_before), "stale"),
    "sums are not awaited": (_without(lambda s: isinstance(s, Await) and s.results[0].startswith("sums")), "race"),
    "one arrival is enough": (
        lambda s: replace(s, barriers=tuple(replace(b, arrivals=1) for b in s.barriers)), "race",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_planted_faults_are_found(name: str) -> None:
    plant, kind = FAULTS[name]
    found = set()
    for turns in (1, 5):
        for _, choose in interleavings(seeds=4):
            try:
                execute(plant(made()), Plain(2, turns), turns, choose)
            except ScheduleFault as fault:
                found.add(fault.kind)
    assert kind in found


def test_nothing_is_loaded_behind_the_loop() -> None:
    """There the tensors may have ended: the turn after the last one is the last one."""
    with pytest.raises(IndexError):
        execute(_changed(_not_a_turn_ahead)(made()), Plain(2, 3), 3, at_random(0))
