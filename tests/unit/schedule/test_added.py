"""A product that each turn of a loop of gradients adds to memory: found, run as a schedule under adversarial
interleavings, refused by name; planted faults are found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from tile_testing.kernels.schedule_bodies import edited

import tileflow
import tileflow.language as tfl
from examples.attention import LOG2_E, attention_backward_fused
from tileflow.api import Kernel
from tileflow.config import Config
from tileflow.emit.gluon.gradients import GradientsKernel
from tileflow.explain import explain
from tileflow.ir.graph import KernelIR
from tileflow.kernels.flash import by_key_head
from tileflow.schedule.chained import Refusal
from tileflow.schedule.evaluate_gradients import GradientProgram
from tileflow.schedule.execute import NASTY, at_random, execute, interleavings
from tileflow.schedule.gradient_loop import GradientLoop, find_gradient_loop
from tileflow.schedule.gradients import AddedShape, Box, ScoreShape, Shape, SumShape, gradients, is_by_columns
from tileflow.schedule.machine import ScheduleFault
from tileflow.schedule.types import (
    Arrive,
    AwaitPuts,
    Multiply,
    Schedule,
    Share,
    Shared,
    Staged,
    Step,
    Turn,
    Wait,
    steps_of,
)
from tileflow.target import target

H200 = target("nvidia-h200")


def region(args: tuple[Any, ...], turn: int, mode: str = "static") -> tuple[KernelIR, GradientLoop, Config, Schedule]:
    """The launch of all gradients with its masks in place, and the schedule that its program is written from."""
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    lowered = attention_backward_fused.lower(meta, H200, mode=mode)
    choices = {"schedule@1": "warp_specialised", "block:tile_n@1": 128, "block:block_m": turn, "num_stages@1": 2}
    config = lowered.default.with_(choices)
    assert not lowered.space.violations(config)
    ir = lowered.specialised_regions(config)[1]
    kernel = GradientsKernel(ir, config, H200, "all")
    kernel.run()
    found = find_gradient_loop(ir)
    assert isinstance(found, GradientLoop), found
    return ir, found, config, kernel.specialised


def errors(m: int, d: int, causal: bool, turn: int, mode: str = "static") -> dict[str, float]:
    """The largest error of each gradient, of all programs, each under another interleaving."""
    torch.manual_seed(m)
    args = attention_backward_fused.inputs(batch=1, heads=1, m=m, d=d, causal=causal)
    q, k, v, out, lse, grad_out = (by_key_head(x, 1) for x in args[:6])
    delta = (out.float() * grad_out.float()).sum(-1)
    results = {"sum_q": torch.zeros(q.shape), **{name: torch.zeros_like(k) for name in ("grad_k", "grad_v")}}
    tensors = {"q": q, "k": k, "v": v, "grad_out": grad_out, "lse2": lse * LOG2_E, "delta": delta, **results}
    ir, found, config, schedule = region(args, turn, mode)
    scale = 1 / math.sqrt(d)
    nasty = list(NASTY.values())
    for n, begin in enumerate(range(0, m, 128)):
        scalars, begins = (
            {"scale": scale, "LOG2_E": LOG2_E},
            {"row@1": 0, "head@1": 0, "member@1": 0, found.rows: begin},
        )
        program = GradientProgram(ir, found, config, tensors, scalars, begins)
        execute(schedule, program, program.turns, nasty[(3 * n + d) % len(nasty)] if n % 2 else at_random(n))
    wanted = attention_backward_fused.reference(*(a.double() if isinstance(a, torch.Tensor) else a for a in args))
    got = (tensors["sum_q"].double() * scale, tensors["grad_k"].double(), tensors["grad_v"].double())
    return {
        name: float((g - by_key_head(w, 1)).abs().max())
        for name, g, w in zip(("q", "k", "v"), got, wanted, strict=True)
    }


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("m", "d", "turn"), [(150, 80, 64), (300, 128, 64), (300, 64, 128), (300, 32, 128)])
def test_gradients_of_odd_sizes(m: int, d: int, turn: int, causal: bool) -> None:
    """Groups have parts of the columns (of 80 in boxes of 128, and of 128), or of the rows of a turn that the end
    cuts."""
    found = errors(m, d, causal, turn)
    assert all(error < 3e-2 for error in found.values()), found


def test_sizes_that_are_arguments() -> None:
    """What lies beside the blocks goes by pointers then, whatever its strides are."""
    found = errors(300, 64, causal=True, turn=128, mode="dynamic")
    assert all(error < 3e-2 for error in found.values()), found


def test_what_is_found() -> None:
    args = attention_backward_fused.inputs(batch=1, heads=2, m=512, d=128, causal=True, device="meta")
    _, found, _, schedule = region(args, 64)
    assert found.added is not None and (found.added.held, found.added.part) == (0, 1)
    assert [v is not None for v in found.vectors] == [True, True] and found.ahead == ((), ())
    assert schedule.buffer("leaving").slots == 4  # programs begin at their own diagonal: a ring
    full = (*args[:-1], False)
    assert region(full, 64)[3].buffer("leaving").slots == 2
    _, dynamic, _, _ = region(args, 64, "dynamic")
    assert dynamic.vectors == (None, None) and all(dynamic.ahead)


@pytest.mark.parametrize(
    ("rows", "columns", "groups", "expected"),
    [(64, 128, 2, True), (128, 64, 2, False), (128, 128, 2, False), (64, 64, 2, None), (64, 64, 1, False),
     (64, 256, 2, None), (192, 64, 3, False), (128, 128, 3, None)],
)  # fmt: skip
def test_how_groups_divide_it(rows: int, columns: int, groups: int, expected: bool | None) -> None:
    assert is_by_columns(rows, columns, groups) is expected


# ---- what is refused ---------------------------------------------------------------------------------------------


def _around(body: Callable[..., Any], dtype: torch.dtype = torch.float32) -> Kernel:
    """A kernel whose turn is ``body(out, place, scores, weights, key, query, value)``, which adds to memory."""

    @tileflow.kernel
    def made(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heads, n, d = k.shape
        out, grad_k = torch.zeros(q.shape, dtype=dtype, device=q.device), torch.empty_like(k)
        for head, tile_n in tfl.tile([heads, n], block_size=[1, None]):
            key, value = k[head.begin, tile_n, :], v[head.begin, tile_n, :]
            total = tfl.zeros([tile_n, d])
            for tile_m in tfl.tile(q.size(1)):
                query = q[head.begin, tile_m, :]
                weights = tfl.dot(key, query.T).to(query.dtype)
                body(out, [head.begin, tile_m, slice(None)], weights, key, query, value)
                total = tfl.dot(weights, query, acc=total)
            grad_k[head.begin, tile_n, :] = total
        return out, grad_k

    return made


def _plain(out: Any, place: Any, weights: Any, key: Any, query: Any, value: Any) -> None:
    tfl.atomic_add(out, place, tfl.dot(weights.T, key))


def _other_rows(out: Any, place: Any, weights: Any, key: Any, query: Any, value: Any) -> None:
    tfl.atomic_add(out, place, tfl.dot(weights.T, value))


def _twice(out: Any, place: Any, weights: Any, key: Any, query: Any, value: Any) -> None:
    tfl.atomic_add(out, place, tfl.dot(weights.T, key))
    tfl.atomic_add(out, place, tfl.dot((weights * 2).T, key))


def _in_order(out: Any, place: Any, weights: Any, key: Any, query: Any, value: Any) -> None:
    tfl.atomic_add(out, place, tfl.dot(weights.T, key), sem="acq_rel")


REFUSED: dict[str, Kernel] = {
    "a product with rows that scores are made of": _around(_other_rows),
    "a turn adds one product to memory": _around(_twice),
    "added in any order": _around(_in_order),
    "a turn adds its own rows to a tensor of float32": _around(_plain, torch.bfloat16),
}


@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_what_is_refused(reason: str) -> None:
    q, k, v = (torch.empty(2, 256, 64, dtype=torch.bfloat16, device="meta") for _ in range(3))
    lowered = REFUSED[reason].lower((q, k, v), H200)
    found = find_gradient_loop(lowered.regions[0])
    assert isinstance(found, Refusal) and reason in str(found), found
    assert reason in explain(lowered)


# ---- the schedule alone ------------------------------------------------------------------------------------------

ROWS, DEPTH = 4, 8  # of a group, of a row


def shape(by_columns: bool, deep: bool, groups: int = 2) -> Shape:
    """Groups have half of the columns of a turn of four rows, or four rows of a turn of eight."""
    turn = ROWS if by_columns else ROWS * groups
    out = (ROWS, DEPTH // groups) if by_columns else (ROWS, DEPTH)
    return Shape(
        tuple(Box(name, (ROWS, DEPTH), 2) for name in ("k", "v")),
        tuple(Box(name, (turn, DEPTH), 2) for name in ("q", "grad")),
        (ScoreShape(0, 0, True), ScoreShape(1, 1, True)), (SumShape(1, False, 0), SumShape(0, False, 1)),
        (Box("grad_v", (ROWS, DEPTH), 2), Box("grad_k", (ROWS, DEPTH), 2)),
        vectors=(Box("lse", (1, turn), 4), Box("delta", (1, turn), 4)),
        added=AddedShape(0, 1, by_columns, Box("", (ROWS, turn), 2), Box("sum_q", out, 4), deep),
    )  # fmt: skip


class Plain:
    """One program's matrices, and a body written down without the compiler."""

    def __init__(self, shape: Shape, groups: int, turns: int) -> None:
        generator = torch.Generator().manual_seed(turns)
        turn = shape.blocks[0].shape[0]
        self.held = torch.randn(2, groups, ROWS, DEPTH, generator=generator)
        self.blocks = torch.randn(2, max(turns, 1), turn, DEPTH, generator=generator)
        self.beside = torch.randn(2, max(turns, 1), 1, turn, generator=generator)
        self.added = torch.zeros(turns, turn, DEPTH)
        self.saved: dict[tuple[str, int], torch.Tensor] = {}
        assert shape.added is not None
        self.turns, self.groups, self.by_columns = turns, groups, shape.added.by_columns

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        kind, _, number = buffer.rpartition("_")
        kinds = {"held": self.held[:, group], "block": self.blocks[:, turn], "vector": self.beside[:, turn]}
        return kinds[kind][int(number)]

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> dict[str, Any]:
        if part == "start":
            return {f"sums_{n}": torch.zeros(ROWS, DEPTH) for n in range(2)}
        if part == "finish":
            return {f"result_{n}": registers[f"sums_{n}"].clone() for n in range(2)}
        if part == "part_0":
            weights = torch.exp(0.1 * registers["scores_0"] - registers["vector_0"])
            return {"kept_0": weights, "operand_0": weights.clone()}
        inner = registers["kept_0"] * (registers["scores_1"] - registers["vector_1"])
        return {"kept_1": (), "operand_1": inner, "shared_operand": inner.clone()}

    def save(self, name: str, value: torch.Tensor, group: int) -> None:
        self.saved[name, group] = value

    def add(self, value: torch.Tensor, turn: int, group: int) -> None:
        rows, columns = value.shape
        at = (slice(None), slice(group * columns, (group + 1) * columns)) if self.by_columns else (
            slice(group * rows, (group + 1) * rows), slice(None))  # fmt: skip
        self.added[turn][at] += value

    def check(self) -> None:
        weights, inner = [], []
        for group in range(self.groups):
            key, value = self.held[:, group]
            query, grad = (block[: self.turns] for block in self.blocks)
            lse, delta = (beside[: self.turns] for beside in self.beside)
            weights.append(torch.exp(0.1 * key @ query.mT - lse))
            inner.append(weights[-1] * (value @ grad.mT - delta))
            torch.testing.assert_close(self.saved["result_0", group], (weights[-1] @ grad).sum(0))
            torch.testing.assert_close(self.saved["result_1", group], (inner[-1] @ query).sum(0))
        keys = self.held[0].flatten(0, 1)
        torch.testing.assert_close(self.added, torch.cat(inner, dim=1).mT @ keys)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("by_columns", [False, True])
def test_right_schedules_pass_under_every_interleaving(by_columns: bool, deep: bool, stages: int) -> None:
    made = shape(by_columns, deep)
    for turns in (0, 1, 2, 5):
        for _, choose in interleavings(seeds=4):
            body = Plain(made, 2, turns)
            execute(gradients(made, 2, stages), body, turns, choose)
            body.check()


def test_the_product_is_issued_in_front_of_the_sum_of_the_same_operand() -> None:
    """It leaves by the copy engine while that sum is under way."""
    steps = list(steps_of(gradients(shape(True, False), 2, 2).consumer.program))
    products = [s.into for s in steps if isinstance(s, Multiply)]
    assert products == ["scores_0", "scores_1", "sums_0", "added", "added", "sums_1"]


def _without(is_it: Callable[[Step], bool]) -> Callable[[Schedule], Schedule]:
    return lambda s: edited(s, "consumer", lambda step: () if is_it(step) else (step,))


def _is(kind: type, barrier: str) -> Callable[[Step], bool]:
    return lambda s: isinstance(s, kind) and getattr(s, "barrier", None) == barrier


def _one_slot(schedule: Schedule) -> Schedule:
    """The operands of all turns go through a group's slot of the first one."""
    first = Turn("first")

    def change(step: Step) -> tuple[Step, ...]:
        if isinstance(step, Multiply) and isinstance(step.left, Shared) and step.left.buffer == "shared":
            assert isinstance(step.left.slot, Staged)
            return (replace(step, left=replace(step.left, slot=replace(step.left.slot, turn=first))),)
        return (replace(step, slot=replace(step.slot, turn=first)),) if isinstance(step, Share) else (step,)

    return edited(schedule, "consumer", change)


def _shared_late(schedule: Schedule) -> Schedule:
    """A group says that its operand is there before it is."""

    def change(step: Step) -> tuple[Step, ...]:
        return (Arrive("shared_full", step.slot), step) if isinstance(step, Share) else (step,)  # type: ignore[arg-type]

    return edited(_without(_is(Arrive, "shared_full"))(schedule), "consumer", change)


# by planted fault, what it shows as under some interleaving
FAULTS: dict[str, tuple[Callable[[Schedule], Schedule], str]] = {
    "operands are not waited for": (_without(_is(Wait, "shared_full")), "early"),
    "operands are said to be there too early": (_shared_late, "stale"),
    "a group does not say that its operand is there": (_without(_is(Arrive, "shared_full")), "deadlock"),
    "operands have no ring": (_one_slot, "race"),
    "blocks are never let go": (_without(_is(Arrive, "blocks_empty")), "deadlock"),
    "what leaves is overwritten": (_without(lambda s: isinstance(s, AwaitPuts)), "race"),
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_planted_faults_are_found(name: str) -> None:
    plant, kind = FAULTS[name]
    made, found = shape(True, False), set()
    for turns in (1, 5):
        for _, choose in interleavings(seeds=6):
            try:
                execute(plant(gradients(made, 2, 2)), Plain(made, 2, turns), turns, choose)
            except ScheduleFault as fault:
                found.add(fault.kind)
    assert kind in found
