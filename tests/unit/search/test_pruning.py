"""What static facts say before a config runs: bounds by the instructions at hand, and what they drop."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tileflow_search import Result, make
from tileflow_search.progress import Progress
from tileflow_search.pruning import Pruning, prune_reason
from tileflow_search.surrogate import Prediction

from tileflow.config import Config, ConfigSpace, Knob
from tileflow.cost import Launch, StaticFacts, estimate, roofline_us, static_facts
from tileflow.ir.traffic import Traffic
from tileflow.runtime.abi import Resources
from tileflow.target import target

H200, A100 = target("nvidia-h200"), target("nvidia-a100")
GEMM = Traffic(3 * 2 * 4096**2, 2 * 4096**3, "bfloat16")
COPY = Traffic(1 << 28, 0, "float32")


def built(traffic: Traffic, mix: str = "", programs: int = 1024, spills: int = 0, threads: int = 128) -> StaticFacts:
    instructions = ((mix, 8), ("total", 500)) if mix else (("total", 500),)
    return static_facts(traffic, [Launch(Resources(128, spills, 32 << 10, threads, instructions), programs)], H200)


def test_the_bound_knows_the_matrix_instructions() -> None:
    best, warp_wide, none = (built(GEMM, mix).least_us for mix in ("wgmma", "mma", ""))
    assert best == pytest.approx(roofline_us(GEMM, H200))
    assert best < warp_wide < none
    older = static_facts(GEMM, [Launch(Resources(128, 0, 0, 128, (("mma", 8),)), 1024)], A100)
    assert older.least_us == pytest.approx(roofline_us(GEMM, A100))  # there mma.sync is the best there is


def test_the_bound_knows_how_many_multiprocessors_have_work() -> None:
    assert built(GEMM, "wgmma", programs=33).least_us == pytest.approx(4 * roofline_us(GEMM, H200))
    assert built(COPY, programs=1).least_us == pytest.approx(roofline_us(COPY, H200))


@given(st.sampled_from(["wgmma", "mma", ""]), st.integers(1, 1 << 16), st.integers(0, 512))
def test_the_bound_is_never_below_the_roofline_nor_above_the_model(mix: str, programs: int, spills: int) -> None:
    facts = built(GEMM, mix, programs, spills)
    launch = Launch(Resources(128, spills, 32 << 10, 128, ((mix, 8),) if mix else ()), programs)
    assert roofline_us(GEMM, H200) <= facts.least_us * (1 + 1e-9)
    if mix == "wgmma":  # the model knows of no slower matrix instruction, and of no packed arithmetic
        assert facts.least_us <= estimate(GEMM, [launch], H200).total_us


class TestHopeless:
    def test_a_slow_unit_is_dropped_once_something_faster_was_measured(self) -> None:
        facts = built(GEMM, "mma")
        assert not prune_reason(facts, math.inf)
        assert not prune_reason(facts, math.log2(facts.least_us * 1.01))
        assert "can take less than" in prune_reason(facts, math.log2(facts.least_us * 0.99))

    def test_spills_count_by_what_they_move(self) -> None:
        slow = math.log2(1e6)
        assert not prune_reason(built(COPY, spills=64, programs=1024), slow)
        assert "spilled registers" in prune_reason(built(COPY, spills=64, programs=1 << 16), slow)

    def test_spills_count_only_beside_something_that_works(self) -> None:
        """A row of 32768 numbers spills under every config of its kernel, the default included, which is right."""
        progress = Progress(cast(Any, None))  # of a space that nobody searches
        pruning = Pruning(None, progress, prune=True)
        wasteful, plain = Config.of({"n": 1}), Config.of({"n": 2})
        pruning.built(wasteful, built(COPY, spills=64, programs=1 << 16))
        pruning.built(plain, built(COPY))
        first, other = pruning.ranks([wasteful, plain])
        assert other < first < math.inf and not pruning.dropped(wasteful)
        pruning.trust([wasteful])
        assert pruning.ranks([wasteful]) == [-math.inf]
        progress.learn(plain, math.log2(1e6))
        assert pruning.ranks([wasteful]) == [math.inf] and pruning.dropped(wasteful)

    def test_what_is_asked_for_is_measured_wherever_it_runs(self) -> None:
        """The default of a call, which compiled for ten seconds, while another config was measured: it had no time."""
        progress = Progress(cast(Any, None))
        pruning = Pruning(None, progress, prune=True)
        wasteful, slow, huge, plain = (Config.of({"n": n}) for n in range(4))
        pruning.built(wasteful, built(COPY, spills=64, programs=1 << 16))
        pruning.built(slow, built(COPY, programs=1))
        pruning.built(huge, static_facts(COPY, [Launch(Resources(255, 0, 0, 1024), 10)], H200))
        progress.learn(plain, -10.0)
        pruning.trust([wasteful, slow, huge])
        assert pruning.ranks([wasteful, slow, huge]) == [math.inf] * 3
        pruning.keep([wasteful, slow, huge])
        assert pruning.ranks([wasteful, slow, huge]) == [-math.inf, -math.inf, math.inf]

    def test_seeds_of_a_search_are_asked_for(self) -> None:
        space = ConfigSpace((Knob("n", "n", (1, 2, 4, 8), "block", 1),))
        default, other = Config.of({"n": 1}), Config.of({"n": 8})
        strategy = make("default", space, 0, [default])
        assert strategy.ask(1) == [default]
        strategy.tell(other, Result(1.0))
        strategy.built(default, built(COPY, spills=64, programs=1 << 16))
        assert strategy.rank([default]) == [-math.inf]

    def test_a_block_must_fit(self) -> None:
        facts = static_facts(COPY, [Launch(Resources(255, 0, 0, 1024), 10)], H200)
        assert not facts.fits and "no block fits" in prune_reason(facts, math.inf)


@given(st.floats(-5, 5), st.floats(0.01, 2), st.floats(-5, 5))
def test_an_expected_gain_is_at_least_the_gain_of_the_mean(mean: float, deviation: float, best: float) -> None:
    gain = Prediction(mean, deviation).gain(best)
    assert gain >= max(best - mean, 0.0) - 1e-9
    assert gain <= max(best - mean, 0.0) + deviation
