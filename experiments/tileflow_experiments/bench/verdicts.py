"""Whether a contender's result counts. Ours is held to the tolerance; a peer's own rounding is not our matter."""

from __future__ import annotations

from typing import Any

import torch

from tileflow.measure.check import Reference, check_call, compare
from tileflow.measure.inputs import clone, leaves, map_tensors

from .opponent import Opponent
from .results import DEFAULT, EAGER, OURS

ROUNDING = 8.0  # tolerances by which a peer may differ and still be taken to compute the same
# Agents that decide by comparing neighbours' trails: one unit of rounding turns a few of them the other way.
SHARES = {"examples.physarum:move": 1e-2}


def judge(
    name: str, opponent: Opponent, args: tuple[Any, ...], reference: Reference, kernel: str
) -> tuple[str, str, float | None]:
    """(why it does not count or nothing, what to know of it or nothing, the largest error over the tolerance).

    Eager always counts: it is what others are held against. What the call raises comes through.
    """
    if opponent.is_random:
        return "", "", None
    if kernel in SHARES:
        return _by_share(opponent, args, reference, SHARES[kernel])
    if name in (OURS, DEFAULT):
        verdict = check_call(opponent.call, args, reference)
        return ("" if verdict.ok else f"{verdict.status}: {verdict.reason}"), "", verdict.max_err
    expected = opponent.part(reference.result)
    got = opponent.call(*map_tensors(clone, args))
    verdict = compare(_alike(got, expected), expected, at_least=reference.tolerance)
    if verdict.ok:
        return "", "", verdict.max_err
    differs = f"differs by {verdict.max_err:.1f} tolerances ({verdict.reason})"
    if name == EAGER or verdict.max_err <= ROUNDING:
        return "", differs, verdict.max_err
    return differs, "", verdict.max_err


def _alike(got: Any, expected: Any) -> Any:
    """Lists as the tuples that references return, and the reverse: only their leaves matter."""
    values = [leaf for _, leaf in leaves(got, "")]
    shape = [path for path, _ in leaves(expected, "")]
    return values[0] if shape == [""] and len(values) == 1 else type(expected)(values) if shape != [""] else got


def _by_share(
    opponent: Opponent, args: tuple[Any, ...], reference: Reference, share: float
) -> tuple[str, str, float | None]:
    """At most ``share`` of the elements of each leaf may be off by more than the tolerance."""
    got = opponent.call(*map_tensors(clone, args))
    worst = 0.0
    for (where, ours), (_, theirs) in zip(leaves(got, "result"), leaves(reference.result, "result"), strict=True):
        wide = theirs.to(torch.float64)
        allowed = reference.tolerance * (wide.square().mean().sqrt() + wide.abs())
        off = float((~((ours.double() - wide).abs() <= allowed)).double().mean())
        if off > share:
            return f"{where}: {off:.2%} of the elements are off, at most {share:.0%} may be", "", off / share
        worst = max(worst, off / share)
    return "", "", worst
