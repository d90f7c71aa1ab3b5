"""Random kernels: what Triton's interpreter makes of them is what they mean as plain Python over tiles.

More of them, by seeds: ``python -m tile_testing.random_kernels.hunt``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.random_kernels.checks import check_builds
from tile_testing.random_kernels.draws import by_seed
from tile_testing.random_kernels.kernels import program
from tile_testing.random_kernels.planted import FAULTS

SEEDS = 30
EXAMPLES = 100  # of Hypothesis, which begins with small ones
CALLED = 6  # programs that are each called several times
BUILT = 6  # programs that are assembled for sm_90a
MOST_UNTIL_FOUND = 40  # programs, of a planted fault


@pytest.mark.parametrize(
    "seeds", [range(SEEDS), pytest.param(range(SEEDS, 8 * SEEDS), marks=pytest.mark.slow)], ids=len
)
def test_random_kernels_mean_what_they_say(interpreter: Callable[..., Any], seeds: range) -> None:
    assert interpreter("random_kernels.on_device:failures", seeds, 1, "cpu") == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_no_program_that_hypothesis_finds_means_anything_else(interpreter: Callable[..., Any], mode: str) -> None:
    failure = interpreter("random_kernels.properties:smallest_failure", EXAMPLES, (1,), mode)
    assert not failure, failure


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_planted_faults_are_found(interpreter: Callable[..., Any], fault: str) -> None:
    needed = interpreter("random_kernels.planted:programs_until_found", fault, MOST_UNTIL_FOUND)
    assert needed <= MOST_UNTIL_FOUND


def test_calls_of_one_kernel_get_code_for_their_own_arguments(interpreter: Callable[..., Any]) -> None:
    assert interpreter("random_kernels.calls:failures", range(CALLED)) == []


@pytest.mark.parametrize(
    "seeds", [range(BUILT), pytest.param(range(BUILT, 20 * BUILT), marks=pytest.mark.slow)], ids=len
)
def test_their_defaults_build(seeds: range) -> None:
    found = {seed: check_builds(program(by_seed(seed))) for seed in seeds}
    assert not any(found.values()), "\n".join(str(f) for each in found.values() for f in each)
