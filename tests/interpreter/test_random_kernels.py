"""Random kernels: what Triton's interpreter makes of them is what they mean as plain Python over tiles.

More of them, by seeds: ``python -m tile_testing.random_kernels.hunt``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.random_kernels.planted import FAULTS

EXAMPLES = 40
MOST_UNTIL_FOUND = 40  # programs, of a planted fault


@pytest.mark.parametrize("mode", ["static", pytest.param("dynamic", marks=pytest.mark.slow)])
def test_random_kernels_mean_what_they_say(interpreter: Callable[..., Any], mode: str) -> None:
    failure = interpreter("random_kernels.properties:smallest_failure", EXAMPLES, (1,), mode)
    assert not failure, failure


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_planted_faults_are_found(interpreter: Callable[..., Any], fault: str) -> None:
    needed = interpreter("random_kernels.planted:programs_until_found", fault, MOST_UNTIL_FOUND)
    assert needed <= MOST_UNTIL_FOUND
