"""Variants for any size of warp-specialised rows on a Hopper card, at sizes that nothing was compiled for: smaller than
a tile, of several tiles and a bit, with rows that begin at 16 bytes and no more than that; and of many tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from tile_testing.compiler_gallery import kernel
from tile_testing.runs.any_size import ROWS, row

from tileflow.emit.source import TritonSource
from tileflow.errors import VariantError
from tileflow.measure.check import check_call, make_reference
from tileflow.portable import portable_sources
from tileflow.runtime.launch import Launcher
from tileflow.target import Target

# two builds of a row's variants may take most of it
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
# of many tiles and turns for each program, whatever the row's sizes are called
LARGER = {"m": 2051, "n": 2072, "k": 1096, "b": 7, "groups": 7, "heads": 5, "batch": 2, "d": 112}


def larger(name: str) -> dict[str, Any]:
    """The row's problem with other sizes; those of one piece no longer than the row's own."""
    _, example, _ = ROWS[name]
    fitting = {
        "normed": {"n": 248},
        "int4": {"n": 2064, "k": 1104},
        "fp8": {"n": 2064, "k": 1104},
        "narrow": {"d": 56},
        "narrow_causal": {"d": 56},
    }
    return {**example, **{size: LARGER[size] for size in example if size in LARGER}, **fitting.get(name, {})}


@pytest.mark.parametrize("name", ROWS)
def test_each_variant_at_unseen_sizes(card: Target, name: str) -> None:
    """All together, as a call finds them, and each warp-specialised one alone: right, and the same again."""
    reference, _, calls = ROWS[name]
    subject = kernel(reference)
    lowered, config = row(name, card)
    sources = portable_sources(lowered, config)
    launchers = {s.hash: subject.launcher(s, card, torch.device("cuda")) for s in sources}
    specialised = [s for s in sources if s.language == "gluon"]
    assert specialised
    for problem in (*calls, larger(name)):
        torch.manual_seed(0)
        args = subject.inputs(device="cuda", **problem)
        expected = make_reference(subject.reference, args)
        together = check_call(subject.bind(config, _by_region(sources, launchers)), args, expected, repeats=5)
        assert together.ok, f"{problem}: {together.reason}"
        taken = 0
        for own in specialised:
            others = [s for s in sources if s.region != own.region]
            call = subject.bind(config, _by_region([own, *others], launchers))
            try:
                verdict = check_call(call, args, expected, repeats=5)
            except VariantError:  # its guards decline these sizes
                continue
            taken += 1
            assert verdict.ok, f"{problem} by {own.name}: {verdict.reason}"
        assert taken, f"{problem}: no warp-specialised variant takes it"


def _by_region(sources: Sequence[TritonSource], launchers: Mapping[str, Launcher]) -> dict[int, list[Launcher]]:
    found: dict[int, list[Launcher]] = {}
    for source in sources:
        found.setdefault(source.region, []).append(launchers[source.hash])
    return found
