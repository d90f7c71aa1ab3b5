"""Portfolios out of a sweep: what is missing is measured at its end, the table's unseen shapes are served by them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing.fakes.experiments_fakes import GPU, KERNEL, prepare, quick_tools, sweep_spec
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep, warm_start
from tileflow_experiments.records import StudyKey
from tileflow_experiments.tuning_task import TuningTask
from tileflow_search.transfer import ProblemFeatures

from tileflow.config import Config
from tileflow.errors import SpecError
from tileflow.measure.types import Measurement, Outcome, Status
from tileflow.runtime.table_files import load_table

SIZES = (64, 128, 256, 4096, 8192, 16384)


def best_x(n: int) -> int:
    return 2 if n < 1024 else 6


def by_size(request: TrialRequest, outcome: Outcome) -> Outcome:
    """Small and large problems want another ``x``; each problem has a ``y`` by luck that is a little better yet."""
    if outcome.status is not Status.OK:
        return outcome
    n = int(dict(request.problem)["n"])  # type: ignore[arg-type]
    x, y = int(request.config["x"]), int(request.config["y"])
    time = 10.0 + 4 * abs(x - best_x(n)) + (0.0 if y == SIZES.index(n) % 4 else 0.03)
    return replace(outcome, measurement=Measurement((time, time), time, time, time, 0.01))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("portfolio") / "out"
    problems = [{"n": n} for n in SIZES]
    wanted = sweep_spec(
        kernels=[{"kernel": KERNEL, "problems": problems}], strategy={"name": "local", "seed": 1},
        budget={"trials": 12}, device_classes=[GPU],
    )  # fmt: skip
    assert sweep.run(wanted, out, quick_tools(by_size), f"sqlite:///{out.parent / 'm.db'}") == ""
    return out


def test_the_last_round_measures_every_problems_best_on_the_others(folder: Path) -> None:
    lines = journals.read(folder / "journal.jsonl")
    trials = journals.by_study(journals.trials(lines).values())
    extra = [r for records in trials.values() for r in records if r.seed_source == "portfolio"]
    assert extra
    best = {min(records, key=lambda r: r.time_us or 1e9).config for records in trials.values()}
    for records in trials.values():
        distinct = {(r.config["x"], r.config["y"]) for r in records}
        assert {(c["x"], c["y"]) for c in best} <= distinct and len(records) <= 12 + len(best)


def test_the_table_serves_unseen_shapes_by_few_members_at_home(folder: Path) -> None:
    (path,) = (folder / "tables").glob("*.json")
    table = load_table(path)
    members = [row for row in table.portfolio if row.reason.startswith("one of")]
    assert sorted(int(row.config["x"]) for row in members) == [2, 6]
    for row in members:
        assert row.problem is not None and row.config["x"] == best_x(row.problem.sizes["x.shape.0"])
        assert (row.vendor, row.arch) == ("nvidia", "sm_90a") and "6 problems left out" in row.reason
    assert len(table.entries) == len(SIZES)


def test_the_table_says_how_unseen_shapes_are_served(folder: Path) -> None:
    """The fake default has one ``x`` for all sizes, so that the nearest problem serves better. A search
    may have missed the last 0.03."""
    (path,) = (folder / "tables").glob("*.json")
    (served,) = load_table(path).unseen.values()
    x, y = (int(key(64).default[name]) for name in ("x", "y"))
    regrets = [(10 + 4 * abs(x - best_x(n)) + (0.03 if y != i % 4 else 0)) / 10 for i, n in enumerate(SIZES)]
    assert served.problems == len(SIZES)
    assert served.default == pytest.approx(math.prod(regrets) ** (1 / len(SIZES)), rel=0.002)
    ((_, found),) = sweep.portfolios(folder, prepare)
    assert 1 <= served.rows == found.nearest < served.default and not served.by_default


def test_the_journal_alone_gives_the_same_portfolio(folder: Path) -> None:
    ((kernel, found),) = sweep.portfolios(folder, prepare)
    assert kernel == KERNEL and found.problems == len(SIZES) and found.device_class == GPU
    assert sorted(int(m.config["x"]) for m in found.members) == [2, 6]
    assert found.regrets[0] > 1.5 > 1.01 > found.regret and not found.beats_nearest


def key(n: int, device: str = GPU) -> TuningTask:
    return prepare(StudyKey(KERNEL, (("n", n),), device), "static")


class TestSeeds:
    def test_a_journal_trials_and_a_table_give_the_nearest_shapes_first(self, folder: Path) -> None:
        (table,) = (folder / "tables").glob("*.json")
        for path in (folder / "journal.jsonl", folder / "trials.parquet", table):
            of = warm_start.transfers([path])
            assert of(key(100))[0]["x"] == 2 and of(key(12000))[0]["x"] == 6, path.name
            assert len(of(key(100))) <= warm_start.SEEDS

    def test_siblings_of_the_device_follow_and_other_vendors_say_nothing(self, folder: Path) -> None:
        of = warm_start.transfers([folder / "trials.parquet"])
        assert of(key(100, "nvidia-h100-sxm"))[0]["x"] == 2
        assert of(key(100, "amd-mi300x")) == []

    def test_this_device_goes_before_a_nearer_shape_on_another(self) -> None:
        far, near = Config.of({"x": 1, "y": 0, "inert": 0}), Config.of({"x": 7, "y": 0, "inert": 0})
        earlier = [
            warm_start.KnownConfigs(KERNEL, "nvidia-h100-sxm", ProblemFeatures.of({"n": 64}), False, (near,)),
            warm_start.KnownConfigs(KERNEL, GPU, ProblemFeatures.of({"n": 8192}), False, (far,)),
        ]
        ranked = sorted(warm_start._ranked(earlier, key(64)), key=lambda pair: pair[0])
        assert [known.configs for _, known in ranked] == [(far,), (near,)]

    def test_other_files_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match="must be a table"):
            warm_start.transfers([tmp_path / "a.txt"])
        (tmp_path / "a.parquet").write_bytes(b"no")
        with pytest.raises(SpecError, match="readable Parquet"):
            warm_start.transfers([tmp_path / "a.parquet"])
