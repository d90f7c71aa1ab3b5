"""Programs of seeds on a device, or under Triton's interpreter where that is a CPU."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import Finding, check
from .draws import by_seed
from .kernels import Program, program
from .shrink import smallest

TRIES = {"cpu": 60, "cuda": 0}  # to make what fails smaller; a process of a crew has no time for it


def failures(seeds: Sequence[int], configs: int, device: str) -> list[str]:
    """What is wrong with them, each with a script that can be pasted: of the smallest program that fails alike."""
    wrong = []
    for seed in seeds:

        def run(one: Program, seed: int = seed) -> list[Finding]:
            return check(one, range(seed, seed + configs), ("static", "dynamic")[seed % 2], device)

        found = run(program(by_seed(seed)))
        if found:
            wrong.append(
                "\n".join((f"seed {seed}", *map(str, found), smallest(seed, found[0], run, TRIES[device]).script()))
            )
    return wrong
