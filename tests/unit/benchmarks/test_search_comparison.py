"""The head-to-head of searches: its logs, its arithmetic, its streams of processes, its report."""

from __future__ import annotations

import json
import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tileflow_benchmarks.process_pool import Ended, Slot
from tileflow_benchmarks.search_comparison import report, retime, score, search_tileflow
from tileflow_benchmarks.search_comparison.notes import Notes
from tileflow_benchmarks.search_comparison.retime import Retimed, RivalConfig
from tileflow_benchmarks.search_comparison.searches import (
    DEFAULT_CELLS,
    NOTES,
    RIVALS,
    TRACE,
    Rival,
    Search,
    SearchResult,
    cell_of,
    cells,
    collect,
    plan,
    results,
    slug,
)
from tileflow_benchmarks.search_comparison.series import (
    Timed,
    at_checkpoints,
    canonical,
    incumbents,
    of_trace,
    read_lines,
)
from tileflow_benchmarks.search_comparison.stage import Stage, caches, gather
from tileflow_experiments import mlflow_log

from tileflow.errors import SpecError

CELLS = cells(DEFAULT_CELLS)
SOFTMAX = CELLS[0]


def series(*points: tuple[float, str, float | None]) -> tuple[Timed, ...]:
    return tuple(Timed(*point) for point in points)


def result(
    rival: Rival, seed: int, points: Sequence[tuple[float, str, float | None]], picked: str | None, done_s: float | None
) -> SearchResult:
    return SearchResult(Search(SOFTMAX, rival, seed, 60.0), "", "0", 99.0, 10.0, done_s, picked, series(*points))


# What Helion 1.5.1 writes with HELION_AUTOTUNE_LOG_DETAILS=1, shortened to the fields that matter and some more.
def event(name: str, at: float, config: dict[str, Any] | None = None, perf_ms: float | None = None) -> str:
    line: dict[str, Any] = {"schema_version": 1, "event": name, "algorithm": "LFBOTreeSearch", "timestamp_s": at}
    if config is not None:
        line |= {"config": config, "perf_ms": perf_ms, "status": "ok" if perf_ms else "error"}
    return json.dumps(line) + "\n"


SLOW, FAST = {"block_sizes": [1], "num_warps": 4}, {"num_warps": 8, "block_sizes": [2]}
SAMPLE = [
    event("run_start", 1000.0),
    event("trial_start", 1001.0, SLOW),
    event("trial", 1002.0, SLOW, 0.25),
    event("trial", 1003.0, {"block_sizes": [64]}),
    event("trial", 1004.5, FAST, 0.125),
    event("rebenchmark", 1006.0, FAST, 0.13),
    event("selected", 1007.0, FAST),
]


class TestSeries:
    def test_reads_the_rivals_log_and_leaves_a_torn_line(self, tmp_path: Path) -> None:
        (tmp_path / TRACE).write_text("".join(SAMPLE) + '{"event": "tri')
        read = of_trace(read_lines(tmp_path / TRACE), 1000.5)
        slow, fast = canonical(SLOW), canonical(dict(reversed(FAST.items())))
        assert read == [
            Timed(1.5, slow, 250.0),
            Timed(2.5, canonical({"block_sizes": [64]}), None),
            Timed(4.0, fast, 125.0),
            Timed(5.5, fast, 130.0),
        ]
        assert read_lines(tmp_path / "absent.jsonl") == []

    def test_of_a_configs_times_the_last_one_counts(self) -> None:
        told = series((1, "a", 10.0), (2, "b", 8.0), (3, "c", None), (4, "b", 12.0), (5, "d", 9.0), (6, "d", 9.5))
        assert incumbents(told) == [(1, "a"), (2, "b"), (4, "a"), (5, "d")]

    def test_the_checkpoints_ask_for_each_incumbent_once_the_last_first(self) -> None:
        told = series((1, "a", 10.0), (2.5, "b", 9.0), (2.6, "c", 8.0), (40, "d", 7.0))
        assert at_checkpoints(told, (2, 5, 10, 50)) == ["d", "c", "a"]
        assert at_checkpoints(()) == []


class TestScore:
    RESULTS = (
        result("tileflow", 0, [(2, "a", 11.0), (8, "b", 10.0), (9, "c", 9.9)], "b", 20.0),
        result("tileflow", 1, [(4, "d", 10.5)], "d", 30.0),
        result("tileflow", 2, [(3, "a", 11.0), (6, "b", 10.0)], "b", 25.0),
        result("helion", 0, [(15, "p", 20.0), (50, "q", 15.0)], "q", 61.0),
        result("helion", 1, [(12, "p", 20.0)], None, None),  # ended by its limit
        result("helion", 2, [], None, None),
    )
    TIMES = (("tileflow", "", 13.0), ("tileflow", "a", 11.0), ("tileflow", "b", 10.1), ("tileflow", "c", 10.0),
             ("tileflow", "d", 10.6), ("helion", "p", 20.0), ("helion", "q", 12.0))  # fmt: skip

    @pytest.fixture
    def comparison(self) -> score.CellComparison:
        timed = [Retimed(RivalConfig(rival, config), us, 0.1) for rival, config, us in self.TIMES]  # type: ignore[arg-type]
        failed = Retimed(RivalConfig("helion", "r"), error="wrong")
        return score.score_cell(SOFTMAX, self.RESULTS, [*timed, failed])

    def test_time_to_within_two_percent_by_the_re_timed_clock(self, comparison: score.CellComparison) -> None:
        assert comparison.best_us == 10.0 and comparison.default_us == 13.0
        assert [run.near_s for run in comparison.of("tileflow")] == [8.0, math.inf, 6.0]
        assert [run.near_wall_s for run in comparison.of("tileflow")] == [18.0, math.inf, 16.0]
        assert all(math.isinf(run.near_s) for run in comparison.of("helion"))
        assert comparison.median("tileflow", "near_s") == 8.0
        assert score.near([comparison, comparison], "tileflow") == (4, 6)

    def test_the_curve_ends_with_what_was_picked(self, comparison: score.CellComparison) -> None:
        ours = comparison.of("tileflow")[0]
        assert ours.curve == ((2, 11.0), (8, 10.1), (9, 10.0), (20.0, 10.1))
        assert [score.incumbent_us(ours.curve, at) for at in (1, 8.5, 10, 99)] == [math.inf, 10.1, 10.0, 10.1]

    def test_an_interrupted_search_is_scored_by_its_incumbents(self, comparison: score.CellComparison) -> None:
        assert [run.picked_us for run in comparison.of("helion")] == [12.0, 20.0, math.inf]

    def test_selection_and_final_ratio(self, comparison: score.CellComparison) -> None:
        assert comparison.selection_own == pytest.approx(1.01)
        assert comparison.selection_pooled == pytest.approx(1.01)
        assert comparison.final_ratio == pytest.approx(20.0 / 10.1)

    def test_the_report_says_what_was_not_reached_and_what_failed(self, comparison: score.CellComparison) -> None:
        header = dict.fromkeys(("command", "date", "device", "cores", "streams", "versions"), "?")
        told = report.markdown(header, [comparison], ["x.helion.9"])
        assert f"| {SOFTMAX.title} | 10.00 | 1.300x | 8.0 (6.0 to 8.0; not reached by 1 of 3) | not reached |" in told
        assert "| 1.010x | 2.000x | 1.980x | 1.010x |" in told
        assert "tileflow: 2 of 3 searches" in told and "Helion: 0 of 3 searches" in told
        assert "- x.helion.9: not started" in told and "re-timing helion r: wrong" in told
        json.dumps(report.to_json(comparison), allow_nan=False)

    def test_nothing_re_timed_is_said(self) -> None:
        comparison = score.score_cell(SOFTMAX, self.RESULTS[:1], [])
        header = dict.fromkeys(("command", "date", "device", "cores", "streams", "versions"), "?")
        assert f"- {SOFTMAX.title}: nothing was timed again" in report.markdown(header, [comparison], [])

    def test_entrants_come_most_wanted_first_and_once(self) -> None:
        wanted = retime.configs_to_retime(self.RESULTS, lambda r: at_checkpoints(r.series))
        assert wanted[:4] == [
            RivalConfig("tileflow", ""),
            *(RivalConfig("tileflow", c) for c in "bd"),
            RivalConfig("helion", "q"),
        ]
        assert len(wanted) == len(set(wanted)) == 7

    def test_sampling_spares_what_is_slow(self) -> None:
        asked: dict[str, list[int]] = {"fast": [], "slow": []}

        def sampler(name: str, us: float) -> Any:
            return lambda count: asked[name].append(count) or [us] * count  # type: ignore[func-returns-value]

        samplers = {
            RivalConfig("helion", name): sampler(name, us) for name, us in (("fast", 100.0), ("slow", 50_000.0))
        }
        *_, timed = retime.sample(samplers, random.Random(0))
        assert {t.candidate.config: t.time_us for t in timed} == {"fast": 100.0, "slow": 50_000.0}
        assert statistics.median(asked["fast"]) == retime.SAMPLES and max(asked["slow"][1:]) == 1


class TestPlan:
    def test_longest_first_and_the_seeds_in_turn(self) -> None:
        planned = plan(CELLS[:3], RIVALS, 2, {"matmul": 90.0}, 60.0)
        assert [search.limit_s for search in planned] == [90.0] * 4 + [60.0] * 8
        assert [search.seed for search in planned] == [0, 0, 1, 1] + [0] * 4 + [1] * 4
        assert len({search.name for search in planned}) == 12
        assert all(Search.from_json(json.loads(json.dumps(s.to_json()))) == s for s in planned)

    @pytest.mark.parametrize("title", ["softmax", "no such kernel"])
    def test_a_title_names_one_cell(self, title: str) -> None:
        with pytest.raises(SpecError, match="exactly one cell"):
            cells([title])
        with pytest.raises(SpecError):
            cell_of({"kernel": SOFTMAX.kernel, "problem": {"m": 3}})


class TestKeeping:
    def test_caches_of_a_search_are_its_own_and_empty(self, tmp_path: Path) -> None:
        first, second = caches(tmp_path / "a"), caches(tmp_path / "b")
        assert not set(first.values()) & set(second.values())
        assert not any(Path(path).exists() for path in first.values())

    def test_a_killed_search_keeps_what_it_had_told(self, tmp_path: Path) -> None:
        search = Search(SOFTMAX, "helion", 1, 60.0)
        stage = Stage(tmp_path / "out", tmp_path, 5.0)
        job = stage.search(search, Slot("3", (), (0, 1)))
        folder = tmp_path / "out" / "searches" / search.name
        assert job.environment["HELION_AUTOTUNE_RANDOM_SEED"] == "1" and job.limit_s == 65.0 and job.least_s == 85.0
        assert job.environment["HELION_AUTOTUNE_PRECOMPILE_JOBS"] == "2"
        log = Path(job.environment["HELION_AUTOTUNE_LOG"]).with_suffix(".trace.jsonl")  # as Helion does
        log.write_text("".join(SAMPLE))
        (folder / NOTES).write_text(json.dumps({"mark": "ready", "at": 1001.5}) + "\n")
        stage.searched(Ended(job, Slot("3", (), (0, 1)), 990.0, 80.0, "ended after 65 s"))
        (kept,) = results(tmp_path / "out")
        assert kept.startup_s == 11.5 and kept.done_s is None and kept.picked is None
        assert kept.ending == "ended after 65 s" and [t.seconds for t in kept.series] == [0.5, 1.5, 3.0, 4.5]
        wanted = json.loads(Path(stage.retime(SOFTMAX, Slot("")).words[-1], retime.WANTED).read_text())
        assert [e["config"] for e in wanted["entrants"]] == ["", canonical(FAST), canonical(SLOW)]

    def test_a_search_that_never_was_ready_has_no_series(self, tmp_path: Path) -> None:
        kept = collect(tmp_path, Search(SOFTMAX, "tileflow", 0, 60.0), 0.0, 1.0, "exit code 1", "")
        assert kept.startup_s is None and kept.series == ()
        assert SearchResult.from_json(json.loads(json.dumps(kept.to_json()))) == kept

    def test_gathered_caches_hold_all_entries(self, tmp_path: Path) -> None:
        for cache, entries in (("a", "xy"), ("b", "yz")):
            for entry in entries:
                (tmp_path / cache / entry).mkdir(parents=True)
                (tmp_path / cache / entry / "file").write_text(cache)
        for cache in ("a", "b", "absent"):
            gather(tmp_path / cache, tmp_path / "all")
        assert {p.name: (p / "file").read_text() for p in (tmp_path / "all").iterdir()} == {
            "x": "a",
            "y": "a",
            "z": "b",
        }


class TestOurSearch:
    def test_is_a_sweep_whose_results_are_noted_as_they_come(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
        monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
        search = Search(replace(SOFTMAX, kernel=fakes.KERNEL, problem=(("n", 64),)), "tileflow", 5, 2.0)
        wanted = search_tileflow.spec(search, fakes.GPU)
        assert wanted.strategy.name == "default" and wanted.strategy.seed == 5 and wanted.budget.seconds == 2.0
        began = time.time()
        search_tileflow.run(search, fakes.GPU, tmp_path, Notes(tmp_path), fakes.tools())
        kept = collect(tmp_path, search, began, 0.0, "", "")
        assert kept.startup_s is not None and kept.startup_s >= 0 and kept.done_s is not None
        best = min((t for t in kept.series if t.time_us is not None), key=lambda t: t.time_us or 0)
        assert best.time_us == fakes.time_us(fakes.SPACE.default) or kept.picked is not None
        assert fakes.time_us(fakes.Config.of(json.loads(kept.picked or ""))) == best.time_us
        assert any(t.time_us is None for t in kept.series)  # the fake's wrong configs
        assert all(
            0 <= a.seconds <= b.seconds <= kept.done_s for a, b in zip(kept.series, kept.series[1:], strict=False)
        )


def test_a_folder_becomes_a_report(tmp_path: Path) -> None:
    for one in TestScore.RESULTS:
        folder = tmp_path / "searches" / one.search.name
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(one.to_json()))
    timed = tmp_path / "retimed" / slug(SOFTMAX)
    timed.mkdir(parents=True)
    rows = [
        {"entrant": {"rival": rival, "config": config}, "time_us": us, "ci95_us": 0.1, "error": ""}
        for rival, config, us in TestScore.TIMES
    ]
    (timed / retime.TIMED).write_text(json.dumps({"default": {}, "timed": rows}))
    header = dict.fromkeys(("command", "date", "device", "cores", "streams", "versions"), "?")
    (tmp_path / report.HEADER).write_text(json.dumps(header))
    made, page, plot = report.write(tmp_path)
    (comparison,) = json.loads(made.read_text())["bouts"]
    assert comparison["best_us"] == 10.0 and [run["near_s"] for run in comparison["runs"]].count(None) == 4
    assert SOFTMAX.title in page.read_text() and plot.stat().st_size > 5000
