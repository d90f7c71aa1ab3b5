"""The types by which a peer takes part in a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .cells import Cell

Call = Callable[..., Any]


def whole(result: Any) -> Any:
    """Return all of a reference's result."""
    return result


def first(result: Any) -> Any:
    """Return the first value of a reference's result, for a peer that computes no more."""
    return result[0]


@dataclass(frozen=True, slots=True)
class Opponent:
    """A peer's call for one cell. ``call(*args)`` does a cell's work; ``args`` None: those of our kernel.

    ``part``: what of the reference's result the call returns. ``capture``: whether a graph of it may be captured.
    ``is_random``: it draws numbers of its own, so that its result cannot be compared. ``note``: for the report.
    """

    call: Call
    args: tuple[Any, ...] | None = None
    part: Callable[[Any], Any] = whole
    capture: bool = True
    is_random: bool = False
    note: str = ""


Make = Callable[[Cell, Sequence[Any]], "Opponent | None"]
Special = Callable[[Sequence[Any]], Opponent]  # of the arguments of our kernel


def maker(calls: Mapping[str, Call], specials: Mapping[str, Special] = MappingProxyType({})) -> Make:
    """Return a peer's ``make`` out of its ``calls`` by kernel, which do what ours do on the same arguments.

    ``specials``: functions that make the opponents of kernels whose arguments differ.
    """

    def make(cell: Cell, args: Sequence[Any]) -> Opponent | None:
        if cell.kernel in specials:
            return specials[cell.kernel](args)
        call = calls.get(cell.kernel)
        return None if call is None else Opponent(call)

    return make


@dataclass(frozen=True, slots=True)
class Peer:
    """Another implementation.

    ``make(cell, args)``: returns its opponent for a cell, or None where it has no kernel for it. It may raise, which is
    this peer's failure in that cell. ``version``: for the report.
    """

    name: str
    make: Make
    version: str = ""
