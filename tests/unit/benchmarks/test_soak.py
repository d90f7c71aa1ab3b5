"""The soak of ten thousand trials, with a few hundred; and what keeps its figures where they are."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tileflow_benchmarks.scaling.soak import AIMS, soak
from tileflow_experiments import journal as journals
from tileflow_experiments.open_studies import study_keys
from tileflow_experiments.records import TrialRecord
from tileflow_experiments.report import rank_correlation
from tileflow_experiments.spec import SweepSpec, parse
from tileflow_experiments.tuning_task import prepare


def wanted() -> SweepSpec:
    kernel = {"kernel": "examples.vector_add:vector_add", "problems": [{"n": 1 << 20}, {"n": 1 << 21}]}
    return parse({
        "name": "s", "kernels": [kernel], "device_classes": ["nvidia-h200"], "strategy": {"name": "random"},
        "budget": {"trials": 1}, "modes": ["static"],
    })  # fmt: skip


def test_every_aim_is_measured(tmp_path: Path) -> None:
    spec = wanted()
    found = soak(spec, [prepare(key, "static") for key in study_keys(spec)], 200, 4, 30.0, tmp_path)
    assert found["trials"] == 200 and AIMS.keys() <= found.keys()
    assert all(math.isfinite(value) for value in found.values())


def test_a_record_is_made_once_for_all_who_fold_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 17, resume and export: each line was made into a record three times on the way."""
    spec = wanted()
    soak(spec, [prepare(key, "static") for key in study_keys(spec)], 20, 4, 30.0, tmp_path)
    made = []
    real = TrialRecord.from_json
    monkeypatch.setattr(TrialRecord, "from_json", staticmethod(lambda data: made.append(1) or real(data)))
    lines = journals.read(tmp_path / "journal.jsonl")
    assert sum(map(len, journals.fold(lines).attempts.values())) == len(list(journals.attempts(lines))) == 20
    assert len(made) == 20


def test_ranks_are_compared_as_spearman_does() -> None:
    assert rank_correlation([(1.0, 10.0), (2.0, 20.0), (3.0, 90.0)]) == pytest.approx(1.0)
    assert rank_correlation([(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]) == pytest.approx(-1.0)
    assert rank_correlation([(1.0, 1.0), (2.0, 3.0), (2.0, 2.0), (4.0, 4.0)]) == pytest.approx(0.9486833)  # as SciPy's
    assert math.isnan(rank_correlation([(1.0, 1.0), (1.0, 2.0)]))
