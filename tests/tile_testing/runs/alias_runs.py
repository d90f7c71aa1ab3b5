"""Random programs about names of one tile, in the process that interprets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.alias_programs import arguments, load, meaning, program
from tile_testing.runs.interpreted import cheap_sample
from tileflow.errors import InternalError, KernelError, Location, TileflowError
from tileflow.target import target


def check(seeds: Sequence[int]) -> tuple[int, list[str]]:
    """How many of the programs are compiled, and what is wrong with any."""
    ran, wrong = 0, []
    for seed in seeds:
        text = program(seed)
        wanted = meaning(text)
        if wanted is None:
            continue
        for way, found in _ways(text):
            ran += isinstance(found, torch.Tensor) and way == "compiled"
            said = _wrong(found, wanted)
            wrong += [f"program {seed}, {way}: {said}\n{text}"] if said else []
    return ran, wrong


def _ways(text: str) -> Iterator[tuple[str, torch.Tensor | Exception]]:
    args = arguments()
    try:
        kernel = tileflow.kernel(load(text, tfl))
        kernel.run_eagerly(*args, config={"block:t": 4})
        yield "plain", args[2]
    except Exception as error:
        yield "plain", error
    try:
        kernel = tileflow.kernel(load(text, tfl))
        lowered = kernel.lower(arguments(), target("nvidia-h200"))
        for config in (lowered.interpretable(lowered.default), cheap_sample(lowered, 1)):
            args = arguments()
            kernel.compile(lowered, config, torch.device("cpu"))(*args)
            yield "compiled", args[2]
    except Exception as error:
        yield "compiled", error


def _wrong(found: torch.Tensor | Exception, wanted: torch.Tensor) -> str:
    if isinstance(found, torch.Tensor):
        return "" if torch.allclose(found, wanted, rtol=1e-4, atol=1e-4) else "other numbers than torch's"
    if isinstance(found, InternalError) or not isinstance(found, TileflowError):
        return f"{type(found).__name__}: {found}"
    has_place = not isinstance(found, KernelError) or (isinstance(found.where, Location) and bool(found.hint))
    is_masked = "has no attribute" in str(found)
    return "" if has_place and not is_masked else f"a refusal that says too little: {found}"
