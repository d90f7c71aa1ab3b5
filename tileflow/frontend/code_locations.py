"""Where code stands in its file, to the column: of an instruction, a running frame, the user's own code."""

from __future__ import annotations

import itertools
import linecache
import sys
from types import CodeType, FrameType
from typing import TypeVar

from ..errors import Location, TileflowError

E = TypeVar("E", bound=TileflowError)


def frame_location(frame: FrameType) -> Location:
    """The place that a Python frame is executing, to the column."""
    return code_location(frame.f_code, frame.f_lasti, frame.f_lineno)


def code_location(code: CodeType, instruction: int, lineno: int) -> Location:
    """The place of the instruction at byte ``instruction``; ``lineno`` where its position was not kept."""
    position = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    line, column = (position[0], position[2]) if position else (None, None)
    file, line = code.co_filename, line or lineno
    return Location(file, line, column or 0, linecache.getline(file, line).rstrip())


class Places:
    """The place of the user's code that is running. ``files``: those that are the user's."""

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.forced: Location | None = None

    def location(self) -> Location | None:
        """The place of the user's code: the innermost Python frame in one of the user's files."""
        if self.forced is not None:
            return self.forced
        frame = self.frame()
        return None if frame is None else frame_location(frame)

    def placed(self, error: E) -> E:
        """An error, standing at that place."""
        error.stand_at(self.location())
        return error

    def frame(self) -> FrameType | None:
        """The innermost Python frame in one of the user's files."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename not in self.files:
            frame = frame.f_back
        return frame

    def at(self, place: Location | None) -> None:
        """Say that what follows stands at ``place``; None: where the Python frames say."""
        self.forced = place
