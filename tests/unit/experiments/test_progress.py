"""How a sweep shows its progress."""

from __future__ import annotations

import io
import sys

import pytest
from tileflow_experiments.progress import Progress


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


def test_the_bar_is_on_the_terminal_that_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stdout in a file, the bar went there, and the terminal showed nothing at all."""
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", file)
    progress = Progress("10 trials")
    progress.show({})
    progress.close()
    assert "has said nothing yet" in terminal.getvalue() and file.getvalue() == ""
    assert (sys.stdout, sys.stderr) == (file, terminal)


def test_what_a_sweep_says_is_text_and_never_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason to stop that held a path in brackets ended the sweep in an error of the bar's."""
    terminal = Terminal()
    progress = Progress("10 trials", terminal)
    progress._put("no room [/tmp/out]")
    progress.close()
    assert "/tmp/out" in terminal.getvalue()
