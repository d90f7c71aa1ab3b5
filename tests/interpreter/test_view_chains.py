"""Chains of views, chosen at random, give the elements that torch's do."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.runs.interpreted import Call

ROWS = 5  # a tail in blocks of 2; no other size is odd
MOST = 256  # elements a row
HEAD = "import torch\nimport tileflow\nimport tileflow.language as tfl\n"


def steps(x: torch.Tensor) -> list[str]:
    """Expressions of ``a`` that views in registers allow: the dimension of the tile stays whole, and may move."""
    rank = x.ndim
    free = [n for n, size in enumerate(x.shape) if size != ROWS]
    wide = [n for n in free if x.shape[n] % 2 == 0]
    found = [f"a.unsqueeze({n})" for n in range(rank + 1)] if rank < 4 else []
    found += [f"a.transpose({m}, {n})" for m in range(rank) for n in range(m)]
    found += [f"a.movedim({rank - 1}, 0)", f"a.permute({', '.join(map(str, reversed(range(rank))))})"]
    found += [f"a.squeeze({n})" for n in free if x.shape[n] == 1 and rank > 2]
    found += [f"a.flatten({n}, {n + 1})" for n in free if n + 1 in free]
    found += [f"a.unflatten({n}, (2, -1))" for n in wide if rank < 4]
    found += [f"torch.chunk(a, 2, {n})[1]" for n in wide]
    found += [f"a.unbind({n})[{x.shape[n] - 1}]" for n in free if rank > 2]
    found += [f"torch.gather(a, {n}, (a * 0).int() + {x.shape[n] - 1})" for n in free]
    found += [f"a[{':, ' * n}{x.shape[n] // 2}]" for n in free if rank > 2]
    found += ["a[..., None]", "a[None]"] if rank < 4 else []
    if 2 * x.numel() <= ROWS * MOST:
        found += [f"torch.stack([a, a + 1], {n})" for n in range(rank + 1)] if rank < 4 else []
        found += [f"torch.cat([a, -a], {n})" for n in free]
        found += [f"a.repeat_interleave(2, {n})" for n in free]
    return found


def chain(rng: random.Random, x: torch.Tensor) -> tuple[list[str], torch.Tensor]:
    """Four steps, and the tile's dimension to the front."""
    lines, value = [], x
    for _ in range(4):
        lines.append(rng.choice(steps(value)))
        value = eval(lines[-1], {"torch": torch, "a": value})
    front = f"a.movedim({list(value.shape).index(ROWS)}, 0)"
    return [*lines, front], eval(front, {"a": value})


@pytest.mark.parametrize("seed", range(3))
def test_chains(interpreter: Callable[..., Any], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    x = torch.arange(ROWS * 32.0).reshape(ROWS, 4, 8)
    chains = [chain(rng, x) for _ in range(20)]
    text, calls = [HEAD], []
    for n, (lines, wanted) in enumerate(chains):
        body = "".join(f"        a = {line}\n" for line in lines)
        text.append(
            f"@tileflow.kernel\ndef k{n}(x: torch.Tensor) -> torch.Tensor:\n"
            f"    out = torch.empty({tuple(wanted.shape)})\n    for tile in tfl.tile({ROWS}):\n"
            f"        a = x[tile, :, :]\n{body}        out[tile, ...] = a\n    return out\n"
        )
        calls.append(Call(str(tmp_path / "chains.py"), f"k{n}", (x,), (("block:tile", 2),)))
    (tmp_path / "chains.py").write_text("\n".join(text))
    results = interpreter("runs.interpreted:run_all", calls)
    wrong = [
        (lines, got if isinstance(got, str) else "other elements")
        for (lines, wanted), got in zip(chains, results, strict=True)
        if isinstance(got, str) or not torch.equal(got, wanted)
    ]
    assert wrong == []
