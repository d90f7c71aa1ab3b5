"""Whether a contender's result counts. Ours must meet the tolerance; a peer's own rounding does not matter."""

from __future__ import annotations

from typing import Any

from tileflow.measure.check import Reference, check_call, compare_with
from tileflow.measure.inputs import clone, leaves, map_tensors

from .opponent import Opponent
from .results import DEFAULT, EAGER, OURS

ROUNDING = 8.0  # tolerances by which a peer may differ and still be taken to compute the same


def check_result(
    name: str, opponent: Opponent, args: tuple[Any, ...], reference: Reference
) -> tuple[str, str, float | None]:
    """Return (why the result does not count, a note for the report, the largest error over the tolerance).

    The first two are empty where there is nothing to say. Eager always counts: others are compared with it. Raises what
    the call raises.
    """
    if opponent.is_random:
        return "", "", None
    if name in (OURS, DEFAULT):
        verdict = check_call(opponent.call, args, reference)
        return ("" if verdict.ok else f"{verdict.status}: {verdict.reason}"), "", verdict.max_err
    expected = opponent.part(reference.result)
    got = opponent.call(*map_tensors(clone, args))
    verdict = compare_with(reference, _alike(got, expected), expected)
    if verdict.ok:
        return "", "", verdict.max_err
    differs = f"differs by {verdict.max_err:.1f} tolerances ({verdict.reason})"
    if name == EAGER or verdict.max_err <= ROUNDING:
        return "", differs, verdict.max_err
    return differs, "", verdict.max_err


def _alike(got: Any, expected: Any) -> Any:
    """Turn lists into the tuples that references return, and the reverse: only the leaves matter."""
    values = [leaf for _, leaf in leaves(got, "")]
    shape = [path for path, _ in leaves(expected, "")]
    return values[0] if shape == [""] and len(values) == 1 else type(expected)(values) if shape != [""] else got
