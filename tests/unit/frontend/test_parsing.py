"""Texts are parsed by one thread at a time: CPython's parser mixes up those that make trees at once."""

from __future__ import annotations

import ast
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import tileflow
from tileflow import parsing

TEXT = "\n".join(f"f({n}, [(a, b), {{c: d[e + {n}]}}])" for n in range(100))
FEW = "\n".join(TEXT.splitlines()[:10])


@pytest.fixture
def threads_that_take_turns_amid_a_tree() -> Iterator[None]:
    """A collection runs Python, where another thread may go on."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()

    def collected(phase: str, info: object) -> None:
        sum(range(100))

    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    gc.callbacks.append(collected)
    yield
    gc.callbacks.remove(collected)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("threads_that_take_turns_amid_a_tree")
@pytest.mark.parametrize("parse", [parsing.module_tree, lambda text: parsing.expression_tree(text.replace("\n", "+"))])
def test_threads_that_parse_at_once(parse: Callable[[str], ast.AST]) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = {ast.dump(tree) for tree in pool.map(parse, [TEXT] * 40)}
    assert len(found) == 1


@pytest.mark.usefixtures("threads_that_take_turns_amid_a_tree")
def test_a_thread_of_another_library_that_parses_meanwhile() -> None:
    """It knows of no lock: a module of kernels did not import, with SystemError, where Ray or a notebook parsed."""
    ended = threading.Event()

    def parses() -> None:
        while not ended.is_set():
            with suppress(SystemError, RecursionError):
                ast.parse("[(a, b)]")

    stranger = threading.Thread(target=parses)
    stranger.start()
    try:
        found = {ast.dump(parsing.module_tree(FEW)) for _ in range(200)}
    finally:
        ended.set()
        stranger.join()
    assert len(found) == 1


def test_what_is_never_undisturbed_raises_in_the_end() -> None:
    """Another error raises at once."""
    for error, tries in (
        (SystemError("AST constructor recursion depth mismatch (before=3, after=6)"), 20),
        (RecursionError("maximum recursion depth exceeded during ast construction"), 20),
        (SystemError("bad argument to internal function"), 1),
        (RecursionError("maximum recursion depth exceeded"), 1),
    ):
        seen: list[Exception] = []

        def parse(error: Exception = error, seen: list[Exception] = seen) -> ast.AST:
            seen.append(error)
            raise error

        with pytest.raises(type(error)) as raised:
            parsing.undisturbed(parse)
        assert raised.value is error and len(seen) == tries


def test_the_package_parses_in_one_place() -> None:
    root = Path(tileflow.__file__).parent
    places = {path.relative_to(root) for path in root.rglob("*.py") if "ast.parse(" in path.read_text(encoding="utf-8")}
    assert places == {Path("parsing.py")}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_that_is_forked_amid_a_parse_can_parse() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with parsing._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        parsing.module_tree("1")
        os._exit(0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
