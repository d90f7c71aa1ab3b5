"""Parts of tiles in registers that have few elements or none: torch's values, or an error that says what was called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.runs.interpreted import Call

import tileflow
import tileflow.language as tfl
from tileflow.errors import ShapeError
from tileflow.target import target

X = torch.tensor([[1.0, 2.0, 3.0, 4.0], [4.0, -5.0, 6.0, -7.0], [0.0, 0.5, 0.0, -0.5]])

VALUES: dict[str, Callable[[Any], Any]] = {
    "diff of bools": lambda v: (v > 1).diff(),
    "second diff of bools": lambda v: (v > 1).diff(n=2),
    "diff of bools after one": lambda v: (v > 1).diff(prepend=v[:, :1] > 9),
    "no diff": lambda v: v.diff(n=0),
    "one sample": lambda v: torch.trapezoid(v[:, :1])[:, None],
    "one sample of ints": lambda v: torch.trapezoid(v[:, :1].int())[:, None],
    "a border alone": lambda v: F.pad(v[:, :1], (-1, 2), value=3.0),
    "a border alone, before": lambda v: F.pad(v[:, :2], (1, -2)),
    "a sum beside elements": lambda v: torch.cat([v.sum(1, keepdim=True), v[:, 1:]], 1),
    "a sum of all beside elements": lambda v: torch.cat([v[0, :].sum()[None], v[0, 1:]])[None],
    "a number beside elements": lambda v: torch.cat([v.new_full((1,), 2), v[0, 1:]])[None],
}
NAMES = list(VALUES)


@tileflow.kernel
def parts(x, name: tfl.constexpr):
    out = torch.zeros(x.size(0), 8)
    for t in tfl.tile(x.size(0), block_size=1):
        found = VALUES[name](x[t, :]).float()
        out[t, : found.size(1)] = found
    return out


def wanted(name: str) -> torch.Tensor:
    out = torch.zeros(X.size(0), 8)
    for n, row in enumerate(X):
        found = VALUES[name](row[None]).float()
        out[n, : found.size(1)] = found[0]
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", NAMES)
def test_compiled(interpreter: Callable[..., Any], name: str, mode: str) -> None:
    (got,) = interpreter("runs.interpreted:run_all", [Call(__file__, "parts", (X, name), mode=mode)])
    assert not isinstance(got, str), got
    torch.testing.assert_close(got, wanted(name))


@pytest.mark.parametrize("name", NAMES)
def test_eagerly(name: str) -> None:
    torch.testing.assert_close(parts.run_eagerly(X, name), wanted(name))


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "empty": (lambda v: v[:, 3:1], "a tile in registers has elements, but got none of 4 in 3:1"),
    "past the end": (lambda v: v.sum(1, keepdim=True)[:, 1:2], "has elements, but got none of 1 in 1:2"),
    "narrow": (lambda v: v.narrow(1, 2, 0), "has elements, but got none of 4 in 2:2"),
    "diff": (lambda v: v[:, :1].diff(), "diff in registers takes at least 2 elements"),
    "third diff": (lambda v: v.diff(n=4), "diff in registers takes at least 5 elements"),
    "integral": (lambda v: torch.cumulative_trapezoid(v[:, :1]), "cumulative_trapezoid in registers takes at least 2"),
    "pad": (lambda v: F.pad(v[:, :1], (-1, 0)), "pad leaves a dimension with elements"),
    "pad by itself": (lambda v: F.pad(v[:, :2], (-2, 1), mode="replicate"), "pad leaves a dimension with elements"),
    "pad of less": (lambda v: F.pad(v[:, :2], (-3, 3)), "pad leaves a dimension with elements"),
}


@tileflow.kernel
def refused(x, function):
    out = torch.zeros(x.size(0), 1)
    for t in tfl.tile(x.size(0)):
        out[t, :] = function(x[t, :])
    return out


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_says_what_has_no_elements(name: str) -> None:
    function, says = REFUSED[name]
    with pytest.raises(ShapeError, match=says) as caught:
        refused.lower((X, function), target("nvidia-h200"))
    assert "flip" not in str(caught.value)


def test_a_step_down_names_flip() -> None:
    with pytest.raises(ShapeError, match="its step is 1 or more, but got -1") as caught:
        refused.lower((X, lambda v: v[:, ::-1]), target("nvidia-h200"))
    assert "torch.flip" in str(caught.value)
