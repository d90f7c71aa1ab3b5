"""Kernels whose random numbers are Triton's or follow torch's generator, and what runs them under the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import triton
import triton.language as tl

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def at_positions(x: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = x.shape
    numbers = torch.empty(m, n)
    ints = torch.empty(m, n, dtype=torch.int32)
    for tile_m, tile_n in tfl.tile([m, n]):
        at = tfl.positions([tile_m, tile_n])
        numbers[tile_m, tile_n] = tfl.rand_at(seed, at)
        ints[tile_m, tile_n] = tfl.randint_at(seed, at, -5, 17)
    return numbers, ints


@tileflow.kernel
def at_positions_of_rows(x: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
    """A bare dimension, a seed that is loaded, a shifted tile, a size of the whole that is given."""
    m, n = x.shape
    out = torch.empty(2, m, n)
    for tile in tfl.tile(m):
        out[0, tile, :] = tfl.rand_at(seed[0], tfl.positions([tile, n]))
        out[1, tile, :] = tfl.rand_at(seed[0], tfl.positions([tile + 3, n], whole=[m, 1000]))
    return out


@tileflow.kernel
def at_offsets(offsets: torch.Tensor, seed: int) -> torch.Tensor:
    out = torch.empty(5, offsets.size(0))
    for tile in tfl.tile(offsets.size(0)):
        for n, four in enumerate(tfl.rand4x(seed, offsets[tile])):
            out[n, tile] = four
        out[4, tile] = tfl.rand_at(seed, 7)
    return out


@helion.kernel(static_shapes=True)
def of_the_dialect(x: torch.Tensor, offsets: torch.Tensor, seed: int) -> tuple[torch.Tensor, ...]:
    m, n = x.shape
    numbers, narrow = torch.empty_like(x), torch.empty([m], dtype=x.dtype)
    ints = torch.empty([m, n], dtype=torch.int32)
    given, four = torch.empty([offsets.size(0)]), torch.empty([4, offsets.size(0)])
    for tile_m, tile_n in hl.tile([m, n]):
        numbers[tile_m, tile_n] = hl.rand(
            [tile_m, tile_n],
            seed=seed,
            device=x.device,
        )
        ints[tile_m, tile_n] = hl.randint([tile_m, tile_n], low=-5, high=17, seed=seed)
    for tile in hl.tile(m):
        narrow[tile] = hl.rand([tile], seed)
    for tile in hl.tile(offsets.size(0)):
        given[tile] = hl.rand([tile], seed, offsets=offsets[tile])
        a, b, c, d = hl.rand4x(seed, offsets[tile])
        four[0, tile] = a
        four[1, tile] = b
        four[2, tile] = c
        four[3, tile] = d
    return numbers, ints, narrow, given, four


def noise(tile: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.randn([tile, like.shape[1]], dtype=torch.float64)


@tileflow.kernel
def by_torch(x: torch.Tensor, drawn: Callable[..., Any]) -> tuple[torch.Tensor, ...]:
    m, n = x.shape
    first, second, normal = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    half, sums = torch.empty_like(x, dtype=torch.float16), torch.empty(m, dtype=torch.float64)
    for tile_m, tile_n in tfl.tile([m, n]):
        first[tile_m, tile_n] = torch.rand_like(
            x[tile_m, tile_n],
        )
        second[tile_m, tile_n] = torch.rand_like(x[tile_m, tile_n])
        normal[tile_m, tile_n] = torch.randn_like(x[tile_m, tile_n])
        half[tile_m, tile_n] = drawn(tile_m, tile_n)
    for tile in tfl.tile(m):
        sums[tile] = noise(tile, x).sum(1) + torch.rand(tile)
    return first, second, normal, half, sums


def half_numbers(tile_m: Any, tile_n: Any) -> Any:
    return torch.rand([tile_m, tile_n], dtype=torch.float16)


@triton.jit
def _numbers(seed, offsets, out, bits, count: tl.constexpr):  # type: ignore[no-untyped-def]
    lanes = tl.arange(0, count)
    at = tl.load(offsets + lanes)
    a, b, c, d = tl.rand4x(seed, at)
    tl.store(out + lanes, tl.rand(seed, at))
    tl.store(out + count + lanes, a)
    tl.store(out + 2 * count + lanes, b)
    tl.store(out + 3 * count + lanes, c)
    tl.store(out + 4 * count + lanes, d)
    tl.store(bits + lanes, tl.randint(seed, at).to(tl.int32, bitcast=True))


def of_triton(seed: int, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``tl.rand`` and the four of ``tl.rand4x``, and the bits of ``tl.randint``, at the offsets."""
    count = offsets.numel()
    padded = torch.zeros(triton.next_power_of_2(count), dtype=offsets.dtype)
    padded[:count] = offsets.view(-1)
    out, bits = torch.empty(5, padded.numel()), torch.empty(padded.numel(), dtype=torch.int32)
    _numbers[(1,)](seed, padded, out, bits, padded.numel())
    return out[:, :count], bits[:count]


def run(name: str, args: tuple[Any, ...], config: Mapping[str, Any], mode: str = "static") -> Any:
    """A kernel of this file under its default config with some changes."""
    kernel = globals()[name]
    lowered = kernel.lower(args, target("nvidia-h200"), mode=mode)
    return kernel.compile(lowered, lowered.space.repair(lowered.default.with_(dict(config))), "cpu")(*args)


def called(name: str, args: tuple[Any, ...]) -> Any:
    return globals()[name](*args)


def seeded(config: Mapping[str, Any], args: tuple[Any, ...], seeds: tuple[int, ...]) -> list[Any]:
    """What ``by_torch`` gives after each ``torch.manual_seed``, and then once more without one."""
    lowered = by_torch.lower(args, target("nvidia-h200"))
    bound = by_torch.compile(lowered, lowered.space.repair(lowered.default.with_(dict(config))), "cpu")
    found = []
    for seed in seeds:
        torch.manual_seed(seed)
        found.append(bound(*args))
    return [*found, bound(*args)]
