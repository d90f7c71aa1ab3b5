"""Python's text as a tree: ``ast.parse`` for one thread at a time.

CPython, 3.11 for one, counts the depth of the tree that is made in one place for all threads. Where another thread
parses between two nodes, ``ast.parse`` raises SystemError or RecursionError. tileflow's own threads wait for each
other; those of other libraries do not, so that what they disturbed is parsed again.
"""

from __future__ import annotations

import ast
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

T = TypeVar("T")
_TRIES = 20  # each of milliseconds
_DISTURBED = ("AST constructor recursion depth mismatch", "recursion depth exceeded during ast construction")

_lock = threading.RLock()  # a finalizer may run amid a parse, and parse


def module_tree(text: str, filename: str = "<unknown>") -> ast.Module:
    """The tree of a module's text. Raises SyntaxError and ValueError as ``ast.parse``."""
    return undisturbed(lambda: ast.parse(text, filename))


def expression_tree(text: str) -> ast.expr:
    """The tree of an expression's text. Raises SyntaxError and ValueError as ``ast.parse``."""
    return undisturbed(lambda: ast.parse(text, mode="eval")).body


def undisturbed(parse: Callable[[], T]) -> T:
    """The result of ``parse``, amid which no thread of tileflow's parses; again where one of others did, in the end
    without turns for those."""
    for attempt in range(_TRIES - 1):
        with _lock, _alone() if attempt >= _TRIES // 4 else nullcontext():
            try:
                return parse()
            except (SystemError, RecursionError) as error:
                if not any(words in str(error) for words in _DISTURBED):
                    raise
    with _lock, _alone():
        return parse()


@contextmanager
def _alone() -> Iterator[None]:
    """Inside, no other thread gets a turn for a second, a thousand times what a parse takes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(max(interval, 1.0))
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def _after_fork() -> None:
    """Another thread may have held it, which is not here."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
