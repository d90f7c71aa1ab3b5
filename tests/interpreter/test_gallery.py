"""Every kernel of ``examples/`` against its reference: through Triton's interpreter, and as plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import pytest
import torch
from tile_testing.compiler_gallery import GALLERY, discovered, kernel
from tile_testing.runs.interpreted import LAYOUTS, Case, arguments

import tileflow
from tileflow.measure.check import check_call, make_reference
from tileflow.target import target

Interpreter = Callable[..., Any]


def taking_turns(name: str, of_each: Sequence[str]) -> list[Any]:
    """A kernel with each, of which a run without the slow tests has one: the first, the second and so on in turn."""
    row = list(GALLERY).index(name)
    return [
        pytest.param(name, one, marks=() if n == row % len(of_each) else pytest.mark.slow)
        for n, one in enumerate(of_each)
    ]


EACH_DTYPE = [case for name, it in GALLERY.items() for case in taking_turns(name, it.dtypes)]
EACH_LAYOUT = [
    case if row % 2 == 0 else pytest.param(*case.values, marks=pytest.mark.slow)
    for row, (name, it) in enumerate(GALLERY.items())
    for case in taking_turns(name, it.layouts)
]


def test_the_whole_gallery_is_here() -> None:
    assert set(GALLERY) == discovered()
    assert all(set(it.layouts) <= set(LAYOUTS) for it in GALLERY.values())


# A run that is not of the slow tests has each kernel once, the modes in turn.
EACH_MODE = [
    pytest.param(name, dtype, mode, marks=() if (column, way) == (0, row % 2) else pytest.mark.slow)
    for row, (name, it) in enumerate(GALLERY.items())
    for column, dtype in enumerate(it.dtypes)
    for way, mode in enumerate(("static", "dynamic"))
]


@pytest.mark.parametrize(("name", "dtype", "mode"), EACH_MODE)
def test_interpreted(interpreter: Interpreter, name: str, dtype: str, mode: str) -> None:
    """The default config and random ones; without a program where there is nothing to do."""
    it = GALLERY[name]
    way = 2 * it.dtypes.index(dtype) + (mode == "dynamic")  # each with other configs and options
    cases = [
        Case(name, sizes, dtype, mode, seeds=(10 * way + n,) if n else (), option=n + way)
        for n, sizes in enumerate(it.rows("odd"))
    ]
    cases += [Case(name, sizes, dtype, mode, option=way) for sizes in it.rows("empty")]
    assert interpreter("runs.interpreted:check_all", cases) == []


@pytest.mark.parametrize(("name", "layout"), EACH_LAYOUT)
def test_strides(interpreter: Interpreter, name: str, layout: str) -> None:
    """Arguments that are not contiguous, overlap themselves, or start in the middle of 16 bytes."""
    it = GALLERY[name]
    way = it.layouts.index(layout)
    cases = [
        Case(name, sizes, it.dtypes[-1], mode, layout, seeds=(100 + way,), option=way)
        for mode in ("static", "dynamic")
        for sizes in it.rows("layout")
    ]
    assert interpreter("runs.interpreted:check_all", cases) == []


@pytest.mark.parametrize("name", [name for name, it in GALLERY.items() if it.rows("elsewhere")])
def test_a_dynamic_variant_serves_other_sizes(interpreter: Interpreter, name: str) -> None:
    here, there = (Case(name, sizes, GALLERY[name].dtypes[0]) for sizes in GALLERY[name].rows("elsewhere"))
    assert interpreter("runs.interpreted:check_elsewhere", here, there) == ""


@pytest.mark.parametrize(("name", "dtype"), EACH_DTYPE)
def test_eager_meaning(name: str, dtype: str) -> None:
    """Blocks that leave tails, blocks of one, blocks past the end."""
    subject = kernel(name)
    tried = [*zip(GALLERY[name].rows("odd"), cycle((16, 4, 32, 8)), strict=False)]
    tried += [(sizes, 1) for sizes in GALLERY[name].rows("tiny")]
    for n, (sizes, block) in enumerate(tried):
        args = arguments(Case(name, sizes, dtype, option=n))
        reference = make_reference(subject.reference, args)
        lowered = subject.lower(args, target("nvidia-h200"))
        blocks = {
            k.name: min(k.choices, key=lambda c: abs(c - block)) for k in lowered.space.knobs if k.role == "block"
        }
        verdict = check_call(lambda *a, c=blocks: subject.run_eagerly(*a, config=c), args, reference)
        assert verdict.ok, verdict.reason
        with tileflow.interpret(blocks):
            torch.testing.assert_close(subject(*args), subject.run_eagerly(*args, config=blocks), rtol=0, atol=0)
