"""Every kernel of ``examples/`` against its reference: through Triton's interpreter, and as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compiler_gallery import SIZES, discovered, kernel
from interpreted import LAYOUTS, Case, arguments

import tileflow
from tileflow.measure.check import check_call, make_reference
from tileflow.target import target

DTYPES = ("float32", "bfloat16", "float16")
# one element; primes; one past a block; a block
ODD = ((1, 1, 1), (7, 131, 19), (33, 65, 129), (16, 64, 32))

Interpreter = Callable[..., Any]


def test_the_whole_gallery_is_here() -> None:
    assert set(SIZES) == discovered()


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SIZES)
def test_interpreted(interpreter: Interpreter, name: str, dtype: str, mode: str) -> None:
    """The default config and random ones."""
    cases = [Case(name, sizes, dtype, mode, seeds=(n, 100 + n) if n else ()) for n, sizes in enumerate(ODD)]
    assert interpreter("interpreted:check_all", cases) == []


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "plain"])
@pytest.mark.parametrize("name", SIZES)
def test_strides(interpreter: Interpreter, name: str, layout: str) -> None:
    """Arguments that are not contiguous, overlap themselves, or start in the middle of 16 bytes."""
    cases = [Case(name, (5, 67, 33), "float16", mode, layout, seeds=(3,)) for mode in ("static", "dynamic")]
    assert interpreter("interpreted:check_all", cases) == []


@pytest.mark.parametrize("name", SIZES)
def test_a_dynamic_variant_serves_other_sizes(interpreter: Interpreter, name: str) -> None:
    """Within the same power of two, which sizes the registers of a row."""
    here, there = Case(name, (37, 90, 70)), Case(name, (21, 117, 101))
    assert interpreter("interpreted:check_elsewhere", here, there) == ""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SIZES)
def test_eager_meaning(name: str, dtype: str) -> None:
    """Blocks that leave tails, blocks of one, blocks past the end."""
    subject = kernel(name)
    for sizes, block in ((ODD[1], 4), ((3, 5, 2), 1), (ODD[0], 16), (ODD[2], 32)):
        args = arguments(Case(name, sizes, dtype))
        reference = make_reference(subject.reference, args)
        lowered = subject.lower(args, target("nvidia-h200"))
        blocks = {
            k.name: min(k.choices, key=lambda c: abs(c - block)) for k in lowered.space.knobs if k.role == "block"
        }
        verdict = check_call(lambda *a, c=blocks: subject.run_eagerly(*a, config=c), args, reference)
        assert verdict.ok, verdict.reason
        with tileflow.interpret(blocks):
            torch.testing.assert_close(subject(*args), subject.run_eagerly(*args, config=blocks), rtol=0, atol=0)
