"""Several calls of one kernel, each unlike the one before: does each get code that was made for its like?

Between two calls strides, dtypes, numbers, values, and which arguments are one tensor change, and the kernel is lowered
on the meta device. What a call gives must be what plain Python gives for the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from tile_testing.runs.interpreted import MOST_STEPS, steps
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.measure.check import make_reference
from tileflow.measure.inputs import copied, tensors
from tileflow.target import target

from .checks import DEVICE, Finding, compared, said
from .draws import Draws, by_seed
from .kernels import Program, program
from .loading import load
from .tensors import LAYOUTS, SAFE_LAYOUTS, Argument, Number

Arguments = tuple[Argument | Number, ...]
CALLS = 4
LIKE = {
    torch.float32: (torch.float16, torch.bfloat16), torch.float16: (torch.float32, torch.bfloat16),
    torch.bfloat16: (torch.float32, torch.float16), torch.int32: (torch.int64,), torch.int64: (torch.int32,),
    torch.int8: (torch.int32,),
}  # fmt: skip
NUMBERS = {float: (0.5, 2.0, -1.5, 1.0), int: (0, 1, 2, 3)}


def other_layout(draws: Draws, one: Argument | Number, is_changed: bool) -> Argument | Number:
    if isinstance(one, Number) or not one.sizes:
        return one
    return replace(one, layout=draws.of(SAFE_LAYOUTS if is_changed else tuple(LAYOUTS)))


def other_dtype(draws: Draws, one: Argument | Number, is_changed: bool) -> Argument | Number:
    if isinstance(one, Number) or one.dtype not in LIKE:
        return one
    return replace(one, dtype=draws.of(LIKE[one.dtype]))


def other_number(draws: Draws, one: Argument | Number, is_changed: bool) -> Argument | Number:
    if isinstance(one, Argument):
        return one
    if isinstance(one.value, tuple):
        return replace(one, value=tuple(draws.of(NUMBERS[type(v)]) for v in one.value))
    return replace(one, value=draws.of(NUMBERS[type(one.value)]))


CHANGES: tuple[Callable[[Draws, Argument | Number, bool], Argument | Number], ...] = (
    other_layout, other_dtype, other_number,
)  # fmt: skip


def failures(seeds: Sequence[int]) -> list[str]:
    """What is wrong with calls of the programs of seeds, each with a script that can be pasted."""
    wrong = []
    for seed in seeds:
        one = program(by_seed(seed))
        found = check_calls(one, by_seed(seed))
        wrong += ["\n".join((f"seed {seed}", *map(str, found), one.script()))] if found else []
    return wrong


def check_calls(program: Program, draws: Draws, device: str = "cpu") -> list[Finding]:
    """What is wrong with some call of several; nothing is said of a kernel whose meaning depends on block sizes, which
    a call does not name."""
    kernel = load(program)
    given, found = program.arguments, list[Finding]()
    for number in range(CALLS):
        args = tuple(a.make(number + n, device) for n, a in enumerate(given))
        args = _shared(draws, given, args)
        found += _call(kernel, args, f"call {number} with {given}", program)
        if draws.chance(30):
            _lower_elsewhere(kernel, args)
        change = draws.of(CHANGES)
        stored = {a.name for a in program.arguments if a.name.startswith("out")}
        given = tuple(change(draws, a, a.name in stored) if draws.chance(50) else a for a in given)
        given = program.arguments if number == CALLS - 2 else given
    return found


def _shared(draws: Draws, given: Arguments, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, of which some that are only read are one tensor."""
    made = list(args)
    for n, one in enumerate(given):
        like = [m for m in range(n) if given[m] == replace(one, name=given[m].name) and one.name[0] == given[m].name[0]]
        if isinstance(one, Argument) and one.name.startswith("x") and like and draws.chance(40):
            made[n] = made[draws.of(like)]
    return tuple(made)


def _lower_elsewhere(kernel: Kernel, args: tuple[Any, ...]) -> None:
    kernel(*(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args))


def _call(kernel: Kernel, args: tuple[Any, ...], way: str, program: Program) -> list[Finding]:
    try:
        lowered = kernel.lower(args, target(DEVICE))
        default = lowered.interpretable(lowered.default)
        if steps(lowered, default) > MOST_STEPS:
            return []
        first, second = (_all_written(kernel, args, config) for config in ({}, default.to_dict()))
        reference = make_reference(kernel.run_eagerly, args, meaning=kernel.run_eagerly, is_text=True)
    except Exception:  # plain Python has no such operation of these dtypes, or the text names another one
        return []
    if not all(_same(a, b) for a, b in zip(first, second, strict=True)):
        return []
    exact = (False,) * len(program.exact)  # of the arguments of the first call only
    try:
        text = compared(kernel, args, reference, exact)
    except Exception as error:
        return [said(way, error)]
    if not text or compared(kernel.run_eagerly, args, reference, exact):
        return []
    return [Finding("wrong", way, text)]


def _all_written(kernel: Kernel, args: tuple[Any, ...], config: Mapping[str, Choice]) -> list[torch.Tensor]:
    copies = copied(args)
    return [*kernel.run_eagerly(*copies, config=config), *tensors(copies)]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a.double(), b.double(), rtol=1e-2, atol=1e-2)
