"""A program in each of its ways: as plain Python over tiles, which is the meaning; compiled and interpreted under the
default config and random ones; assembled."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tile_testing.runs.cells import live_target
from tile_testing.runs.interpreted import MOST_STEPS, cheap_sample, steps
from tileflow.api import Kernel
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.errors import (
    InternalError,
    KernelError,
    Location,
    OutOfResources,
    TileflowError,
    VariantError,
)
from tileflow.lowered import Lowered
from tileflow.measure.check import Reference, check_call, make_reference
from tileflow.target import target

from .kernels import Program
from .loading import load

DEVICE = "nvidia-h200"
MOST_STEPS_OF_DEFAULT = 20 * MOST_STEPS
TRIES = 20  # to draw a config of few steps


@dataclass(frozen=True, slots=True)
class Finding:
    """``kind``: ``wrong``, ``unsteady`` (plain Python in the given dtypes is not what it is in higher
    precision, either), ``crash`` (an error that is not tileflow's own), ``internal``, ``refused`` (tileflow's own
    words for what it does not take: a finding where the reference says that it is possible)."""

    kind: str
    way: str
    text: str

    @property
    def alike(self) -> str:
        """The same for findings that are so."""
        error, _, words = self.text.partition(": ")
        return f"{self.kind} {error} {words[:40]}" if error.isidentifier() else self.kind

    def __str__(self) -> str:
        return f"{self.kind} ({self.way}): {self.text}"


def check(program: Program, seeds: Sequence[int] = (1, 2), mode: str = "static", device: str = "cpu") -> list[Finding]:
    """What is wrong with a program, interpreted on a CPU or run on a GPU."""
    found = list[Finding]()
    try:
        kernel, args = load(program), program.make(device=device)
    except Exception as error:
        return [said("decorated", error)]
    try:
        with torch.no_grad():
            kernel.run_eagerly(*args)
    except Exception as error:
        found.append(said("plain", error))
    try:
        lowered = kernel.lower(args, live_target(device), mode=mode)
        configs = (_interpretable if device == "cpu" else _any)(lowered, seeds)
    except Exception as error:
        return [*found, said("lowered", error)]
    if found:  # refused as plain Python alone
        return found
    for config in filter(None, (_one_block_a_place(lowered, c) for c in configs)):
        found += _under(config, kernel, lowered, args, program.exact)
    return found


def _one_block_a_place(lowered: Lowered, config: Config) -> Config | None:
    """The config with one block size for all copies of a loop that is written out, or stands in a function: plain
    Python has one for each place in the text. None where the space has no such config."""
    space = lowered.space
    base = {k.name: re.sub(r"#\d+", "", k.name) for k in space.knobs if k.role == "block" and "#" in k.name}
    if not base:
        return config
    wanted = {name: config[of] for name, of in base.items() if of in config.to_dict()}
    if not all(space.knob(name).allows(choice) for name, choice in wanted.items()):
        return None
    found = space.repair(config.with_(wanted))
    return found if all(found[name] == choice for name, choice in wanted.items()) else None


def _under(
    config: Config, kernel: Kernel, lowered: Lowered, args: tuple[Any, ...], exact: Sequence[bool]
) -> list[Finding]:
    way = f"{lowered.mode}, {dict(config.items)}"
    meaning = partial(kernel.run_eagerly, config=config.to_dict())
    try:
        reference = make_reference(meaning, args, meaning=meaning, is_text=True)
    except Exception as error:
        return [said(f"plain, {way}", error)]
    try:
        text = compared(kernel.compile(lowered, config, _device(args)), args, reference, exact)
    except OutOfResources:
        return []  # a config that this device has no room for
    except VariantError as error:  # a config may have code for other sizes alone: for loops that have a turn, say
        return [said(way, error)] if config == lowered.default else []
    except Exception as error:
        return [said(way, error)]
    if not text:
        return []
    as_given = compared(meaning, args, reference, exact)
    return [Finding("unsteady" if as_given else "wrong", way, f"{text}; as plain Python: {as_given or 'right'}")]


def _device(args: tuple[Any, ...]) -> torch.device:
    (device,) = {a.device for a in args if isinstance(a, torch.Tensor)}
    return device


def _any(lowered: Lowered, seeds: Sequence[int]) -> list[Config]:
    """The default and random ones, but those that plain Python over tiles would take minutes for."""
    found = [lowered.default]
    for seed in seeds:
        rng = random.Random(seed)
        drawn = [lowered.space.sample(rng) for _ in range(TRIES)]
        found += [c for c in drawn if steps(lowered, c) <= MOST_STEPS_OF_DEFAULT][:1]
    return [c for c in found if steps(lowered, c) <= MOST_STEPS_OF_DEFAULT]


def _interpretable(lowered: Lowered, seeds: Sequence[int]) -> list[Config]:
    default = lowered.interpretable(lowered.default)
    found = [default] if steps(lowered, default) <= MOST_STEPS_OF_DEFAULT else []
    return [*found, *(cheap_sample(lowered, seed) for seed in seeds)]


def compared(
    call: Callable[..., Any], args: tuple[Any, ...], reference: Reference, exact: Sequence[bool], scale: float = 1.0
) -> str:
    """What differs beyond tileflow's own tolerances, or at all of what is exact; empty where nothing does."""
    results: list[Any] = []

    def kept(*copies: Any) -> Any:
        results.append(call(*copies))
        return results[-1]

    verdict = check_call(kept, args, reference, scale=scale)
    if not verdict.ok:
        return verdict.reason
    for n, (got, wanted, is_exact) in enumerate(zip(results[-1], reference.result, exact, strict=True)):
        if is_exact and got.numel() and not torch.equal(got.double(), wanted.double()):
            at = tuple(map(int, (got.double() != wanted.double()).nonzero()[0]))
            return f"result[{n}] is exact, but {got[at].item()} not {wanted[at].item()} at {at}"
    return ""


def said(way: str, error: Exception) -> Finding:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, InternalError) or not isinstance(error, TileflowError):
        return Finding("internal" if isinstance(error, InternalError) else "crash", way, text)
    if isinstance(error, KernelError) and not (isinstance(error.where, Location) and error.hint):
        return Finding("internal", way, f"a refusal without {'a place' if error.hint else 'a next step'}: {text}")
    return Finding("refused", way, text)


def check_builds(program: Program) -> list[Finding]:
    """What is wrong with the default's assembly for sm_90a, without a GPU."""
    try:
        lowered = load(program).lower(program.make(), target(DEVICE))
        for source in lowered.emit(lowered.default):
            build(source, lowered.target)
    except Exception as error:
        return [said("assembled", error)]
    return []
