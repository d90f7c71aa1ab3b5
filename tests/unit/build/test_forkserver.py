"""Children by fork: as those that are interpreters of their own, but there at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tile_testing.fakes.build_faults import has_gone

from tileflow.build import forkserver
from tileflow.build.forkserver import ForkServer, children_from
from tileflow.build.process import Child, Died, Done, Failed, TimedOut
from tileflow.build.worker import BuildProcess
from tileflow.errors import BuildError, BuildTimeout, ConfigError, InternalError


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    made = ForkServer(warm=("tile_testing.fakes.build_faults",))
    children_from(made)
    yield made
    children_from(None)
    made.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def in_a_fork(act: Callable[[], bool], limit_s: float = 30.0) -> bool:
    """Whether ``act`` is true in a fork of this process, which is ended where it hangs."""
    fork = os.fork()
    if fork == 0:
        code = 3
        try:
            code = 0 if act() else 1
        finally:
            os._exit(code)
    until = time.monotonic() + limit_s
    while (ended := os.waitpid(fork, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
        time.sleep(0.02)
    if ended == (0, 0):
        os.kill(fork, signal.SIGKILL)
        ended = os.waitpid(fork, 0)
    return os.waitstatus_to_exitcode(ended[1]) == 0


def test_a_child_is_the_servers_and_serves(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING_ELSE", "there")
    child = Child(environment={"CUDA_VISIBLE_DEVICES": "7"})
    assert parent_of(child.pid) == server.pid and os.getpgid(child.pid) == child.pid == os.getsid(child.pid)
    answer = child.call("tile_testing.fakes.build_faults:double", (21,), limit_s=10)
    assert isinstance(answer, Done) and answer.value == 42
    assert child.call("tile_testing.fakes.build_faults:environment", ("SOMETHING_ELSE",), limit_s=10).value == "there"
    assert child.call("tile_testing.fakes.build_faults:environment", ("CUDA_VISIBLE_DEVICES",), limit_s=10).value == "7"
    assert isinstance(child.call("tile_testing.fakes.build_faults:refuse", ("planted",), limit_s=10), Failed)
    child.kill()
    assert has_gone(child.pid) and not child.alive


def test_what_is_read_at_import_needs_an_interpreter_of_its_own(server: ForkServer) -> None:
    child = Child(environment={"TRITON_INTERPRET": "1"})
    assert parent_of(child.pid) == os.getpid()
    assert child.call("tile_testing.fakes.build_faults:environment", ("TRITON_INTERPRET",), limit_s=10).value == "1"
    child.kill()
    forked = Child(environment={"TRITON_CACHE_DIR": "/tmp/x"})
    assert parent_of(forked.pid) == server.pid
    forked.kill()


def test_how_a_child_ended_is_known(server: ForkServer) -> None:
    killed = Child()
    os.kill(killed.pid, signal.SIGSEGV)
    answer = killed.call("tile_testing.fakes.build_faults:double", (1,), limit_s=10)
    assert isinstance(answer, Died) and answer.exit_code == -signal.SIGSEGV
    left = Child().call("os:_exit", (3,), limit_s=10)
    assert isinstance(left, Died) and left.exit_code == 3
    wrong = Child(warm=("no_such_module",)).call("tile_testing.fakes.build_faults:double", (1,), limit_s=10)
    assert isinstance(wrong, Died) and "no_such_module" in wrong.stderr
    assert Child().call("time:sleep", (60,), limit_s=0.2) == TimedOut(0.2, "call")
    assert server.alive


def test_a_build_process_is_one_of_them(server: ForkServer) -> None:
    with BuildProcess(warm=(), recycle_after=2) as process:
        first = process.pid
        assert parent_of(first) == server.pid and process.call("tile_testing.fakes.build_faults:double", (2,), 10) == 4
        with pytest.raises(ConfigError):
            process.call("tile_testing.fakes.build_faults:refuse", ("x",), 10)
        assert process.pid != first and has_gone(first), "recycled"
        with pytest.raises(BuildTimeout):
            process.call("time:sleep", (60,), 0.2)
        with pytest.raises(BuildError, match="SIGKILL"):
            process.call("tile_testing.fakes.build_faults:crash", (signal.SIGKILL,), 10)


def test_a_server_that_opened_a_device_forks_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its children could not use the device. They are interpreters then, and that is said."""
    made = ForkServer()
    (tmp_path / "nvidia0").touch()
    made.call("tileflow.build.forkserver:__dict__.__setitem__", ("DEVICES", (str(tmp_path),)), 10)
    made.call("os:open", (str(tmp_path / "nvidia0"), os.O_RDONLY), 10)
    monkeypatch.setattr("tileflow.build.process.server", made)
    child = Child()
    assert parent_of(child.pid) == os.getpid() and not made.alive
    child.kill()
    made.close()


def test_a_fork_of_its_process_leaves_it_alone(server: ForkServer) -> None:
    """It has the same pipe: what both wrote would be mixed, and one that ends must not end what the other uses."""
    fork = os.fork()
    if fork == 0:
        server.close()
        os._exit(0 if not server.alive else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    child = Child()
    assert server.alive and parent_of(child.pid) == server.pid
    child.kill()


def test_a_fork_of_its_process_has_children_of_its_own(server: ForkServer) -> None:
    """It waited for ever: what starts children was a thread of the process that it was forked from."""
    Child(fresh=True).kill()  # such a thread is there

    def has_its_own() -> bool:
        answer = Child().call("os:getppid", (), limit_s=60.0)
        return isinstance(answer, Done) and answer.value == os.getpid()

    assert in_a_fork(has_its_own, 60.0)


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_all_end_with_the_process_that_has_the_server(how: str) -> None:
    script = (
        "import os, signal\nfrom tileflow.build.forkserver import ForkServer, children_from\n"
        "from tileflow.build.process import Child\nserver = ForkServer()\nchildren_from(server)\nchild = Child()\n"
        "assert child.call('os:getpid', (), limit_s=10).value == child.pid\nprint(server.pid, child.pid, flush=True)\n"
        + ("os.kill(os.getpid(), signal.SIGKILL)\n" if how == "kill" else "")
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert all(map(has_gone, pids))


def test_a_fork_takes_less_than_an_import(server: ForkServer) -> None:
    assert server.alive

    def seconds(count: int, *, fresh: bool) -> float:
        started = time.monotonic()
        children = [Child(fresh=fresh) for _ in range(count)]
        assert all(child.call("os:getpid", (), limit_s=60).value == child.pid for child in children)
        took = time.monotonic() - started
        for child in children:
            child.kill()
        return took

    assert seconds(8, fresh=False) / 8 < seconds(1, fresh=True)
    assert forkserver.early({"HOME": "x", "TRITON_INTERPRET": "1"}) == {"TRITON_INTERPRET": "1"}


@pytest.mark.parametrize("fresh", [True, False])
def test_a_fork_lets_go_of_the_children_that_others_call(server: ForkServer, fresh: bool) -> None:
    """It wrote into their pipes, ended them, or waited for a lock that a thread of its parent held."""
    child = Child(fresh=fresh)
    assert isinstance(child.call("os:getpid", (), limit_s=60.0), Done)

    def lets_go() -> bool:
        answer = child.call("os:getpid", (), limit_s=10.0)
        child.kill()
        child.kill()
        return isinstance(answer, Died) and "forked from" in str(answer) and not child.alive

    calling = threading.Thread(target=child.call, args=("time:sleep", (1.0,)), kwargs={"limit_s": 10.0})
    calling.start()
    with child._lock, server._lock:
        in_fork: list[bool] = []
        forking = threading.Thread(target=lambda: in_fork.append(in_a_fork(lets_go)))
        forking.start()
        forking.join()
    calling.join()
    assert in_fork == [True]
    answer = child.call("os:getpid", (), limit_s=10.0)
    assert child.alive and isinstance(answer, Done) and answer.value == child.pid
    child.kill()


def test_a_call_amid_another_is_refused() -> None:
    """A signal's handler waited for the lock that its own thread held, or took the other call's answer."""
    child, raised = Child(fresh=True), list[BaseException]()

    def amid(number: int, frame: object) -> None:
        try:
            child.call("os:getpid", (), limit_s=1.0)
        except InternalError as error:
            raised.append(error)

    before = signal.signal(signal.SIGALRM, amid)
    try:
        assert isinstance(child.call("os:getpid", (), limit_s=60.0), Done)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert isinstance(child.call("time:sleep", (0.5,), limit_s=10.0), Done)
    finally:
        signal.signal(signal.SIGALRM, before)
        child.kill()
    assert ["one call at a time" in str(error) for error in raised] == [True]
