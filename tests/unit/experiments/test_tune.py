"""``kernel.tune(...)`` and ``tileflow.tune([...])`` end to end, in this process: the cost model stands in for a GPU."""

from __future__ import annotations

import inspect
import io
import logging
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tile_testing import ROOT
from tileflow_cluster import pipeline, shared_tensors
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.pipeline import ModelDevice
from tileflow_cluster.protocol import KernelRef, TrialRequest
from tileflow_cluster.shared_call import SharedCall
from tileflow_experiments import mlflow_log, sweep, tune
from tileflow_experiments.work import Tools

import tileflow
import tileflow.language as tfl
from tileflow import runtime
from tileflow.compat import helion
from tileflow.config import Config
from tileflow.errors import CallError, ClusterError, KernelError, SpecError
from tileflow.measure.check import reference_of
from tileflow.measure.kernel import load
from tileflow.measure.request import Limits
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.table_files import load_table
from tileflow.tuning import TUNE_OPTIONS

GPU = "nvidia-h200"


@dataclass(frozen=True)
class Stages:
    """The real compiler and cost model, in this process."""

    compile_limit_s: float = 60.0

    def device_limit_s(self, request: TrialRequest) -> float:
        return 60.0

    def open_compiler(self) -> Any:
        return Compiler()

    def open_model(self, device_class: str) -> ModelDevice:
        return ModelDevice(device_class)

    def open_device(self, device_class: str) -> ModelDevice:
        raise NotImplementedError


class Compiler:
    compiled_by = ()

    def compile(self, request: TrialRequest) -> Any:
        return pipeline.compile_stage(request)

    def close(self) -> None: ...


def here(spec: Any) -> InlineEvaluator:
    return InlineEvaluator(Stages(), modelled=spec.device_classes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(tune, "Tools", lambda evaluator: Tools(here, check=lambda _: Outcome(Status.OK)))
    monkeypatch.setenv("TILEFLOW_TABLES", str(tmp_path / "mine"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runtime.clear()
    yield
    runtime.clear()


def scaling(factor: float) -> tileflow.Kernel:
    @tileflow.kernel
    def scaled(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        out = torch.empty_like(x) if out is None else out
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = x[tile, :] * factor
        return out

    return scaled


QUICK: dict[str, Any] = {"budget_s": 0.3, "strategy": "random", "device_class": GPU}


def found(kernel: tileflow.Kernel, *args: Any) -> Any:
    """What a lookup has for a call, as in another process: nothing is loaded."""
    runtime.clear()
    return runtime.lookup(kernel.name, kernel.semantic_hash, kernel.describe(*args), GPU)


def test_a_closure_is_tuned_with_its_arguments_alone_and_its_row_is_found_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEFLOW_TUNINGS", str(tmp_path))
    kernel, x = scaling(2.0), torch.randn(64, 128)
    row = kernel.tune(x, **QUICK)
    assert row.problem.key == kernel.describe(x).key and (row.device, row.origin) == (GPU, "modelled")
    said, chatter = capfd.readouterr()
    heading, line, place = said.splitlines()
    assert heading.split() == ["kernel", "call", "default", "best", "speed-up", "roofline", "checks"]
    assert line.startswith("scaled  x=float32[64x128] out=None  ") and f"{row.best_us:.1f} us" in line
    assert f"{row.default_us / row.best_us:.2f}x" in line
    assert re.search(r"x  +\d+%  +passed, interpreted  modelled for nvidia-h200$", line), line
    (file,) = (tmp_path / "mine").glob("*.json")
    assert place == f"row in {file}" and file.stem == f"scaled-{kernel.semantic_hash[:16]}"
    assert chatter == "", "one table is all that is said"
    (log,) = tmp_path.glob("tileflow-*/tune.log")
    assert "modelled by 1 worker" in log.read_text()
    hit = found(scaling(2.0), x)
    assert (hit.step, hit.config) == ("exact", row.config)
    assert found(scaling(3.0), x) is None, "another kernel under the same name"
    assert found(kernel, torch.randn(32, 128)) is None, "a call of another shape gets its own default"


@pytest.mark.parametrize("stream", [None, io.TextIOWrapper(io.BytesIO(), "ascii")])
def test_a_search_needs_nobody_to_tell(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stream: io.TextIOWrapper | None
) -> None:
    """Without a stderr, as in a service, no search began; where stdout could not spell a name, the caller got no row
    of a search that had ended."""

    @tileflow.kernel
    def größe(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = x[tile, :] * 2
        return out

    x = torch.randn(64, 128)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    row = größe.tune(x, **QUICK)
    monkeypatch.undo()
    assert row.problem.key == größe.describe(x).key
    told = [record.getMessage() for record in caplog.records if "nobody was told" in record.getMessage()]
    if stream is None:
        assert len(told) == 1 and "größe" in told[0]
    else:
        assert not told and b"gr\\xf6\\xdfe" in stream.buffer.getvalue()  # type: ignore[attr-defined]


def test_several_calls_at_once_also_of_kernels_of_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    two, three, x, y = scaling(2.0), scaling(3.0), torch.randn(64, 128), torch.randn(32, 64)
    rows = tileflow.tune([(two, (x,)), (three, [x]), (two, (), {"x": y}), (two, (x,))], **QUICK)
    assert [row.problem.key for row in rows] == [
        k.describe(a).key for k, a in ((two, x), (three, x), (two, y), (two, x))
    ]
    assert rows[0] is rows[3]
    assert len(capsys.readouterr().out.splitlines()) == 1 + 4 + 2
    assert found(two, x) and found(two, y) and found(three, x) and not found(three, y)


def test_threads_take_turns_and_leave_logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gave back the other's handlers: what the process logged afterwards went to a file that was closed."""
    names, running, seen, search = ("tileflow", "mlflow"), [], [], sweep.run

    def run(spec: Any, folder: Path, tools: Tools) -> str:
        running.append(folder)
        seen.append(len(running))
        time.sleep(0.3 * len(seen))  # the first to begin is the first to end
        try:
            return search(spec, folder, tools)
        finally:
            running.remove(folder)

    monkeypatch.setattr(sweep, "run", run)
    before = [(log.handlers, log.propagate) for log in map(logging.getLogger, names)]
    kernels = [scaling(float(factor)) for factor in range(2, 5)]
    with ThreadPoolExecutor(len(kernels)) as threads:
        rows = list(threads.map(lambda kernel: kernel.tune(torch.randn(64, 128), **QUICK), kernels))
    assert all(rows) and seen == [1] * len(kernels)
    assert [(log.handlers, log.propagate) for log in map(logging.getLogger, names)] == before


def test_a_search_amid_a_search_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal's handler that tunes waited for good for the search that it interrupted."""
    refused: list[str] = []

    def run(*_: Any) -> str:
        with pytest.raises(CallError, match="before its thread begins another") as error:
            scaling(3.0).tune(torch.randn(64, 128), **QUICK)
        refused.append(str(error.value))
        return search(*_)

    search = sweep.run
    monkeypatch.setattr(sweep, "run", run)
    assert scaling(2.0).tune(torch.randn(64, 128), **QUICK)
    assert scaling(4.0).tune(torch.randn(64, 128), **QUICK), "the turn was given back"
    assert len(refused) == 2 and "signal's handler" in refused[0]


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, ConnectionError)])
def test_a_signal_ends_the_search_and_then_reaches_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals, raised: type[Exception]
) -> None:
    """The search took it for itself: the next search of a loop began, and a process that was asked to end went on."""

    def compile(self: Compiler, request: TrialRequest) -> Any:
        signal.raise_signal(number)
        return pipeline.compile_stage(request)

    def ended(number: int, frame: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(Compiler, "compile", compile)
    before = signal.signal(signal.SIGTERM, ended)
    try:
        with pytest.raises(raised):
            scaling(2.0).tune(torch.randn(64, 128), **QUICK)
        assert signal.getsignal(signal.SIGTERM) is ended
    finally:
        signal.signal(signal.SIGTERM, before)
    assert f"stopped before its end: {number.name}" in capsys.readouterr().out, "what was found is kept and said"


def test_a_signal_that_the_process_ignores_stops_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C is where a shell without job control started it in the background."""

    def compile(self: Compiler, request: TrialRequest) -> Any:
        signal.raise_signal(signal.SIGINT)
        return pipeline.compile_stage(request)

    monkeypatch.setattr(Compiler, "compile", compile)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert scaling(2.0).tune(torch.randn(64, 128), **QUICK)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_rows_of_several_searches_stand_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEFLOW_TUNINGS", str(tmp_path))
    kernel = scaling(2.0)
    for m in (32, 64):
        kernel.tune(torch.randn(m, 128), **QUICK)
    (file,) = (tmp_path / "mine").glob("*.json")
    assert {e.problem.sizes["x.shape.0"] for e in load_table(file).entries} == {32, 64}
    journals = [path.read_text() for path in tmp_path.glob("tileflow-*/journal.jsonl")]
    assert sum(str(file) in text for text in journals) == 1, "the second search begins with what the first one found"


def test_tables_names_another_folder(tmp_path: Path) -> None:
    kernel, x = scaling(2.0), torch.randn(64, 128)
    kernel.tune(x, tables=tmp_path / "theirs", **QUICK)
    assert not (tmp_path / "mine").exists() and len([*(tmp_path / "theirs").glob("*.json")]) == 1
    assert found(kernel, x) is None
    runtime.load(tmp_path / "theirs")
    assert runtime.lookup(kernel.name, kernel.semantic_hash, kernel.describe(x), GPU).step == "exact"


def test_rows_are_not_lost_where_the_folder_takes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("a file")
    row = scaling(2.0).tune(torch.randn(64, 128), **QUICK)
    place = Path(capsys.readouterr().out.splitlines()[-1].removeprefix("row in "))
    assert row is not None and place.parent.parent == tmp_path and [*place.glob("*.json")]


def test_the_callers_tensors_stay_as_they_are() -> None:
    @tileflow.kernel
    def added(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count += 1  # by host code
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = x[tile, :] + 1
        return x

    x, count = torch.randn(64, 128), torch.zeros(3, dtype=torch.int64)
    before, random = x.clone(), torch.get_rng_state()
    assert added.tune(x, count, **QUICK) is not None
    assert torch.equal(x, before) and not count.any() and (x._version, count._version) == (0, 0)
    assert torch.equal(torch.get_rng_state(), random)


def test_keywords_that_the_kernel_has_are_its_arguments() -> None:
    @tileflow.kernel
    def shifted(x: torch.Tensor, seed: int = 1) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = x[tile, :] + seed
        return out

    x = torch.randn(64, 128)
    assert shifted.tune(x, seed=70, **QUICK).problem.args[1][1].value == 70
    assert tileflow.tune([(shifted, (x,))], seed=3, **QUICK)[0].problem.args[1][1].value == 1


def test_host_code_that_reads_data_reads_the_calls_own() -> None:
    @tileflow.kernel
    def first(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        lengths.clamp_(max=x.size(0))
        for tile in tfl.tile(int(lengths.max().item())):
            out[tile, :] = x[tile, :] * 2
        return out

    x, lengths = torch.randn(64, 128), torch.tensor([3, 480])
    assert first.tune(x, lengths, **QUICK) is not None
    assert lengths.tolist() == [3, 480]


def test_helions_autotune_needs_nothing_else() -> None:
    @helion.kernel(autotune_budget_seconds=1)
    def halved(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in helion.language.tile(x.size(0)):
            out[tile, :] = x[tile, :] / 2
        return out

    x = torch.randn(64, 128)
    config = halved.autotune((x,), **{**QUICK, "budget_s": 0.3})
    assert halved.configs == [config] and config.config["block_sizes"]
    assert found(halved.__tileflow_kernel__, x).step == "exact"


def test_what_cannot_be_tuned_is_said(tmp_path: Path) -> None:
    kernel, x = scaling(2.0), torch.randn(4, 8)
    with pytest.raises(CallError, match=r"on the GPU that holds its arguments(.|\n)*device_class"):
        kernel.tune(x)
    with pytest.raises(CallError, match="which have memory and are on one device, but got meta"):
        kernel.tune(torch.empty(4, 8, device="meta"), **QUICK)
    with pytest.raises(SpecError, match="a strategy is one"):
        kernel.tune(x, **{**QUICK, "strategy": "guess"})
    with pytest.raises(SpecError, match="kernel, args"):
        tileflow.tune([(kernel, x)], **QUICK)
    with pytest.raises(SpecError, match="a device class"):
        kernel.tune(x, device_class="gpu")
    (file := tmp_path / "file").touch()
    with pytest.raises(SpecError, match=r"written to a folder.*\n.*at out"):
        tileflow.tune([(kernel, (x,))], **QUICK, out=file)
    assert tileflow.tune([], **QUICK) == []


def test_an_option_that_tune_lacks_is_refused_by_name_with_the_one_near_it() -> None:
    kernel, x = scaling(2.0), torch.randn(4, 8)
    with pytest.raises(
        CallError, match=r"got budget=(.|\n)*scaled\.tune(.|\n)*did you mean budget_s\?(.|\n)*: x, out$"
    ):
        kernel.tune(x, budget=5)
    with pytest.raises(CallError, match=r"got stratgy=(.|\n)*at tileflow\.tune(.|\n)*did you mean strategy\?"):
        tileflow.tune([(kernel, (x,))], stratgy="random")
    taken = inspect.signature(tune.tune_calls).parameters
    assert [*taken] == ["calls", *TUNE_OPTIONS]


def test_wrong_results_of_drawn_values_say_how_to_tune_with_ones_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that diverges for values that do not belong together got no row, and no word why."""
    monkeypatch.setattr(shared_tensors, "BY_VALUE_BYTES", 1 << 12)
    monkeypatch.setattr(pipeline.ModelDevice, "run", lambda *_: Outcome(Status.NONFINITE))
    kernel, x = scaling(2.0), torch.randn(64, 128)
    assert kernel.tune(x, **QUICK) is None
    said = capsys.readouterr().out
    assert "no config works" in said and "nonfinite" in said
    assert re.search(r"^scaled: trials had other values of x than yours.*tune\(\.\.\., by_value=True\)$", said, re.M)
    assert kernel.tune(x, by_value=True, **QUICK) is None
    assert "other values" not in capsys.readouterr().out


def test_a_kernel_that_cannot_be_lowered_raises_and_says_the_place() -> None:
    @tileflow.kernel
    def broken(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = x[tile, :].nonexistent()
        return out

    before = [logging.getLogger(name).propagate for name in ("tileflow", "mlflow")]  # MLflow changes its own on import
    with pytest.raises(KernelError, match="nonexistent"):
        broken.tune(torch.randn(4, 8), **QUICK)
    assert [logging.getLogger(name).propagate for name in ("tileflow", "mlflow")] == before


def test_a_call_that_its_launch_refuses_gets_no_row(tmp_path: Path) -> None:
    kernel, both = scaling(2.0), torch.randn(9, 8)
    with pytest.raises(CallError, match="that overlap, 32 bytes apart"):
        kernel.tune(both[1:], both[:-1], **QUICK)
    assert not list(tmp_path.glob("mine/*.json"))


def test_a_kept_search_is_read_but_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
    monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
    out = tmp_path / "out"
    calls = [(scaling(2.0), (torch.randn(16, 32),))]
    tileflow.tune(calls, out=out, **QUICK)
    assert {"journal.jsonl", "report.md", "trials.parquet", "tables"} <= {path.name for path in out.iterdir()}
    for go_on in (lambda: sweep.resume(out, Tools(here)), lambda: sweep.export(out)):
        with pytest.raises(SpecError, match="ends with the program"):
            go_on()
    with pytest.raises(SpecError, match="journal"):
        tileflow.tune(calls, out=out, **QUICK)


def test_a_notebook_has_one_line_that_is_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    scaling(2.0).tune(torch.randn(16, 32), **QUICK)
    line = capsys.readouterr().err
    assert "trials" in line and "\n" not in line
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    assert shown.strip() == ""


def test_workers_of_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow_cluster import local

    opened: list[Any] = []

    class Joined:
        def __init__(self, stages: Any, device_classes: Any, **options: Any) -> None:
            opened.append(options["address"])

        def close(self) -> None:
            opened.append("closed")

    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setattr(local, "RayEvaluator", Joined)
    monkeypatch.setattr(local, "live_nodes", lambda: ("one", "two"))
    with pytest.raises(ClusterError, match="a Ray of 2 nodes"):
        local.open_on_this_machine(Stages(), [GPU])  # type: ignore[arg-type]
    assert opened == ["10.0.0.1:6379", "closed"], "which is asked whether a head answers before Ray waits for it"


def test_a_ray_that_does_not_answer_is_said_within_seconds() -> None:
    """Ray waited for two minutes, then ended the program that tuned. In a process of its own: a test may have
    connected this one, and a connected process asks no address."""
    program = """
from tile_testing.fakes.cluster_fakes import GPU, FakeStages
from tileflow.errors import ClusterError
from tileflow_cluster import local

try:
    local.open_on_this_machine(FakeStages(""), [GPU])
except ClusterError as error:
    print(error)
"""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"RAY_ADDRESS": address, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=100,  # a loaded machine imports Ray in some 20
            check=True,
        )
    assert re.search(rf"must answer at its address(.|\n)*{address}(.|\n)*RAY_ADDRESS", done.stdout), done.stdout


@pytest.mark.parametrize(("address", "opened"), [("", "here"), ("local", "ray"), ("10.0.0.1:6379", "ray")])
def test_ray_carries_a_tuning_where_its_address_is_set_alone(
    address: str, opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 15: Ray takes 7 s to start, which a tuning on its own machine has no use for."""
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(tune, "LocalEvaluator", lambda stages, classes: "here")
    monkeypatch.setattr("tileflow_cluster.local.open_on_this_machine", lambda stages, classes: "ray")
    assert tune._on_this_machine(SimpleNamespace(device_classes=(GPU,))) == opened


def test_a_gpu_worker_measures_the_call_that_is_shared() -> None:
    """What the measuring child is asked for is found by its loader there, and is the call."""
    kernel, x = scaling(2.0), torch.randn(16, 32)
    with SharedCall(kernel, (x,), x.device) as shared:
        ref = KernelRef(kernel.name, kernel.semantic_hash, shared=shared.reference)
        device = object.__new__(pipeline.GpuDevice)
        device._limits = Limits()
        request = TrialRequest("1", ref, (("call", "c0ffee"), ("x.shape.0", 16)), GPU, Config(()))
        asked = device._ask(request, (), seeds=2)
        call = load(asked.loader, asked.kernel, asked.sys_path)
        (ours,) = call.inputs(device="cpu", seed=1, **dict(asked.problem))
        assert torch.equal(ours, x) and ours.data_ptr() != x.data_ptr()
        made = reference_of(call, (ours,))
        torch.testing.assert_close(made.result, x.double() * 2)


def test_the_page_about_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every block runs as a script of its own; the dialect's tunes on a GPU alone."""
    spec = tune._spec
    monkeypatch.setattr(tune, "_device_class", lambda calls: GPU)
    monkeypatch.setattr(tune, "_spec", lambda device, budget_s, strategy, seed: spec(device, 0.3, "random", seed))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    page = (ROOT / "docs/guides/tuning.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 6
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(blocks):
        script = tmp_path / f"script_{number}.py"
        script.write_text(block.replace('"cuda"', '"cpu"'))
        runpy.run_path(str(script), run_name="__main__")
    assert len(re.findall(r"^rows? in ", capsys.readouterr().out, re.MULTILINE)) == 4
