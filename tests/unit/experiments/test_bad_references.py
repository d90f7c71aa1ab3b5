"""A sweep of ten studies, three of whose references cannot be had: the others go on, and each is told of once."""

from __future__ import annotations

import logging
import time
from collections import Counter
from pathlib import Path

import pytest
from tile_testing.fakes.experiments_fakes import GPU, KERNEL, prepare, sweep_spec, tools
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.journal_writer import Journal
from tileflow_experiments.open_studies import open_studies, study_keys

from tileflow.config import Config
from tileflow.errors import SlowProblem, SpecError
from tileflow.measure.types import Outcome

NO_ROOM, RAISES, ENDLESS = 101, 102, 103
OTHERS = tuple(range(1, 8))
BRIEF_S, PATIENT_S, TRIAL_S = 0.05, 0.1, 0.005


pytestmark = pytest.mark.usefixtures("no_mlflow")


class Device:
    """What a device worker tells of each request: what its measuring process raises for such references."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.slow: list[tuple[Config, bool]] = []

    def __call__(self, request: TrialRequest, outcome: Outcome) -> Outcome:
        n = int(dict(request.problem)["n"])
        self.calls.append(n)
        match n:
            case 101:
                raise SpecError("a problem's inputs must fit the card", got="planted: 300 GiB")
            case 102:
                raise SpecError("planted: the author's reference", got="ValueError")
            case 103:
                self.slow.append((request.config, request.others_wait))
                time.sleep(BRIEF_S if request.others_wait else PATIENT_S)
                raise SlowProblem("planted: must be made in time", got="longer")
        time.sleep(TRIAL_S)
        return outcome


def test_others_neither_wait_nor_hear_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Issue 15: one failing reference among ten studies cost the others ten times their time."""
    problems = [{"n": n} for n in (ENDLESS, NO_ROOM, RAISES, *OTHERS)]
    device = Device()
    with caplog.at_level(logging.WARNING):
        sweep.run(
            sweep_spec(kernels=[{"kernel": KERNEL, "problems": problems}], device_classes=[GPU]),
            tmp_path,
            tools(device),
        )
    calls = Counter(device.calls)
    assert calls[NO_ROOM] == calls[RAISES] == 1 and calls[ENDLESS] == 2
    (first, others_wait), (again, still_others_wait) = device.slow
    assert first == again and (others_wait, still_others_wait) == (True, False)
    last = len(device.calls) - 1 - device.calls[::-1].index(ENDLESS)
    searched = [n for n in device.calls[:last] if n in OTHERS]
    assert Counter(searched) == dict.fromkeys(OTHERS, 10)  # the second try comes after all others' trials
    lines = journals.read(tmp_path / "journal.jsonl")
    stopped = journals.stopped(journals.fold(lines).events)
    assert len(stopped) == 3 and sorted(why.partition(":")[0] for why in stopped.values()) == [
        "SlowProblem", "SpecError", "SpecError",
    ]  # fmt: skip
    said = [r.getMessage() for r in caplog.records if r.name == "tileflow_experiments.driver"]
    assert len(said) == 4 and sum("goes last" in text for text in said) == 1
    report = (tmp_path / "report.md").read_text()
    assert report.count("planted: 300 GiB") == 1 and "went last: planted: must be made in time" in report
    assert "stopped, see below" in report


def test_a_slow_problem_alone_has_all_its_time_at_once(tmp_path: Path) -> None:
    device = Device()
    spec = sweep_spec(kernels=[{"kernel": KERNEL, "problems": [{"n": ENDLESS}]}], device_classes=[GPU])
    with pytest.raises(SlowProblem):
        sweep.run(spec, tmp_path, tools(device))
    assert device.calls == [ENDLESS]


@pytest.mark.parametrize("unit", ["seconds", "gpu_seconds"])
def test_a_study_that_goes_last_has_its_time_then(unit: str, tmp_path: Path) -> None:
    """A kernel's text that ran for a second spent its budget on an H100 before it was put last. No config was tried,
    so that none worked."""
    spec = sweep_spec(budget={unit: 1.0}, device_classes=[GPU])
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    (study, other) = open_studies(spec, journal, [prepare(key, "static") for key in study_keys(spec)])
    journal.close()
    study.on_gpu = True
    tried = study.ask()
    assert tried is not None
    study.spent_s = study.gpu_s = 1.1
    assert not study.wants_more
    study.postpone(lambda: not other.open)
    study.ask_again(tried)
    other.stop("for the test")
    assert study.wants_more and study.ask() == tried


def test_the_default_is_the_first_to_be_tried_again(tmp_path: Path) -> None:
    """A study that went last had time for one trial, of any config, which failed: no row, where the default worked."""
    spec = sweep_spec(budget={"seconds": 1.0}, device_classes=[GPU])
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    study, *_ = open_studies(spec, journal, [prepare(key, "static") for key in study_keys(spec)])
    journal.close()
    first, second, third = (study.ask() for _ in range(3))
    assert first == study.task.default and second is not None and third is not None
    for config in (second, first, third):
        study.ask_again(config)
    assert [study.ask() for _ in range(3)] == [first, second, third]


@pytest.mark.parametrize("unit", ["seconds", "gpu_seconds"])
def test_a_lost_config_is_tried_again_though_the_time_is_up_where_nothing_else_was(unit: str, tmp_path: Path) -> None:
    spec = sweep_spec(budget={unit: 1.0}, device_classes=[GPU])
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    study, *_ = open_studies(spec, journal, [prepare(key, "static") for key in study_keys(spec)])
    journal.close()
    study.on_gpu = True
    tried = study.ask()
    assert tried is not None
    study.spent_s = study.gpu_s = 1.1
    study.lost(tried, "its node left")
    assert study.wants_more and study.ask() == tried
    assert not study.wants_more
