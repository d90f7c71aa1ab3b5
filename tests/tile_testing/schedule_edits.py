"""Schedules with some of their steps exchanged, for protocol faults that tests plant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tileflow.schedule.types import EachTile, IfAny, Repeat, Schedule, Step


def edited(schedule: Schedule, role: str, change: Callable[[Step], tuple[Step, ...]]) -> Schedule:
    """The schedule with every step of a role replaced by what ``change`` gives for it."""

    def visit(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        found: list[Step] = []
        for step in steps:
            if isinstance(step, Repeat | IfAny | EachTile):
                step = replace(step, steps=visit(step.steps))
            found += change(step)
        return tuple(found)

    old = getattr(schedule, role)
    return replace(schedule, **{role: replace(old, program=visit(old.program))})
