"""What is read from the journals of searches with a failing reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tileflow_benchmarks.tuning import failing_reference as module


def test_the_others_trials_count(tmp_path: Path) -> None:
    """Those with a time, from the beginning of the search until the last was told, however long it had waited."""

    def trial(kernel: str, started_at: float, median_us: float | None, waited_s: float = 0.5) -> dict[str, object]:
        phases = {"queue_s": 0.25, "compile_s": 0.25, "built_s": waited_s, "device_s": 0.0}
        return {"kind": "trial", "kernel": kernel, "started_at": started_at, "median_us": median_us, **phases}

    lines = [
        {"kind": "header"},
        {"kind": "event", "event": "phase", "phase": "search", "at": 9.0},
        trial("examples.softmax:softmax", 10.0, 3.0, waited_s=7.5),
        trial("__main__:_doubled", 9.0, None, waited_s=60.0),
        trial("examples.matmul:matmul", 12.0, None, waited_s=60.0),
        trial("examples.matmul:matmul", 11.0, 4.0),
        trial("examples.matmul:matmul", 14.0, 4.0),
    ]
    journal = tmp_path / "journal.jsonl"
    journal.write_text("\n".join(map(json.dumps, lines)))
    found = module.trials_of(journal)
    counted = {"trials": 3, "seconds": 9.0, "seconds_a_trial": 3.0, "attempts_of_the_failing": 1}
    assert {name: found[name] for name in counted} == counted


def test_a_row_says_where_the_others_time_went(tmp_path: Path) -> None:
    """A search was slower by 16 %, of which the log explained 7."""

    def call(at: float, device_s: float, n: int, prepare_s: float = 0.0, compile_s: float = 0.5) -> dict[str, object]:
        phases = {"queue_s": 0.0, "compile_s": compile_s, "built_s": 0.5, "device_s": device_s, "prepare_s": prepare_s}
        started_at = at - compile_s - 0.5
        where = {"kernel": "examples.softmax:softmax", "problem": {"call": "1", "x.shape.0": n, "x.shape.1": 8}}
        return {"kind": "trial", "started_at": started_at, "median_us": 3.0, "bench_s": 0.1, **where, **phases}

    reason = "SlowProblem: too slow\n  at k"
    lines = [
        {"kind": "event", "event": "phase", "phase": "search", "at": 9.0},
        call(10.0, 0.75, 4, prepare_s=0.5, compile_s=0.75),
        call(10.75, 0.125, 4),
        {"kind": "event", "event": "study_postponed", "at": 12.0, "reason": reason},
        call(12.0, 1.0, 4, prepare_s=0.75),
        call(16.0, 0.125, 2, compile_s=3.0),
        call(17.0, 0.125, 2, compile_s=0.5),
    ]
    journal = tmp_path / "journal.jsonl"
    journal.write_text("\n".join(map(json.dumps, lines)))
    found = module.trials_of(journal)
    assert [(wait["at"], wait["seconds"], wait["for"]) for wait in found["held_up"]] == [
        (0.0, 1.0, "a build, before softmax 4x8"),
        (1.0, 0.75, "softmax 4x8 prepare_s 0.50 bench_s 0.10"),
        (1.875, 1.125, "a study that was given up: SlowProblem: too slow"),
        (3.0, 1.0, "softmax 4x8 prepare_s 0.75 bench_s 0.10"),
        (4.0, 3.0, "a build, before softmax 2x8"),
        (7.125, 0.875, "a build, before softmax 2x8"),
    ]
    assert (found["made"], found["made_again"]) == (2, 1)
    assert sum(found["ms_a_trial"].values()) == pytest.approx(1e3 * found["seconds_a_trial"], abs=0.01)
    assert found["ms_a_trial"]["prepare"] == 250.0 and found["ms_a_trial"]["between"] == 1200.0


def test_ways_are_compared_with_the_nine_alone() -> None:
    rows = [
        {"way": module.ALONE, "seconds_a_trial": 1.0},
        {"way": module.ALONE, "seconds_a_trial": 3.0},
        {"way": "raises", "seconds_a_trial": 3.0},
    ]
    assert module.slower(rows) == {"raises": 1.5}


@pytest.mark.parametrize(("way", "error"), [("raises", ValueError), ("has_no_room", RuntimeError)])
def test_planted_references_fail(way: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        module.FAILING[way].reference(torch.ones(4))
