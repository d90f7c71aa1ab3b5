"""Threads that compile at once in one process: what is the process's own is neither mixed up nor left changed."""

from __future__ import annotations

import ast
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import tileflow
import tileflow.language as tfl
from tileflow.build import compile as build_module
from tileflow.build.compile import build
from tileflow.build.together import Together
from tileflow.emit.source import TritonSource
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * by
    return out


def sources() -> list[TritonSource]:
    """Sources that share no text, so that each is parsed."""
    lowered = [scaled.lower((torch.empty(n, device="meta"), 2.0), H200) for n in (1000, 2000, 3000)]
    return [it.emit(it.default)[0] for it in lowered]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    build_module.generated_functions.cache_clear()
    yield
    build_module.generated_functions.cache_clear()


def test_one_thread_at_a_time_parses_what_several_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython's parser mixes up trees that two threads make at once; Triton's own parses raced."""
    real, inside, most = ast.parse, [0], [0]

    def parse(*args: Any, **kwargs: Any) -> ast.AST:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        try:
            return real(*args, **kwargs)
        finally:
            inside[0] -= 1

    made = sources()
    monkeypatch.setattr(ast, "parse", parse)
    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(lambda source: build(source, H200).code, made))
    assert most == [1]


def test_the_process_is_as_it_was_after_threads_compiled() -> None:
    """The last thread to leave put back the output of another: standard output was a wrapper from then on."""
    import triton

    before, settings = sys.stdout, triton.knobs.compilation.disable_line_info
    made = sources()
    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(lambda source: build(source, H200).code, made))
    assert sys.stdout is before
    assert triton.knobs.compilation.disable_line_info == settings


def test_threads_are_in_one_context_together() -> None:
    """Two that overlap, the first to enter being the first to leave."""
    seen: list[str] = []
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    @contextmanager
    def context() -> Iterator[None]:
        seen.append("in")
        yield
        seen.append("out")

    together = Together(context)

    def first() -> None:
        with together():
            first_in.set()
            second_in.wait(10)
        first_out.set()

    thread = threading.Thread(target=first)
    thread.start()
    first_in.wait(10)
    with together():
        second_in.set()
        first_out.wait(10)
        assert seen == ["in"]
    thread.join()
    assert seen == ["in", "out"]
    with pytest.raises(KeyError), together():
        raise KeyError
    assert seen == ["in", "out", "in", "out"]


def test_a_fork_amid_a_shared_context_is_in_it_until_it_leaves() -> None:
    """What the forking thread was in was left under it, and none that came later was entered."""
    events: list[str] = []

    @contextmanager
    def context() -> Iterator[None]:
        events.append("in")
        yield
        events.append("out")

    together = Together(context)
    with together():
        fork = os.fork()
        is_fork, events_inside = fork == 0, [*events]
    if is_fork:
        with together():
            pass
        os._exit(0 if (events_inside, events) == (["in"], ["in", "out"] * 2) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    assert events == ["in", "out"]
