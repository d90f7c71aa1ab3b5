"""What of the dialect has no meaning here: accepted, and said once a process through the ``tileflow`` logger."""

from __future__ import annotations

import logging

_log = logging.getLogger("tileflow")
_said: set[str] = set()


def once(name: str, why: str) -> None:
    """Warn about ``name``, the first time that it is met."""
    if name not in _said:
        _said.add(name)
        _log.warning("helion: %s: %s", name, why)


def forget() -> None:
    """Say everything again: for tests."""
    _said.clear()
