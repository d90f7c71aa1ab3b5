"""Replays: the space of a recording, the virtual clock, the strategies' race, what is written."""

from __future__ import annotations

import json
import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing.fakes.synthetic_recording import synthetic
from tileflow_benchmarks.search_replay import compare, report
from tileflow_benchmarks.search_replay.recording import Recording, Row, read, write
from tileflow_benchmarks.search_replay.simulate import Replayed, simulate, stay_s, warm_compile_s
from tileflow_benchmarks.search_replay.space import NEIGHBOURS, RecordedSpace
from tileflow_benchmarks.search_replay.staleness import stale
from tileflow_search import STRATEGIES
from tileflow_search.base import ExhaustiveStrategy, RandomStrategy

from tileflow.config import Config, ConfigSpace
from tileflow.cost import StaticFacts
from tileflow.errors import SpecError
from tileflow.measure.types import Status

SEEDS = range(4)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return synthetic(500, seed=0)


def frozen() -> float:
    """A strategy's own computing costs nothing: for what a test wants to know to the last digit."""
    return 0.0


class TestRecordedSpace:
    def test_holds_what_was_recorded_and_nothing_else(self, recording: Recording) -> None:
        space = RecordedSpace(recording)
        everything = list(space.enumerate())
        assert set(everything) == {row.config for row in recording.rows} and len(everything) == space.size
        assert all(space.is_valid(config) and space.repair(config) == config for config in everything)
        assert space.snapped == 0

    def test_leads_every_other_config_to_the_nearest_and_counts_it(self, recording: Recording) -> None:
        space = RecordedSpace(recording)
        rng = random.Random(0)
        for asked in range(1, 20):
            config = Config.of({k.name: rng.choice(k.choices) for k in space.knobs})
            while space.is_valid(config):
                config = Config.of({k.name: rng.choice(k.choices) for k in space.knobs})
            found = space.repair(config)
            nearest = min(steps(space, config, other) for other in space.enumerate())
            assert space.is_valid(found) and steps(space, config, found) == nearest > 0
            assert space.snapped == asked

    def test_neighbours_are_all_one_step_away_or_the_nearest(self, recording: Recording) -> None:
        space = RecordedSpace(recording)
        for row in recording.rows[:30]:
            found = list(space.neighbours(row.config))
            away = [steps(space, row.config, other) for other in found]
            one_step = sum(steps(space, row.config, other) == 1 for other in space.enumerate())
            assert row.config not in found and len(set(found)) == len(found) == max(NEIGHBOURS, one_step)
            assert away == sorted(away) and away.count(1) == one_step

    def test_chance_draws_from_the_random_part_alone(self, recording: Recording) -> None:
        space, rng = RecordedSpace(recording), random.Random(0)
        part = {row.config: row.part for row in recording.rows}
        assert {part[space.sample(rng)] for _ in range(300)} == {"default", "random"}


def steps(space: ConfigSpace, a: Config, b: Config) -> int:
    total = 0
    for knob in space.knobs:
        apart = abs(knob.choices.index(a[knob.name]) - knob.choices.index(b[knob.name]))
        total += apart if knob.ordered else min(apart, 1)
    return total


class Ordered(ExhaustiveStrategy):
    """Measures the slowest config that waits first, drops those of one warp, and keeps a diary."""

    def __init__(self, space: ConfigSpace, seed: int) -> None:
        super().__init__(space, seed)
        self.facts: dict[Config, StaticFacts] = {}
        self.told: list[Config] = []

    def built(self, config: Config, facts: StaticFacts) -> None:
        self.facts[config] = facts

    def rank(self, configs: Sequence[Config]) -> list[float]:
        assert self.facts.keys() >= set(configs)
        return [math.inf if c["num_warps"] == 1 else -self.facts[c].least_us for c in configs]


class TestSimulation:
    def test_the_gpu_is_the_bottleneck_of_many_cores(self, recording: Recording) -> None:
        run = simulate(recording, RandomStrategy, 0, seconds=20.0, clock=frozen)
        assert run.thinking_s == 0 and run.seconds <= 20.0
        shortest = statistics.fmean(stay_s(row, recording.best_us) for row in recording.rows if row.measure_s)
        longest = statistics.fmean(row.measure_s for row in recording.rows if row.measure_s)
        assert 0.9 * (20.0 - 1.5) / longest < run.measured < 1.1 * 20.0 / shortest

    def test_compiling_is_the_bottleneck_of_one_core(self, recording: Recording) -> None:
        slow = replace(recording, header=replace(recording.header, cores=1))
        run = simulate(slow, RandomStrategy, 0, seconds=20.0, clock=frozen)
        builds = statistics.fmean(row.compile_s for row in recording.rows)
        assert run.built == pytest.approx(20.0 / builds, rel=0.25)

    def test_exhausting_a_recording_finds_its_best_and_measures_each_once(self, recording: Recording) -> None:
        run = simulate(recording, ExhaustiveStrategy, 0, seconds=1e6, clock=frozen)
        assert run.curve[-1][2] == recording.best_us
        assert run.measured == sum(row.facts is not None for row in recording.rows)
        assert run.built == len(recording.rows)
        assert [best for *_, best in run.curve] == sorted((best for *_, best in run.curve), reverse=True)

    def test_equal_binaries_are_measured_once(self, recording: Recording) -> None:
        twins = replace(recording, rows=tuple(replace(row, trial=row.trial // 2) for row in recording.rows))
        run = simulate(twins, ExhaustiveStrategy, 0, seconds=1e6, clock=frozen)
        assert run.measured == len({row.trial for row in twins.rows if row.facts is not None})

    def test_what_waits_is_ordered_and_dropped_by_the_strategy(self, recording: Recording) -> None:
        run = simulate(recording, Ordered, 0, seconds=1e6, seeded=False, clock=frozen)
        built = [row for row in recording.rows if row.facts is not None]
        assert run.pruned == sum(row.config["num_warps"] == 1 for row in built) > 0
        assert run.measured == len(built) - run.pruned

    def test_a_process_that_starts_says_nothing_of_its_config(self, recording: Recording) -> None:
        cold = replace(recording.rows[3], compile_s=9.0)
        rows = (*recording.rows[:3], cold, *recording.rows[4:])
        seconds = warm_compile_s(replace(recording, rows=rows))
        assert 0.3 < seconds[cold.config] < 1.5
        later = recording.rows[100:]
        assert later and all(seconds[row.config] == row.compile_s for row in later)

    def test_thinking_costs_time(self, recording: Recording) -> None:
        ticks = iter(range(10**9))
        slow = simulate(recording, RandomStrategy, 0, seconds=500.0, clock=lambda: 0.5 * next(ticks))
        quick = simulate(recording, RandomStrategy, 0, seconds=500.0, clock=frozen)
        assert slow.thinking_s > 100 and slow.measured < quick.measured

    def test_a_slow_config_stays_a_few_launches(self, recording: Recording) -> None:
        row = Row(recording.rows[0].config, "random", 0, Status.OK, 10_000.0, 1.0, 13, 1.0, 0.1, 0.2, 0.4)
        assert stay_s(row, math.inf) == stay_s(row, 9_000.0) == 0.4
        assert stay_s(row, 5_000.0) == pytest.approx(0.4 - 10 * 0.01)


def test_the_default_strategy_beats_chance_on_fixed_seeds() -> None:
    """Two recordings, four seeds: within 2 % of the best in fewer seconds than chance each time."""
    for recording in (synthetic(500, seed=0), synthetic(500, seed=1)):
        for seed in SEEDS:
            ours, chance = (
                simulate(recording, STRATEGIES[name], seed, seconds=60.0, clock=time.thread_time)
                for name in ("default", "random")
            )
            found, by_chance = (run.first_below(1.02 * recording.best_us) for run in (ours, chance))
            assert found is not None and (by_chance is None or found[0] < by_chance[0])
            assert ours.finished and ours.measured < 0.5 * chance.measured


@pytest.fixture(scope="module")
def comparisons() -> list[compare.RecordingComparison]:
    small = synthetic(120, seed=0)
    who = compare.variants(["random", "local"])
    return compare.compare([small], who, range(2), 5.0, prepare=refuse, clock=frozen)


class TestReport:
    def test_writes_plots_json_and_markdown(
        self, comparisons: list[compare.RecordingComparison], tmp_path: Path
    ) -> None:
        paths = report.write(comparisons, tmp_path, "replay", 5.0)
        assert [path.suffix for path in paths] == [".json", ".md", ".png"] and all(p.stat().st_size for p in paths)
        (data,) = json.loads(paths[0].read_text())
        assert {name: len(runs) for name, runs in data["searches"].items()} == {"random": 2, "local": 2}
        text = paths[1].read_text()
        assert "| random |" in text and "**Stale**" in text and "regret at 5 s" in text and "at 15 s" not in text

    def test_says_where_the_bound_of_the_static_facts_is_wrong(
        self, comparisons: list[compare.RecordingComparison]
    ) -> None:
        assert "beat the bound" not in report.markdown(comparisons, 5.0)
        rows = comparisons[0].recording.rows
        fast = tuple(replace(row, median_us=1.0) if i < 2 else row for i, row in enumerate(rows))
        wrong = replace(comparisons[0], recording=replace(comparisons[0].recording, rows=fast))
        found = sum(row.facts is not None for row in fast[:2])
        assert found and f"**{found} configs beat the bound" in report.markdown([wrong], 5.0)

    def test_says_what_is_stale(self, recording: Recording) -> None:
        assert "cannot be lowered here" in stale(recording.header, refuse)

    def test_an_unknown_strategy_gives_the_known_ones(self) -> None:
        with pytest.raises(SpecError, match="'annealing'"):
            compare.variants(["annealing"])


def refuse(*_: object) -> object:
    raise SpecError("the kernel must be there", got="a formula")


def test_curves_answer_both_ways() -> None:
    run = Replayed(0, ((1.0, 1, 90.0), (4.0, 9, 50.0)), 5.0, 20, 12, 0, 0, 0.0, "")
    assert (run.best_at(0.5), run.best_at(1.0), run.best_at(4.5)) == (math.inf, 90.0, 50.0)
    assert (run.best_after(0), run.best_after(8), run.best_after(9)) == (math.inf, 90.0, 50.0)
    assert run.first_below(60.0) == (4.0, 9) and run.first_below(40.0) is None


def test_quartiles_sort_the_infinite_last() -> None:
    assert compare.quartiles([3.0, 1.0, 2.0]) == (1.5, 2.0, 2.5)
    assert compare.quartiles([1.0, math.inf]) == (math.inf, math.inf, math.inf)
    assert compare.quartiles([1.0, 1.0, 1.0, math.inf, math.inf])[1] == 1.0


def test_a_recording_survives_its_file(recording: Recording, tmp_path: Path) -> None:
    write(recording, tmp_path / "a.parquet")
    again = read(tmp_path / "a.parquet")
    assert [row.config for row in again.rows] == [row.config for row in recording.rows]
    for one, other in zip(recording.rows, again.rows, strict=True):
        assert (one.status, one.trial, one.part) == (other.status, other.trial, other.part)
        assert other.compile_s == pytest.approx(one.compile_s, rel=1e-4)
        assert (one.facts is None) == (other.facts is None)
        if one.facts is not None and other.facts is not None:
            assert dict(other.facts.values)["registers"] == dict(one.facts.values)["registers"]
            assert other.facts.least_us == pytest.approx(one.facts.least_us, rel=1e-4)
    assert replace(again.header, knobs=()) == replace(recording.header, knobs=())
