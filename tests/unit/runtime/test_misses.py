"""Misses: counted within bounds, and on disk in a way that no call notices."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tileflow
from tileflow.errors import SpecError, TableError
from tileflow.runtime import miss_file, observe
from tileflow.runtime import miss_record as misses
from tileflow.runtime.miss_file import read_misses, record_misses
from tileflow.runtime.miss_record import Miss, clear_misses, miss
from tileflow.runtime.problem import Problem, ScalarSpec, TensorSpec

KERNEL = "kernels:softmax"
DEVICE = "nvidia-h200"


def problem(m: int) -> Problem:
    return Problem(
        KERNEL, (("x", TensorSpec("bfloat16", (m, 64), (64, 1))), ("eps", ScalarSpec("float", float("inf"))))
    )


@pytest.fixture(autouse=True)
def nothing_missed_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(miss_file, "_GATHER_S", 0.01)
    clear_misses()
    observe.clear_counters()
    yield
    record_misses(None)
    clear_misses()
    observe.clear_counters()


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for the writing thread."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the writing thread did not get there"
        time.sleep(0.005)


def lines_of(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


# ---- the record -----------------------------------------------------------------------------------------------------


def test_calls_of_a_missed_problem_are_counted_together_warm_ones_too() -> None:
    missed = miss(KERNEL, problem(1), DEVICE, "no row fits")
    assert miss(KERNEL, problem(1), DEVICE, "no row fits") is missed
    missed.calls += 5
    miss(KERNEL, problem(2), DEVICE, "no row fits")
    miss(KERNEL, problem(2), None, "no row fits")
    found = misses.misses()
    assert [(m.problem, m.device, m.calls) for m in found] == [
        (problem(1), DEVICE, 7), (problem(2), DEVICE, 1), (problem(2), None, 1),
    ]  # fmt: skip
    assert observe.stats() == {"miss": 4}  # lookups


def test_first_and_last_say_when(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_800_000_000.0]
    monkeypatch.setattr(misses.time, "time", lambda: clock[0])
    missed = miss(KERNEL, problem(1), DEVICE, "no row fits")
    clock[0] += 60
    (found,) = misses.misses()
    assert (found.first, found.last) == ("2027-01-15T08:00:00Z", "2027-01-15T08:00:00Z")
    missed.calls += 1
    (found,) = misses.misses()
    assert (found.first, found.last) == ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z")


def test_the_record_is_bounded_and_keeps_what_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misses, "MAX_MISSES", 50)
    hot = miss(KERNEL, problem(0), DEVICE, "no row fits")
    for m in range(1, 1001):
        miss(KERNEL, problem(m), DEVICE, "no row fits")
        hot.calls += 1  # warm calls: no further lookup
    found = misses.misses()
    assert len(found) == 50 and misses.forgotten() == 951
    assert found[0].problem == problem(0) and found[0].calls == 1001
    assert {m.problem for m in found[1:]} == {problem(m) for m in range(952, 1001)}
    assert observe.stats() == {"miss": 1001}


def test_eight_threads_lose_no_miss() -> None:
    def work() -> None:
        for i in range(400):
            miss(KERNEL, problem(i % 4), DEVICE, "no row fits")

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [m.calls for m in misses.misses()] == [800] * 4


# ---- the file -------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "misses.jsonl"
    miss(KERNEL, problem(1), DEVICE, "no row fits")  # before the recording
    record_misses(file)
    miss(KERNEL, problem(2), None, 'a "reason"\nof two lines')
    until(lambda: len(lines_of(file)) == 2)
    record_misses(None)
    kept = misses.misses()
    miss(KERNEL, problem(3), DEVICE, "after the recording")
    assert set(read_misses(file)) == set(kept) and len(kept) == 2


def test_the_format_is_the_documented_one(tmp_path: Path) -> None:
    file = tmp_path / "misses.jsonl"
    record_misses(file)
    miss(KERNEL, problem(7), DEVICE, "no row fits")
    record_misses(None)
    (line,) = lines_of(file)
    assert list(line) == ["format", "kernel", "problem", "device", "reason", "calls", "first", "last"]
    assert (line["format"], line["calls"], line["problem"]) == (1, 1, problem(7).to_json())


def test_a_file_of_format_1_is_still_read(tmp_path: Path) -> None:
    file = tmp_path / "misses.jsonl"
    file.write_text(
        '{"format":1,"kernel":"k:f","problem":{"kernel":"k:f","args":[["x",{"tensor":"float32","shape":[4],"strides":[1],'
        '"aligned":true}]]},"device":null,"reason":"no row fits","calls":3,"first":"2026-11-22T09:30:00Z",'
        '"last":"2026-11-22T09:31:07Z"}\n'
    )
    expected = Problem("k:f", (("x", TensorSpec("float32", (4,), (1,))),))
    assert read_misses([file]) == (
        Miss("k:f", expected, None, "no row fits", 3, "2026-11-22T09:30:00Z", "2026-11-22T09:31:07Z"),
    )


def test_a_file_grows_with_problems_not_with_calls(tmp_path: Path) -> None:
    file = tmp_path / "misses.jsonl"
    record_misses(file)
    missed = miss(KERNEL, problem(1), DEVICE, "no row fits")
    until(lambda: len(lines_of(file)) == 1)
    recorder = miss_file._recorder
    assert recorder is not None
    for _ in range(1000):
        missed.calls += 1
        recorder.write()
    assert len(lines_of(file)) == 10  # 1, 2, 4 ... 512
    record_misses(None)
    assert len(lines_of(file)) == 11
    (found,) = read_misses(file)
    assert found.calls == missed.calls == 1001


def test_problems_that_the_record_forgot_are_in_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(misses, "MAX_MISSES", 10)
    file = tmp_path / "misses.jsonl"
    record_misses(file)
    before = miss_file._Totals.dropped
    for m in range(500):
        miss(KERNEL, problem(m % 250), DEVICE, "no row fits")
    clear_misses()
    record_misses(None)
    dropped = miss_file._Totals.dropped - before  # each forgotten with one call
    written = sum(m.calls for m in read_misses(file))
    assert written >= 10 and written + dropped == 500


def test_several_processes_may_share_a_file_and_write_at_their_end(tmp_path: Path) -> None:
    file = tmp_path / "misses.jsonl"
    script = f"""
from tileflow.runtime.miss_file import record_misses
from tileflow.runtime.miss_record import miss
from tileflow.runtime.problem import Problem, TensorSpec
record_misses({str(file)!r})
for i in range(600):
    miss("k:f", Problem("k:f", (("x", TensorSpec("float32", (i % 300,), (1,))),)), None, "no row fits")
"""
    ranks = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [rank.wait(timeout=60) for rank in ranks] == [0, 0, 0]
    found = read_misses(file)
    assert len(found) == 300 and {m.calls for m in found} == {6}


def test_a_forked_process_writes_its_own_misses_only(tmp_path: Path) -> None:
    script = f"""
import os
from tileflow.runtime.miss_file import record_misses
from tileflow.runtime.miss_record import miss
from tileflow.runtime.problem import Problem
record_misses({str(tmp_path)!r})
missed = miss("k:f", Problem("k:f", ()), None, "before the fork")
child = os.fork()
missed.calls += 10
if child == 0:
    miss("k:f", Problem("k:f", ()), None, "in the child")
    record_misses(None)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert len(list(tmp_path.iterdir())) == 2
    assert {m.reason: m.calls for m in read_misses(tmp_path)} == {"before the fork": 21, "in the child": 1}


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_worker_of_multiprocessing_writes_its_misses_when_it_ends(tmp_path: Path, method: str) -> None:
    """It runs nothing of atexit, and ends before the recorder has gathered a burst."""
    (tmp_path / "program.py").write_text(f"""
import multiprocessing
from tileflow.runtime.miss_file import record_misses
from tileflow.runtime.miss_record import miss
from tileflow.runtime.problem import Problem

def worker():
    record_misses({str(tmp_path)!r}) if {method!r} != "fork" else None
    miss("k:f", Problem("k:f", ()), None, "in the worker")

if __name__ == "__main__":
    record_misses({str(tmp_path)!r})
    miss("k:f", Problem("k:f", ()), None, "before")
    process = multiprocessing.get_context({method!r}).Process(target=worker)
    process.start()
    process.join()
""")
    subprocess.run([sys.executable, tmp_path / "program.py"], check=True, timeout=60)
    assert {m.reason: m.calls for m in read_misses(tmp_path)} == {"before": 1, "in the worker": 1}


def test_a_line_that_another_process_left_torn_is_ended(tmp_path: Path) -> None:
    """The next line was glued to it, and lost with it."""
    file = tmp_path / "misses.jsonl"
    file.write_bytes(b'{"format":1,"ker')
    record_misses(file)
    miss(KERNEL, problem(1), DEVICE, "no row fits")
    record_misses(None)
    (found,) = read_misses(file)
    assert found.calls == 1


def test_a_problem_that_cannot_be_read_back_is_not_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record_misses(tmp_path)
    miss(KERNEL, Problem(KERNEL, (("n", ScalarSpec("int", 2**70)),)), DEVICE, "no row fits")
    miss(KERNEL, problem(1), DEVICE, "no row fits")
    record_misses(None)
    assert len(read_misses(tmp_path)) == 1 and "cannot be written" in caplog.text


def test_a_path_is_of_the_folder_that_it_was_given_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    record_misses("misses.jsonl")
    miss(KERNEL, problem(1), DEVICE, "no row fits")
    monkeypatch.chdir(tmp_path / "elsewhere")
    record_misses(None)
    assert len(read_misses(tmp_path / "misses.jsonl")) == 1


def test_a_path_names_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    record_misses(tmp_path / "rank{rank}-{pid}.jsonl")
    miss(KERNEL, problem(1), DEVICE, "no row fits")
    record_misses(None)
    assert [file.name for file in tmp_path.iterdir()] == [f"rank3-{os.getpid()}.jsonl"]


@pytest.mark.parametrize("name", ["{PID}", "{Host}-{pid}", "{pid:05d}", "{}", "{user}"])
def test_something_else_in_braces_is_refused(tmp_path: Path, name: str) -> None:
    """All processes of a server wrote to one file that was called {PID}, without a word."""
    for place in (tmp_path / f"{name}.jsonl", tmp_path / name):
        with pytest.raises(SpecError, match=r"must be known of a process(.|\n)*\{pid\}, \{host\} and \{rank\}"):
            record_misses(place)
        with pytest.raises(SpecError, match="must be known of a process"), tileflow.record(place):
            pytest.fail("the block must not begin")
    assert not list(tmp_path.iterdir())
    record_misses(tmp_path / "a{b}c".replace("}", ""))
    record_misses(None)


def test_a_rank_that_is_not_known_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SpecError, match="RANK"):
        record_misses(tmp_path / "{rank}.jsonl")


# ---- what a call must not notice ------------------------------------------------------------------------------------


def test_a_text_that_names_no_file_is_refused_in_words() -> None:
    """It was a bare ValueError of the system's."""
    for path in ("a\0.jsonl", "a\0", ""):
        with pytest.raises(SpecError, match="must be a path"):
            record_misses(path)
        with pytest.raises(SpecError, match="must be a path"), tileflow.record(path):
            pytest.fail("the block must not begin")


def test_a_path_that_cannot_be_opened_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent" / "misses.jsonl", tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(SpecError, match="appended"):
            record_misses(path)
    assert miss_file._recorder is None


def test_a_disk_that_fails_later_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    record_misses(folder / "misses.jsonl")
    (folder / "misses.jsonl").unlink()
    folder.rmdir()
    errors = miss_file._Totals.errors
    with caplog.at_level(logging.WARNING, logger="tileflow.runtime"):
        for m in range(3):
            miss(KERNEL, problem(m), DEVICE, "no row fits")
            until(lambda seen=errors + m: miss_file._Totals.errors > seen)  # type: ignore[misc]
    assert [r.getMessage().split(" | ")[0] for r in caplog.records] == [
        f"misses are not recorded in {folder}/misses.jsonl"
    ]
    folder.mkdir()
    miss(KERNEL, problem(3), DEVICE, "no row fits")
    until(lambda: (folder / "misses.jsonl").exists() and len(read_misses(folder)) == 4)


def test_a_disk_that_hangs_holds_up_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, answers = threading.Event(), threading.Event()
    write = os.write

    def slow(descriptor: int, data: bytes) -> int:
        hangs.set()
        answers.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr(miss_file.os, "write", slow)
    record_misses(tmp_path / "misses.jsonl")
    miss(KERNEL, problem(0), DEVICE, "no row fits")
    assert hangs.wait(10)
    began = time.perf_counter()
    for m in range(1000):
        miss(KERNEL, problem(m), DEVICE, "no row fits")
    assert time.perf_counter() - began < 10.0  # where each waits it is 30 s
    assert not answers.is_set()
    answers.set()
    record_misses(None)
    assert sum(m.calls for m in read_misses(tmp_path)) == 1001


def test_a_full_disk_tears_one_line_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "misses.jsonl"
    record_misses(file)
    write = os.write
    full = [True]

    def short(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[:40] if full and full.pop() else data)

    monkeypatch.setattr(miss_file.os, "write", short)
    miss(KERNEL, problem(1), DEVICE, "no row fits")
    miss(KERNEL, problem(2), DEVICE, "no row fits")
    record_misses(None)
    with caplog.at_level(logging.WARNING, logger="tileflow.runtime"):
        found = read_misses(file)
    assert {m.problem: m.calls for m in found} == {problem(1): 1, problem(2): 1}
    skipped = [r.getMessage() for r in caplog.records if "skipped" in r.getMessage()]
    assert len(skipped) == 1 and skipped[0].startswith(f"{file}:1 ")


def test_a_process_stops_writing_before_it_fills_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miss_file, "MAX_BYTES", 2000)
    record_misses(tmp_path / "misses.jsonl")
    for m in range(100):
        miss(KERNEL, problem(m), DEVICE, "no row fits")
    record_misses(None)
    assert 1000 < (tmp_path / "misses.jsonl").stat().st_size <= 2000
    assert len(misses.misses()) == 100


GOOD = {
    "format": 1, "kernel": "k:f", "problem": {"kernel": "k:f", "args": []}, "device": None, "reason": "", "calls": 1,
    "first": "2026-11-22T09:30:00Z", "last": "2026-11-22T09:30:00Z",
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2}, {"kernel": 1}, {"calls": 0}, {"calls": "1"}, {"calls": True}, {"device": []}, {"extra": 1},
        {"problem": {}}, {"problem": {"kernel": "k:f", "args": 3}}, {"problem": {"kernel": "k:f", "args": [["x", {}]]}},
    ],
)  # fmt: skip
def test_json_that_is_no_miss_is_refused_with_its_place(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "misses.jsonl"
    file.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD | change) + "\n")
    with pytest.raises(TableError) as raised:
        read_misses(file)
    assert "misses.jsonl:2" in str(raised.value) or "argument" in str(raised.value)


@pytest.mark.parametrize("text", ["[]", "null", "3", '{"format": 1}', "[" * 100_000, "9" * 10_000])
def test_other_text_is_refused_or_skipped(tmp_path: Path, text: str) -> None:
    (tmp_path / "misses.jsonl").write_text(text + "\n")
    try:
        assert read_misses(tmp_path) == ()
    except TableError as error:
        assert "misses.jsonl:1" in str(error)


def test_a_path_to_nothing_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path / "pipe"):
        with pytest.raises(TableError, match="files and folders"):
            read_misses(path)
