"""What is wrong with random expressions, in the process that interprets.

More of them: TRITON_INTERPRET=1 PYTHONPATH=tests python -m tile_testing.random_numbers.checks FIRST COUNT
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tile_testing.held_dtypes import asserted
from tile_testing.random_kernels.draws import by_hypothesis, by_seed
from tile_testing.runs.interpreted import load_module
from tileflow.errors import TileflowError
from tileflow.target import target

from .expressions import BLOCK, Program, program

CONFIG = {"block:t": BLOCK}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="random-numbers-")


def _load(one: Program) -> Any:
    name = "numbers_" + hashlib.sha256(one.source.encode()).hexdigest()[:16]
    path = Path(_folder().name) / f"{name}.py"
    path.write_text(one.source)
    return load_module(str(path)).kernel


def _plainly(kernel: Any, one: Program) -> torch.Tensor | None:
    """What the expression means; None where torch takes no such operands."""
    try:
        found = kernel.run_eagerly(*one.args, config=CONFIG)
    except (RuntimeError, TypeError, OverflowError, TileflowError):
        return None
    assert isinstance(found, torch.Tensor)
    return found


def check(one: Program, mode: str) -> str:
    """What is wrong; empty where nothing is, and "refused" where it is refused in words."""
    kernel = _load(one)
    wanted = _plainly(kernel, one)
    if wanted is None:
        return "refused"
    try:
        lowered = kernel.lower(one.args, target("nvidia-h200"), mode=mode)
        config = lowered.interpretable(lowered.space.repair(lowered.default.with_(CONFIG)))
        with asserted(), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            got = kernel.compile(lowered, config, "cpu")(*one.args)
    except TileflowError as error:
        return "refused" if type(error).__name__ == "TraceError" else f"{one}: {error}"
    except Exception as error:  # whatever numpy or Triton makes of a wrong source
        return f"{one}: {type(error).__name__}: {error}"
    same = got == wanted
    at = 0 if same.all() else int((~same).nonzero()[0])
    return "" if same.all() else f"{one} in {mode} mode at {at}: {got[at].item()} not {wanted[at].item()}"


def check_all(programs: Iterable[Program]) -> list[str]:
    """What is wrong with each, in both modes; refusals too."""
    return [said for one in programs for mode in ("static", "dynamic") if (said := check(one, mode))]


def failures(seeds: Iterable[int]) -> list[str]:
    """What is wrong with the programs of these seeds, the modes in turn."""
    found = (check(program(by_seed(seed)), ("static", "dynamic")[seed % 2]) for seed in seeds)
    return [said for said in found if said not in ("", "refused")]


def smallest_failure(examples: int) -> tuple[str, int]:
    """The smallest that is wrong of so many programs, always the same ones, in words, and how many were refused."""
    last, refused = [""], [0]

    @settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data(), st.sampled_from(("static", "dynamic")))
    def holds(data: st.DataObject, mode: str) -> None:
        said = check(program(by_hypothesis(data.draw)), mode)
        refused[0] += said == "refused"
        if said not in ("", "refused"):
            last[0] = said
            raise AssertionError(said.partition("in ")[0])

    try:
        holds()
    except AssertionError:
        return last[0], refused[0]
    return "", refused[0]


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    for number in range(first, first + count):
        for said in failures([number]):
            print(f"seed {number}: {said}", flush=True)
