"""Kernels whose loops' turns several programs share, by value, in a process that interprets."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tile_testing.kernels import spread_kernels
from tileflow.api import load_kernel
from tileflow.measure.check import check_call, reference_of
from tileflow.passes.spread import spreadable
from tileflow.target import target


def wrong(name: str, problem: Mapping[str, Any], mode: str, seed: int, configs: int) -> list[str]:
    """What is wrong under random configs in which each loop is spread over some number of programs, one line each."""
    kernel = load_kernel(name) if ":" in name else getattr(spread_kernels, name)
    args = kernel.inputs(**problem)
    reference, lowered = reference_of(kernel, args), kernel.lower(args, target("nvidia-h200"), mode=mode)
    rng, found = random.Random(seed), []
    (ir,) = lowered.regions
    blocks = {knob.name: min(32, max(knob.choices)) for knob in lowered.space.knobs if knob.role == "block"}
    for _ in range(configs):
        spread = {f"loop:{tile}.spread": rng.choice((2, 4, 8)) for tile in spreadable(ir)}
        assert spread
        sampled = lowered.space.sample(rng).with_({**blocks, "persistent": 0, **spread})
        config = lowered.interpretable(lowered.space.repair(sampled))
        verdict = check_call(kernel.compile(lowered, config, "cpu"), args, reference)
        if not verdict.ok or not all(config[knob] == n for knob, n in spread.items()):
            found.append(f"{name} {problem} {mode} under {config}: {verdict.reason}")
    return found
