"""Values for schedules: attention over small matrices, written down without the compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from tileflow.schedule.attention import Shape, attention
from tileflow.schedule.types import Branches, Nested, Role, Schedule, Step, first_of_tile, tile_of

ROWS, KEYS, DEPTH = 4, 4, 8
SHAPE = Shape((1, ROWS, DEPTH), (1, KEYS, DEPTH), (1, KEYS, DEPTH), 2, (1, ROWS, DEPTH), 2)


def made(groups: int = 2, stages: int = 2, ping_pong: bool = True, walks: bool = False) -> Schedule:
    return attention(SHAPE, groups, stages, ping_pong, walks)


class Plain:
    """One program's queries, keys and values, and the online softmax of the textbook."""

    def __init__(self, groups: int, turns: int) -> None:
        generator = torch.Generator().manual_seed(turns)
        self.query = torch.randn(groups, ROWS, DEPTH, generator=generator)
        self.key, self.value = torch.randn(2, max(turns, 1), KEYS, DEPTH, generator=generator)
        self.saved: dict[int, torch.Tensor] = {}
        self.turns = turns

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        return getattr(self, buffer)[group if turn is None else turn]

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> dict[str, Any]:
        return getattr(self, part)(**registers)

    def start(self) -> dict[str, Any]:
        return {"sums": torch.zeros(ROWS, DEPTH), "carried": (torch.full((ROWS,), -torch.inf), torch.zeros(ROWS))}

    def weigh(self, scores: torch.Tensor, carried: Any) -> dict[str, Any]:
        peak, total = carried
        new = torch.maximum(peak, scores.amax(1))
        weights, shrink = torch.exp(scores - new[:, None]), torch.exp(peak - new)
        return {"weights": weights, "carried": (new, total * shrink + weights.sum(1)), "factors": shrink}

    def rescale(self, sums: torch.Tensor, factors: torch.Tensor) -> dict[str, Any]:
        return {"sums": sums * factors[:, None]}

    def narrow(self, weights: torch.Tensor) -> dict[str, Any]:
        return {"operand": weights.clone()}

    def finish(self, sums: torch.Tensor, carried: Any) -> dict[str, Any]:
        return {"result": sums / carried[1][:, None]}

    def save(self, name: str, value: torch.Tensor, group: int) -> None:
        self.saved[group] = value

    @property
    def expected(self) -> torch.Tensor:
        keys, values = self.key[: self.turns].flatten(0, 1), self.value[: self.turns].flatten(0, 1)
        return torch.softmax(self.query @ keys.mT, dim=-1) @ values


class Walk:
    """Several programs, which one that walks over their tiles works on. ``turns``: of each."""

    def __init__(self, programs: Sequence[Any]) -> None:
        self.programs, self.turns = programs, tuple(program.turns for program in programs)

    def at(self, turn: int | None) -> tuple[Any, int]:
        """The program that a turn is of, and the turn's number in it."""
        assert turn is not None
        return self.programs[tile_of(turn, self.turns)], turn - first_of_tile(turn, self.turns)

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        program, own = self.at(turn)
        found: torch.Tensor = program.box(buffer, None if buffer == "query" else own, group)
        return found

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> Any:
        program, own = self.at(turn)
        return program.compute(part, registers, own, group)

    def is_full(self, turn: int) -> bool:
        program, own = self.at(turn)
        full: bool = program.is_full(own)
        return full

    def compute_full(self, part: str, registers: Mapping[str, Any], turn: int, group: int) -> Any:
        program, own = self.at(turn)
        return program.compute_full(part, registers, own, group)

    def put(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        self.at(turn)[0].save("result", value, group)


def edited(schedule: Schedule, role: str, change: Callable[[Step], tuple[Step, ...]]) -> Schedule:
    """The schedule with every step of a role replaced by what ``change`` gives for it."""

    def visit(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        found: list[Step] = []
        for step in steps:
            if isinstance(step, Nested):
                step = replace(step, steps=visit(step.steps))
            if isinstance(step, Branches):
                step = replace(step, others=visit(step.others))
            found += change(step)
        return tuple(found)

    old: Role = getattr(schedule, role)
    return replace(schedule, **{role: replace(old, program=visit(old.program))})
