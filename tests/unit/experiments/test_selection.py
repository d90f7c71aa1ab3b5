"""The end of a study: who enters the race, what the journal keeps of it, which of equals becomes the row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU, MODELLED, quick_tools, sweep_spec
from tileflow_benchmarks.scaling.simulated_stages import Pace, SimulatedStages
from tileflow_benchmarks.search_replay.record import Compilers
from tileflow_benchmarks.search_replay.regret import POOL, regret
from tileflow_cluster.protocol import RaceRequest, TrialRequest
from tileflow_cluster.trial import Build, TrialResult
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.records import StudyKey, TrialRecord
from tileflow_experiments.selection import CANDIDATES, RaceEntry, Votes, finalists, most_robust, race

from tileflow.config import Config
from tileflow.cost import Launch
from tileflow.measure.racing import by_medians
from tileflow.measure.types import Measurement, Outcome, RankedResult, Status
from tileflow.runtime.abi import Resources
from tileflow.runtime.table_files import load_table

STUDY = StudyKey("m:k", (("n", 1),), GPU)


def trial(
    x: int,
    time_us: float,
    ci95_us: float = 0.5,
    *,
    p80_us: float | None = None,
    spills: int = 0,
    status: Status = Status.OK,
    measured: bool = True,
    study: StudyKey = STUDY,
) -> TrialRecord:
    times = Measurement((), time_us, time_us - 1, p80_us or time_us + 1, ci95_us)
    build = Build(f"t{x:03}", launches=(Launch(Resources(32, spills, 0, 128), 1),))
    result = TrialResult("", 1, 1, build, Outcome(status, times, measured=measured))
    return TrialRecord("trial", "s", "default", 0.0, study, "h", "static", Config.of({"x": x}), result)


class TestFinalists:
    def test_are_those_whose_interval_reaches_the_bests_and_the_default(self) -> None:
        default = trial(9, 500.0)
        records = [trial(1, 100.0), trial(2, 103.0), trial(3, 106.0), trial(4, 110.0, ci95_us=8.0), default]
        assert [r.config["x"] for r in finalists(records, default)] == [1, 2, 4, 9]

    def test_are_so_many_at_the_most(self) -> None:
        records = [trial(x, 100.0) for x in range(40)]
        assert len(finalists(records, None)) == CANDIDATES

    def test_are_measured_and_work(self) -> None:
        wrong = trial(1, 50.0, status=Status.INCORRECT)
        assert finalists([wrong, trial(2, 50.0, measured=False)], None) == []
        assert finalists([trial(3, 60.0)], wrong) == [trial(3, 60.0)]


class TestMostRobust:
    def test_spills_least_then_wins_elsewhere_then_scatters_least(self) -> None:
        steady, shaky = trial(1, 100.0), trial(2, 99.0, ci95_us=1.0, p80_us=120.0)
        liked, spilling = trial(3, 101.0, p80_us=130.0), trial(4, 90.0, spills=8)
        tied = [spilling, shaky, steady, liked]
        again = {r.config: r for r in tied}
        assert most_robust(tied, again, Counter({liked.config: 1, spilling.config: 3})) is liked
        assert most_robust(tied, again, Counter()) is steady

    def test_votes_are_those_of_the_kernels_other_problems_here(self) -> None:
        keys = [replace(STUDY, problem=(("n", n),)) for n in range(3)]
        keys.append(replace(STUDY, device_class="amd-mi300x"))
        tied = RaceEntry(Config.of({"x": 1}), 1.0, 1.0, 1.0, True)
        contests = [{"kind": "event", "event": "contest", "study": key.id, "places": [tied.to_json()]} for key in keys]
        trials = [trial(n, 100.0, study=key).to_json() for n, key in enumerate(keys)]
        header = {"kind": "header", "schema_version": 1}
        folded = journals.fold([header, *trials, *contests])
        assert Votes.of(folded).of_others(keys[0], [tied]) == {tied.config: 2}


def test_a_race_entry_survives_the_journal() -> None:
    outcome = Outcome(Status.OK, Measurement((1.0,), 1.0, 1.0, 1.0, 0.0))
    for place in (RankedResult(outcome, 1.01, 0.99, 1.03, True), RankedResult(Outcome(Status.INCORRECT))):
        entry = RaceEntry.of(Config.of({"x": 1}), place)
        assert RaceEntry.from_json(entry.to_json()) == entry
    assert entry.ratio is None and not entry.tied


def lucky(request: TrialRequest, outcome: Outcome) -> Outcome:
    """In the search a config of 14 us is measured at 5, and then as it is."""
    if (request.config["x"], request.config["y"]) != (6, 1) or outcome.measurement is None or request.remeasure:
        return outcome
    return replace(outcome, measurement=Measurement((5.0, 5.0), 5.0, 5.0, 5.0, 6.0))


def test_a_lucky_measurement_does_not_win(tmp_path: Path) -> None:
    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}, device_classes=[GPU])
    sweep.run(spec, tmp_path, quick_tools(lucky))
    entries = load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert len(entries) == 2
    for entry in entries:
        assert (entry.config["x"], entry.config["y"]) == (6, 2) and entry.best_us == 10.0
        assert entry.default_us == pytest.approx(fakes.time_us(fakes.SPACE.default))


def test_a_candidate_found_wrong_in_the_race_does_not_win(tmp_path: Path) -> None:
    class Device(fakes.FakeDevice):
        def race(self, request: RaceRequest, candidates: Any) -> Outcome:
            outcomes = []
            for (_, config), code in zip(request.candidates, candidates, strict=True):
                alone = self.run(request.alone(config), Build(""), code)
                best = (config["x"], config["y"]) == (6, 2)
                outcomes.append(Outcome(Status.INCORRECT, error_digest="on the other seed") if best else alone)
            return Outcome(Status.OK, ranked=by_medians(outcomes))

    class Stages(fakes.FakeStages):
        def open_device(self, device_class: str) -> fakes.FakeDevice:
            return Device(self, device_class, measured=True)

    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}, device_classes=[GPU])
    sweep.run(spec, tmp_path, replace(quick_tools(), evaluator=lambda spec: fakes.evaluator(Stages(lucky))))
    entries = load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert len(entries) == 2
    for entry in entries:
        assert (entry.config["x"], entry.config["y"]) != (6, 2)
    again = list(journals.attempts(journals.read(tmp_path / "journal.jsonl"), "remeasure"))
    assert {r.result.outcome.error_digest for r in again if r.status is Status.INCORRECT} == {"on the other seed"}


def test_a_race_that_its_device_does_not_survive_leaves_the_searchs_order(tmp_path: Path) -> None:
    class Device(fakes.FakeDevice):
        def race(self, request: RaceRequest, candidates: Any) -> Outcome:
            return Outcome(Status.ILLEGAL_ACCESS, error_digest="an illegal memory access")

    class Stages(fakes.FakeStages):
        def open_device(self, device_class: str) -> fakes.FakeDevice:
            return Device(self, device_class, measured=True)

    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}, device_classes=[GPU])
    sweep.run(spec, tmp_path, replace(quick_tools(), evaluator=lambda spec: fakes.evaluator(Stages())))
    assert {e.best_us for e in load_table(tmp_path / "tables/fakes-kernel.json").entries} == {10.0}
    events = list(journals.events(journals.read(tmp_path / "journal.jsonl"), "contest"))
    assert [(e["status"], e["places"]) for e in events] == [("illegal_access", [])] * 2
    assert not race(events)


def test_an_export_reads_each_race_so_often_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each study read the races of all others, three times over: of 500 that was half of the export's time."""
    many = [{"n": 64 + n} for n in range(24)]
    kernels = [{"kernel": fakes.KERNEL, "problems": many}]
    sweep.run(sweep_spec(kernels=kernels, budget={"trials": 6}, device_classes=[GPU]), tmp_path, quick_tools())
    contests = journals.events(journals.read(tmp_path / "journal.jsonl"), "contest")
    entered = sum(len(contest["places"]) for contest in contests)
    read = []
    of = RaceEntry.from_json
    monkeypatch.setattr(RaceEntry, "from_json", staticmethod(lambda data: read.append(data) or of(data)))
    sweep.export(tmp_path, fakes.prepare)
    assert 24 <= entered <= len(read) <= 2 * entered


def test_a_resumed_sweep_builds_its_candidates_anew(tmp_path: Path) -> None:
    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}, device_classes=[GPU])
    sweep.run(spec, tmp_path, quick_tools())
    sweep.resume(tmp_path, quick_tools())
    events = list(journals.events(journals.read(tmp_path / "journal.jsonl"), "contest"))
    assert len(events) == 4 and all(e["places"] for e in events)


def test_a_rehearsal_says_where_its_time_goes(tmp_path: Path) -> None:
    pace = Pace(compile_s=0.001, prepare_s=0.01, load_s=0.001, verify_s=0.001, bench_s=0.001)
    spec = sweep_spec(budget={"trials": 6}, device_classes=[GPU], strategy={"name": "default"})
    simulated: Any = SimulatedStages(pace)
    sweep.run(spec, tmp_path, replace(quick_tools(), evaluator=lambda spec: fakes.evaluator(simulated)))
    report = (tmp_path / "report.md").read_text()
    for phase in ("compiling", "built, waiting for a device", "inputs and references", "checking", "driver, asking"):
        assert f"| {phase} |" in report
    records = journals.attempts(journals.read(tmp_path / "journal.jsonl"))
    prepared = [s["prepare_s"] for r in records if (s := r.seconds)["device_s"]]
    assert Counter(prepared) == {0.01: 2, 0.0: len(prepared) - 2}


@pytest.mark.parametrize("first", [True, False])
def test_the_regret_of_a_pick_is_its_time_over_the_best(tmp_path: Path, first: bool) -> None:
    """Without races the lucky config is the pick, and 11 us over 10 its regret."""
    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}, device_classes=[GPU])
    sweep.run(spec, tmp_path, quick_tools(lucky))
    lines = [x for x in journals.read(tmp_path / "journal.jsonl") if first or x.get("event") != "contest"]
    folded = journals.fold(lines)
    stages: Any = fakes.FakeStages()
    with Compilers(stages, 2) as compilers:
        task = fakes.prepare(next(iter(folded.trials)), "static")
        found = regret(task, folded, compilers, stages.open_device(GPU))
    assert found is not None and found.candidates == POOL
    assert found.ratio == pytest.approx(1.0 if first else 1.1)


@pytest.mark.parametrize(
    ("devices", "roles"), [([GPU], set()), ([GPU, MODELLED], {"winner"}), ([MODELLED], {"winner", "random"})]
)
def test_the_interpreter_checks_what_no_gpu_has(tmp_path: Path, devices: list[str], roles: set[str]) -> None:
    """A winner of each modelled study; configs at random of each problem that was only modelled."""
    sweep.run(sweep_spec(device_classes=devices), tmp_path, quick_tools())
    assert {e["role"] for e in journals.events(journals.read(tmp_path / "journal.jsonl"), "interpreted")} == roles
