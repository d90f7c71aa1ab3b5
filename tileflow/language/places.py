"""Places in the user's source: where code that no library holds was, by an exception or by a running frame."""

from __future__ import annotations

import linecache
from itertools import islice
from types import CodeType, FrameType

from ..errors import Location
from ..runtime.libraries import is_library


def place_of(error: BaseException) -> Location | None:
    """The innermost place outside of libraries that an exception went through."""
    found, step = None, error.__traceback__
    while step is not None:
        if not is_library(str(step.tb_frame.f_globals.get("__name__", ""))):
            found = _location(step.tb_frame.f_code, step.tb_lasti, step.tb_lineno)
        step = step.tb_next
    return found


def place_around(frame: FrameType | None) -> Location | None:
    """The place outside of libraries that a running frame was called from, or is."""
    while frame is not None and is_library(str(frame.f_globals.get("__name__", ""))):
        frame = frame.f_back
    return None if frame is None else _location(frame.f_code, frame.f_lasti, frame.f_lineno)


def _location(code: CodeType, instruction: int, line: int) -> Location:
    found, _, column, _ = next(islice(code.co_positions(), instruction // 2, None))
    line = found or line
    return Location(code.co_filename, line, column or 0, linecache.getline(code.co_filename, line).rstrip())
