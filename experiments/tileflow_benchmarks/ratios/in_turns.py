"""Times that are compared with each other: in one process, in turns, in a new order each round."""

from __future__ import annotations

import random
from collections.abc import Mapping
from statistics import median

from tileflow.measure.timing import DeviceSampler, sample_in_turn


def medians(samplers: Mapping[str, DeviceSampler], rounds: int) -> dict[str, float]:
    """Return the median time of each, in microseconds."""
    found: dict[str, list[float]] = {name: [] for name in samplers}
    shuffled = random.Random(0)
    for _ in range(rounds):
        order = shuffled.sample(list(samplers), len(samplers))
        for name, us in zip(order, sample_in_turn([samplers[n] for n in order]), strict=True):
            found[name].append(us)
    return {name: round(median(times), 2) for name, times in found.items()}
