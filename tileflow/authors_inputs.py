"""The arguments that an author's ``inputs=`` makes of a problem, which a sweep names by its keywords."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from inspect import Signature
from typing import Any

import torch

from .errors import SpecError
from .runtime.recorded import RECORDED, arguments

Inputs = Callable[..., tuple[Any, ...]]


def arguments_for(
    problem: Mapping[str, Any], inputs: Inputs | None, kernel: str, signature: Signature, device: str, seed: int
) -> tuple[Any, ...]:
    """What ``inputs`` makes for a problem; names of dtypes become dtypes. Of a recorded call (see
    :mod:`tileflow.runtime.recorded`) arguments like its own. Raises SpecError where there are none."""
    if RECORDED in problem:
        with _seeded(device, seed):
            return arguments(problem[RECORDED], signature, device, "interpreted" in problem)
    if inputs is None:
        raise SpecError(
            "a kernel that is tuned by name says how to make its arguments",
            got=kernel,
            hint="@tileflow.kernel(inputs=...), a function of the problem's sizes and device",
        )
    values = {k: getattr(torch, v) if _names_dtype(k, v) else v for k, v in problem.items()}
    with _seeded(device, seed):
        made = inputs(**values, device=device)
    if not isinstance(made, (tuple, list)):
        raise SpecError(
            "inputs= returns a tuple of the kernel's arguments, in their order",
            got=f"a {type(made).__name__}",
            where=kernel,
            hint="return (x,) for one; those of keywords come in the order of the signature too",
        )
    return tuple(made)


def at_small_sizes(problem: Mapping[str, Any], debug_sizes: Mapping[str, Any] | None) -> dict[str, Any]:
    """The problem at small odd sizes, for the interpreter; a recorded call itself, of which there are none."""
    if RECORDED in problem:
        return {**problem, "interpreted": True}
    if debug_sizes is not None:
        return {**problem, **debug_sizes}
    odd = iter((33, 49, 71, 19, 37, 23, 29, 31))
    return {k: next(odd) if type(v) is int and v > 64 else v for k, v in problem.items()}


@contextlib.contextmanager
def _seeded(device: str, seed: int) -> Iterator[None]:
    """Inside, torch's generators begin at ``seed``."""
    with torch.random.fork_rng(devices=[torch.device(device)] if device.startswith("cuda") else []):
        torch.manual_seed(seed)
        yield


def _names_dtype(keyword: str, value: Any) -> bool:
    """Whether it is a type as torch writes it; or another of its names, ``half`` say, where the keyword says dtype."""
    found = getattr(torch, value, None) if isinstance(value, str) else None
    return isinstance(found, torch.dtype) and (str(found) == f"torch.{value}" or "dtype" in keyword)
