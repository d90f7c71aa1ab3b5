"""The scripts that prove what production promises, without a GPU: their arithmetic, and that they see what is wrong."""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.runs.scheduled import Frame, Scheduled
from tileflow_benchmarks.production import gallery, soak, summary, verify_bundle, work
from tileflow_benchmarks.production.__main__ import PARTS, main
from tileflow_benchmarks.production.hiding import Attempts, hidden
from tileflow_benchmarks.production.rounds import above, interleaved, interval, ratio
from tileflow_benchmarks.production.summary import Verdict
from tileflow_benchmarks.production.verify_bundle import Called

from tileflow.target import target


def test_medians_have_intervals() -> None:
    found = interval([float(n) for n in range(100)])
    assert found.median == 49.5 and 38 <= found.low < 45 < 55 < found.high <= 61
    assert interval([3.0]) == interval([3.0, 3.0])
    assert above([5.0, 6.0], [3.0, 3.0]).median == 2.5 and ratio([4.0, 9.0], [2.0, 3.0]).median == 2.5


@pytest.mark.slow
def test_contenders_are_timed_in_a_new_order_each_round() -> None:
    order: list[str] = []
    contenders = {name: lambda n, name=name: order.append(name) for name in "abcd"}
    found = interleaved(contenders, lambda: None, calls=1, rounds=6)
    assert {len(times) for times in found.values()} == {6}
    rounds = [tuple(order[i : i + 4]) for i in range(4, len(order), 4)]  # the first are warm-up
    assert all(sorted(r) == list("abcd") for r in rounds) and len(set(rounds)) > 1


def test_a_slow_contender_is_slower() -> None:
    found = interleaved({"slow": lambda n: time.sleep(0.002), "fast": lambda n: None}, lambda: None, calls=10, rounds=3)
    assert above(found["slow"], found["fast"]).median > 150  # microseconds a call


def test_hidden_modules_are_not_found_and_who_asked_is_known() -> None:
    name = "idlelib"
    before = list(sys.meta_path)
    with hidden((name,)) as attempts:
        assert importlib.util.find_spec(name) is None  # as on a machine without it, not an error
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"{name}.config")
        importlib.import_module("json")
    assert sys.meta_path == before
    assert {asked for asked, _ in attempts.imports} == {name} and attempts.ours == []
    ours = Attempts([(name, "tileflow.serve"), (name, "torch._dynamo")])
    assert ours.ours == ["idlelib by tileflow.serve"]


def test_every_gallery_kernel_has_an_example_and_three_other_problems() -> None:
    assert len(gallery.TIMED) == 28 and len({s.kernel for s in gallery.GALLERY}) == len(gallery.GALLERY)
    for shown in gallery.GALLERY:
        sizes = [shown.example, *shown.unseen]
        assert len(set(sizes)) == 4 and {len(s) for s in sizes} == {len(shown.names.split())}
        assert any(call.layout in gallery.LAYOUTS for call in shown.calls())
        shown.loaded.describe(*shown.loaded.inputs(device="meta", **shown.problem(shown.unseen[0])))


class Tried(Scheduled):
    """Notes which variant would take each launch, and runs none."""

    def accepting(self, region: int, frame: Frame, begins: Any, ends: Any, given: Any = None) -> None:
        self.taken.append(self.first(region, frame, begins, ends))


def test_what_is_verified_are_warp_specialised_variants_too() -> None:
    """Each structure that has such a default, at its example and at the last problem that nothing was built for: no
    example was large enough for one before, so that a bundle shipped variants that nothing had run."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for shown in gallery.GALLERY:
        subject = shown.loaded
        lowered = subject.lower(
            subject.inputs(device="meta", **shown.problem(shown.example)), target("nvidia-h200"), "dynamic"
        )
        if "warp_specialised" not in lowered.default.to_dict().values():
            continue
        for sizes in (shown.example, shown.unseen[-1]):
            context = Tried(subject, lowered, lowered.default, {})
            context(*subject.inputs(device="meta", **shown.problem(sizes)))
            found.setdefault(shown.kernel.partition(":")[2], set()).add(tuple(s.language for s in context.taken))
    assert found.pop("attention_backward") == {("triton", "triton", "gluon")}
    assert set(found) == {
        "matmul", "fp8_matmul", "mixed_matmul", "int4_matmul", "grouped_matmul", "grouped_matmul_flat", "attention",
        "attention_scored", "split_k_matmul", "gated_matmul",
    }  # fmt: skip
    assert all(taken == {("gluon",)} for taken in found.values())


def test_layouts_are_what_they_say() -> None:
    x = torch.arange(64.0).view(8, 8)
    strided, unaligned = (gallery.LAYOUTS[name](x) for name in ("strided", "unaligned"))
    assert strided.stride() == (24, 3) and torch.equal(strided, x)
    assert unaligned.data_ptr() % 16 == 4 and torch.equal(unaligned, x)


def test_what_is_wrong_with_a_bundle_is_said() -> None:
    good = Called("m:k", "n=1", True, "exact", 1.0)
    bad = [
        replace(good, is_example=False, wrong="off"),
        replace(good, raised="KeyError"),
        replace(good, step="reference"),
    ]
    lines = verify_bundle.verdicts([good, *bad], Attempts(), 0.1, 0.5, 28, 1000)
    assert [v.what for v in lines if v.ok is False].count("m:k n=1") == 3
    assert [c.ok for c in (good, *bad)] == [True, False, False, False]
    assert all(v.ok is not False for v in verify_bundle.verdicts([good], Attempts(), 0.1, 0.5, 28, 1000))
    assert any(
        v.ok is False for v in verify_bundle.verdicts([good], Attempts([("triton", "tileflow")]), 0.1, 0.5, 28, 1000)
    )
    assert any(v.ok is False for v in verify_bundle.verdicts([good], Attempts(), 0.1, 1.5, 28, 1000))


def test_a_result_file_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [Verdict("a", "1", "2", True), Verdict("b", "3")]
    assert (
        summary.write(tmp_path / "x.json", {"steps": {}}, lines) and summary.read_verdicts(tmp_path / "x.json") == lines
    )
    assert "| a | 1 | 2 | yes |" in capsys.readouterr().out
    assert not summary.write(tmp_path / "x.json", {}, [Verdict("a", "1", "2", False)])


# ---- the soak -----------------------------------------------------------------------------------------------------


def test_disagreements_are_seen() -> None:
    x = torch.randn(100)
    assert not work.disagreement(x, x.clone(), 0.0) and work.disagreement(x, x + 1e-6, 0.0)
    assert not work.disagreement(x, x + 1e-6, 1e-3) and work.disagreement(x, x + 1, 1e-3)
    assert work.disagreement(x, x[:50], 1e-3) and work.disagreement(x, x.double(), 1e-3)
    assert work.disagreement(torch.full((3,), float("nan")), torch.ones(3), 0.5)


def test_inputs_are_cut_anywhere() -> None:
    pool, rng = work.InputPool("cpu", 1 << 12), random.Random(0)
    cuts = [pool.cut(rng, (7, 9)) for _ in range(50)]
    assert {c.shape for c in cuts} == {(7, 9)} and len({c.data_ptr() for c in cuts}) > 40
    assert 0 < sum(c.data_ptr() % 64 == 0 for c in cuts) < 50


def test_shapes_are_seen_and_unseen() -> None:
    checked, rng = _checked(), random.Random(0)
    shapes = [checked.shape(rng) for _ in range(400)]
    known = set(work.known_shapes(checked.largest))
    assert 40 < sum(s not in known for s in shapes) < 160 and all(1 <= n <= 300 for s in shapes for n in s)


def test_growth_is_that_of_the_second_half() -> None:
    assert soak.growth_per_minute([(0.0, 0)]) == 0
    samples = [(float(t), 10**9 if t < 50 else 10**9 + 100 * t) for t in range(100)]
    assert soak.growth_per_minute(samples) == pytest.approx(6000)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A soak of calls, captures and gradients alone."""
    monkeypatch.setattr(soak.Soak, "_differentiate", lambda self, *rest: None)
    monkeypatch.setattr(soak, "CAPTURES", 0.2)


def _checked(call: Any = torch.add) -> work.CheckedKernel:
    inputs = lambda pool, rng, shape: (pool.cut(rng, shape), pool.cut(rng, shape))  # noqa: E731
    return work.CheckedKernel("add", (), (300,), inputs, call, torch.add, 0.0)


def _soaked(call: Any, tmp_path: Path, seconds: float = 0.3) -> soak.Soak:
    running = soak.Soak(tmp_path, soak.NoGpus(), None, [_checked(call)], 1 << 12)
    thread = threading.Thread(target=running.call_kernels, args=(1,))
    thread.start()
    running.tally.stopping.wait(seconds)
    running.tally.stopping.set()
    thread.join()
    return running


def test_a_right_soak_has_nothing_to_say(quiet: None, tmp_path: Path) -> None:
    tally = _soaked(torch.add, tmp_path).tally
    assert not tally.errors and not tally.wrong and tally.counts["captures"] and tally.counts["replays"]


def test_a_soak_sees_errors_and_wrong_results(quiet: None, tmp_path: Path) -> None:
    def faulty(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 5 == 0:
            raise KeyError("a race")
        return x + y if x.shape[0] % 3 else x - y

    tally = _soaked(faulty, tmp_path).tally
    assert any("KeyError" in kind for kind in tally.errors) and {"add", "add, replayed"} >= set(tally.wrong) != set()
    assert tally.first  # tracebacks


def test_a_soak_ends_early_where_everything_fails(quiet: None, tmp_path: Path) -> None:
    def broken(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("illegal access")

    started = time.monotonic()
    assert _soaked(broken, tmp_path, 30.0).tally.errors.total() >= soak.MOST_ERRORS
    assert time.monotonic() - started < 20


def _report(**changed: Any) -> dict[str, Any]:
    names = ("calls", "captures", "replays", "gradients", "reloads", "interpreted")
    report = {
        "device": "none", "devices": ["cpu"], "seconds": 1.0, "threads": 8, "streams": 4,
        "counts": dict.fromkeys(names, 1), "first_calls": 1, "errors": {}, "wrong": {}, "steps": {"default": 1},
        "counted": 1, "rss_mb_per_minute": 0.0, "rss_mb": 1.0, "modules": 1, "module_loads": 1,
    }  # fmt: skip
    return {**report, **changed}


@pytest.mark.parametrize(
    "changed",
    [
        {"errors": {"call: KeyError": 1}},
        {"wrong": {"softmax": 1}},
        {"steps": {"reference": 1}},
        {"counts": {"calls": 9}},
    ],
)
def test_a_soak_fails_for_each_thing_that_must_not_be(changed: dict[str, Any]) -> None:
    assert all(v.ok is not False for v in soak.verdicts(_report()))
    assert any(v.ok is False for v in soak.verdicts(_report(**changed)))


# ---- the command line ---------------------------------------------------------------------------------------------


def test_all_runs_every_part_and_sums_them_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow_benchmarks.production import __main__ as command

    asked: Counter[str] = Counter()

    def child(name: str, arguments: list[str], log: Path, limit_s: float) -> tuple[str, int, float]:
        asked[name] += 1
        if name in PARTS:
            summary.write(Path(arguments[arguments.index("--out") + 1]), {}, [Verdict(name, "1", "1", name != "calls")])
        return name, int(name == "calls"), 1.0

    monkeypatch.setattr(command, "_child", child)
    assert main(["all", str(tmp_path / "out"), "--seconds", "1"]) == 1
    assert asked == Counter(["build", *PARTS])
    text = (tmp_path / "out" / "summary.md").read_text()
    assert all(f"## {name}" in text for name in PARTS) and "| calls | 1 | 1 | **no** |" in text
    assert len([*(tmp_path / "out").iterdir()]) <= 6


def test_a_part_past_its_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow_benchmarks.production import __main__ as command

    monkeypatch.setattr(command.sys, "executable", "sleep")
    monkeypatch.setattr(command.subprocess, "run", _expired)
    assert command._child("soak", ["soak"], tmp_path / "log.txt", 0.1)[1] == -1
    assert "killed" in (tmp_path / "log.txt").read_text()


def _expired(*args: Any, timeout: float, **rest: Any) -> Any:
    import subprocess

    raise subprocess.TimeoutExpired("soak", timeout)
