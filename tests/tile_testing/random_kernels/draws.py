"""Choices that a generator makes, by Hypothesis, which then shrinks them, or by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Draws:
    """The first of options, and the smallest number, is the simplest: what a failing program is shrunk to."""

    def __init__(self, below: Callable[[int], int]) -> None:
        self.below = below  # a number of 0 .. n - 1

    def of(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """Simplest: no."""
        return self.below(100) >= 100 - percent

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        at = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            at -= weight
            if at < 0:
                return option
        raise AssertionError("weights are positive")

    def order(self, items: Sequence[T]) -> list[T]:
        """Simplest: as they are."""
        left, ordered = list(items), []
        while left:
            ordered.append(left.pop(self.below(len(left))))
        return ordered


def by_seed(seed: int) -> Draws:
    return Draws(random.Random(seed).randrange)


def by_hypothesis(draw: Callable[[st.SearchStrategy[int]], int]) -> Draws:
    return Draws(lambda n: draw(st.integers(0, n - 1)))
