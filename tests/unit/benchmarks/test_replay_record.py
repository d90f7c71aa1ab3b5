"""Recording: what the plan asks for, and that a file gives back what was written."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from tile_testing.fakes.experiments_fakes import DISTINCT, GPU, SPACE, FakeStages, prepare, sweep_spec, time_us
from tileflow_benchmarks.search_replay.plan import plan
from tileflow_benchmarks.search_replay.record import record
from tileflow_benchmarks.search_replay.recording import Recording, read, read_all

from tileflow.config import Config
from tileflow.errors import SpecError
from tileflow.measure.types import Status


class TestPlan:
    def test_is_distinct_valid_and_covers_a_small_space(self) -> None:
        found = [config for _, config in plan(SPACE, SPACE.default, 0, list)]
        assert len(found) == len(set(found)) == SPACE.size
        assert found[0] == SPACE.default

    def test_the_box_keeps_the_other_knobs_and_grows_from_the_default(self) -> None:
        box = [config for part, config in plan(SPACE, SPACE.default, 0, list) if part == "box"]
        assert {config["inert"] for config in box} == {SPACE.default["inert"]}
        steps = [abs(int(c["x"]) - 2) + abs(int(c["y"]) - 1) for c in box]
        assert steps == sorted(steps)

    def test_near_follows_the_best(self) -> None:
        best = SPACE.complete({"x": 7, "y": 3})
        near = [config for part, config in plan(SPACE, SPACE.default, 0, lambda: [best]) if part == "near"]
        assert near and all(config in set(SPACE.neighbours(best)) for config in near)

    def test_a_seed_decides_the_sample(self) -> None:
        def sample(seed: int) -> list[Config]:
            return [config for part, config in plan(SPACE, SPACE.default, seed, list) if part == "random"]

        assert sample(1) == sample(1) != sample(2)
        rng = random.Random(1)
        assert sample(1)[0] == SPACE.sample(rng)


def recorded(folder: Path) -> list[Recording]:
    record(sweep_spec(device_classes=[GPU]), folder, 20.0, FakeStages(), cores=2, prepare=prepare)
    return read_all(folder)


def test_a_recording_holds_what_was_measured_and_with_what(tmp_path: Path) -> None:
    first, second = recorded(tmp_path)
    assert (first.header.problem, second.header.problem) == ({"n": 100}, {"n": 64})
    header = first.header
    assert header.space_fingerprint == SPACE.fingerprint and header.default == SPACE.default
    assert [(k.name, k.choices) for k in header.knobs] == [(k.name, k.choices) for k in SPACE.knobs]
    assert header.versions == {"triton": "3.7.1", "torch": "2.13"} and header.cores == 2
    assert {row.config for row in first.rows} == set(SPACE.enumerate())
    assert len({row.trial for row in first.rows}) == DISTINCT
    for row in first.rows:
        assert row.facts is not None and dict(row.facts.values)["registers"] == 32
        if row.config["x"] == 5:
            assert row.status is Status.INCORRECT and math.isnan(row.median_us)
        else:
            assert row.median_us == time_us(row.config) and row.compile_s == 0.01
    assert first.best_us == 10.0


def test_equal_binaries_are_one_trial(tmp_path: Path) -> None:
    recording = recorded(tmp_path)[0]
    by_trial: dict[int, set[tuple[object, object]]] = {}
    for row in recording.rows:
        by_trial.setdefault(row.trial, set()).add((row.config["x"], row.config["y"]))
    assert all(len(sources) == 1 for sources in by_trial.values())


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_bytes(b"not Parquet")
    with pytest.raises(SpecError, match="readable Parquet"):
        read(tmp_path / "no.parquet")
    with pytest.raises(SpecError, match="must hold"):
        read_all(tmp_path / "empty")
