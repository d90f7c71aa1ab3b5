"""Ints of host code that one call's launches have many of, as the number of a layer or the distance of a pass: run-time
values, where few are constants.

In static mode what host code computes is a constant, and each int a variant of its launch. A sort of 262 thousand keys
in memory had 171 of them, which took 45 s to build, and each of its 171 launches looked for its own among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

MOST_VALUES = 8  # of an int, for which a loop's launches have variants of their own


class VaryingInts(BaseException):
    """The lowering begins anew with more of them; no ``except Exception`` of host code's is to take it."""


class Variation:
    """``known``: paths of ints that were seen to change between calls, which vary in every loop."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = frozenset(known)
        self._own: defaultdict[int, set[str]] = defaultdict(set)
        self._values: defaultdict[tuple[int, str], set[int]] = defaultdict(set)

    def of(self, region: int) -> frozenset[str]:
        """The paths of ints that vary in a loop."""
        return self._known | self._own[region]

    def note(self, region: int, constants: Mapping[str, int]) -> None:
        """Note a launch by the ints that are constants of it. Raises VaryingInts where one is no longer to be."""
        for path, value in constants.items():
            self._values[region, path].add(value)
        many = {path for path in constants if len(self._values[region, path]) > MOST_VALUES}
        if many:
            self._own[region] |= many
            raise VaryingInts
