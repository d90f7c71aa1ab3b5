"""The blocks of a kernel's text as plain Python: few turns, and no value too large."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import tileflow
import tileflow.language as tfl
from tileflow import api
from tileflow.ir import eager_blocks as blocks_of
from tileflow.ir.eager_blocks import MOST_ELEMENTS, eager_blocks
from tileflow.measure.check import check_call, reference_of
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def scaled(x, factor):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * factor
    return out


@tileflow.kernel
def product(x, y):
    m, k = x.shape
    n = y.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = tfl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@tileflow.kernel
def products_of_three(x, y, z):
    """Values of three dimensions, larger than any tensor."""
    (n,) = x.shape
    out = torch.zeros(n, device=x.device)
    for a, b in tfl.tile([n, n]):
        for c in tfl.tile(n):
            cube = x[a][:, None, None] * y[b][None, :, None] * z[c][None, None, :]
            tfl.atomic_add(out, [a], cube.sum(2).sum(1))
    return out


@tileflow.kernel
def bounded(x):
    block = tfl.register_block_size(16, 64)
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=block):
        out[tile] = x[tile] + 1
    return out


def chosen(kernel: Any, *args: Any) -> dict[str, int]:
    return eager_blocks(kernel.lower(args, H200).regions)


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="meta")


def test_a_loop_has_blocks_as_large_as_values_may_be() -> None:
    assert chosen(scaled, meta(1 << 27), 2.0) == {"block:tile": MOST_ELEMENTS}
    assert chosen(scaled, meta(5000), 2.0) == {"block:tile": 8192}
    assert chosen(product, meta(2048, 4096), meta(4096, 1024)) == {
        "block:tile_m": 2048, "block:tile_n": 1024, "block:tile_k": 4096,
    }  # fmt: skip


def test_no_value_is_larger_than_it_may_be() -> None:
    sizes = chosen(products_of_three, *(meta(1 << 14) for _ in range(3)))
    a, b, c = sizes.values()
    assert a * b * c == MOST_ELEMENTS and max(a, b, c) <= 2 * min(a, b, c)


def test_the_author_s_bounds_hold() -> None:
    assert chosen(bounded, meta(1 << 20)) == {"block:block": 64}


class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[getattr(func, "__name__", "")] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("kernel", "args", "step"),
    [
        (scaled, (torch.randn(1 << 16), 2.0), "__setitem__"),
        (product, (torch.randn(128, 256), torch.randn(256, 192)), "matmul"),
    ],
)
def test_a_reference_of_the_kernel_s_text_takes_few_steps(kernel: Any, args: tuple[Any, ...], step: str) -> None:
    """By blocks of 32 it took 2,000 turns and 192; tuning a call of real sizes took minutes, or ended."""
    with Counting() as counting:
        reference = reference_of(kernel, args)
    assert counting.calls[step] == 1
    assert check_call(kernel.run_eagerly, args, reference).ok


@tileflow.kernel
def centred_pairs(x):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        pairs = x[tile].reshape(tile.block_size // 2, 2)
        out[tile] = (pairs - pairs.mean(1, keepdim=True)).reshape(tile.block_size)
    return out


@pytest.mark.parametrize(("n", "block"), [(96, 32), (160, 32), (5000, 8), (4096, 4096)])
def test_a_block_that_is_reshaped_divides_its_loop(n: int, block: int) -> None:
    """A last tile of 96 elements is none of 128."""
    x = torch.randn(n)
    assert chosen(centred_pairs, x) == {"block:tile": block}
    pairs = x.double().view(-1, 2)
    torch.testing.assert_close(centred_pairs.reference(x.double()), (pairs - pairs.mean(1, keepdim=True)).view(-1))


def test_a_reference_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "can_lower", lambda: False)
    assert torch.equal(scaled.reference(torch.ones(70), 2.0), torch.full((70,), 2.0))


def test_what_no_loop_can_divide_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_of, "MOST_ELEMENTS", 64)
    rows = chosen(product, meta(40, 48), meta(48, 40))
    assert set(rows.values()) == {16}
