"""Which float32 products are split by warps of their own by default, and in which tiles."""

from __future__ import annotations

import pytest
import torch

from examples.matmul import matmul
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.target import target

H100, H200, MI300X = (target(name) for name in ("nvidia-h100-sxm", "nvidia-h200", "amd-mi300x"))


def lowered(layout: str, m: int, n: int, k: int, card: str = "nvidia-h100-sxm", mode: str = "static") -> Lowered:
    def operand(kind: str, rows: int, columns: int) -> torch.Tensor:
        sides = (rows, columns) if kind == "N" else (columns, rows)
        found = torch.empty(*sides, device="meta")
        return found if kind == "N" else found.T

    return matmul.lower((operand(layout[0], m, k), operand(layout[1], k, n)), target(card), mode=mode)


def default(layout: str, m: int, n: int, k: int, card: str = "nvidia-h100-sxm") -> Config:
    return lowered(layout, m, n, k, card).default


def tile(config: Config) -> tuple[object, ...]:
    if config.get("schedule", "pipelined") == "pipelined":
        return ()
    return config["block:tile_m"], config["block:tile_n"], config["num_stages"], config["loop:tile_k.ctas"]


@pytest.mark.parametrize(
    ("layout", "sizes", "expected"),
    [
        ("NN", (4096, 4096, 4096), (128, 128, 3, 1)),
        ("NT", (4096, 4096, 4096), (128, 128, 3, 1)),
        ("TN", (4096, 4096, 4096), (128, 128, 3, 1)),
        ("TT", (4096, 4096, 4096), (128, 128, 3, 1)),
        ("NN", (4096, 1111, 777), (128, 128, 3, 1)),
        ("NN", (1000, 1000, 1000), (128, 128, 2, 2)),  # 64 tiles would leave half the GPU empty
        ("NT", (1000, 1000, 1000), (128, 128, 2, 2)),
        ("TN", (1000, 1000, 1000), (128, 128, 2, 2)),
        ("NN", (300, 5000, 1024), (128, 128, 3, 1)),
        ("NN", (128, 4096, 4096), (64, 128, 4, 2)),
        ("NT", (128, 1024, 8192), (128, 128, 2, 8)),
        ("NN", (256, 256, 8192), (64, 128, 4, 8)),
        ("NN", (512, 512, 4096), (64, 64, 2, 2)),
        ("TN", (512, 64, 16384), (64, 64, 2, 8)),
        ("NN", (48, 2048, 4096), (64, 128, 4, 4)),
        ("NN", (32, 2048, 4096), ()),  # half a tile of 64 rows
        ("NN", (4096, 4096, 128), ()),  # short sums have larger errors than multiply-adds
        ("NN", (16384, 1, 4096), ()),  # 64 columns for one
    ],
    ids=str,
)
def test_the_ways_that_end_first(layout: str, sizes: tuple[int, int, int], expected: tuple[object, ...]) -> None:
    assert tile(default(layout, *sizes)) == expected


def test_variants_of_any_size_are_the_ways_that_end_first() -> None:
    """Of two ways of clusters that both run at once the example's own was taken: 121 us by two blocks of 128 x 128,
    where two of 64 x 128 take 80 (513 x 513 x 4097, an H200)."""
    it = lowered("TN", 776, 1112, 4096, mode="dynamic")
    assert tile(it.default) == (128, 128, 2, 2)
    sizes = {**it.regions[0].hints, "end.0": 513, "end.1": 513, "k": 4097}
    first = next(config for config, when in it.other_ways(it.default, False) if when[0].holds(sizes))
    assert tile(first)[:2] == (64, 128)


def test_other_gpus_have_none() -> None:
    assert tile(default("NN", 4096, 4096, 4096, MI300X.name)) == ()


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_the_defaults_spill_nothing(layout: str) -> None:
    sizes = (4096, 4096, 4096)
    args = tuple(torch.empty(4096, 4096, device="meta") for _ in sizes[:2])
    args = tuple(a if kind == "N" else a.T for a, kind in zip(args, layout, strict=True))
    lowered = matmul.lower(args, H200)
    assert tile(lowered.default)
    (source,) = lowered.emit(lowered.default)
    assert build(source, H200).resources.spills == 0
