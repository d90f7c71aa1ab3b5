"""A forked child waits for no thread that stayed in the parent, and collects garbage as its parent did."""

from __future__ import annotations

import gc
import importlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import tileflow
from tileflow import locks
from tileflow.collector import paused
from tileflow.locks import Lock, cached_property
from tileflow.runtime import registry
from tileflow.runtime.bounded import BoundedCache

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


@contextmanager
def _inside_elsewhere(context: AbstractContextManager[object]) -> Iterator[None]:
    """Another thread is inside of ``context``."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with context:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    try:
        yield
    finally:
        done.set()
        thread.join()


def _in_child(check: Callable[[], bool]) -> bool:
    """Whether ``check`` holds in a forked child; not where it waits for good."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = 1
        try:
            code = 0 if check() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _enters(lock: AbstractContextManager[object]) -> bool:
    with lock:
        return True


def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    lock = Lock()
    with _inside_elsewhere(lock):
        assert _in_child(lambda: _enters(lock) and _enters(lock))


def test_a_thread_that_forks_inside_leaves_in_both_processes() -> None:
    lock = Lock()
    with lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
    if child == 0:
        with lock:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _enters(lock)


class _Counted:
    def __init__(self) -> None:
        self.losses = 0
        self.lock = Lock(self.lost)

    def lost(self) -> None:
        with self.lock:
            self.losses += 1


def test_what_a_lost_thread_left_half_done_is_made_good_in_the_child_alone() -> None:
    counted = _Counted()
    with _inside_elsewhere(counted.lock):
        assert _in_child(lambda: counted.losses == 1)
    assert _in_child(lambda: counted.losses == 0)
    with counted.lock:
        assert _in_child(lambda: counted.losses == 0)
    assert counted.losses == 0


def test_a_child_looks_up_while_a_thread_of_its_parent_loads() -> None:
    with _inside_elsewhere(registry._lock):
        assert _in_child(lambda: registry.on_miss("module:kernel") == "default" and registry.loaded() == ())


def test_a_child_makes_what_a_thread_of_its_parent_was_making() -> None:
    cache: BoundedCache[int] = BoundedCache(4)
    began, done = threading.Event(), threading.Event()

    def slow() -> int:
        began.set()
        done.wait(60)
        return 1

    thread = threading.Thread(target=lambda: cache.get_or_make("key", slow))
    thread.start()
    assert began.wait(10)
    try:
        assert _in_child(lambda: cache.get_or_make("key", lambda: 2) == 2)
    finally:
        done.set()
        thread.join()
    assert cache.get("key") == 1


def test_a_child_collects_garbage_again_after_a_pause_of_another_thread() -> None:
    assert gc.isenabled()
    with _inside_elsewhere(paused()):
        assert not gc.isenabled()
        assert _in_child(gc.isenabled)
        with paused():
            assert _in_child(lambda: not gc.isenabled())
    assert gc.isenabled()


def test_what_serves_calls_makes_no_lock_that_a_child_would_inherit() -> None:
    root = Path(tileflow.__file__).parent
    files = [*root.glob("*.py"), *(root / "runtime").glob("*.py")]
    own = [file.name for file in files if re.search(r"\b(R?Lock|Condition|Semaphore)\(\)", file.read_text())]
    restarted = [name for name in own if "register_at_fork" in _text_of(root, name)]
    through = {"binaries.py", "bounded.py", "call_cache.py", "handles.py", "operators.py", "registry.py"}
    assert set(own) - set(restarted) <= through | {"elsewhere.py", "serve.py", "serving.py"}
    assert not [name for name in own if name not in restarted and re.search("threading|_thread", _text_of(root, name))]


def _text_of(root: Path, name: str) -> str:
    return next(path for path in (root / name, root / "runtime" / name) if path.exists()).read_text()


class _Slow:
    """``value`` takes as long as another thread pleases."""

    def __init__(self, began: threading.Event, done: threading.Event) -> None:
        self._began, self._done = began, done
        self.made = 0

    @cached_property
    def value(self) -> int:
        self.made += 1
        self._began.set()
        self._done.wait(60)
        return self.made


def test_a_child_has_a_property_of_its_own_while_a_thread_of_its_parent_makes_one() -> None:
    """Python 3.11's holds one lock for all objects of the class, which the child inherited as held."""
    began, done, free = threading.Event(), threading.Event(), threading.Event()
    free.set()
    thread = threading.Thread(target=lambda: _Slow(began, done).value)
    thread.start()
    assert began.wait(10)
    try:
        assert _in_child(lambda: _Slow(threading.Event(), free).value == 1)
    finally:
        done.set()
        thread.join()


def test_two_threads_go_on_with_the_same_value() -> None:
    began, done = threading.Event(), threading.Event()
    slow, seen = _Slow(began, done), []
    thread = threading.Thread(target=lambda: seen.append(slow.value))
    thread.start()
    assert began.wait(10)
    slow.__dict__["value"] = 7  # what another thread has made meanwhile
    done.set()
    thread.join()
    assert seen == [7] and slow.value == 7


SLOW_MODULE = """
import {nested}
{nested}.free.wait(60)
whole = True
"""


def _importing(
    folder: Path, name: str, on_behalf_of: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[threading.Thread, threading.Event]:
    """A thread that is in the midst of importing ``name``, asked to by a function of the module ``on_behalf_of``, and
    what lets it end."""
    (folder / f"{name}.py").write_text(SLOW_MODULE.format(nested=f"{name}_nested"))
    (folder / f"{name}_nested.py").write_text("import threading\nfree = threading.Event()")
    monkeypatch.syspath_prepend(str(folder))
    scope: dict[str, Any] = {"__name__": on_behalf_of}
    exec(f"def first_call():\n    import {name}", scope)
    thread = threading.Thread(target=scope["first_call"])
    thread.start()
    deadline = time.monotonic() + 60
    while not hasattr(sys.modules.get(f"{name}_nested"), "free"):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    free: threading.Event = sys.modules[f"{name}_nested"].free
    return thread, free


def test_a_fork_waits_for_what_another_thread_imports_for_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that imported the same module waited for its lock for good; DataLoader's workers are such children."""
    thread, free = _importing(tmp_path, "slow_for_a_call", "tileflow.api", monkeypatch)
    threading.Timer(0.5, free.set).start()
    assert _in_child(lambda: importlib.import_module("slow_for_a_call").whole is True)
    thread.join()


def test_a_fork_waits_for_no_import_of_others_and_for_none_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other, free = _importing(tmp_path, "slow_for_others", "somebody", monkeypatch)
    assert _in_child(lambda: True) and other.is_alive() and not caplog.text
    free.set()
    other.join()
    monkeypatch.setattr(locks, "MOST_WAIT_S", 0.1)
    ours, free = _importing(tmp_path, "slow_for_too_long", "tileflow.api", monkeypatch)
    assert _in_child(lambda: True) and ours.is_alive()
    assert "waits no longer" in caplog.text
    free.set()
    ours.join()
