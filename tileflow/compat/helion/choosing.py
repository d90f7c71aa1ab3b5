"""The fastest of several named configs: each is checked before it is timed, as in a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import CallError, TileflowError
from . import notes
from .config import Config
from .timing import milliseconds

if TYPE_CHECKING:
    from ...measure.check import Reference
    from .kernel import BoundKernel

SHARE = 2.0  # of the tolerance, where the default config's result stands for a reference: both are rounded


def fastest(bound: BoundKernel, configs: Sequence[Config], args: Sequence[Any]) -> Config:
    """The one of ``configs`` under which a call takes least time on the current GPU, of those whose results are right.

    Results are held against the kernel's ``autotune_baseline_fn``, else against what its default config gives;
    ``autotune_accuracy_check=False`` leaves that out. The call works on copies of ``args``. Says which configs are left
    out, and why. Raises CallError where none is left.
    """
    from ...measure.inputs import copied

    checks = bound.settings.checks_results
    expected = _expected(bound, args) if checks else None
    times: dict[Config, float] = {}
    refused: list[str] = []
    for config in configs:
        try:
            call = bound.compile_config(config)
            reason = "" if expected is None else _wrong(call, args, *expected)
            if not reason:
                times[config] = milliseconds(call, copied(args))
                continue
        except TileflowError as error:
            reason = str(error)
        refused.append(f"{config}: {reason}")
        notes.once(f"{bound.kernel.name} by {config}", f"left out: {reason}")
    if not times:
        raise CallError(
            "one of the configs gives the right result",
            got="; ".join(refused)[:2000] or "no config",
            where=bound.kernel.name,
            hint="kernel.autotune(args) of a kernel without configs searches for one",
        )
    return min(times, key=lambda c: times[c])


def _expected(bound: BoundKernel, args: Sequence[Any]) -> tuple[Reference, float]:
    """What a call must give, and how many times the tolerance it may be off."""
    from ...measure.check import make_reference, reference_of

    traced = bound.kernel.__tileflow_kernel__
    if traced.baseline is not None:
        return reference_of(traced, args), 1.0
    default = bound.compile_config(bound.default_config())
    return make_reference(default, args, traced.tolerances, as_given=True), SHARE


def _wrong(call: Callable[..., Any], args: Sequence[Any], expected: Reference, scale: float) -> str:
    """What is wrong with the results of ``call``; empty where nothing is."""
    from ...measure.check import check_call

    return check_call(call, args, expected, scale=scale).reason
