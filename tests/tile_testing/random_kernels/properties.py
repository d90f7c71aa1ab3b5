"""What holds for every program, as a property whose failures Hypothesis makes small, in the process that interprets."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .checks import Finding, check
from .draws import by_hypothesis
from .kernels import Program, program


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return program(by_hypothesis(draw))


def smallest_failure(examples: int, seeds: Sequence[int] = (1,), mode: str = "static") -> str:
    """Of so many programs, always the same ones, the smallest of which something is wrong, as a script that can be
    pasted; empty where nothing is."""
    last = list[tuple[Program, list[Finding]]]()

    @settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(programs())
    def holds(one: Program) -> None:
        found = check(one, seeds, mode)
        if found:
            last[:] = [(one, found)]
        assert not found, found[0].alike

    try:
        holds()
    except AssertionError:
        ((one, found),) = last
        return "\n".join((*map(str, found), one.script()))
    return ""
