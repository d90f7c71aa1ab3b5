"""Where commands find what is named on the command line: kernels and files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tileflow.errors import SpecError


def import_from_here() -> None:
    """Make kernels importable from the folder that the command runs in, as with ``python -m``."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def named_path(text: str) -> Path:
    """Parse a path of the command line. Raises SpecError for the empty text, which would be the folder that the command
    runs in: a sweep would be written there."""
    if not text:
        raise SpecError(
            "a path must be named",
            got="an empty text",
            hint="is a variable of the shell not set? `.` names this folder",
        )
    return Path(text)


def comma_separated(text: str) -> list[str]:
    """Parse names that commas separate, in their order, each once; blanks around them count for nothing."""
    return list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
