"""What a search reports to the process that started it, as lines of a file that survive whatever ends it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .searches import NOTES


class Notes:
    """Appends to a file in ``folder``, one line a note, each with its time in seconds since 1970."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / NOTES).open("a", encoding="utf-8")

    def mark(self, name: str, **data: Any) -> None:
        """Note an event. ``ready``: the clock starts. ``picked``: the search has ended with ``config``, canonical
        JSON or None."""
        self._write({"mark": name} | data)

    def result(self, config: Mapping[str, Any], time_us: float | None) -> None:
        """Note that a config's time is known; None where it failed or was rejected."""
        self._write({"config": dict(config), "time_us": time_us})

    def _write(self, note: Mapping[str, Any]) -> None:
        self._file.write(json.dumps({"at": time.time()} | dict(note)) + "\n")
        self._file.flush()
