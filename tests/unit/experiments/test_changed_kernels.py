"""A journal's trials are of the kernels and the calls that were searched: nobody exports them as those of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import quick_tools, sweep_spec
from tileflow_cluster.protocol import KernelRef, Mode
from tileflow_experiments import sweep
from tileflow_experiments.records import StudyKey
from tileflow_experiments.tuning_task import Prepare, TuningTask

from tileflow.errors import SpecError
from tileflow.runtime.problem import Problem, TensorSpec
from tileflow.runtime.table_files import load_table


def edited_kernel(key: StudyKey, mode: Mode) -> TuningTask:
    return replace(fakes.prepare(key, mode), kernel=KernelRef(key.kernel, "deadbeef"))


def edited_inputs(key: StudyKey, mode: Mode) -> TuningTask:
    """The same problem of the spec, of which ``inputs`` makes another call now."""
    other = Problem(key.kernel, (("x", TensorSpec("float16", (64,), (1,))),))
    return replace(fakes.prepare(key, mode), problem=other)


def resumed(out: Path, prepare: Prepare) -> None:
    sweep.resume(out, replace(quick_tools(), prepare=prepare))


def portfolios(out: Path, prepare: Prepare) -> None:
    sweep.portfolios(out, prepare)


@pytest.mark.parametrize("again", [resumed, sweep.export, portfolios])
@pytest.mark.parametrize(
    "prepare, was, now",
    [
        (edited_kernel, "semantic_hash was c0ffee", "deadbeef"),
        (edited_inputs, r"the call that inputs= makes was x=float32\[64\]", r"x=float16\[64\]"),
    ],
)
def test_a_changed_kernel_is_refused_and_nothing_is_written(
    tmp_path: Path, again: Callable[[Path, Prepare], None], prepare: Prepare, was: str, now: str
) -> None:
    """The times of the old version were exported as rows of the new one, and of calls of another dtype."""
    spec = sweep_spec(budget={"trials": 5}, kernels=[{"kernel": fakes.KERNEL, "problems": [{"n": 64}]}])
    sweep.run(spec, tmp_path, quick_tools())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(SpecError, match=f"{was}, but got {now}"):
        again(tmp_path, prepare)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_another_space_stops_a_search_and_no_export(tmp_path: Path) -> None:
    """As after an update of tileflow: rows of an older space are repaired where they are used."""

    def wider(key: StudyKey, mode: Mode) -> TuningTask:
        task = fakes.prepare(key, mode)
        knobs = [k if k.name != "inert" else replace(k, choices=(0, 1, 2)) for k in task.space.knobs]
        return replace(task, space=type(task.space)(tuple(knobs)))

    sweep.run(sweep_spec(budget={"trials": 5}), tmp_path, quick_tools())
    known = load_table(tmp_path / "tables/fakes-kernel.json").entries
    with pytest.raises(SpecError, match="space_fingerprint was"):
        resumed(tmp_path, wider)
    sweep.export(tmp_path, wider)
    exported = load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert [(e.device, e.config) for e in exported] == [(e.device, e.config) for e in known]
