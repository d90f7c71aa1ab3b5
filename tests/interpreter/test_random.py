"""Random tiles: the generator's published vectors, the same numbers whatever the blocks and in every execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels import random_kernels as kernels
from tile_testing.runs.compiled import TARGETS
from tile_testing.runs.interpreted import Call

from tileflow.build.compile import build
from tileflow.errors import CallError, ShapeError, TraceError
from tileflow.language.random import philox
from tileflow.target import target

Interpreter = Callable[..., Any]
PATH = path_of("random_kernels")
X, EVEN = kernels.X, kernels.EVEN
SEEDS = (0, 1, 7, -3, 2**40 + 9)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, 0xFFFFFFFF_FFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), 0x299F31D0_A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)  # fmt: skip
def test_the_published_vectors(counter: Any, key: int, words: tuple[int, ...]) -> None:
    """Those of the authors' library, from zeros, from ones, and from the digits of pi."""
    assert philox(counter, key) == words
    tensors = tuple(torch.tensor([c]) for c in counter)
    assert tuple(int(w) for w in philox(tensors, key)) == words  # type: ignore[arg-type]


DYNAMIC = ("uniform-2", "uniform-3")  # of sizes that are multiples of 16, and of others
CALLS = {
    name: Call(PATH, case.kernel.__name__, case.args, case.config, "dynamic" if name in DYNAMIC else "static")
    for name, case in kernels.CASES.items()
}


@pytest.fixture(scope="module")
def results(interpreter: Interpreter) -> dict[str, Any]:
    return dict(zip(CALLS, interpreter("runs.interpreted:run_all", list(CALLS.values())), strict=True))


@pytest.mark.parametrize("name", CALLS)
def test_eager_and_interpreted_agree(results: dict[str, Any], name: str) -> None:
    """To the bit, where nothing is summed."""
    call, got = CALLS[name], results[name]
    assert isinstance(got, torch.Tensor), got
    for config in ({}, {k: v for k, v in call.config if k.startswith("block")}):
        wanted = getattr(kernels, call.name).run_eagerly(*call.args, config=config)
        if call.name in ("whole_rows", "shifted"):
            torch.testing.assert_close(got, wanted)
        else:
            assert torch.equal(got, wanted)


def test_positions_are_counted_row_by_row() -> None:
    assert torch.equal(kernels.uniform.run_eagerly(X, 9)[0].view(-1), kernels.flat.run_eagerly(X, 9))


def test_calls_and_seeds_give_other_numbers() -> None:
    """Neighbouring seeds and calls share no more numbers than chance allows: 481 draws out of 2**24."""
    drawn = [kernels.uniform.run_eagerly(X, seed)[call].view(-1) for seed in SEEDS for call in (0, 1)]
    assert torch.cat(drawn).unique().numel() > 0.999 * 481 * len(drawn)
    correlation = torch.corrcoef(torch.stack(drawn))
    assert (correlation - torch.eye(len(drawn))).abs().max() < 0.2


def test_the_numbers_are_uniform() -> None:
    """A chi-squared test of 64 bins (63 degrees of freedom: 120 is beyond one in 10,000), and of the mean."""
    values = kernels.flat.run_eagerly(torch.empty(64_000), 123, config={"block:tile": 8192})
    assert values.min() >= 0 and values.max() < 1
    counts = torch.histc(values, 64, 0, 1)
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 120
    assert abs(float(values.mean()) - 0.5) < 0.005


def test_ints_fill_their_range() -> None:
    drawn = kernels.ints.run_eagerly(torch.empty(4000), 10, 13, 5)
    assert drawn.dtype == torch.int32
    assert set(drawn[0].tolist()) == {10, 11, 12} and set(drawn[1].tolist()) == set(range(-5, 7))


def test_dropout_drops_the_same_both_ways(interpreter: Interpreter) -> None:
    """Forward and backward under different configs and loop orders; and no other seed gives that mask."""
    ones = torch.ones(29, 50)
    forward = interpreter("runs.interpreted:run_all", [
        Call(PATH, "dropout_forward", (ones, 0.4, seed), (("block:tile_m", 8), ("block:tile_n", 16))) for seed in (3, 4)
    ])  # fmt: skip
    config = (("block:tile_m", 32), ("block:tile_n", 4))
    (backward,) = interpreter("runs.interpreted:run_all", [Call(PATH, "dropout_backward", (ones, 0.4, 3), config)])
    assert torch.equal(forward[0], backward) and not torch.equal(forward[1], backward)
    assert 0.5 < (backward > 0).float().mean() < 0.7
    assert torch.equal(kernels.dropout_forward.run_eagerly(ones, 0.4, 3), backward)


@pytest.mark.parametrize("name", TARGETS)
def test_sources_compile(name: str) -> None:
    calls = [("uniform", (EVEN, 5)), ("uniform", (X, 5)), ("ints", (X[0], -3, 9, 4))]
    for kernel, args in calls:
        lowered = getattr(kernels, kernel).lower(args, target(name))
        for source in lowered.emit(lowered.default):
            assert build(source, target(name)).code


def test_mistakes_are_named() -> None:
    import tileflow
    import tileflow.language as tfl

    draw = tfl.rand

    @tileflow.kernel
    def by_another_name(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = draw([tile], 1)

    @tileflow.kernel
    def unknown_whole(x: torch.Tensor, ends: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            for tile_n in tfl.tile(ends[0]):
                x[tile, tile_n] = tfl.rand([tile, tile_n], 1)

    @tileflow.kernel
    def short_whole(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = tfl.rand([tile, x.size(1)], 1, whole=[4])

    @tileflow.kernel
    def real_seed(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = tfl.rand([tile, x.size(1)], 1.5)

    with pytest.raises(CallError, match="called by its name"):
        by_another_name.run_eagerly(X[0].clone())
    with pytest.raises(CallError, match="called by its name"):
        by_another_name.lower((X[0],), target("nvidia-h200"))
    with pytest.raises(TraceError, match=r"whole=\[m, n\]"):
        unknown_whole.lower((X, torch.tensor([3])), target("nvidia-h200"))
    with pytest.raises(ShapeError, match="a size for each dimension"):
        short_whole.lower((X,), target("nvidia-h200"))
    with pytest.raises(TraceError, match="integer scalars"):
        real_seed.lower((X,), target("nvidia-h200"))
