"""What is read from the journals of searches with a failing reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tileflow_benchmarks.tuning import failing_reference as module


def test_the_others_trials_count(tmp_path: Path) -> None:
    """Those with a time, between the first and the last; the failing study's attempts stand apart."""
    own = f"{module.__name__}:_doubled"
    lines = [
        {"kind": "header"},
        {"kind": "trial", "kernel": "examples.softmax:softmax", "started_at": 10.0, "median_us": 3.0},
        {"kind": "trial", "kernel": own, "started_at": 0.0, "median_us": None},
        {"kind": "trial", "kernel": "examples.matmul:matmul", "started_at": 12.0, "median_us": None},
        {"kind": "trial", "kernel": "examples.matmul:matmul", "started_at": 11.0, "median_us": 4.0},
        {"kind": "trial", "kernel": "examples.matmul:matmul", "started_at": 14.0, "median_us": 4.0},
    ]
    journal = tmp_path / "journal.jsonl"
    journal.write_text("\n".join(map(json.dumps, lines)))
    found = module.trials_of(journal)
    assert found == {"trials": 3, "seconds": 4.0, "seconds_a_trial": 2.0, "attempts_of_the_failing": 1}


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
