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
    assert found == {"trials": 3, "seconds": 9.0, "seconds_a_trial": 3.0, "attempts_of_the_failing": 1}


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
