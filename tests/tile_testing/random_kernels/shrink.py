"""A failing program of a seed, made smaller: choices left out and made simpler as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .checks import Finding
from .draws import Draws, by_seed
from .kernels import Program, program

Fails = Callable[[Draws], bool]


def recorded(seed: int) -> tuple[Draws, list[int]]:
    """The choices of a seed, and the list in which they are noted."""
    draws, noted = by_seed(seed), list[int]()
    below = draws.below

    def noting(n: int) -> int:
        noted.append(below(n))
        return noted[-1]

    return Draws(noting), noted


def replayed(choices: Sequence[int]) -> Draws:
    """Those choices, the simplest ones behind them; what is too large is the largest."""
    left = iter(choices)
    return Draws(lambda n: min(next(left, 0), n - 1))


def smallest(seed: int, found: Finding, run: Callable[[Program], list[Finding]], most: int) -> Program:
    """The smallest program found in so many tries that fails as that of the seed does: by the same kind of error."""
    draws, noted = recorded(seed)
    program(draws)

    def fails(draws: Draws) -> bool:
        return any(other.alike == found.alike for other in run(program(draws)))

    return program(replayed(shrunk(noted, fails, most)))


def shrunk(choices: Sequence[int], fails: Fails, most: int = 400) -> list[int]:
    """The least choices found in so many tries by which it fails still."""
    best, tries = list(choices), 0

    def better(candidate: list[int]) -> bool:
        nonlocal best, tries
        tries += 1
        if tries > most or candidate == best or not fails(replayed(candidate)):
            return False
        best = candidate
        return True

    size = max(len(best) // 2, 1)
    while size and tries <= most:
        at, found = 0, False
        while at < len(best) and tries <= most:
            if better(best[:at] + best[at + size :]) or (
                any(best[at : at + size]) and better(best[:at] + [0] * len(best[at : at + size]) + best[at + size :])
            ):
                found = True
            else:
                at += size
        size = size if found and size == 1 else size // 2
    return best
