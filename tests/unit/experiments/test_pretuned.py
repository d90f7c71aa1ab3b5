"""The tables that ship: which kernels their rows are still rows of, how they are made, and their distribution."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from tile_testing import ROOT
from tile_testing.fakes import experiments_fakes as fakes
from tileflow_experiments import sweep
from tileflow_experiments.exchange import vllm_moe
from tileflow_experiments.portable import BuiltRow, Failure, Order, build_rows, require_built
from tileflow_experiments.pretuned import __main__ as command
from tileflow_experiments.pretuned import dispatch, package
from tileflow_experiments.pretuned import tables as stored
from tileflow_experiments.spec import KernelSpec, read

from tileflow import runtime
from tileflow.api import load_kernel
from tileflow.config import Config
from tileflow.errors import BuildError, TableError
from tileflow.runtime.problem import Problem, TensorSpec
from tileflow.runtime.table import Entry, KernelId, Table
from tileflow.runtime.table_files import load_table
from tileflow.space.knobs import definition

TREE = ROOT
FOLDER = TREE / stored.TABLES
FILES = sorted(path.name for path in FOLDER.glob("*.json"))
H200, H100 = "nvidia-h200", "nvidia-h100-sxm"


@pytest.fixture(autouse=True)
def _nothing_loaded() -> Iterator[None]:
    runtime.clear()
    yield
    runtime.clear()


@pytest.mark.parametrize("name", FILES)
def test_rows_are_rows_of_the_kernels_of_this_tree(name: str) -> None:
    """Modelled rows are made again anywhere; those that were measured wait for a GPU, and are named until then."""
    (state,) = (s for s in stored.states(FOLDER) if s.path.name == name)
    if state.why_stale and state.measured:
        pytest.xfail(f"{state.line}; `scripts/pretuned tune` on a GPU measures them again")
    assert not state.why_stale, f"{state.line}; `scripts/pretuned model --stale` makes them again"


def test_every_problem_has_a_row_on_every_device() -> None:
    spec = read(TREE / stored.PROBLEMS)
    tables = {table.kernel.ref: table for _, table in stored.read(FOLDER)}
    for entry in spec.kernels:
        kernel = load_kernel(entry.kernel)
        wanted = {kernel.describe(*kernel.inputs(device="meta", **dict(p))).key for p in entry.problems}
        for device in spec.device_classes:
            assert {e.problem.key for e in tables[entry.kernel].entries if e.device == device} == wanted, entry.kernel


@pytest.mark.parametrize("name", FILES)
def test_what_was_modelled_says_so(name: str) -> None:
    for entry in load_table(FOLDER / name).entries:
        assert not entry.launches and entry.best_us is not None
        if entry.origin == "measured":
            assert entry.n and entry.measured_on == entry.device and entry.trial_id
        else:
            assert entry.origin == "modelled" and not entry.n and not entry.measured_on


def test_no_binary_is_among_them() -> None:
    assert {path.suffix for path in (TREE / stored.FOLDER).rglob("*") if path.is_file()} <= {".json", ".yaml", ".lock"}


def test_the_tables_alone_serve_those_who_have_a_compiler() -> None:
    """Measured rows go first: an H200's serve an H100 until the H100's are measured."""
    kernel = load_kernel("tileflow.kernels.rms:rms_norm_forward")
    problem = kernel.describe(*kernel.inputs(device="meta", m=64, n=4096))
    for device, step in ((H200, "exact"), (H100, "sibling")):
        runtime.clear()
        runtime.load(FOLDER, as_device=device)
        hit = runtime.lookup(kernel.name, kernel.semantic_hash, problem, device)
        assert hit is not None and hit.step == step and not hit.binaries()


def test_their_experts_are_configs_of_vllm(tmp_path: Path) -> None:
    table = load_table(FOLDER / "examples.serving_moe.fused_moe.json")
    names = [path.name for path in vllm_moe.export([table], tmp_path).files]
    cards = ("NVIDIA_H100_80GB_HBM3", "NVIDIA_H200")
    shapes = ("E=128,N=384", "E=128,N=768", "E=8,N=3584")
    assert names == [f"{shape},device_name={card}.json" for shape in shapes for card in cards]
    configs = json.loads((tmp_path / names[3]).read_text())
    assert [*configs] == ["1", "8", "64", "256", "4096"]
    assert all(config["BLOCK_SIZE_M"] in (16, 32, 64, 128) for config in configs.values())


def entry(us: float, n: int = 64, device: str = H200, is_measured: bool = False) -> Entry:
    problem = Problem("m:k", (("x", TensorSpec("float32", (n,), (1,))),))
    row = Entry(device, problem, Config.of({"block:tile": 64}), "modelled", us)
    return replace(row, origin="measured", measured_on=device, n=9, trial_id="t") if is_measured else row


def table(*entries: Entry, version: str = "c0ffee") -> Table:
    return Table.of(KernelId.of("m:k", version), entries)


def times(folder: Path) -> dict[tuple[str, int], float | None]:
    (found,) = stored.read(folder)
    return {(e.device, e.problem.sizes["x.shape.0"]): e.best_us for e in found[1].entries}


def test_measured_rows_outlast_modelled_ones_and_give_way_to_newer(tmp_path: Path) -> None:
    (path,) = stored.update([table(entry(9), entry(8, device=H100))], tmp_path)
    assert not stored.update([table(entry(9), entry(8, device=H100))], tmp_path), "nothing changed"
    assert stored.update([table(entry(5, is_measured=True), entry(7, 128, is_measured=True))], tmp_path) == [path]
    assert times(tmp_path) == {(H200, 64): 5, (H200, 128): 7, (H100, 64): 8}
    assert not stored.update([table(entry(4), entry(8, device=H100))], tmp_path), "a model says nothing new"
    stored.update([table(entry(6, is_measured=True))], tmp_path)
    assert times(tmp_path) == {(H200, 64): 6, (H200, 128): 7, (H100, 64): 8}


def test_rows_of_another_version_of_the_kernel_go(tmp_path: Path) -> None:
    stored.update([table(entry(5, is_measured=True), entry(7, 128, is_measured=True))], tmp_path)
    stored.update([table(entry(6), version="decaf")], tmp_path)
    assert times(tmp_path) == {(H200, 64): 6}


def test_one_command_sweeps_and_writes_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = tmp_path / "problems.yaml"
    problems.write_text(yaml.safe_dump(fakes.spec_data(strategy={"name": "exhaustive"}, budget={"trials": 100})))
    monkeypatch.setattr(stored, "PROBLEMS", problems)
    monkeypatch.setattr(stored, "TABLES", tmp_path / "tables")
    monkeypatch.setattr("tileflow.measure.device.identity", lambda: SimpleNamespace(device_class=fakes.GPU))
    monkeypatch.setattr(command, "tools", fakes.tools)
    monkeypatch.setattr(sweep, "check_spec", lambda wanted: None)
    assert command.main(["tune", str(tmp_path / "sweep")]) == 0
    ((path, found),) = stored.read(tmp_path / "tables")
    assert path.name == "fakes.kernel.json" and not found.defaults
    assert [(e.device, e.origin, e.best_us, e.launches) for e in found.entries] == [
        (fakes.GPU, "measured", 10.0, ())
    ] * 2
    assert all(e.default_us == 23.0 and e.n and e.trial_id for e in found.entries)


def test_rows_of_another_version_are_not_built(tmp_path: Path) -> None:
    old = load_table(FOLDER / "tileflow.kernels.rms.rms_norm_forward.json")
    stale = replace(old, kernel=replace(old.kernel, semantic_hash="c0ffee"))
    with pytest.raises(TableError, match="the kernel that this tree has"):
        package.write_binaries([stale], tmp_path / "bundle", 1)
    assert not (tmp_path / "bundle").exists()


def test_a_row_that_does_not_build_is_told_by_name() -> None:
    wanted = package.orders([table(entry(5, is_measured=True))])
    assert [order.kind for order in wanted] == ["static", "dynamic", "portable"]  # sizes near it are served too
    with pytest.raises(BuildError, match="every row must build") as raised:
        require_built(build_rows(wanted[:1], processes=1))
    assert "static m:k" in str(raised.value)


@pytest.mark.parametrize("kind", ["portable", "static"])
def test_a_default_that_does_not_build_is_left_out_and_a_row_is_not(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = load_table(FOLDER / "tileflow.kernels.rms.rms_norm_forward.json")

    def build(orders: list[Order], processes: int) -> list[BuiltRow | Failure]:
        error = TableError("a row must be lucky")
        fine = [
            BuiltRow(o, "", "", e.problem, e.config, (), (), ()) for o, e in zip(orders, whole.entries, strict=False)
        ]
        return [Failure(row.order, error) if row.order.kind == kind else row for row in fine] + [
            Failure(o, error) for o in orders if o.kind == "portable"
        ]

    monkeypatch.setattr(package, "build_rows", build)
    if kind == "static":
        with pytest.raises(BuildError, match="every row must build"):
            package.write_binaries([whole], tmp_path / "bundle")
        return
    bundle = package.write_binaries([whole], tmp_path / "bundle")
    assert [len(t.entries) for t in bundle.tables] == [10] and not bundle.tables[0].defaults
    assert caplog.text.count("without the default portable tileflow.kernels.rms:rms_norm_forward") == 2


def test_check_says_which_are_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(TREE)
    assert command.main(["check", "--json", "--only", "rms_norm_forward"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {
        "tileflow.kernels.rms:add_rms_norm_forward",
        "tileflow.kernels.rms:rms_norm_forward",
    }
    old = load_table(FOLDER / "tileflow.kernels.rms.rms_norm_forward.json")
    stored.update([Table.of(replace(old.kernel, semantic_hash="c0ffee"), old.entries)], tmp_path)
    monkeypatch.setattr(stored, "TABLES", tmp_path)
    assert command.main(["check"]) == command.STALE
    assert "20 rows" not in capsys.readouterr().out
    monkeypatch.setattr(stored, "TABLES", tmp_path / "none")
    assert command.main(["check"]) == command.BAD_INPUT


_ALONE = """
import importlib.util, sys, torch
sys.modules["triton"] = None
import tileflow_pretuned
assert importlib.util.find_spec("tileflow.lowered") is None and importlib.util.find_spec("tileflow.kernels") is None
tables = tileflow_pretuned.load(as_device="nvidia-h200", strict=True)
assert [table.kernel.ref for table in tables] == ["tileflow.kernels.rms:rms_norm_forward"]
from tileflow_pretuned.serving import rms_norm_forward
from tileflow import runtime
x, weight = torch.randn(64, 4096, dtype=torch.bfloat16), torch.rand(4096, dtype=torch.bfloat16)
problem = rms_norm_forward.describe(x, weight, 1e-6, 0.0)
hit = runtime.lookup(rms_norm_forward.name, rms_norm_forward.semantic_hash, problem, "nvidia-h200")
assert hit is not None and hit.step == "exact" and hit.binaries(), hit
out, factor = rms_norm_forward(x, weight, 1e-6, 0.0)
wanted = torch.nn.functional.rms_norm(x.float(), (4096,), weight.float(), 1e-6)
torch.testing.assert_close(out.float(), wanted, rtol=2e-2, atol=2e-2)
"""


_SMALL = {
    "tileflow.kernels.rms:rms_norm_forward": (("m", 3), ("n", 64), ("dtype", "bfloat16")),
    "examples.serving_rope_cache:rope_cache_write": (("tokens", 2), ("h", 2), ("hk", 1), ("d", 16)),
}


@pytest.mark.slow
def test_the_wheel_serves_where_there_is_no_compiler(tmp_path: Path) -> None:
    """Built of one kernel's H200 rows, installed beside the runtime's files alone."""
    pytest.importorskip("hatchling")
    whole = load_table(FOLDER / "tileflow.kernels.rms.rms_norm_forward.json")
    rows = [e for e in whole.entries if e.device == H200 and e.problem.sizes["x.shape.1"] == 4096]
    mine = Table.of(whole.kernel, rows, key_schema=whole.key_schema)
    wheel = package.write_wheel([mine], tmp_path / "wheels", 1)
    assert wheel.name.startswith("tileflow_pretuned-") and wheel.name.endswith("-py3-none-any.whl")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path / "alone", wheel], check=True)
    spec = importlib.util.spec_from_file_location("hatch_build", TREE / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    for file in hook.runtime_files():
        (tmp_path / "alone" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / file, tmp_path / "alone" / file)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "alone"), "TILEFLOW_NATIVE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _ALONE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    specs = [KernelSpec(name, (small,)) for name, small in _SMALL.items()]
    with dispatch.started(tmp_path / "alone", tmp_path, {"TILEFLOW_NATIVE": "0"}) as there:
        right, missing = dispatch.dispatched(there, specs, 0, device="cpu")
    assert (right.step, right.wrong, right.is_ok) == ("eager", "", False)  # no row is a CPU's
    assert "no attribute 'rope_cache_write'" in missing.wrong and not missing.is_ok
    with pytest.raises(BuildError, match="the installed runtime alone"), dispatch.started(TREE, tmp_path):
        pass


def test_a_row_that_is_older_than_a_knob_is_built() -> None:
    """The wheel did not build: rows that were modelled before the space had a knob gave no choice for it, and nothing
    said so until the build."""
    whole = load_table(FOLDER / "tileflow.kernels.rms.rms_norm_forward.json")
    row = whole.entries[0]
    knobs = {name: choice for name, choice in row.config.to_dict().items() if name != "maxnreg"}
    older = replace(row, config=Config.of(knobs))
    wanted = [o for o in package.orders([Table.of(whole.kernel, [older])]) if o.kind == "static"]
    (built,) = require_built(build_rows(wanted, processes=1))
    added = {name: choice for name, choice in built.config.items if name not in knobs}
    assert built.config == Config.of({**knobs, **added}) and "maxnreg" in added
    assert all(choice == definition(name).default for name, choice in added.items())


@pytest.mark.parametrize("options", [["wheel", "dest", "--processes", "-1"], ["dispatch", "a.whl", "--most", "-1"]])
def test_a_count_below_0_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One would leave out the last problem of each kernel, and say that all calls were right."""
    with pytest.raises(SystemExit) as ending:
        command.main(options)
    assert ending.value.code == command.BAD_INPUT and "a count must be a number from 0" in capsys.readouterr().err
