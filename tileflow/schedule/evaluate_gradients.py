"""The parts of a loop of gradients on torch values, for the executor."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from ..config import Config
from ..ir.graph import KernelIR
from .evaluate import NO_TURN, Environment, Streamed
from .gradient_loop import GradientLoop
from .machine import Registers


class GradientProgram(Streamed):
    """One program of a loop of gradients as the :class:`~tileflow.schedule.machine.Body` of a schedule."""

    def __init__(
        self,
        ir: KernelIR,
        found: GradientLoop,
        config: Config,
        tensors: Mapping[str, torch.Tensor],
        scalars: Mapping[str, float],
        begins: Mapping[str, int],
        at: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._found = found
        self._adding: dict[int, dict[int, torch.Tensor]] = {}  # of a turn, the parts that are there
        super().__init__(ir, found, config, tensors, scalars, begins, at)

    # ---- what the executor asks for -------------------------------------------------------------

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        """What the copy engine brings: ``held_N`` once, ``block_N`` in each turn."""
        kind, number = _named(buffer)
        op = {"held": self._found.held, "block": self._found.blocks, "vector": self._found.vectors}[kind][number]
        assert op is not None
        at = NO_TURN if turn is None else turn
        scalars = self._scalars_outside if turn is None else self._of_turn(self._scalars_outside, at, 0)
        return self._load(op, scalars, at, max(group, 0), by_engine=True)

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> Registers:
        """The registers that a part writes: the start, the finish, what runs ahead of a product, or what follows
        one."""
        at = NO_TURN if turn is None else turn
        if part == "start":
            return self._start(group)
        if part == "finish":
            return self._finish(registers, group)
        kind, number = _named(part)
        compute = {"ahead_of": self._ahead, "part": self._part}[kind]
        return compute(number, registers, at, group)

    def save(self, name: str, value: Any, group: int) -> None:
        """Store a group's rows of the result ``result_N``."""
        self._store(self._found.saved[_named(name)[1]], value, self._outside[group], group)

    def add(self, value: torch.Tensor, turn: int, group: int) -> None:
        """A turn's result is added once all groups' parts of it are there: of its columns, where each has all rows."""
        added, parts = self._found.added, self._adding.setdefault(turn, {})
        assert added is not None
        parts[group] = value
        rows, columns = (self._extent(d) for d in added.product.output.dims)
        if sum(part.numel() for part in parts.values()) < rows * columns:
            return
        whole = torch.cat([parts[n] for n in sorted(parts)], dim=1 if value.shape[0] == rows else 0)
        env = self._of_turn(self._outside[group], turn, group)
        self._store(added.atomic, whole, env, group, adds=True, turn=turn)

    # ---- parts ----------------------------------------------------------------------------------

    def _start(self, group: int) -> Registers:
        env = self._run(self._found.before, {}, NO_TURN, group)
        self._outside[group] = env
        return {f"sums_{n}": self._value(self._found.entry(s), env) for n, s in enumerate(self._found.sums)}

    def _ahead(self, number: int, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        env = self._run(self._found.ahead[number], self._of_turn(self._outside[group], turn, group), turn, group)
        return {f"ahead_{number}": {v: env[v] for v in self._found.loaded(number)}}

    def _part(self, number: int, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        """The registers that one part writes, from what was loaded ahead, what earlier parts kept, and one score."""
        found = self._found
        env = self._of_turn(self._outside[group], turn, group)
        for name, value in registers.items():
            vector = found.vectors[number]
            if name == f"scores_{number}":
                env[found.scores[number].product.output] = value
            elif vector is not None and name == f"vector_{number}":
                env[vector.output] = value
            else:
                env |= value
        env = self._run(found.parts[number], env, turn, group)
        operands = {n: self._value(s.operand, env) for n, s in enumerate(found.sums) if s.part == number}
        kept = {v: env[v] for v in found.kept(number)}
        given = {f"kept_{number}": kept, **{f"operand_{n}": v.clone() for n, v in operands.items()}}
        if found.added is not None and found.added.part == number:
            given["shared_operand"] = self._value(found.added.operand, env)
        return given

    def _finish(self, registers: Mapping[str, Any], group: int) -> Registers:
        found, env = self._found, self._outside[group]
        env = {**env, **{found.total(s): registers[f"sums_{n}"] for n, s in enumerate(found.sums)}}
        env = self._after(found.after, found.saved, env, group)
        return {f"result_{n}": self._value(op.inputs[0], env) for n, op in enumerate(found.saved)}

    def _of_turn(self, env: Environment, turn: int, group: int) -> Environment:
        return self._run(self._found.scalars, env, turn, group)


def _named(name: str) -> tuple[str, int]:
    """``block_1``: a kind and a number."""
    kind, _, number = name.rpartition("_")
    return kind, int(number)
