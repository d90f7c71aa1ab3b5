"""The real stages: a kernel of the gallery compiled and modelled for two vendors, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing import ROOT
from tile_testing.fakes.cluster_runs import run
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.pipeline import CACHE_PREFIX, TileflowCompiler, TileflowStages, check_identity
from tileflow_cluster.protocol import KernelRef, TrialRequest, problem_items
from tileflow_cluster.scratch import Scratch

from tileflow.config import Config
from tileflow.errors import BuildTimeout, ClusterError, SpecError
from tileflow.measure.device import DeviceInfo
from tileflow.measure.types import Status
from tileflow.target import target

H200, MI300X = "nvidia-h200", "amd-mi300x"
SIZES = problem_items({"n": 1 << 20, "dtype": "float32"})


@pytest.fixture(scope="module")
def evaluator() -> Iterator[InlineEvaluator]:
    made = InlineEvaluator(TileflowStages(), modelled=(H200, MI300X))
    yield made
    made.close()


def ask(name: str, device_class: str = H200, **knobs: Any) -> TrialRequest:
    from examples.vector_add import vector_add

    lowered = vector_add.lower(vector_add.inputs(device="meta", **dict(SIZES)), target(device_class))
    ref = KernelRef("examples.vector_add:vector_add", vector_add.semantic_hash, (str(ROOT),))
    return TrialRequest(name, ref, SIZES, device_class, Config.of(lowered.default.to_dict() | knobs))


def test_one_kernel_for_two_vendors(evaluator: InlineEvaluator) -> None:
    results = run(evaluator, [ask("nv"), ask("amd", MI300X)])
    (nvidia,), (amd,) = results["nv"], results["amd"]
    for result, form in ((nvidia, "cubin"), (amd, "hsaco")):
        assert result.outcome.status is Status.OK, result.outcome
        assert not result.outcome.measured and result.outcome.measurement is not None
        assert {b.format for b in evaluator.fetch_binaries(result.trial_id)} == {form}
        assert result.build is not None and result.build.traffic is not None
        assert result.build.traffic.bytes == 3 * 4 << 20
        assert result.roofline_frac is not None and 0 < result.roofline_frac <= 1
        assert result.build.occupancy is not None and 0 < result.build.occupancy <= 1
        assert "triton" in dict(result.build.compiled_by) and result.build.compile_s > 0
    assert nvidia.trial_id != amd.trial_id


def test_an_illegal_config_is_an_outcome(evaluator: InlineEvaluator) -> None:
    request = ask("bad")
    knob = next(name for name, choice in request.config.items if name.endswith("num_warps"))
    (result,) = run(evaluator, [replace(request, config=request.config.with_({knob: 3}))])["bad"]
    assert result.outcome.status in (Status.INVALID_STATIC, Status.COMPILE_ERROR)
    assert result.outcome.error_class and result.outcome.error_digest


def test_another_version_of_the_kernel_is_the_kernels_error(evaluator: InlineEvaluator) -> None:
    old = replace(ask("old"), kernel=replace(ask("old").kernel, semantic_hash="0" * 64))
    results = run(evaluator, [old, ask("new")])
    (refused,), (taken,) = results["old"], results["new"]
    assert isinstance(refused.kernel_error, SpecError) and "same version" in str(refused.kernel_error)
    assert taken.kernel_error is None and taken.outcome.status is Status.OK


def test_a_cache_of_another_containers_process_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 8 of issue 17: its process id is nobody's here, and the folder went while it was in use."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getpid", lambda: 999999999)
    theirs = Scratch(CACHE_PREFIX)
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    TileflowStages().open_compiler().close()
    assert [theirs.path] == list(tmp_path.glob("tileflow-triton-*"))


def test_a_process_that_ends_with_a_compiler_leaves_no_cache(tmp_path: Path) -> None:
    """A tuning that was refused early, or was cut off with its program, left one for each core."""
    program = "from tileflow_cluster.pipeline import TileflowStages; compiler = TileflowStages().open_compiler()"
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], env=environment, timeout=120, check=True)
    assert not list(tmp_path.glob("tileflow-triton-*"))


def test_a_compiler_that_does_not_start_leaves_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(BuildTimeout):
        TileflowCompiler(0.001)
    assert not list(tmp_path.glob("tileflow-triton-*"))


def test_a_worker_on_another_card_refuses() -> None:
    """Fault 15: the card is of the class that the worker was placed for. A slice of it is another class."""
    info = DeviceInfo("NVIDIA H200", H200, "GPU-1", 1, 1, "2.13.0", "cuda 13.0")
    check_identity(info, target(H200))
    for wrong in ("nvidia-h100-pcie", "nvidia-sm_90a-60sm-72gb"):
        with pytest.raises(ClusterError, match=r"nvidia-h200 must stand on one(.|\n)*GPU-1"):
            check_identity(replace(info, device_class=wrong), target(H200))
    slice_of_one = replace(info, device_class="nvidia-sm_90a-60sm-72gb")
    check_identity(slice_of_one, target("nvidia-sm_90a-60sm-72gb"))
