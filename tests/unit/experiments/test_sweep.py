"""The driver and what a sweep leaves behind, over the inline evaluator and fake stages."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU, KERNEL, MODELLED, completed, sweep_spec, tools, trials
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.protocol import KernelRef, TrialRequest
from tileflow_cluster.trial import TrialResult
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.driver import Driver
from tileflow_experiments.journal_writer import Journal
from tileflow_experiments.open_studies import open_studies, study_keys
from tileflow_experiments.portable import Failure

from tileflow.errors import SpecError
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.bundle import load_bundle
from tileflow.runtime.table_files import load_table

pytestmark = pytest.mark.usefixtures("no_mlflow")


class Killed(BaseException):
    """Stands for the driver's sudden end."""


@pytest.mark.parametrize("strategy", ["random", "exhaustive", "local", "tpe"])
def test_the_budget_is_met_exactly(tmp_path: Path, strategy: str) -> None:
    told: Counter[str] = Counter()
    spec = sweep_spec(strategy={"name": strategy, "seed": 1}, budget={"trials": 13})
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    studies = open_studies(spec, journal, [fakes.prepare(key, "static") for key in study_keys(spec)])
    for study in studies:
        tell = study._strategy.tell

        def counted(config: Any, result: Any, tell: Any = tell, study: Any = study) -> None:
            told[f"{study.task.key.id} {config.key}"] += 1
            tell(config, result)

        study._strategy.tell = counted  # type: ignore[method-assign]
    Driver("s", studies, fakes.evaluator(fakes.FakeStages()), journal).search()
    journal.close()
    found = completed(tmp_path)
    assert Counter(study for study, _ in found) == {key.id: 13 for key in study_keys(spec)}
    assert set(found.values()) == {1}
    assert set(told.values()) == {1}
    assert len(told) >= 4 * 13


def test_a_small_space_is_searched_to_its_end(tmp_path: Path) -> None:
    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 1000})
    assert sweep.run(spec, tmp_path, tools()) == ""
    assert Counter(study for study, _ in completed(tmp_path)) == {k.id: fakes.DISTINCT for k in study_keys(spec)}


@pytest.mark.parametrize("strategy", ["random", "exhaustive"])
@pytest.mark.parametrize("killed_after", [1, 7, 23])
def test_a_resumed_sweep_makes_the_same_trials(tmp_path: Path, strategy: str, killed_after: int) -> None:
    spec = sweep_spec(strategy={"name": strategy, "seed": 5}, budget={"trials": 12})
    sweep.run(spec, tmp_path / "whole", tools())
    runs = []

    def die(request: TrialRequest, outcome: Outcome) -> Outcome:
        runs.append(request)
        if len(runs) == killed_after:
            raise Killed
        return outcome

    with pytest.raises(Killed):
        sweep.run(spec, tmp_path / "killed", tools(die))
    with (tmp_path / "killed/journal.jsonl").open("ab") as file:
        file.write(b'{"kind":"trial","trial_id":"torn')
    assert sweep.resume(tmp_path / "killed", tools()) == ""
    assert completed(tmp_path / "killed") == completed(tmp_path / "whole")
    assert [e["epoch"] for e in journals.events(journals.read(tmp_path / "killed/journal.jsonl"), "opened")] == [1, 2]


def test_losses_are_tried_again_and_never_blamed(tmp_path: Path) -> None:
    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 12}, device_classes=[GPU])
    seen: Counter[str] = Counter()

    def lose_once(request: TrialRequest, outcome: Outcome) -> Outcome:
        seen[request.key] += 1
        return Outcome(Status.WORKER_LOST, None, "Lost", "gone") if seen[request.key] == 1 else outcome

    sweep.run(spec, tmp_path / "whole", tools())
    sweep.run(spec, tmp_path / "lossy", tools(lose_once))
    assert completed(tmp_path / "lossy") == completed(tmp_path / "whole")
    assert sum(r.status is Status.WORKER_LOST for r in trials(tmp_path / "lossy")) >= 24


class Losing(InlineEvaluator):
    """A cluster of which nothing is left: every trial comes back lost."""

    def poll(self, timeout_s: float) -> list[TrialResult]:
        lost = Outcome(Status.DEVICE_LOST, None, "Lost", "Xid 79")
        return [replace(result, outcome=lost) for result in super().poll(timeout_s)]


def test_a_cluster_that_loses_everything_ends_the_study_with_its_reason(tmp_path: Path) -> None:
    losing = replace(tools(), evaluator=lambda spec: Losing(fakes.FakeStages(), measured=(GPU,)))
    sweep.run(sweep_spec(device_classes=[GPU]), tmp_path, losing)
    stopped = list(journals.events(journals.read(tmp_path / "journal.jsonl"), "study_stopped"))
    assert len(stopped) == 2 and all("Xid 79" in event["reason"] for event in stopped)
    assert not completed(tmp_path)
    assert "Xid 79" in (tmp_path / "report.md").read_text()


def test_seconds_are_shared_by_the_studies_of_a_device_class(tmp_path: Path) -> None:
    spec = sweep_spec(budget={"seconds": 0.7}, device_classes=[GPU])

    def slow(request: TrialRequest, outcome: Outcome) -> Outcome:
        time.sleep(0.05)
        return outcome

    sweep.run(spec, tmp_path, tools(slow))
    (clock,) = list(journals.events(journals.read(tmp_path / "journal.jsonl"), "clock"))[-1:]
    assert all(0.7 <= spent < 1.4 for spent in clock["spent_s"].values()) and len(clock["spent_s"]) == 2
    assert len(completed(tmp_path)) > 10


class Straggling(InlineEvaluator):
    """Never ends compiling the third request that it is given."""

    def __init__(self) -> None:
        super().__init__(fakes.FakeStages(), measured=(GPU,))
        self.submitted: list[TrialRequest] = []
        self.cancelled: list[str] = []
        self.late = False

    def submit(self, request: TrialRequest) -> None:
        self.submitted.append(request)
        if len(self.submitted) != 3:
            super().submit(request)

    def cancel(self, request_id: str) -> None:
        if len(self.submitted) >= 3 and request_id == self.submitted[2].request_id:
            self.cancelled.append(request_id)
            super().submit(self.submitted[2])
        super().cancel(request_id)


def test_a_search_that_is_over_leaves_what_compiles_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileflow_experiments.driver.STRAGGLER_S", 0.05)
    spec = sweep_spec(budget={"seconds": 0.2}, device_classes=[GPU])
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    studies = open_studies(spec, journal, [fakes.prepare(key, "static") for key in study_keys(spec)])
    straggling = Straggling()
    driver = Driver("s", studies, straggling, journal)
    driver.search()
    journal.close()
    assert len(straggling.cancelled) == driver.cancelled == 1
    left = straggling.submitted[2].config
    beside = [r.config for r in trials(tmp_path) if r.study.problem == straggling.submitted[2].problem]
    assert beside and left not in beside


def test_a_clock_that_is_set_leaves_no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual machine's clock that went forward at its start made a straggler of every config that compiled, one
    that went back waited for real ones."""
    days = itertools.count(1_800_000_000, 86_400)
    monkeypatch.setattr("tileflow_experiments.driver.time.time", lambda: float(next(days)))

    class Late(Straggling):
        """Answers the third request once the others are long there."""

        def poll(self, timeout_s: float) -> Any:
            if len(self.submitted) > 3 and not self.late and time.monotonic() > began + 2:
                self.late = True
                InlineEvaluator.submit(self, self.submitted[2])
            return super().poll(timeout_s)

        def cancel(self, request_id: str) -> None:
            self.cancelled.append(request_id)
            self.late = True
            super().cancel(request_id)

    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    spec = sweep_spec(budget={"seconds": 0.2}, device_classes=[GPU])
    studies = open_studies(spec, journal, [fakes.prepare(key, "static") for key in study_keys(spec)])
    late, began = Late(), time.monotonic()
    driver = Driver("s", studies, late, journal)
    driver.search()
    journal.close()
    assert late.late and not late.cancelled and not driver.cancelled


def test_a_budget_of_trials_waits_for_each(tmp_path: Path) -> None:
    """Of which one may compile for long; what ends a search is their number, or its strategy."""
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    spec = sweep_spec(budget={"trials": 3}, device_classes=[GPU])
    (study, *_) = open_studies(spec, journal, [fakes.prepare(key, "static") for key in study_keys(spec)])
    for _ in range(3):
        study.ask()
    assert study.open and not study.wants_more and not study.over
    study.stop("the disk is nearly full")
    assert study.over


def test_tables_rows_and_report(tmp_path: Path) -> None:
    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}, modes=["static", "dynamic"])
    sweep.run(spec, tmp_path, tools())
    table = load_table(tmp_path / "tables/fakes-kernel.json")
    assert len(table.entries) == 4
    for entry in table.entries:
        assert (entry.config["x"], entry.config["y"]) == (6, 2)
        assert entry.best_us == 10.0 and entry.default_us == fakes.time_us(fakes.SPACE.default)
        assert entry.origin == ("measured" if entry.device == GPU else "modelled")
        assert [v.mode for v in entry.launches[0].variants] == ["static", "dynamic"]
    assert load_bundle(tmp_path / "bundle").tables == (table,)
    report = (tmp_path / "report.md").read_text()
    assert f"| {KERNEL} | n=64 | {MODELLED} | 32 | 23.00 | 10.00 | 2.30x | modelled |" in report
    assert f"| {KERNEL} | n=64 | {GPU} | 32 | 23.00 | 10.00 | 2.30x | measured, 2 samples |" in report
    assert "| 28 | 4 |" in report  # four configs with x == BAD are wrong


def test_a_bundle_holds_dynamic_variants_and_defaults_unless_told_otherwise(tmp_path: Path) -> None:
    """Finding 10: bundles held static binaries alone, so that a near shape compiled, or failed for want of Triton."""
    sweep.run(sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}), tmp_path / "all", tools())
    bundle = load_bundle(tmp_path / "all/bundle")
    (table,) = bundle.tables
    assert [[v.mode for v in e.launches[0].variants] for e in table.entries] == [["static", "dynamic"]] * 4
    assert sorted(table.defaults) == sorted([GPU, MODELLED])
    for device, rows in table.defaults.items():
        (row,) = rows
        info = table.devices[device]
        assert (row.vendor, row.arch) == (info.vendor, info.arch) and row.config == fakes.SPACE.default
        (variant,) = row.launches[0].variants
        assert variant.mode == "dynamic"
        assert bundle.binary(0, variant).code == f"portable {device}".encode()
    assert load_table(tmp_path / "all/tables/fakes-kernel.json") == table
    sweep.run(sweep_spec(modes=["static"], budget={"trials": 4}), tmp_path / "static", tools())
    (table,) = load_bundle(tmp_path / "static/bundle").tables
    assert not table.defaults and {v.mode for e in table.entries for v in e.launches[0].variants} == {"static"}


def test_a_kernel_that_has_no_dynamic_variant_keeps_its_static_one(tmp_path: Path) -> None:
    def only_static(request: TrialRequest, outcome: Outcome) -> Outcome:
        if request.mode == "dynamic":
            raise SpecError("host code must not depend on data")
        return outcome

    def unbuildable(orders: Any, stopping: Any) -> list[Failure]:
        return [Failure(order, SpecError("host code must not depend on data")) for order in orders]

    spec = sweep_spec(kernels=[{"kernel": KERNEL, "problems": [{"n": 64}]}], device_classes=[GPU])
    assert sweep.run(spec, tmp_path, replace(tools(only_static), build_rows=unbuildable)) == ""
    (table,) = load_bundle(tmp_path / "bundle").tables
    assert [v.mode for v in table.entries[0].launches[0].variants] == ["static"] and not table.defaults
    (event,) = journals.events(journals.read(tmp_path / "journal.jsonl"), "not_built")
    assert event["row"] == f"portable {KERNEL} n=64 on {GPU}" and "must not depend on data" in event["error"]


def test_a_modelled_winner_that_computes_wrongly_is_passed_over(tmp_path: Path) -> None:
    def wrong_at_best(request: Any) -> Outcome:
        best = request.config["x"] == 6 and request.config["y"] == 2
        return Outcome(Status.INCORRECT if best else Status.OK, error_digest="wrong", measured=False)

    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}, device_classes=[MODELLED])
    sweep.run(spec, tmp_path, replace(tools(), check=wrong_at_best))
    assert [e.best_us for e in load_table(tmp_path / "tables/fakes-kernel.json").entries] == [11.0] * 2
    assert "incorrect" in (tmp_path / "report.md").read_text()


def test_where_no_config_works_the_default_is_exported_with_reasons(tmp_path: Path) -> None:
    def refuse(request: TrialRequest, outcome: Outcome) -> Outcome:
        return Outcome(Status.OUT_OF_RESOURCES, None, "OutOfResources", "needs 300 KiB")

    sweep.run(sweep_spec(), tmp_path, tools(refuse))
    table = load_table(tmp_path / "tables/fakes-kernel.json")
    assert not table.entries and table.default is not None and table.default.config == fakes.SPACE.default
    assert len(table.portfolio) == 4
    assert all("10 out_of_resources; most often: needs 300 KiB" in row.reason for row in table.portfolio)


def test_a_changed_kernel_is_not_resumed(tmp_path: Path) -> None:
    sweep.run(sweep_spec(), tmp_path, tools())

    def changed(key: Any, mode: Any) -> Any:
        return replace(fakes.prepare(key, mode), kernel=KernelRef(key.kernel, "decaf"))

    with pytest.raises(SpecError, match="semantic_hash was c0ffee"):
        sweep.resume(tmp_path, replace(tools(), prepare=changed))


def test_a_folder_holds_one_sweep(tmp_path: Path) -> None:
    sweep.run(sweep_spec(), tmp_path, tools())
    before = (tmp_path / "journal.jsonl").read_bytes()
    with pytest.raises(SpecError, match="folder of its own"):
        sweep.run(sweep_spec(), tmp_path, tools())
    assert (tmp_path / "journal.jsonl").read_bytes() == before


def test_seed_tables_are_tried_after_the_default(tmp_path: Path) -> None:
    sweep.run(sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}), tmp_path / "first", tools())
    table = tmp_path / "first/tables/fakes-kernel.json"
    sweep.run(sweep_spec(seeds=[str(table)], budget={"trials": 4}), tmp_path / "second", tools())
    studies = journals.by_study(trials(tmp_path / "second"))
    assert len(studies) == 4
    for records in studies.values():
        assert [r.seed_source for r in records] == ["default", "transfer", "random", "random"]


def test_a_strategy_named_like_a_seed_is_not_taken_for_it(tmp_path: Path) -> None:
    """Each trial of the strategy ``default`` was one of the zero-search default in records and charts."""
    sweep.run(sweep_spec(strategy={"name": "default"}, budget={"trials": 6}), tmp_path, tools())
    for records in journals.by_study(trials(tmp_path)).values():
        assert len(records) == 6
        assert [r.seed_source for r in records if r.is_of_default] == ["default"]
        assert {r.seed_source for r in records if not r.is_of_default} == {"default strategy"}


def test_parquet_holds_every_attempt(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    sweep.run(sweep_spec(), tmp_path, tools())
    rows = pq.read_table(tmp_path / "trials.parquet").to_pylist()
    lines = [x for x in journals.read(tmp_path / "journal.jsonl") if x["kind"] in ("trial", "remeasure")]
    assert len(rows) == len(lines)
    assert {r["trial_id"] for r in rows} == {x["trial_id"] for x in lines}
    good = next(r for r in rows if r["status"] == "ok")
    assert json.loads(good["config"]).keys() == {"x", "y", "inert"} and good["samples_us"] == [good["median_us"]] * 2


class Joined(InlineEvaluator):
    """A GPU of the modelled class comes after a while."""

    def __init__(self, stages: fakes.FakeStages) -> None:
        super().__init__(stages, modelled=(MODELLED,))
        self._stages = stages

    def poll(self, timeout_s: float) -> list[TrialResult]:
        if self.counters().considered >= 6 and not self._measured:
            self._measured = (MODELLED,)
            self._devices[MODELLED] = self._stages.open_device(MODELLED)
            self._queue.forget_modelled(MODELLED)
        return super().poll(timeout_s)


def test_a_class_that_joins_is_searched_again_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 5 of issue 17."""
    monkeypatch.setattr("tileflow_experiments.driver.LOOK_S", 0.0)
    spec = sweep_spec(device_classes=[MODELLED], kernels=[{"kernel": KERNEL, "problems": [{"n": 64}]}])
    joining = replace(tools(), evaluator=lambda spec: Joined(fakes.FakeStages()))
    assert sweep.run(spec, tmp_path, joining) == ""
    lines = journals.read(tmp_path / "journal.jsonl")
    assert [e["device_class"] for e in journals.events(lines, "joined")] == [MODELLED]
    (records,) = journals.fold(lines).trials.values()
    assert sum(r.measured for r in records if r.time_us is not None) >= 8
    (row,) = load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert row.origin == "measured"


def test_nobodys_time_passes_while_its_class_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings 4 and 5: a budget of seconds was used up by waiting."""

    class Away(InlineEvaluator):
        def away(self, device_class: str) -> str:
            return "no node"

    spec = sweep_spec(device_classes=[GPU])
    sweep.run(spec, tmp_path, replace(tools(), evaluator=lambda spec: Away(fakes.FakeStages(), measured=(GPU,))))
    *_, clock = journals.events(journals.read(tmp_path / "journal.jsonl"), "clock")
    assert set(clock["spent_s"].values()) == {0.0}


@pytest.mark.parametrize("name", ["journal.jsonl", "report.md", "trials.parquet", "tables", "bundle", "mlflow.db"])
def test_a_new_sweep_touches_no_file_that_is_there(tmp_path: Path, name: str) -> None:
    """Issue 15: a ``journal.jsonl`` of one line was truncated, any other file replaced."""
    (tmp_path / name).write_text("mine\n")
    opened: list[Any] = []
    quiet = replace(tools(), evaluator=lambda spec: opened.append(spec) or fakes.evaluator(fakes.FakeStages()))
    with pytest.raises(SpecError, match=f"{name}, which is there already"):
        sweep.run(sweep_spec(), tmp_path, quiet)
    assert not opened, "before any worker was started"
    assert (tmp_path / name).read_text() == "mine\n" and [p.name for p in tmp_path.iterdir()] == [name]


def test_a_damaged_journal_goes_on_to_the_same_trials(tmp_path: Path) -> None:
    """Finding 8 of issue 17."""
    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100})
    sweep.run(spec, tmp_path, tools())
    whole = completed(tmp_path)
    path = tmp_path / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for n in range(6, len(lines), 7):
        lines[n] = b"\xff" + lines[n][1:]
    path.write_bytes(b"".join(lines) + b"\0\0\n\0\n")
    sweep.export(tmp_path, fakes.prepare)
    assert sweep.resume(tmp_path, tools()) == ""
    assert completed(tmp_path) == whole
    damaged = len(range(6, len(lines), 7)) + 2
    assert f"- {damaged} damaged lines of the journal were set aside in" in (tmp_path / "report.md").read_text()
