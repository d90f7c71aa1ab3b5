"""Where code stands in its file, to the column: of a running frame, and of an instruction."""

from __future__ import annotations

import itertools
import linecache
from types import CodeType, FrameType

from ..errors import Location


def frame_location(frame: FrameType) -> Location:
    """The place that a Python frame is executing, to the column."""
    return code_location(frame.f_code, frame.f_lasti, frame.f_lineno)


def code_location(code: CodeType, instruction: int, lineno: int) -> Location:
    """The place of the instruction at byte ``instruction``; ``lineno`` where its position was not kept."""
    position = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    line, column = (position[0], position[2]) if position else (None, None)
    file, line = code.co_filename, line or lineno
    return Location(file, line, column or 0, linecache.getline(file, line).rstrip())
