"""The build child: killed at its limit with everything it started, replaced when it dies, recycled when it grows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tile_testing.fakes.build_faults import has_gone

from tileflow.build.process import Child, Done, TimedOut
from tileflow.build.worker import BuildProcess
from tileflow.errors import BuildError, BuildTimeout, ConfigError, InternalError, SpecError


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[BuildProcess]:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with BuildProcess(warm=(), recycle_after=3, max_rss_bytes=200 << 20) as process:
        yield process


def test_calls_return_and_errors_come_through(process: BuildProcess) -> None:
    assert process.call("tile_testing.fakes.build_faults:double", (21,), 10) == 42
    with pytest.raises(ConfigError, match="must not be tried, but got planted"):
        process.call("tile_testing.fakes.build_faults:refuse", ("planted",), 10)


def test_foreign_errors_say_where(process: BuildProcess) -> None:
    with pytest.raises(InternalError, match=r"not tileflow's\n  at .*build_faults\.py:\d+"):
        process.call("tile_testing.fakes.build_faults:surprise", (), 10)
    with pytest.raises(InternalError, match="must not raise"):
        process.call("tile_testing.fakes.build_faults:unpicklable", (), 10)
    with pytest.raises(SpecError, match="no_such_function"):
        process.call("tile_testing.fakes.build_faults:no_such_function", (), 10)


def test_no_device_is_visible_and_the_group_is_its_own(process: BuildProcess) -> None:
    assert process.call("tile_testing.fakes.build_faults:environment", ("CUDA_VISIBLE_DEVICES",), 10) == ""
    assert process.call("tile_testing.fakes.build_faults:group_and_parent", (), 10) == (process.pid, os.getpid())


def test_a_hanging_build_is_killed_with_its_assembler(process: BuildProcess, tmp_path: Path) -> None:
    pid_file, hung = tmp_path / "pid", process.pid
    process.call("tile_testing.fakes.build_faults:double", (1,), 10)  # ready: only the hang is timed below
    started = time.monotonic()
    with pytest.raises(BuildTimeout, match=r"within 0\.5 s"):
        process.call("tile_testing.fakes.build_faults:hang_with_grandchild", (str(pid_file),), 0.5)
    assert time.monotonic() - started < 15
    assert has_gone(hung) and has_gone(int(pid_file.read_text()))
    assert process.call("tile_testing.fakes.build_faults:double", (1,), 10) == 2


def test_a_crash_is_a_build_error_and_the_next_call_works(process: BuildProcess) -> None:
    with pytest.raises(BuildError, match=r"SIGSEGV.*\n.*LLVM ERROR: planted"):
        process.call("tile_testing.fakes.build_faults:crash", (), 10)
    with pytest.raises(BuildError, match="exit code 3"):
        process.call("tile_testing.fakes.build_faults:leave", (3,), 10)
    assert process.call("tile_testing.fakes.build_faults:double", (1,), 10) == 2


def test_a_child_is_recycled_after_n_calls_and_when_it_grows(process: BuildProcess) -> None:
    first = process.pid
    for _ in range(3):
        assert process.call("tile_testing.fakes.build_faults:group_and_parent", (), 10)[0] == first
    second = process.pid
    assert second != first and has_gone(first)
    assert process.call("tile_testing.fakes.build_faults:grow", (300,), 10) == second
    assert process.pid != second


def test_each_phase_has_its_own_limit() -> None:
    child = Child()
    try:
        limits = {"first": 5.0, "second": 0.2}
        assert isinstance(
            child.call("tile_testing.fakes.build_faults:slow_phases", (0.3, 0.0), limit_s=1, phase_limits=limits), Done
        )
        answer = child.call("tile_testing.fakes.build_faults:slow_phases", (0.0, 30.0), limit_s=1, phase_limits=limits)
        assert answer == TimedOut(0.2, "second")
    finally:
        child.kill()


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_the_child_dies_with_its_parent(how: str, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys, threading\n"
        "from tileflow.build.process import Child\nchildren = []\n"
        "thread = threading.Thread(target=lambda: children.append(Child()))\nthread.start()\nthread.join()\n"
        "child = children[0]\n"
        # the thread that made the child is gone, the child is not
        "assert child.call('tile_testing.fakes.build_faults:double', (1,), limit_s=10).value == 2\n"
        "print(child.pid, flush=True)\n" + ("os.kill(os.getpid(), signal.SIGKILL)\n" if how == "kill" else "")
    )
    parent = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert parent.stdout.strip(), parent.stderr
    assert has_gone(int(parent.stdout))


def test_a_call_that_nobody_wants_any_more_ends_at_once() -> None:
    """Finding 6 of issue 17: a reference that never returns held up SIGTERM until its limit."""
    unwanted = threading.Event()
    child = Child(unwanted=unwanted.is_set)
    threading.Timer(0.3, unwanted.set).start()
    answer = child.call("time:sleep", (60.0,), limit_s=120.0)
    assert isinstance(answer, TimedOut) and not child.alive
    started = time.monotonic()
    process = BuildProcess(warm=(), unwanted=lambda: time.monotonic() > started + 1)
    with process, pytest.raises(BuildTimeout):
        process.call("time:sleep", (60.0,), 120.0)
    assert time.monotonic() - started < 30


def test_a_child_imports_torch_where_its_parents_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No search began: torch's libraries do not load in a folder that is gone."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path / "scratch")
    (tmp_path / "scratch").rmdir()
    child = Child(warm=("torch",), fresh=True)
    try:
        answer = child.call("os:getcwd", (), limit_s=60.0)
        assert isinstance(answer, Done) and answer.value == "/"
    finally:
        child.kill()


def test_a_program_that_interprets_has_children_that_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuning in a process with TRITON_INTERPRET=1 ended without a row: no compiler could be opened."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    child = Child(fresh=True)
    try:
        answer = child.call("tileflow.runtime.environment:triton_interprets", (), limit_s=30.0)
        assert isinstance(answer, Done) and answer.value is False
    finally:
        child.kill()
    monkeypatch.delenv("TRITON_INTERPRET")


def test_a_program_that_embeds_python_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was "Permission denied: ''"."""
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(SpecError, match=r"an empty sys\.executable"):
        Child(fresh=True)
