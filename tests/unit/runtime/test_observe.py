"""Counters of what served each call: exact under threads, cheap enough for a warm call, bounded."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import timeit
from collections.abc import Callable, Iterator

import pytest

from tileflow.runtime import observe
from tileflow.runtime.observe import CallCount, Served, clear_counters, count, counters, say_once, served, stats

THREADS = 8


@pytest.fixture(autouse=True)
def counted_from_zero(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(observe, "_counters", {})
    clear_counters()
    yield
    clear_counters()


def test_the_counters_of_one_kernel_step_reason_and_device_are_one_object() -> None:
    one = served("k:f", "near", "measured for x", "nvidia-h200")
    assert served("k:f", "near", "measured for x", "nvidia-h200") is one
    others = [
        served("k:g", "near", "measured for x", "nvidia-h200"),
        served("k:f", "exact", "measured for x", "nvidia-h200"),
        served("k:f", "near", "measured for y", "nvidia-h200"),
        served("k:f", "near", "measured for x", None),
    ]
    assert len({id(c) for c in [one, *others]}) == 5


def test_stats_count_warm_calls() -> None:
    """Finding 14: only first calls were counted."""
    binding = served("k:f", "exact", "measured on nvidia-h200 for this key", "nvidia-h200")
    for _ in range(1000):
        binding.calls += 1
    count("k:f", "near", "one", "nvidia-h200")
    count("k:g", "near", "two", None)
    assert stats() == {"exact": 1000, "near": 2}
    assert counters()[0] == CallCount(
        "k:f", "exact", "measured on nvidia-h200 for this key", "nvidia-h200", 1000
    )  # fmt: skip


def test_a_cleared_counter_is_not_listed_until_its_binding_counts_again() -> None:
    binding = served("k:f", "exact")
    binding.calls += 5
    clear_counters()
    assert stats() == {} and counters() == ()
    binding.calls += 1
    assert stats() == {"exact": 1}


def test_further_reasons_share_a_counter_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "MAX_COUNTERS", 3)
    for i in range(100):
        count("k:f", "near", f"reason {i}", "nvidia-h200")
    assert stats() == {"near": 100}
    assert {row.reason: row.calls for row in counters()} == {
        "reason 0": 1, "reason 1": 1, "reason 2": 1, observe.OTHER_REASONS: 97,
    }  # fmt: skip


def test_long_reasons_are_cut() -> None:
    assert served("k:f", "near", "r" * 10_000).reason == "r" * observe.MAX_REASON


# ---- exact, and cheap -----------------------------------------------------------------------------------------------


def lost(body: Callable[[Served], None], times: int) -> int:
    """How many of the threads' increments are missing at the end, where threads take turns as often as they can."""
    counter = served("k:f", "exact", "threads")
    counter.calls = 0
    together = threading.Barrier(THREADS)

    def work() -> None:
        together.wait()
        for _ in range(times):
            body(counter)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work) for _ in range(THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    return THREADS * times - counter.calls


def warm(counter: Served) -> None:
    counter.calls += 1


def through_a_function(counter: Served) -> None:
    counter.calls = _next(counter.calls)


def _next(calls: int) -> int:
    return calls + 1


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="counts are a lower bound without GIL")
def test_eight_threads_lose_no_count() -> None:
    assert any(lost(through_a_function, 20_000) for _ in range(100)), "this test could not see a lost count"
    assert lost(warm, 200_000) == 0


def test_a_warm_call_counts_in_some_tens_of_nanoseconds() -> None:
    """20 to 45 ns; the limit leaves room for a busy machine, but none for a lock or a call."""
    counter = served("k:f", "exact")

    def best(statement: str) -> float:
        timer = timeit.Timer(f"for _ in turns: {statement}", globals={"turns": range(10_000), "counter": counter})
        return min(timer.repeat(repeat=20, number=1)) / 10_000 * 1e9

    assert best("counter.calls += 1") - best("pass") < 100


# ---- said once ------------------------------------------------------------------------------------------------------


def test_a_step_is_said_once_a_kernel_not_once_a_bucket(caplog: pytest.LogCaptureFixture) -> None:
    """Finding 14: near hits warned once a bucket."""
    with caplog.at_level(logging.INFO, logger="tileflow.runtime"):
        for size in (64, 128, 256):
            say_once(logging.WARNING, "k:f", "near", f"measured for {size}")
        say_once(logging.WARNING, "k:f", "default", "no row fits")
        say_once(logging.WARNING, "k:g", "near", "measured for 64")
    assert [r.getMessage() for r in caplog.records] == [
        "k:f | near | measured for 64", "k:f | default | no row fits", "k:g | near | measured for 64",
    ]  # fmt: skip


def test_what_was_said_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "MAX_COUNTERS", 10)
    for i in range(1000):
        assert say_once(logging.DEBUG, "k:f", f"table {i}", "of another version")
    assert len(observe._said) <= 10


def test_a_forked_process_counts_from_zero_even_if_the_lock_was_held() -> None:
    script = """
import os
from tileflow.runtime import observe
binding = observe.served("k:f", "exact")
binding.calls += 7
with observe._lock:
    child = os.fork()
    if child == 0:
        binding.calls += 1
        observe.count("k:f", "near")
        os._exit(0 if observe.stats() == {"exact": 1, "near": 1} else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert observe.stats() == {"exact": 7}
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
