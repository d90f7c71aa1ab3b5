"""Random numbers that are Triton's for the same seed and offset, and those that follow torch's generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import counted_kernels as kernels

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.errors import CallError, TraceError
from tileflow.language.random import philox
from tileflow.target import target

Interpreter = Callable[..., Any]
X = torch.zeros(13, 37)
OFFSETS = torch.tensor([-(2**63), -9, -1, 0, 1, 4, 7, 2**31, 2**32 + 3, 2**63 - 1])
SEEDS = (0, -3, 2**40 + 9)
POSITIONS = torch.arange(13 * 37).view(13, 37)
BLOCKS = ({"block:tile_m": 4, "block:tile_n": 16}, {"block:tile_m": 16, "block:tile_n": 8})


def words(seed: int, offsets: torch.Tensor) -> list[torch.Tensor]:
    """The four words of each offset, by Python's ints."""
    found = [philox((o & 0xFFFFFFFF, o >> 32 & 0xFFFFFFFF, 0, 0), seed) for o in offsets.flatten().tolist()]
    return [torch.tensor([w[n] for w in found]).to(torch.int32).view(offsets.shape) for n in range(4)]


def uniform(word: torch.Tensor) -> torch.Tensor:
    return torch.where(word < 0, -word - 1, word).float() * 4.6566127342e-10


def ints(word: torch.Tensor, low: int, high: int) -> torch.Tensor:
    return (low + word.long().abs() % (high - low)).int()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_numbers_are_those_of_triton(interpreter: Interpreter, seed: int) -> None:
    """Finding of the peer's suite: the same numbers as ``tl.rand`` for the same seed and offset, bit for bit."""
    for offsets in (OFFSETS, torch.tensor([0, 5, -1, 2**31 - 1], dtype=torch.int32)):
        out, bits = interpreter("kernels.counted_kernels:of_triton", seed, offsets)
        ours = interpreter("kernels.counted_kernels:run", "at_offsets", (offsets, seed), {"block:tile": 4})
        assert torch.equal(ours[:4], out[1:]) and torch.equal(ours[0], out[0])
        assert torch.equal(ours, kernels.at_offsets.run_eagerly(offsets, seed))
        if offsets.dtype == torch.int64:
            assert torch.equal(out[1:], torch.stack([uniform(w) for w in words(seed, offsets)]))
            assert torch.equal(bits, words(seed, offsets)[0])


@pytest.mark.parametrize("config", BLOCKS)
@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_positions_are_counted_over_the_whole_whatever_the_blocks(
    interpreter: Interpreter, config: dict[str, int], mode: str
) -> None:
    (word, *_) = words(42, POSITIONS)
    wanted = uniform(word), ints(word, -5, 17)
    for got in (
        interpreter("kernels.counted_kernels:run", "at_positions", (X, 42), config, mode),
        kernels.at_positions.run_eagerly(X, 42, config=config),
    ):
        assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1])


def test_positions_of_bare_dimensions_shifted_tiles_and_given_sizes(interpreter: Interpreter) -> None:
    seed = torch.tensor([2**40 + 9])
    shifted = torch.arange(3, 16)[:, None] * 1000 + torch.arange(37)
    wanted = torch.stack([uniform(words(2**40 + 9, at)[0]) for at in (POSITIONS, shifted)])
    got = interpreter("kernels.counted_kernels:run", "at_positions_of_rows", (X, seed), {"block:tile": 4})
    assert torch.equal(got, wanted)
    assert torch.equal(kernels.at_positions_of_rows.run_eagerly(X, seed), wanted)


def test_the_dialects_functions_give_its_numbers(interpreter: Interpreter) -> None:
    """Over several source lines, by keywords, with ``offsets=``, and ``rand4x``: all were refused or other numbers."""
    args = X, OFFSETS, 1337
    word, four = words(1337, POSITIONS)[0], torch.stack([uniform(w) for w in words(1337, OFFSETS)])
    wanted = uniform(word), ints(word, -5, 17), uniform(words(1337, torch.arange(13))[0]), four[0], four
    with tileflow.interpret():
        eager = kernels.of_the_dialect(*args)
    for got in (interpreter("kernels.counted_kernels:called", "of_the_dialect", args), eager):
        assert [torch.equal(a, b) for a, b in zip(got, wanted, strict=True)] == [True] * 5


def test_torchs_functions_follow_its_generator(interpreter: Interpreter) -> None:
    """The same after the same ``manual_seed`` whatever the blocks, others after another and in the next call."""
    args = X, kernels.half_numbers
    plain, again, other, later = interpreter("kernels.counted_kernels:seeded", {}, args, (5, 5, 6))
    config = {"block:tile_m": 8, "block:tile_n": 16, "block:tile@1": 2}
    (cut, _) = interpreter("kernels.counted_kernels:seeded", config, args, (5,))
    torch.manual_seed(5)
    eager = kernels.by_torch.run_eagerly(*args)
    for a, b, c, e in zip(plain, again, cut, eager, strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, c, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-5)
    for one, others in zip(plain, zip(other, later, strict=True), strict=True):
        assert not any(torch.equal(one, another) for another in others)
    first, second, normal, half, _ = plain
    assert not torch.equal(first, second) and half.dtype == torch.float16
    assert torch.equal(first, eager[0]) and float(first.min()) >= 0 and float(first.max()) < 1
    assert abs(float(normal.mean())) < 0.15 and abs(float(normal.std()) - 1) < 0.1


def test_torchs_functions_are_uniform_and_normal() -> None:
    """The quantiles of 64,000 numbers: 0.003 is beyond three standard deviations of each."""
    torch.manual_seed(3)
    drawn = kernels.by_torch.run_eagerly(torch.zeros(160, 400), kernels.half_numbers, config={"block:tile": 160})
    at = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])
    for values, quantiles in ((drawn[0], at), (torch.special.ndtr(drawn[2]), at)):
        shares = (values.flatten()[:, None] < quantiles).float().mean(0)
        assert (shares - quantiles).abs().max() < 0.007


@pytest.mark.parametrize("name", ["nvidia-h200"])
def test_sources_compile(name: str) -> None:
    calls = [("at_positions", (X, 5)), ("at_offsets", (OFFSETS, 5)), ("by_torch", (X, kernels.half_numbers))]
    for kernel, args in calls:
        lowered = getattr(kernels, kernel).lower(args, target(name))
        for source in lowered.emit(lowered.default):
            assert build(source, target(name)).code


def test_mistakes_are_named() -> None:
    like = torch.rand_like

    @tileflow.kernel
    def by_another_name(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = like(x[tile])

    @tileflow.kernel
    def of_ints(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = torch.rand_like(x[tile].int())

    @tileflow.kernel
    def real_offsets(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = tfl.rand_at(1, x[tile])

    for kernel, error, says in (
        (by_another_name, CallError, "called by its name.*rand_like"),
        (of_ints, TraceError, "random floats, but got int32"),
        (real_offsets, TraceError, "offsets of random numbers are ints"),
    ):
        with pytest.raises(error, match="(?s)" + says):
            kernel.lower((X[0],), target("nvidia-h200"))
    with pytest.raises(CallError, match="called by its name"):
        by_another_name.run_eagerly(X[0].clone())
