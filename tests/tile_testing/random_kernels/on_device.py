"""Programs of seeds on a device, for a process of a crew."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import check
from .draws import by_seed
from .kernels import program


def failures(seeds: Sequence[int], configs: int, device: str) -> list[str]:
    """What is wrong with them, each with a script that can be pasted."""
    wrong = []
    for seed in seeds:
        one = program(by_seed(seed))
        found = check(one, range(seed, seed + configs), ("static", "dynamic")[seed % 2], device)
        wrong += ["\n".join((f"seed {seed}", *map(str, found), one.script()))] if found else []
    return wrong
