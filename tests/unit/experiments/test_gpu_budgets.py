"""Budgets of GPU-seconds: of each search, and of a sweep."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU, MODELLED, spec_data, sweep_spec
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments.driver import Driver
from tileflow_experiments.journal_writer import Journal
from tileflow_experiments.open_studies import open_studies, study_keys
from tileflow_experiments.spec import SweepSpec, parse
from tileflow_experiments.study import Study

from tileflow.errors import SpecError
from tileflow.measure.types import Outcome

EACH_S = 0.01


def slowly(request: TrialRequest, outcome: Outcome) -> Outcome:
    time.sleep(EACH_S)
    return outcome


def search(journal: Journal, spec: SweepSpec) -> tuple[list[Study], int]:
    """The studies after a search, and how many trials it took."""
    stages = fakes.FakeStages(slowly)
    measured = [name for name in spec.device_classes if name == GPU]
    evaluator = InlineEvaluator(stages, measured=measured, modelled=[MODELLED])
    tasks = [fakes.prepare(key, "static") for key in study_keys(spec)]
    studies = open_studies(spec, journal, tasks, measured=measured)
    before = sum(len(study.completed) for study in studies)
    Driver("s", studies, evaluator, journal, gpu_seconds=spec.gpu_seconds).search()
    return studies, sum(len(study.completed) for study in studies) - before


def test_a_search_ends_with_its_gpu_seconds_and_goes_on_from_the_journals(tmp_path: Path) -> None:
    spec = sweep_spec(budget={"gpu_seconds": 8 * EACH_S}, device_classes=[GPU])
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    studies, trials = search(journal, spec)
    journal.close()
    assert studies and all(6 * EACH_S < study.gpu_s < 16 * EACH_S for study in studies) and 6 <= trials <= 16
    again = Journal.resume(tmp_path / "journal.jsonl")
    resumed, more = search(again, spec)
    again.close()
    assert len(resumed) == len(studies) and more <= 2
    assert all(study.gpu_s > 6 * EACH_S for study in resumed), "what was used is not given again"


def test_a_sweep_ends_with_its_gpu_seconds(tmp_path: Path) -> None:
    spec = sweep_spec(budget={"trials": 20}, device_classes=[GPU], gpu_seconds=8 * EACH_S)
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    studies, trials = search(journal, spec)
    journal.close()
    assert sum(study.gpu_s for study in studies) >= 8 * EACH_S and trials < 20


def test_where_the_model_stands_in_the_wall_clock_counts(tmp_path: Path) -> None:
    spec = sweep_spec(budget={"gpu_seconds": 0.2}, device_classes=[MODELLED])
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    studies, _ = search(journal, spec)
    journal.close()
    assert studies and all(study.gpu_s == 0 and 0.1 < study.spent_s < 10.0 for study in studies)


def test_the_spec_keeps_them() -> None:
    spec = sweep_spec(budget={"gpu_seconds": 90}, gpu_seconds=1000, schedulers=3)
    assert parse(spec.to_json()) == spec and str(spec.budget) == "90 GPU-seconds"
    assert spec.budget.times(0.5).gpu_seconds == 45


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"budget": {"gpu_seconds": 0}}, "budget.gpu_seconds"),
        ({"budget": {"gpu_seconds": 9, "trials": 3}}, "budget"),
        ({"gpu_seconds": "all"}, "gpu_seconds"),
        ({"schedulers": 0}, "schedulers"),
    ],
)
def test_what_is_no_budget_is_named(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(spec_data(**changes))
    assert caught.value.where == where
