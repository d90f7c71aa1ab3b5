"""Python's text as a tree: ``ast.parse`` for one thread at a time.

CPython, 3.11 for one, counts the depth of the tree that is made in one place for all threads. Where another thread
parses between two nodes, ``ast.parse`` raises SystemError.
"""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()  # a finalizer may run amid a parse, and parse


def module_tree(text: str, filename: str = "<unknown>") -> ast.Module:
    """The tree of a module's text. Raises SyntaxError and ValueError as ``ast.parse``."""
    with _lock:
        return ast.parse(text, filename)


def expression_tree(text: str) -> ast.expr:
    """The tree of an expression's text. Raises SyntaxError and ValueError as ``ast.parse``."""
    with _lock:
        return ast.parse(text, mode="eval").body


@contextmanager
def alone() -> Iterator[None]:
    """Inside, no other thread parses here: for other libraries that parse what is theirs."""
    with _lock:
        yield


def _after_fork() -> None:
    """Another thread may have held it, which is not here."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
