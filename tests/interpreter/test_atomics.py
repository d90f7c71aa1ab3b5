"""Atomics through Triton's interpreter and eagerly, and index mixes against torch's own accumulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import Call, close, load_module, run_eagerly

Interpreter = Callable[..., Any]
KERNELS = path_of("atomic_kernels")
CASES = load_module(KERNELS).CASES
MODES = ("static", "dynamic")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_atomic(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_atomic_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


# ---- indices ------------------------------------------------------------------------------------

SIZES = (5, 6, 7)
HEAD = "import torch\nimport tileflow\nimport tileflow.language as tfl\n\n\n"

# a dimension's index: its text, and the elements that it names; {n} is the dimension's number
ITEMS: dict[str, Callable[[int, torch.Tensor], list[int]]] = {
    "t{n}": lambda size, gathered: list(range(size)),
    "i{n}[t{n}]": lambda size, gathered: gathered.tolist(),
    "t{n}.index": lambda size, gathered: list(range(size)),
    "size - 1 - t{n}.index": lambda size, gathered: list(range(size))[::-1],
    ":": lambda size, gathered: list(range(size)),
    "1:4": lambda size, gathered: [1, 2, 3],
    "2": lambda size, gathered: [2],
    "-1": lambda size, gathered: [size - 1],
    "i{n}[0]": lambda size, gathered: [int(gathered[0])],
}


def drops(item: str) -> bool:
    """Whether an index drops its dimension."""
    return item in ("2", "-1", "i{n}[0]")


def kernel_text(number: int, items: list[str], fn: str) -> str:
    """A kernel that updates ``out[items]`` with a tensor of the index's shape."""
    looped = [n for n, item in enumerate(items) if "t{n}" in item]
    tiles = ", ".join(f"t{n}" for n in looped)
    sizes = ", ".join(str(SIZES[n]) for n in looped)
    loop = f"for {tiles} in tfl.tile([{sizes}])" if len(looped) > 1 else f"for {tiles or '_'} in tfl.tile({sizes or 1})"
    index = ", ".join(
        item.format(n=n).replace("size", str(SIZES[n])) if ":" not in item
        else "slice(None)" if item == ":" else "slice(1, 4)"
        for n, item in enumerate(items)
    )  # fmt: skip
    source = ", ".join(f"t{n}" if "t{n}" in item else ":" for n, item in enumerate(items) if not drops(item))
    return (
        f"@tileflow.kernel\ndef k{number}(out, v, i0, i1, i2):\n    {loop}:\n"
        f"        tfl.atomic_{fn}(out, ({index},), v[{source or '()'}])\n    return out\n"
    )


def updated(out: torch.Tensor, v: torch.Tensor, named: list[list[int]], fn: str) -> torch.Tensor:
    """One element after another."""
    places = torch.cartesian_prod(*(torch.tensor(n) for n in named)).tolist()
    for place, value in zip(places, v.flatten().tolist(), strict=True):
        old = out[tuple(place)].item()
        out[tuple(place)] = {"add": old + value, "max": max(old, value), "xor": old ^ value}[fn]
    return out


mixes = st.lists(
    st.tuples(
        st.tuples(*(st.sampled_from(list(ITEMS)) for _ in SIZES)),
        st.sampled_from(["add", "max", "xor"]),
        st.integers(0, 1 << 20),
    ),
    min_size=12,
    max_size=12,
)


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(mixes=mixes)
def test_index_mixes(interpreter: Interpreter, tmp_path_factory: pytest.TempPathFactory, mixes: Any) -> None:
    """Duplicates accumulate; several 1-D indices of different loops form an outer product."""
    parts, calls, wanted, eager = [HEAD], [], [], []
    path = tmp_path_factory.mktemp("mixes") / "kernels.py"
    for number, (items, fn, seed) in enumerate(mixes):
        generator = torch.Generator().manual_seed(seed)
        gathered = [torch.randint(0, size, (size,), generator=generator) for size in SIZES]
        named = [ITEMS[item](SIZES[n], gathered[n]) for n, item in enumerate(items)]
        shape = [len(n) for n, item in zip(named, items, strict=True) if not drops(item)]
        v = torch.randint(-9, 10, shape, generator=generator)
        out = torch.randint(-9, 10, SIZES, generator=generator)
        parts.append(kernel_text(number, list(items), fn))
        calls.append(Call(str(path), f"k{number}", (out.clone(), v, *gathered)))
        wanted.append(updated(out.clone(), v, named, fn))
        eager.append((out.clone(), v, *gathered))
    path.write_text("\n\n".join(parts))
    results = interpreter("runs.interpreted:run_all", calls)
    module = load_module(str(path))
    wrong = []
    for number, (got, right) in enumerate(zip(results, wanted, strict=True)):
        here = getattr(module, f"k{number}").run_eagerly(*eager[number])
        wrong += [(mixes[number][:2], text) for text in (close(got, right), close(here, right)) if text]
    assert wrong == []
