"""Text for people, on streams that may take it no more.

A reader that has gone, a full disk, a stream that is closed and an encoding that lacks a letter are no reason to end
the work that the text is about.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


def say(text: str, stream: TextIO | None, end: str = "\n") -> str:
    """Write ``text`` and flush. Returns why the stream did not take it, empty where it did.

    Letters that its encoding lacks are escaped. ``stream``: None is Python's own for a process without a console.
    """
    if stream is None:
        return "the process has no such stream"
    try:
        try:
            stream.write(text + end)
        except UnicodeEncodeError as error:
            stream.write((text + end).encode(error.encoding, "backslashreplace").decode(error.encoding))
        flush = getattr(stream, "flush", None)  # what a program puts in place of its stdout may have none
        if flush is not None:
            flush()
    except (OSError, ValueError) as error:  # ValueError: it is closed
        return str(error) or type(error).__name__
    return ""


def is_terminal(stream: Any) -> bool:
    """Whether somebody looks at the stream. What a program put in its place may not say so, or be closed."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


@contextlib.contextmanager
def own_streams() -> Iterator[None]:
    """For a command around all that it does: its streams escape what they cannot spell, and at the end take what is
    left. A stream that does not take it is given up: Python would end with an exit code of its own."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream in streams:
            if say("", stream, end=""):
                _give_up(stream)


def _give_up(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):  # it has no descriptor, or is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
