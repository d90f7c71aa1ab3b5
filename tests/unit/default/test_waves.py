"""Output blocks of products by the waves of tiles over multiprocessors: what default-products.md of the docs lists."""

from __future__ import annotations

import re

import pytest
import torch
from tile_testing import ROOT

import tileflow
import tileflow.language as tfl
from examples.matmul import matmul
from tileflow.default import default_config
from tileflow.default.single_products import DIRECT
from tileflow.target import Target, target

H200, H20 = target("nvidia-h200"), target("nvidia-h20")
PAGE = (ROOT / "docs/explanations/default-products.md").read_text()
BLOCK = r"(\d+) x (\d+), (\d+), (\d+), (\d+)"
ROWS = re.findall(rf"^\| (\d+) x (\d+) \| {BLOCK} \| (?:the same|{BLOCK}) \|$", PAGE, flags=re.MULTILINE)


def block(m: int, n: int, on: Target = H200) -> tuple[int, int]:
    x, y = (torch.empty(rows, 4096, dtype=torch.bfloat16, device="meta") for rows in (m, n))
    lowered = matmul.lower((x, y.t()), on)
    config = default_config(lowered.regions, lowered.space, on, pipelined=True)
    return int(config["block:tile_m"]), int(config["block:tile_n"])


def facts(m: int, n: int, rows: int, columns: int, on: Target = H200) -> tuple[int, int, int]:
    """Tiles; elements of the output, and operands for each step along K, of the busiest multiprocessor."""
    tiles = -(-m // rows) * -(-n // columns)
    waves = -(-tiles // on.sm_count)
    return tiles, waves * rows * columns, waves * (rows + columns)


def first_step(m: int, n: int) -> tuple[int, int]:
    shapes = ((rows, columns) for rows, columns, _ in DIRECT if rows < 2 * m and columns < 2 * n)
    enough = (shape for shape in shapes if facts(m, n, *shape)[0] >= 0.9 * H200.sm_count)
    return next(enough, (64, 64))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}x{row[1]}" for row in ROWS])
def test_the_page_lists_what_is_chosen(row: tuple[str, ...]) -> None:
    """Issue 15: 777 x 1111 x 4096 had twice as many tiles as multiprocessors, of the smallest block."""
    m, n, *numbers = (int(text) if text else 0 for text in row)
    before, after = numbers[:5], numbers[5:] if any(numbers[5:]) else numbers[:5]
    assert block(m, n) == tuple(after[:2])
    assert tuple(before[:2]) == first_step(m, n)
    for rows, columns, *found in (before, after):
        assert facts(m, n, rows, columns) == tuple(found)
    assert after[3] <= before[3] and after[4] <= before[4]


def test_the_page_has_both_kinds() -> None:
    changed = [row for row in ROWS if any(row[7:])]
    assert 3 <= len(changed) < len(ROWS) - 3 and ("777", "1111") in [row[:2] for row in changed]


@pytest.mark.parametrize("on", [H200, H20], ids=lambda on: on.name)
@pytest.mark.parametrize("m", [130, 513, 777, 1025, 2304])
def test_no_larger_block_has_as_little_work(m: int, on: Target) -> None:
    chosen = block(m, 1111, on)
    position = [(rows, columns) for rows, columns, _ in DIRECT].index(chosen)
    work = facts(m, 1111, *chosen, on)[1]
    assert all(facts(m, 1111, r, c, on)[1] > work for r, c, _ in DIRECT[:position] if r < 2 * m and c < 2048)


@tileflow.kernel
def best_of_others(x, y):
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        best = tfl.full([rows], float("-inf"))
        for others in tfl.tile(y.size(0)):
            best = torch.maximum(best, tfl.dot(x[rows, :], y[others, :].T).amax(1))
        out[rows] = best
    return out


@pytest.mark.parametrize("m", [8192, 65536])
def test_columns_of_a_loop_make_no_programs(m: int) -> None:
    """Two rows of 8192 x 8192 had 64 programs for 132 multiprocessors: 189 us, and 130 by twice as many (H100)."""
    x = torch.empty(m, 256, dtype=torch.bfloat16, device="meta")
    rows = int(best_of_others.lower((x, x.clone()), H200).default["block:rows"])
    assert m // rows >= 0.9 * H200.sm_count
    assert rows == (64 if m == 8192 else 128)
