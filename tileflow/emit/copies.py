"""Copies that programs share out among them, in the place of a tensor whose elements they would wait for: the launch
makes them, and combines them with the tensor afterwards (:mod:`tileflow.runtime.copies`)."""

from __future__ import annotations

from ..space.access import MOST_ROOM
from ..space.knobs import COPIES, GRID
from .context import Context

MOST = MOST_ROOM * max(COPIES.choices)  # elements of all copies


def emit_copies(e: Context) -> None:
    """Lead each pointer to the copy of the program's number, as one walks over them again and again."""
    for combined, count in e.parameters.copied():
        pointer, room = e.parameters.tensor(combined.tensor), combined.room
        e.plan.guard((room * count).le(MOST))
        e.writer.line(f"{pointer} += {_program(e)} % {count} * {e.plan.text(room)}")


def _program(e: Context) -> str:
    """The program's number in the launch."""
    if e.plan.launch(GRID) != "axes":
        return "tl.program_id(0)"
    return "(tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2)))"
