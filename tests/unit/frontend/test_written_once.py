"""What is written to an index that names a loop's lanes in two dimensions: pairs, where the author wrote them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import ShapeError
from tileflow.target import target


@tileflow.kernel
def subtracted(p, label):
    for t in tfl.tile(p.size(0)):
        p[t, label[t]] -= 1.0


@tileflow.kernel
def scattered(p, label):
    for t in tfl.tile(p.size(0)):
        p[t, label[t]] = p[t, 0]


@tileflow.kernel
def filled(p, label):
    for t in tfl.tile(p.size(0)):
        p[t, label[t]] = 1.0


@tileflow.kernel
def scattered_rows(p, label):
    for t in tfl.tile(p.size(0)):
        p[t, label[t][:, None] + tfl.arange(2)[None, :]] = p[t, 0:2]


@tileflow.kernel
def diagonal(p, label):
    for t in tfl.tile(p.size(0)):
        p[t, t] = label[t].float()


@tileflow.kernel
def counted(p, label):
    for t in tfl.tile(p.size(0)):
        tfl.atomic_add(p, [t, label[t]], 1.0)


@tileflow.kernel
def masked(p, label):
    for t in tfl.tile(p.size(0)):
        tfl.store(p, [t, label[t]], 2.0, extra_mask=(label[t] > 0))


REFUSED = [subtracted, scattered, filled, scattered_rows, diagonal, counted, masked]


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(6, 6), torch.tensor([0, 3, 1, 3, 2, 0])


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda k: k.__name__)
def test_pairs_that_nobody_wrote_are_refused(kernel: Any) -> None:
    """A newcomer's gradient of cross-entropy subtracted 1 from each element of the block, in both meanings."""
    lanes = r"t.index\[:, None\], y\[t, :\]" if kernel is scattered_rows else r"t.index, y\[t\]"
    for call in (lambda: kernel.lower(arguments(), target("nvidia-h200")), lambda: kernel.run_eagerly(*arguments())):
        with pytest.raises(ShapeError, match=rf"in one dimension, unless it spells out pairs[\s\S]*{lanes}"):
            call()


@tileflow.kernel
def by_lane(p, label):
    for t in tfl.tile(p.size(0)):
        p[t.index, label[t]] = 1.0


@tileflow.kernel
def by_pair(p, label):
    for t in tfl.tile(p.size(0)):
        p[t.index[:, None], label[t][None, :]] = 1.0


@tileflow.kernel
def block(p, label):
    for t in tfl.tile(p.size(0)):
        p[t, t] = (label[t][:, None] * label[t][None, :]).float()


def lanes() -> torch.Tensor:
    return torch.eye(6)[arguments()[1]]


def pairs() -> torch.Tensor:
    return (lanes().amax(0) > 0).float().expand(6, 6)


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (by_lane, lanes()),
        (by_pair, pairs()),
        (block, (arguments()[1][:, None] * arguments()[1]).float()),
    ],
    ids=["by_lane", "by_pair", "block"],
)
def test_lanes_and_pairs_that_the_author_wrote_are(kernel: Any, wanted: torch.Tensor) -> None:
    kernel.lower(arguments(), target("nvidia-h200"))
    p, label = arguments()
    kernel.run_eagerly(p, label, config={"block:t": 6})
    assert torch.equal(p, wanted)
