"""Searches of one kernel's problems learn from each other: later ones are short, and no worse."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest
from tile_testing.fakes import synthetic_recording
from tile_testing.fakes.synthetic_recording import SQUARE, Shape, synthetic
from tileflow_benchmarks.search_replay import transfer
from tileflow_benchmarks.search_replay.recording import Recording
from tileflow_search import Result, make
from tileflow_search.default import DefaultStrategy
from tileflow_search.diverse import EACH, diverse
from tileflow_search.features import Features
from tileflow_search.progress import Progress
from tileflow_search.surrogate import FEWEST, NOISE, TimeModel
from tileflow_search.transfer import NEAREST, ProblemFeatures, TransferGroup, TransferTask

from tileflow.config import Config, ConfigSpace, Knob
from tileflow.errors import SpecError

SHAPES = (SQUARE, Shape(1024, 4096, 4096), Shape(2048, 2048, 1024), Shape(64, 8192, 8192))
ORDERS = range(5)


def frozen() -> float:
    return 0.0


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    return [synthetic(400, seed=i, shape=shape) for i, shape in enumerate(SHAPES)]


@pytest.fixture(scope="module")
def series(recordings: list[Recording]) -> transfer.Series:
    (found,) = transfer.transfer(recordings, ORDERS, 60.0, clock=frozen)
    return found


@pytest.mark.slow
class TestSharing:
    def test_the_first_shape_gains_nothing(self, series: transfer.Series) -> None:
        alone, sharing = series.of("alone", 1), series.of("sharing", 1)
        assert [turn.run.curve for turn in alone] == [turn.run.curve for turn in sharing] and len(alone) == len(ORDERS)

    def test_later_shapes_are_near_the_best_in_a_third_of_the_trials(self, series: transfer.Series) -> None:
        alone, sharing = (
            [turn.near[1] for number in range(2, len(SHAPES) + 1) for turn in series.of(way, number)]
            for way in ("alone", "sharing")
        )
        assert statistics.median(sharing) < statistics.median(alone) / 3
        assert statistics.fmean(sharing) < statistics.fmean(alone) / 2  # also where one was never reached

    def test_later_shapes_end_sooner_and_no_worse(self, series: transfer.Series) -> None:
        alone, sharing = (
            [turn for number in range(3, len(SHAPES) + 1) for turn in series.of(way, number)]
            for way in ("alone", "sharing")
        )
        ended = [statistics.median(turn.run.seconds for turn in turns) for turns in (sharing, alone)]
        assert ended[0] < 0.85 * ended[1]
        assert all(turn.run.finished for turn in sharing) and max(turn.regret for turn in sharing) < 0.03

    def test_is_written_as_json_markdown_and_plot(self, series: transfer.Series, tmp_path: Path) -> None:
        paths = transfer.write([series], tmp_path)
        assert [path.name for path in paths] == ["transfer.json", "transfer.md", "transfer-matmul-nvidia-h200.png"]
        (data,) = json.loads(paths[0].read_text())
        assert len(data["turns"]) == 2 * len(SHAPES) * len(ORDERS)
        text = paths[1].read_text()
        assert text.count("| sharing |") == text.count("**Stale**") == len(SHAPES) and paths[2].stat().st_size

    def test_needs_one_kernel_at_several_shapes(self, recordings: list[Recording]) -> None:
        with pytest.raises(SpecError, match="at several shapes"):
            transfer.transfer(recordings[:1], ORDERS, 1.0)


def tasks_of(shapes: Sequence[Shape]) -> list[TransferTask]:
    space, found = synthetic_recording.space(), TransferGroup()
    problems = (ProblemFeatures.of({"m": s.m, "n": s.n, "k": s.k}, bytes=s.traffic.bytes) for s in shapes)
    return [found.join(problem, space, space.default) for problem in problems]


def teach(task: TransferTask, shape: Shape, configs: Sequence[Config]) -> None:
    for config in configs:
        task.learn(config, math.log2(synthetic_recording.time_us(config, shape)))


def some(count: int, seed: int = 0) -> list[Config]:
    return [row.config for row in synthetic(count, seed).rows]


class TestTasks:
    def test_the_nearest_siblings_give_their_best(self) -> None:
        shapes = [SQUARE, *(Shape(4096 << i, 4096, 4096) for i in range(1, 6))]
        first, *others = tasks_of(shapes)
        assert first.leaders() == [] and not first.experience
        for i, (task, shape) in reversed(list(enumerate(zip(others, shapes[1:], strict=True)))):
            teach(task, shape, some(FEWEST + 1, seed=i))
        assert first.experience == len(others)
        assert first.leaders() == list(dict.fromkeys(c for other in others[:NEAREST] for c in other.best()))

    def test_what_failed_is_no_leader(self) -> None:
        one, other = tasks_of([SQUARE, Shape(512, 512, 512)])
        for config in some(FEWEST + 1):
            other.learn(config, None)
        assert one.leaders() == [] and not one.experience and one.prior(some(3)) is None

    def test_the_prior_orders_an_unseen_shape(self) -> None:
        shapes = [Shape(64, 8192, 8192), SQUARE, Shape(8192, 8192, 8192)]
        unseen, *others = tasks_of(shapes)
        for task, shape in zip(others, shapes[1:], strict=True):
            teach(task, shape, some(150))
        asked = some(80, seed=5)
        posterior = unseen.prior(asked)
        assert posterior is not None and unseen.fits == 1
        times = {config: synthetic_recording.time_us(config, shapes[0]) for config in asked}
        ranked = [config for _, config in sorted(zip(posterior.means, asked, strict=True), key=lambda pair: pair[0])]
        best, worst = ([times[c] for c in part] for part in (ranked[:20], ranked[-20:]))
        assert statistics.median(best) < 0.75 * statistics.median(worst)

    def test_spaces_may_differ(self) -> None:
        narrow = ConfigSpace((Knob("block:m", "m", (16, 32), "block", 16), Knob("num_warps", "", (4,), "launch", 4)))
        wide = ConfigSpace((
            Knob("block:m", "m", (32, 64, 128), "block", 32), Knob("num_warps", "", (2, 4, 8), "launch", 4),
            Knob("access", "x", ("pointer", "descriptor"), "access", "pointer"),
        ))  # fmt: skip
        found = TransferGroup()
        small = found.join(ProblemFeatures.of({"m": 32}), narrow, narrow.default)
        large = found.join(ProblemFeatures.of({"m": 4096}), wide, wide.default)
        for i, config in enumerate(list(wide.enumerate())[: FEWEST + 2]):
            large.learn(config, float(i))
        assert [c["block:m"] for c in small.leaders()] == [32]
        assert small.prior(list(narrow.enumerate())) is not None

    def test_distance_counts_doublings_and_labels(self) -> None:
        here = ProblemFeatures.of({"m": 1024, "n": 64, "dtype": "bfloat16", "causal": True})
        assert here.distance(here) == 0
        assert here.distance(ProblemFeatures.of({"m": 4096, "n": 32, "dtype": "bfloat16", "causal": True})) == 3
        assert here.distance(ProblemFeatures.of({"m": 1024, "n": 64, "dtype": "float16", "causal": True})) == 1


class TestKinship:
    """Siblings' searches shorten one whose own times they explain, and no other."""

    @staticmethod
    def model(shape: Shape, verdicts: int, sign: float) -> TimeModel:
        """Of ``shape`` after so many verdicts, of which a well taught sibling's landscape is ``sign`` times its own."""
        one, other = tasks_of([shape, SQUARE])
        for config in some(150, seed=1):
            other.learn(config, sign * math.log2(synthetic_recording.time_us(config, SQUARE)))
        model = TimeModel(Features(one.space), 0, one)
        for config in some(verdicts, seed=2):
            model.learn(config, math.log2(synthetic_recording.time_us(config, shape)))
        model.predict_from_config(some(3))
        return model

    def test_is_unknown_before_there_are_times(self) -> None:
        assert self.model(Shape(2048, 4096, 4096), FEWEST - 1, 1.0).prior_is_useful is None

    def test_is_what_the_times_say(self) -> None:
        assert self.model(Shape(2048, 4096, 4096), 30, 1.0).prior_is_useful is True
        assert self.model(Shape(2048, 4096, 4096), 30, -1.0).prior_is_useful is False

    def test_of_times_that_differ_by_noise_alone_nothing_need_be_explained(self) -> None:
        one, other = tasks_of([SQUARE, Shape(2048, 4096, 4096)])
        model = TimeModel(Features(one.space), 0, one)
        for i, config in enumerate(some(40)):
            other.learn(config, 1.0)
            model.learn(config, 1.0 + (i % 2) * NOISE)
        model.predict_from_config(some(3))
        assert model.prior_is_useful is True

    def test_without_it_the_others_are_left_out(self) -> None:
        shape, asked = Shape(2048, 4096, 4096), some(20, seed=7)
        misled, alone = self.model(shape, 30, -1.0), TimeModel(Features(synthetic_recording.space()), 0)
        for config in some(30, seed=2):
            alone.learn(config, math.log2(synthetic_recording.time_us(config, shape)))
        assert misled.predict_from_config(asked) == alone.predict_from_config(asked)
        assert self.model(shape, 30, 1.0).predict_from_config(asked) != alone.predict_from_config(asked)

    def test_a_misled_search_makes_up_for_its_short_start(self) -> None:
        one, *others = tasks_of([SQUARE, *(Shape(2048 << i, 4096, 4096) for i in range(2, 5))])
        for task in others:
            for config in some(60, seed=1):
                task.learn(config, -math.log2(synthetic_recording.time_us(config, SQUARE)))
        strategy = DefaultStrategy(one.space, 0, peers=one)
        opening = list(itertools.islice(diverse(one.space, 0), EACH * len(Features(one.space).names)))
        asked: list[Config] = []
        for _ in range(2 * len(opening)):
            asked += strategy.ask(1)
            strategy.tell(asked[-1], Result(synthetic_recording.time_us(asked[-1], SQUARE)))
        assert strategy._progress.helpers == 0 and set(opening) <= set(asked)

    def test_makes_a_search_doubt_and_end_earlier(self) -> None:
        space = synthetic_recording.space()
        alone, helped = Progress(Features(space)), Progress(Features(space))
        helped.helpers = 3
        for config in some(20):
            for progress in (alone, helped):
                progress.learn(config, 1.0)
        assert (
            helped.improvement_discount - 1 == pytest.approx(4 * (alone.improvement_discount - 1))
            and alone.improvement_discount > 1
        )
        assert [p.restart() for p in (alone, helped)] == [True, True]
        assert [p.restart() for p in (alone, helped)] == [True, False]


def test_a_strategy_with_peers_keeps_to_ask_and_tell() -> None:
    """Without a verdict of its own it asks for what the others found, and then for what they promise."""
    one, other = tasks_of([SQUARE, Shape(2048, 4096, 4096)])
    teach(other, Shape(2048, 4096, 4096), some(60))
    space = synthetic_recording.space()
    strategy = make("default", space, 0, [space.default], peers=one)
    assert isinstance(strategy, DefaultStrategy)
    asked = strategy.ask(20)
    assert len(set(asked)) == 20 and asked[0] == space.default and set(other.best()) <= set(asked[1:4])
    for config in asked:
        strategy.tell(config, Result(synthetic_recording.time_us(config)))
    assert one.verdicts.keys() == set(asked)
    promised = statistics.median(synthetic_recording.time_us(c) for c in asked[7:])
    assert promised < statistics.median(synthetic_recording.time_us(c) for c in some(60, seed=3))
