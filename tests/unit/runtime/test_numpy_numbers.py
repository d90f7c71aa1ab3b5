"""Numbers of numpy's as arguments: they are Python's to a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.lowered import Lowered
from tileflow.runtime.numpy_numbers import plain_call, plain_number
from tileflow.target import target

X = torch.ones(5, 3)


@tileflow.kernel
def scaled(x: torch.Tensor, s: Any, more: Any = ()) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * s + sum(more)
    return out


@pytest.mark.parametrize(
    ("number", "plain"),
    [(np.float32(0.5), 0.5), (np.float64(0.5), 0.5), (np.int8(3), 3), (np.uint64(3), 3), (np.bool_(True), True)],
)
def test_numbers(number: Any, plain: Any) -> None:
    assert type(plain_number(number)) is type(plain) and plain_number(number) == plain
    assert scaled.describe(X, number, [number]) == scaled.describe(X, plain, [plain])
    assert torch.equal(scaled(X, number, more=[number]), X * plain + plain)
    assert plain_call((X, [number]), {"s": number}) == ((X, [plain]), {"s": plain})


@pytest.mark.parametrize("value", [0.5, True, None, "a", X, np.ones(3), np.complex64(1j), np.str_("a"), np.float32])
def test_others_are_as_they_are(value: Any) -> None:
    assert plain_number(value) is value
    assert plain_call((value,), {"s": [value]}) is None


WEIGHTS = np.array([0.25, 0.5, 0.25], dtype=np.float32)
PLACES = np.array([1, 2, 3])


@tileflow.kernel
def by_arrays(x: torch.Tensor) -> torch.Tensor:
    """What device code gets out of arrays by index, by iteration, and as an attribute, wherever a number may stand."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        left, _, _ = WEIGHTS
        total = row * WEIGHTS[1] + left + row ** PLACES[1] + torch.add(row, row, alpha=WEIGHTS[0])
        total += torch.where(row > WEIGHTS[2], WEIGHTS[0], row).clamp(-WEIGHTS[1], WEIGHTS[1])
        total += x[t, PLACES[1]][:, None] + row[:, PLACES[0]][:, None] + x[t, PLACES[0] : PLACES[1]]
        total += row[:, PLACES[0] : PLACES[2] - 1] + row.sum(PLACES[0], keepdim=True) + row.sum((PLACES[0],))[:, None]
        total += tfl.full([t, PLACES[0]], WEIGHTS[1]) + tfl.arange(PLACES[2]) + sum(w * row for w in WEIGHTS)
        total += x.size(1) ** PLACES[1] + (x.size(1) << PLACES[0]) + (x.size(1) >> PLACES[0]) + x.size(1) * PLACES[1]
        total += x[t + PLACES[0], :] + (PLACES[1] * x.size(1) if x.size(1) > PLACES[1] else 0)
        for k in tfl.tile(PLACES[2]):
            total += x[t, k].sum(1)[:, None]
        out[t, :] = total
        out[t, PLACES[1]] = WEIGHTS[1]
    return out


@tileflow.kernel
def by_lists(x: torch.Tensor) -> torch.Tensor:
    """The same out of lists."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        total = row * 0.5 + 0.25 + row**2 + torch.add(row, row, alpha=0.25)
        total += torch.where(row > 0.25, 0.25, row).clamp(-0.5, 0.5)
        total += x[t, 2][:, None] + row[:, 1][:, None] + x[t, 1:2]
        total += row[:, 1:2] + row.sum(1, keepdim=True) + row.sum((1,))[:, None]
        total += tfl.full([t, 1], 0.5) + tfl.arange(3) + sum(w * row for w in [0.25, 0.5, 0.25])
        total += x.size(1) ** 2 + (x.size(1) << 1) + (x.size(1) >> 1) + x.size(1) * 2
        total += x[t + 1, :] + (2 * x.size(1) if x.size(1) > 2 else 0)
        for k in tfl.tile(3):
            total += x[t, k].sum(1)[:, None]
        out[t, :] = total
        out[t, 2] = 0.5
    return out


def body(lowered: Lowered) -> list[str]:
    """The default's text but for what names the kernel and its lines."""
    (source,) = lowered.emit(lowered.default)
    lines = (line.split("  #")[0] for line in source.text.splitlines())
    return [line for line in lines if not line.lstrip().startswith(("#", "def ", '"""'))]


def test_numbers_of_arrays_that_device_code_indexes() -> None:
    x = torch.linspace(-1, 2, 15).view(5, 3)
    torch.testing.assert_close(by_arrays.run_eagerly(x), by_lists.run_eagerly(x), rtol=0, atol=0)
    made, wanted = (kernel.lower((x,), target("nvidia-h200")) for kernel in (by_arrays, by_lists))
    assert made.default == wanted.default and body(made) == body(wanted)


def test_an_array_is_no_number() -> None:
    @tileflow.kernel
    def whole(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            out[t, :] = x[t, :] * WEIGHTS
        return out

    with pytest.raises(TraceError, match=r"got ndarray[\s\S]*torch.tensor\(array.tolist\(\)\)"):
        whole.lower((X,), target("nvidia-h200"))
