"""What a forward pass saves for its backward, by what each choice would move.

The cost of a choice is the bytes that its backward asks for, those of the statistics written, and for each element that
it reduces half a byte: on an H200 a reduction of a row in registers took as long as 0.2 to 0.8 bytes of each element.
A value that can be computed lane by lane from what is read anyway is never worth its bytes; a statistic that spares a
loop over a row, or a reduction of one, is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from ..frontend.lower import lower_call
from ..frontend.split import HostFunction
from ..ir.analysis import moved, reduced
from ..runtime.argtree import tensors
from .observe import observe
from .saved import Saved, held_by_results, statistics
from .saving import can_save, saving
from .write import Derived, Writer

BYTES_OF_A_REDUCTION = 0.5  # for each element that is reduced


@dataclass(frozen=True, slots=True)
class Plan:
    """``saved``: empty where everything is computed again. ``forward``: the kernel that writes the statistics; None
    where nothing but results is saved. ``backward``: the kernel that reads what is saved. ``cost``: in bytes."""

    saved: tuple[Saved, ...]
    forward: Derived | None
    backward: Derived
    cost: float


def plan(
    name: str, host: HostFunction, args: Sequence[Any], made: Callable[[Derived], HostFunction], wanted: Sequence[str]
) -> tuple[Plan, Plan]:
    """The plan of least cost, and the one that saves nothing; of equal ones the one that saves less. ``made``: the
    function of a text. Raises GradientError where a gradient is not derived."""
    call = observe(name, host, args, wanted)

    def planned(saved: tuple[Saved, ...]) -> tuple[Plan, tuple[Saved, ...]]:
        writer = Writer(name, host, call, saved)
        backward = writer.write()
        kept = any(one.result is None for one in saved)
        forward = saving(host, call, saved) if kept else None
        results = tuple(tensors((lower_call(made(forward), tuple(args), "dynamic").result,))) if forward else call.results
        rows = [*results[len(call.results) :]]
        ends = iter(rows)
        given = [next(ends) if one.result is None else call.results[one.result] for one in saved]
        grads = [torch.empty_like(call.results[i]) for i in call.asked]
        own = (*_whole(host, args), *(t.detach() for t in given), *grads)
        regions = lower_call(made(backward), own, "dynamic").regions
        written = sum(t.numel() * t.element_size() for t in rows)
        cost = moved(regions) + written + BYTES_OF_A_REDUCTION * reduced(regions)
        numbers = {id(launch): n for n, launch in enumerate(call.launches)}
        more = chain.from_iterable(
            statistics(numbers[id(done.launch)], done) for done in writer.reversed if can_save(done.launch)
        )
        return Plan(saved, forward, backward, cost), tuple(more)

    plain, rows = planned(())
    if not call.is_plain:
        return plain, plain
    choices = [plain]
    held = held_by_results(call)
    for first, more in (((), rows), (held, ())):
        if first or more:
            choices.append(planned((*first, *more))[0])
    return min(choices, key=lambda choice: choice.cost), plain


def _whole(host: HostFunction, args: Sequence[Any]) -> tuple[Any, ...]:
    bound = host.signature.bind(*args)
    bound.apply_defaults()
    return tuple(bound.arguments.values())
