"""Two versions of a cell: what counts as unchanged, and what the times of the others say."""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tile_testing import ROOT
from tileflow_benchmarks.ratios import emitted, versions

from tileflow.api import load_kernel
from tileflow.build.compile import build
from tileflow.target import target

H200 = target("nvidia-h200")
CALL = {"kernel": "examples.softmax:softmax", "problem": {"m": 40, "n": 64}, "device": "nvidia-h200"}


def config(text: str, instructions: str = "0", warps: int = 4, **others: Any) -> dict[str, Any]:
    sources = [[text, {"num_warps": warps}, {}, ["1"]]]
    return {"config": {}, "sources": sources, "instructions": [instructions], "script": text, **others}


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (config("x = 1  # a comment"), "equal"),
        (config("y = 1"), "same code"),
        (config("y = 1", instructions="1"), "changed"),
        (config("x = 1", warps=8), "changed"),  # the same instructions, launched in another way
        ({"config": {}, "error": "E"}, "gone"),
    ],
)
def test_what_counts_as_unchanged(after: dict[str, Any], verdict: str) -> None:
    both = ({"configs": {"default": config("x = 1"), "drawn 0": config("x = 1")}}, {"configs": {"default": after}})
    both[1]["configs"]["drawn 0"] = config("x = 1")
    rows = versions.compared("a cell", *both)
    assert [r["verdict"] for r in rows] == [verdict, "equal"]
    assert versions.count(rows) == {"default": {verdict: 1}, "drawn": {"equal": 1}}


def test_a_cell_that_one_version_lacks() -> None:
    there, error = {"configs": {"default": config("x = 1")}}, {"error": "SpecError: no such kernel"}
    found = [versions.compared("a cell", *pair)[0] for pair in ((error, there), (there, error), (error, error))]
    assert [row["verdict"] for row in found] == ["new", "gone", "failed"]
    assert found[0]["why"] == {"old": error["error"]}


def test_instructions_are_told_apart_and_names_are_not() -> None:
    """The digest of a binary is that of what runs: not of the kernel's name, nor of the lines of its text."""
    kernel = load_kernel(CALL["kernel"])
    lowered = kernel.lower(kernel.inputs(device="meta", m=40, n=64), H200)
    (source,) = lowered.emit(lowered.default)
    (other,) = lowered.emit(lowered.default.with_({"num_warps": 8}))
    code = build(source, H200).code
    renamed = code.replace(b"softmax_0", b"xoftmax_0")
    assert renamed != code and emitted.instructions(renamed) == emitted.instructions(code)
    assert emitted.instructions(build(other, H200).code) != emitted.instructions(code)


def test_both_versions_emit_in_processes_of_their_own(tmp_path: Path) -> None:
    """This checkout against itself: all is equal, and the new version is given what the old one drew."""
    asked = [{**CALL, "drawn": 1}, {**CALL, "kernel": "examples.softmax:no_such_kernel"}]
    (first, second), missing = versions.emit_both(ROOT, ROOT, asked, tmp_path)
    assert [r["verdict"] for r in versions.compared("softmax", first, second)] == ["equal", "equal"]
    assert first["configs"]["drawn 0"]["config"] == second["configs"]["drawn 0"]["config"]
    assert all("no_such_kernel" in one["error"] for one in missing) and not list(tmp_path.iterdir())


class FakeVersions:
    """Takes a time from each version's distribution; a host that slows down slows both of a round."""

    def __init__(self, new_us: float, seed: int = 0) -> None:
        self.base, self.random, self.orders = {"old": 100.0, "new": new_us}, random.Random(seed), set[str]()

    def turn(self, names: Sequence[Any]) -> list[float]:
        self.orders.add(" ".join(names))
        host = self.random.choice((1.0, 1.0, 1.5))
        return [host * self.base[name] * self.random.gauss(1, 0.002) for name in names]


@pytest.mark.parametrize(("new_us", "verdict"), [(100.0, "equal"), (103.0, "slower"), (97.0, "faster")])
def test_times_in_turns(new_us: float, verdict: str) -> None:
    fake = FakeVersions(new_us)
    found = versions.in_turns({"old": "old", "new": "new"}, 31, fake.turn)
    assert found["time"] == verdict and found["ratio"] == pytest.approx(new_us / 100, rel=0.005)
    assert fake.orders == {"old new", "new old"}
    low, high = found["interval"]
    assert low <= found["ratio"] <= high


def test_only_changed_cells_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Callable[[], None]] = []
    monkeypatch.setattr(
        versions, "DeviceSampler", lambda call, args: made.append(call) or ("old", "new")[len(made) - 1]
    )
    monkeypatch.setattr(versions, "sample_in_turn", FakeVersions(110.0).turn)
    script = (
        "def _launch(n):\n    seen.append(n)\nseen = []\n_launch(1)\nx = 2\n_launch(x)\nfor n in seen:\n    print(n)\n"
    )
    changed = {"verdict": "changed", "scripts": {"old": script, "new": script}, "why": {}}
    without = {"verdict": "changed", "scripts": {"old": script, "new": None}, "why": {"new": "no script"}}
    rows = {"a": {"verdict": "equal"}, "b": without, "c": changed, "split_k_matmul m=1": changed}
    found: list[dict[str, Any]] = []
    versions.measure([{"cell": cell, "config": "default", **row} for cell, row in rows.items()], 15, found.append)
    times = {row["cell"]: row["time"] for row in found}
    assert times == {"b": "left out", "c": "slower", "split_k_matmul m=1": "left out"} and len(made) == 2


def test_a_script_s_launches_are_repeated_without_its_allocations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a version gives for a call (``Kernel.repro``) is cut into what is done once and what is timed."""
    seen: list[tuple[str, Any]] = []
    monkeypatch.setattr(builtins, "SEEN", seen, raising=False)
    kernel = load_kernel("examples.rms_norm:rms_norm_bwd")
    script = kernel.repro(*kernel.inputs(device="meta", m=32, n=64))
    script = script.replace('"cpu" if INTERPRETED else "cuda"', '"cpu"')
    script = script.replace("function[grid](", "SEEN.append((function.__name__, arguments)) or dict(")
    memory = versions.Memory()
    both = [versions.launches(script, memory), versions.launches(script.replace("rms_norm_bwd", "bwd"), memory)]
    assert seen == []
    for call in (*both, both[0]):
        call()
    assert [name for name, _ in seen] == ["rms_norm_bwd_0", "bwd_0", "rms_norm_bwd_0"]


def test_both_versions_work_on_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a kernel moves what it reads next, each launch finds what the other version's left."""
    seen: list[dict[str, list[int]]] = []
    monkeypatch.setattr(builtins, "SEEN", seen, raising=False)
    script = (
        "def _memory(count):\n    return [0] * count\n"
        "def _launch(function, grid, arguments):\n    arguments['x'][0] += 1\n    SEEN.append(arguments)\n"
        "x, y = 1, 2\n"
        "x_memory = _memory(3)\ny_memory = _memory(3)\n"
        "_launch(None, (1,), {'x': x_memory, 'y': y_memory})\n"
    )
    memory = versions.Memory()
    old, new = versions.launches(script, memory), versions.launches(script, memory)
    for call in (old, new, old):
        call()
    assert all(one["x"] is seen[0]["x"] and one["y"] is seen[0]["y"] for one in seen)
    assert seen[0] == {"x": [3, 0, 0], "y": [0, 0, 0]}
