"""What host code makes is what it is in each call: ranges, sets and dictionaries were those of the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Interpreter = Callable[..., Any]


def test_what_changes_between_calls_is_seen(interpreter: Interpreter) -> None:
    found = interpreter("runs.made_by_host:changed")
    assert {what: wrong for what, wrong in found.items() if wrong} == {}
    assert len(found) == 8


def test_what_no_launch_can_tell_apart_is_refused(interpreter: Interpreter) -> None:
    found = interpreter("runs.made_by_host:refused")
    assert "what host code makes for device code is a tensor, a number" in found
    assert "got w of type numpy.ndarray" in found and "made_by_host.py" in found
