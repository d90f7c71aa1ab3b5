"""Warm processes: ending one, also in the midst of a call, leaves no child; old and dead ones are replaced."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest

from tileflow.build import process
from tileflow.build.process import Child, Died, Done, TimedOut
from tileflow.build.warm_process import WarmProcess
from tileflow.build.worker import BuildProcess
from tileflow.config import Config
from tileflow.errors import ClusterError, TileflowError
from tileflow.measure.interpret import InterpreterProcess, InterpretRequest


def _build(process: BuildProcess) -> object:
    return process.call("time:sleep", (60,), 60.0)


def _check(process: InterpreterProcess) -> object:
    return process.check(InterpretRequest("m:k", (), Config.of({})))


class _ClosedMeanwhile:
    """A child whose process is closed by another thread while it is called."""

    alive = False

    def __init__(self, process: WarmProcess) -> None:
        self._process = process

    def call(self, *args: Any, **options: Any) -> Died:
        self._process.close()
        return Died(-9, "", "call")

    def kill(self) -> None:
        """It is gone."""


@pytest.mark.parametrize(("kind", "call"), [(BuildProcess, _build), (InterpreterProcess, _check)])
def test_closing_in_the_midst_of_a_call_leaves_no_child(
    kind: Callable[[], Any], call: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter's child was replaced by another one, which nobody ended."""
    process, spawned = kind(), list[bool]()
    process._child.kill()
    monkeypatch.setattr(process, "_child", _ClosedMeanwhile(process))
    monkeypatch.setattr(process, "_spawn", lambda: spawned.append(True))
    with contextlib.suppress(TileflowError):
        call(process)
    assert not spawned


def test_a_child_that_ended_is_replaced() -> None:
    with WarmProcess(warm=()) as process:
        first = process.pid
        assert isinstance(process._ask("os:_exit", (3,), 30.0), Died) and process.pid != first
        second = process.pid
        assert isinstance(process._ask("time:sleep", (30,), 0.2), TimedOut) and process.pid != second
        assert process._ask("os:getpid", (), 30.0) == Done(process.pid, pytest.approx(0, abs=1 << 40))


@pytest.mark.parametrize(("calls", "rss_bytes", "replaced"), [(1, 0, False), (2, 0, True), (1, 1001, True)])
def test_a_child_that_has_served_or_grown_enough_is_replaced(calls: int, rss_bytes: int, replaced: bool) -> None:
    with WarmProcess(warm=(), recycle_after=2, max_rss_bytes=1000) as process:
        first = process.pid
        for _ in range(calls):
            process._count(rss_bytes)
        assert (process.pid != first) == replaced


def test_the_spare_takes_over_and_another_follows_it() -> None:
    with WarmProcess(warm=(), has_spare=True) as process:
        assert process._spare is None  # nothing is warmed up before it is wanted
        process._keep_spare()
        spare = process._spare
        assert spare is not None
        process._replace()
        assert process._child is spare and process._spare not in (None, spare)
        pids = process.pid, process._spare.pid if process._spare else 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_kill_from_another_thread_leaves_the_pipe_to_the_call_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call found its pipe closed, or both threads closed it, the second time perhaps as another file."""
    child = Child()
    asking, killed = threading.Event(), threading.Event()

    def patience(deadline: float) -> float:
        asking.set()
        killed.wait(30.0)
        return 0.0

    assert child.call("os:getpid", (), limit_s=30.0) == Done(child.pid, pytest.approx(0, abs=1 << 40))
    monkeypatch.setattr(child, "_patience", patience)
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(child.call, "time:sleep", (60,), limit_s=60.0)
        assert asking.wait(30.0)
        child.kill()
        assert not child._connection.closed
        killed.set()
        assert answer.result(30.0) == Died(-signal.SIGKILL, "", "call")
    assert child._connection.closed
    child.kill()
    assert child.call("os:getpid", (), limit_s=1.0) == Died(-signal.SIGKILL, "", "call")


def _refuse(number: int) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize(
    ("place", "raised", "hint"),
    [
        ("Pipe", _refuse(errno.EMFILE), "ulimit -n"),
        ("tempfile.TemporaryFile", _refuse(errno.ENOSPC), "TMPDIR"),
        ("subprocess.Popen", _refuse(errno.EAGAIN), "ulimit -u"),
        ("subprocess.Popen", _refuse(errno.ENOMEM), "ulimit -v"),
    ],
)
def test_a_child_that_the_system_does_not_start_says_which_limit_to_raise(
    place: str, raised: Callable[..., NoReturn], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuning under `ulimit -n 20` ended in an error of socket's, with pipes left open."""
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(f"tileflow.build.process.{place}", raised)
    with pytest.raises(ClusterError, match=rf"must start(.|\n)*{hint}") as error:
        Child(fresh=True)
    assert error.value.retryable
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("words", "hint"),
    [("can't start new thread", "ulimit -u"), ("cannot schedule new futures after shutdown", "wait there")],
)
def test_a_child_whose_thread_does_not_start_says_why(words: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(*_: object, **__: object) -> NoReturn:
        raise RuntimeError(words)

    monkeypatch.setattr(process._spawner, "submit", submit)
    with pytest.raises(ClusterError, match=hint):
        Child(fresh=True)


def test_a_child_that_cannot_be_given_files_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had half of a request; whoever asked got the system's error."""
    child = Child()
    monkeypatch.setattr(process, "send_handle", _refuse(errno.EMFILE))
    answer = child.call("os:getpid", (), limit_s=30.0, handles=(0,))
    assert isinstance(answer, Died) and "Too many open files" in answer.stderr and not child.alive
