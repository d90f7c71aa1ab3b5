"""The default strategy under the sweep's driver: studies take turns on a device, what is dropped is journalled."""

from __future__ import annotations

from pathlib import Path

import pytest
from tile_testing.fakes.experiments_fakes import GPU, quick_tools, sweep_spec
from tileflow_cluster.protocol import KernelRef, TrialRequest
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.device_scheduling import BACKLOG, IN_A_ROW, PATIENCE_S, StudySchedulingPolicy

from tileflow.config import Config
from tileflow.measure.types import Outcome


class FakeStudy:
    incumbent_us = 12.5

    def __init__(self, ranks: dict[int, float]) -> None:
        self.ranks = ranks

    def rank(self, configs: list[Config]) -> list[float]:
        return [self.ranks[int(config["x"])] for config in configs]


def waiting(*names: str) -> dict[object, dict[str, TrialRequest]]:
    groups: dict[object, dict[str, TrialRequest]] = {}
    for n, name in enumerate(names):
        request = TrialRequest(name, KernelRef("m:k", "h"), (), GPU, Config.of({"x": int(name[1])}))
        groups.setdefault(name[0], {})[f"{name}{n}"] = request
    return groups


class TestPolicy:
    def policy(self) -> StudySchedulingPolicy:
        studies = {"a": FakeStudy({0: 2.0, 1: 1.0, 2: float("inf")}), "b": FakeStudy({0: 9.0, 1: 9.0})}
        self.now = 0.0
        return StudySchedulingPolicy(lambda request_id: studies[request_id[0]], lambda: self.now)  # type: ignore[arg-type,return-value]

    def test_the_lowest_rank_goes_first_and_the_oldest_of_equals(self) -> None:
        policy = self.policy()
        selection = policy.select(waiting("a0", "a1", "a2"), "w")
        assert (selection.take, selection.drop, selection.incumbent_us) == ("a1", ("a2",), 12.5)
        assert policy.select(waiting("b1", "b0"), "w").take == "b1"

    def test_studies_take_turns_however_their_ranks_compare(self) -> None:
        policy = self.policy()
        taken = [policy.select(waiting("a0", "a1", "b0", "b1"), "w").take for _ in range(3 * IN_A_ROW)]
        assert [str(name)[0] for name in taken] == ["a"] * IN_A_ROW + ["b"] * IN_A_ROW + ["a"] * IN_A_ROW

    def test_a_study_stays_with_the_worker_that_has_its_data(self) -> None:
        policy = self.policy()
        assert policy.select(waiting("a0", "b0"), "w").take == "a0"
        assert policy.select(waiting("a0", "b0"), "v").take == "b0"
        assert policy.select(waiting("a0"), "v").take is None
        assert policy.select(waiting("a0", "b0"), "v").take == "b0"
        assert policy.select(waiting("a0", "b0"), "w").take == "a0"

    def test_another_worker_helps_with_a_backlog_or_after_a_while(self) -> None:
        policy = self.policy()
        policy.select(waiting("a0"), "w")
        assert policy.select(waiting(*["a0"] * BACKLOG), "v").take == "a0"
        policy.select(waiting("b0"), "w")
        assert policy.select(waiting("b0"), "v").take is None
        self.now += PATIENCE_S
        assert policy.select(waiting("b0"), "v").take == "b0"

    def test_takes_nothing_where_all_are_dropped(self) -> None:
        selection = self.policy().select(waiting("a2"), "w")
        assert (selection.take, selection.drop) == (None, ("a2",))


@pytest.mark.parametrize("trials", [12, 500])
def test_a_sweep_with_the_default_strategy(tmp_path: Path, trials: int) -> None:
    wanted = sweep_spec(strategy={"name": "default", "seed": 0}, budget={"trials": trials}, device_classes=[GPU])
    measured: list[TrialRequest] = []

    def run(request: TrialRequest, outcome: Outcome) -> Outcome:
        measured.append(request)
        return outcome

    assert sweep.run(wanted, tmp_path / "out", quick_tools(run), f"sqlite:///{tmp_path / 'm.db'}") == ""
    lines = journals.read(tmp_path / "out" / "journal.jsonl")
    found = journals.by_study(journals.trials(lines).values())
    assert len(found) == 2
    for records in found.values():
        assert len(records) <= min(trials, 32)
        if trials == 500:
            assert min(r.time_us for r in records if r.time_us is not None) == 10.0  # the best there is
    assert {event["study"] for event in journals.events(lines, "study_finished")} <= {key.id for key in found}
