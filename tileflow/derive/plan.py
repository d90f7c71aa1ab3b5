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
from ..language.host_cuda import any_target
from ..runtime.argtree import replace, tensors
from .observe import observe
from .saved import Saved, held_by_results, statistics
from .saving import can_save, saving
from .write import Derived, Writer

BYTES_OF_A_REDUCTION = 0.5  # for each element that is reduced


@dataclass(frozen=True, slots=True)
class Plan:
    """``saved``: empty where everything is computed again. ``results``: how many tensors the forward kernel returns
    without it. ``forward``: the kernel that writes the statistics; None where nothing but results is saved.
    ``backward``: the kernel that reads what is saved. ``cost``: in bytes."""

    saved: tuple[Saved, ...]
    results: int
    forward: Derived | None
    backward: Derived
    cost: float


def plan(name: str, host: HostFunction, args: Sequence[Any], made: Callable[[Derived], HostFunction]) -> Plan:
    """The plan of least cost; of equal ones the one that saves less. ``made``: the function of a text. Raises
    GradientError where a gradient is not derived."""
    call = observe(name, host, args)
    given = _whole(host, args)

    def planned(saved: tuple[Saved, ...]) -> tuple[Plan, tuple[Saved, ...]]:
        writer = Writer(name, host, call, saved)
        backward = writer.write()
        forward = saving(host, call, saved) if any(one.result is None for one in saved) else None
        every = lower_call(made(forward), given, "dynamic", target=any_target()).result if forward else call.results
        rows = tuple(tensors((every,)))[len(call.results) :]
        ends = iter(rows)
        kept = [next(ends) if one.result is None else call.results[one.result] for one in saved]
        grads = [call.results[i] for i in call.asked]
        own = (*given, *(t.detach() for t in (*kept, *grads)))
        regions = lower_call(made(backward), own, "dynamic", target=any_target()).regions
        written = sum(t.numel() * t.element_size() for t in rows)
        cost = moved(regions) + written + BYTES_OF_A_REDUCTION * reduced(regions)
        numbers = {id(launch): n for n, launch in enumerate(call.launches)}
        more = chain.from_iterable(
            statistics(numbers[id(done.launch)], done) for done in writer.reversed if can_save(done.launch)
        )
        return Plan(saved, len(call.results), forward, backward, cost), tuple(more)

    plain, rows = planned(())
    if not call.is_plain or not call.launches:
        return plain
    choices = [plain]
    if rows:
        choices.append(planned(rows)[0])
    if held := held_by_results(call):
        from_results, more = planned(held)
        choices.append(from_results)
        if more:
            choices.append(planned((*held, *more))[0])
    return min(choices, key=lambda choice: choice.cost)


def _whole(host: HostFunction, args: Sequence[Any]) -> tuple[Any, ...]:
    """All arguments, by position, without what autograd recorded of them."""
    bound = host.signature.bind(*args)
    bound.apply_defaults()
    return tuple(
        replace(v, lambda t: t.detach() if isinstance(t, torch.Tensor) else t) for v in bound.arguments.values()
    )
