"""Portable variants give what torch does, each one on every call that it takes, at sizes unlike the example's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.compiler_gallery import GALLERY
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import Case, close

Interpreter = Callable[..., Any]
KERNELS = path_of("portable_kernels")
# the sizes of the example, and those of the calls: a reduction longer than the example's, odd ones, 1 and 0
CALLS: dict[str, tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "examples.softmax:softmax": ((48, 80), ((7, 131), (1, 1), (0, 67), (2, 5000), (64, 128))),
    "examples.softmax:softmax_bwd": ((48, 80), ((7, 131), (1, 1), (0, 67))),
    "examples.layer_norm:layer_norm": ((48, 80), ((7, 131), (3, 1), (0, 67), (3, 5000))),
    "examples.rms_norm:rms_norm_bwd": ((48, 80), ((7, 131), (1, 3), (3, 700))),
    "examples.matmul:matmul": ((48, 80, 64), ((7, 131, 19), (1, 1, 1), (0, 5, 7), (5, 7, 0), (16, 64, 32))),
    "examples.matmul:matmul_epilogue": ((48, 80, 64), ((7, 131, 19), (1, 1, 1))),
    "examples.attention:attention": ((70, 16, 2, 2), ((131, 16, 2, 1), (1, 16, 1, 1), (0, 16, 2, 1), (40, 32, 1, 2))),
    "examples.cross_entropy:cross_entropy": ((48, 80), ((7, 131), (1, 1), (0, 67))),
    "examples.rope:rope": ((48, 16, 2, 1, 2), ((7, 6, 1, 1, 1), (1, 2, 1, 2, 1), (0, 16, 2, 1, 2))),
    "examples.jagged:jagged_mean": ((48, 80, 4), ((7, 131, 3), (1, 1, 1), (0, 5, 2))),
    "examples.split_k:split_k_matmul": ((48, 80, 64), ((7, 31, 190), (1, 1, 1))),
    "examples.vector_add:vector_add": ((4096,), ((1,), (0,), (5001,))),
}
LAID_OUT = (
    "examples.softmax:softmax", "examples.layer_norm:layer_norm", "examples.matmul:matmul",
    "examples.cross_entropy:cross_entropy", "examples.attention:attention",
)  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_sizes_unlike_the_example(interpreter: Interpreter, name: str) -> None:
    example, calls = CALLS[name]
    dtype = GALLERY[name].dtypes[0]
    cases = [Case(name, sizes, dtype) for sizes in calls]
    wrong, taken = interpreter("runs.portable_runs:check", Case(name, example, dtype), cases)
    assert wrong == [] and all(taken)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sizes_of_shorter_vectors(interpreter: Interpreter, dtype: str) -> None:
    """Inner sizes that are multiples of 8, 4 or 2: the first variants take calls whose sizes are such multiples too,
    those after them all others."""
    name = "examples.matmul:matmul"
    cases = [Case(name, sizes, dtype) for sizes in ((7, 76, 20), (9, 40, 72), (5, 74, 36), (3, 75, 37))]
    wrong, taken = interpreter("runs.portable_runs:check", Case(name, (44, 72, 36), dtype), cases)
    assert wrong == [] and all(taken)


@pytest.mark.parametrize("name", LAID_OUT)
def test_layouts_unlike_the_example(interpreter: Interpreter, name: str) -> None:
    """Transposed, every third element, a start in the middle of 16 bytes, a stride of 0: the last variants' own."""
    example, _ = CALLS[name]
    dtype = GALLERY[name].dtypes[-1]
    cases = [Case(name, GALLERY[name].rows("layout")[0], dtype, layout=layout) for layout in GALLERY[name].layouts]
    wrong, taken = interpreter("runs.portable_runs:check", Case(name, example, dtype), cases)
    assert wrong == [] and all(taken)


@pytest.mark.parametrize(
    "name", ["examples.softmax:softmax", "examples.matmul:matmul", "examples.vector_add:vector_add"]
)
def test_an_example_of_ones(interpreter: Interpreter, name: str) -> None:
    """Its sizes of 1 are constants of the fast variants only."""
    it = GALLERY[name]
    cases = [Case(name, sizes, it.dtypes[0]) for sizes in it.rows("odd")]
    wrong, taken = interpreter("runs.portable_runs:check", Case(name, it.rows("odd")[0], it.dtypes[0]), cases)
    assert wrong == [] and len(taken[0]) > 1 and all(len(t) == 1 for t in taken[1:])


def test_a_local_tensor_without_elements(interpreter: Interpreter) -> None:
    """Finding 7b: a lane of it was read by a null pointer."""
    calls = [(torch.randn(n),) for n in (64, 7, 0)]
    results = interpreter("runs.portable_runs:run", KERNELS, "local_of_nothing", calls[0], calls)
    assert [close(r, torch.full((n,), -1.0)) for r, n in zip(results, (64, 7, 0), strict=True)] == ["", "", ""]
    for mode in ("static", "dynamic"):
        assert close(interpreter("runs.interpreted:run_all", [_call("local_of_nothing", calls[0], mode)])[0],
                     torch.full((64,), -1.0)) == ""  # fmt: skip


def _call(name: str, args: tuple[Any, ...], mode: str) -> Any:
    from tile_testing.runs.interpreted import Call

    return Call(KERNELS, name, args, (("block:tile", 64),), mode)


def test_a_loop_may_begin_elsewhere(interpreter: Interpreter) -> None:
    x = torch.randn(100)
    calls = [(x, 0, 64), (x, 3, 77), (x, 50, 50), (x, 99, 100)]
    results = interpreter("runs.portable_runs:run", KERNELS, "between", calls[0], calls)
    for (_, begin, end), result in zip(calls, results, strict=True):
        index = torch.arange(100)
        wanted = torch.where((index >= begin) & (index < end), x * (index - begin), 0.0)
        assert close(result, wanted) == ""


def test_what_host_code_decides_by_a_size(interpreter: Interpreter) -> None:
    """At 1d0fe62 the variant of an even size served the odd ones."""
    calls = [(torch.randn(n),) for n in (64, 4, 63)]
    first, second, third = interpreter("runs.portable_runs:run", KERNELS, "by_parity", calls[0], calls)
    assert close(first, calls[0][0] * 2) == "" and close(second, calls[1][0] * 2) == "" and third is None


def test_a_shared_row_is_told_from_rows(interpreter: Interpreter) -> None:
    """Whatever the example, a call that broadcasts otherwise is right or declined."""
    shapes = [((4, 48), (4, 48)), ((4, 48), (1, 48)), ((1, 48), (1, 48)), ((3, 7), (3, 7)), ((3, 7), (1, 7))]
    calls = [tuple(torch.randn(s) for s in pair) for pair in shapes]
    for example, least in ((0, {0, 2, 3}), (1, {1, 2, 4}), (2, {0, 2, 3})):
        results = interpreter("runs.portable_runs:run", KERNELS, "scaled_rows", calls[example], calls)
        taken = {n for n, result in enumerate(results) if result is not None}
        assert least <= taken | ({2} if example == 1 else set()), (example, taken)
        for n in taken:
            assert close(results[n], calls[n][0] * calls[n][1]) == ""


def test_scratch_that_may_be_empty(interpreter: Interpreter) -> None:
    calls = [(torch.randn(n), steps) for n, steps in ((64, 3), (7, 0), (0, 3), (9, 1), (33, 5))]
    results = interpreter("runs.portable_runs:run", KERNELS, "read_back", calls[0], calls)
    for (x, steps), result in zip(calls, results, strict=True):
        added = torch.arange(x.size(0) * steps).view(x.size(0), steps).sum(1)
        assert close(result, x + added) == ""
