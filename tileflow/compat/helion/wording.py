"""Errors in the dialect's words: its users import ``hl``, and know no ``tfl``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import TileflowError
from .names import ADAPTED, RENAMED, SAME

_NAMES = frozenset({*SAME, *RENAMED, *ADAPTED})
_FUNCTION = re.compile(r"\b(?:tfl|tileflow\.language)\.(\w+)")


def in_the_dialect(text: str) -> str:
    """``text`` with the language's functions under the dialect's names; one that it lacks keeps its full name."""
    named = _FUNCTION.sub(lambda m: f"hl.{m[1]}" if m[1] in _NAMES else f"tileflow.language.{m[1]}", text)
    return named.replace("@tileflow.kernel", "@helion.kernel")


@contextmanager
def errors_in_the_dialect() -> Iterator[None]:
    """Inside, every error of tileflow's is said in the dialect's words."""
    try:
        yield
    except TileflowError as error:
        error.reword(in_the_dialect)
        raise
