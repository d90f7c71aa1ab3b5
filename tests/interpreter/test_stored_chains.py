"""Chains of views of parts of a tensor, chosen at random, are stored through and read as torch's are."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.runs.interpreted import Call, load_module

SHAPE = (2, 4, 6, 10)
HEAD = "import torch\nimport tileflow\nimport tileflow.language as tfl\n"
TAKEN = (
    "out[b]", "out[b, :, 1]", "out[b, 1:]", "out[b, :, :, 2:8]", "out.transpose(1, 2)[b]", "out.flatten(2)[b]",
    "out.chunk(2, -1)[1][b]", "out[b, ..., 3]", "out[b, 1:3, None]", "out.select(0, b)", "out.mT[b, -1]",
    "out[b, :, 2:4].narrow(2, 1, 7)", "out.view(2, 2, 2, 6, 10)[b]", "out[b, b * 2 : b * 2 + 2]", "out.unsqueeze(1)[b]",
)  # fmt: skip


def steps(x: torch.Tensor, name: str) -> list[str]:
    """Expressions of views of ``x``, of which the author says ``name``."""
    rank, sizes = x.ndim, x.shape
    found = [f"{name}.unsqueeze({n})" for n in range(rank + 1)] if rank < 4 else []
    found += [f"{name}.transpose({m}, {n})" for m in range(rank) for n in range(m)]
    found += [f"{name}.permute({', '.join(map(str, reversed(range(rank))))})", f"{name}.movedim(-1, 0)"]
    found += [f"{name}.flatten({n}, {n + 1})" for n in range(rank - 1)] + [f"{name}.view(-1)"]
    found += [f"{name}.unflatten({n}, (2, -1))" for n in range(rank) if sizes[n] % 2 == 0 and rank < 4]
    found += [f"{name}.squeeze()"] if 1 in sizes and rank > 1 else []
    found += [f"{name}.reshape(2, {x.numel() // 2})"] if x.numel() % 2 == 0 else []
    found += [f"{name}.diagonal(1)", f"{name}.diagonal()"] if rank == 2 and min(sizes) > 2 else []
    for n in range(rank):
        if rank > 1:
            found += [f"{name}.select({n}, {sizes[n] - 1})", f"{name}.unbind({n})[0]", f"{name}[{':, ' * n}-1]"]
        if sizes[n] > 2:
            found += [f"{name}[{':, ' * n}1:]", f"{name}[{':, ' * n}:-1]", f"{name}.narrow({n}, 1, {sizes[n] - 2})"]
            found += [f"{name}.chunk(2, {n})[1]", f"torch.split({name}, 2, {n})[0]", f"{name}[..., None, 1:]"]
    return found


def chain(rng: random.Random, out: torch.Tensor, name: str, b: int) -> list[str]:
    """Statements that give ``name`` a view of a part, of more than one element, that lies in the tensor's memory."""
    lines = [rng.choice(TAKEN)]
    value = eval(lines[0], {"out": out, "b": b})
    for _ in range(rng.randrange(5)):
        line = rng.choice(steps(value, name))
        try:
            made = eval(line, {"torch": torch, name: value})
        except RuntimeError:
            continue
        if made.untyped_storage().data_ptr() == out.untyped_storage().data_ptr() and made.numel() > 1 and made.ndim:
            lines.append(line)
            value = made
    return [f"{name} = {line}" for line in lines]


def bodies(rng: random.Random) -> tuple[list[str], str]:
    """The statements of a kernel for each number of a batch, and what torch does in place of its loops."""
    out = torch.zeros(SHAPE)
    first, second = chain(rng, out, "p", 0), chain(rng, out, "q", 0)
    names = {"out": out, "b": 0, "torch": torch}
    exec("\n".join([*first, *second]), names)
    p, q = names["p"], names["q"]
    assert isinstance(p, torch.Tensor) and isinstance(q, torch.Tensor)
    loops = [
        ("for t in tfl.tile(p.size(0)):\n    p[t] = p[t] * 2 + 1", "p[:] = p * 2 + 1"),
        ("for u in tfl.tile(q.size(-1)):\n    q[..., u] += 3", "q[:] += 3"),
        ("p[0] -= out[b].amax()", "p[0] -= out[b].amax()"),
        ("q[...] = q - p.sum() / 8", "q[...] = q - p.sum() / 8"),
        ("p[-1:] *= 0.5", "p[-1:] *= 0.5"),
    ]
    ours, torchs = [*first, *second], [*first, *second]
    for loop, whole in rng.sample(loops, 4):
        ours += loop.splitlines()
        torchs.append(whole)
    return ours, "\n".join(torchs)


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
@pytest.mark.parametrize("seed", range(2))
def test_chains(interpreter: Callable[..., Any], tmp_path: Path, seed: int, mode: str) -> None:
    rng = random.Random(seed)
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))
    found = [bodies(rng) for _ in range(25)]
    text, path = [HEAD], str(tmp_path / f"stored_chains_{seed}_{mode}.py")
    for n, (ours, _) in enumerate(found):
        body = "".join(f"        {line}\n" for line in ours)
        text.append(
            f"@tileflow.kernel\ndef k{n}(x: torch.Tensor) -> torch.Tensor:\n    out = x.clone()\n"
            f"    for b in tfl.grid(out.size(0)):\n{body}    return out\n"
        )
    Path(path).write_text("\n".join(text))
    if mode == "eager":
        module = load_module(path)
        results = [getattr(module, f"k{n}").run_eagerly(x) for n in range(len(found))]
    else:
        results = interpreter("runs.interpreted:run_all", [Call(path, f"k{n}", (x,), (), mode) for n in range(25)])
    wrong = []
    for (ours, torchs), got in zip(found, results, strict=True):
        out = x.clone()
        for b in range(out.size(0)):
            exec(torchs, {"out": out, "b": b, "torch": torch})
        if isinstance(got, str) or not torch.allclose(got, out, atol=1e-4, rtol=1e-4):
            wrong.append(("\n".join(ours), got if isinstance(got, str) else "other elements"))
    assert wrong == []
