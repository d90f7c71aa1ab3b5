"""A file that is no seed is refused in words before the sweep's folder is begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.experiments_fakes import quick_tools, sweep_spec
from tileflow_experiments import sweep
from tileflow_experiments.spec_check import check

from tileflow.errors import SpecError, TileflowError

ROW: dict[str, Any] = {
    "kernel": "fakes:kernel",
    "problem": '{"n": 64}',
    "device_class": "nvidia-h200",
    "config": '{"x": 1}',
    "status": "ok",
    "median_us": 1.0,
    "measured": True,
}


def parquet(path: Path, columns: dict[str, list[Any]]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


def refused(seed: Path, folder: Path) -> str:
    """What is said of the seed; nothing may be in the folder afterwards, so that the same command is right later."""
    with pytest.raises(TileflowError) as caught:
        sweep.run(sweep_spec(seeds=[str(seed)]), folder, quick_tools())
    assert not folder.exists(), "exit code 2 means that nothing was written"
    assert caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.txt", "a.json", "a.jsonl", "a.parquet"])
def test_a_file_of_another_kind_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    seed = tmp_path / name
    seed.write_bytes(b"hello\n")
    assert str(seed) in refused(seed, tmp_path / "out")


@pytest.mark.parametrize(
    "column, value",
    [
        ("config", "not JSON"),
        ("config", "[1]"),
        ("config", 1),
        ("config", None),
        ("problem", "{"),
        ("problem", "[]"),
        ("median_us", "a"),
        ("median_us", None),
    ],
)
def test_parquet_of_another_program_is_refused(tmp_path: Path, column: str, value: Any) -> None:
    """Its columns were read as they came, and what they gave was an error of Python's."""
    seed = parquet(tmp_path / "a.parquet", {name: [given, given] for name, given in (ROW | {column: value}).items()})
    said = refused(seed, tmp_path / "out")
    assert "a seed must be a readable Parquet file of trials" in said and str(seed) in said


def test_parquet_without_the_columns_is_refused_in_one_line(tmp_path: Path) -> None:
    said = refused(parquet(tmp_path / "a.parquet", {"x": [1]}), tmp_path / "out")
    assert "kernel" in said and len(said.splitlines()) == 3


def test_parquet_of_trials_is_taken(tmp_path: Path) -> None:
    seed = parquet(tmp_path / "a.parquet", {name: [given] for name, given in ROW.items()})
    assert sweep.run(sweep_spec(seeds=[str(seed)], budget={"trials": 3}), tmp_path / "out", quick_tools()) == ""


def test_a_path_that_no_file_can_have_is_refused_by_its_field() -> None:
    spec = sweep_spec(strategy={"name": "random"}, kernels=[{"kernel": "a:b", "problems": [{"n": 1}]}])
    long = sweep_spec(seeds=["/" + "a" * 5000])
    with pytest.raises(SpecError, match="a seed must be a file"):
        check(long, lambda _: Loaded(), ["random"])
    check(spec, lambda _: Loaded(), ["random"])
    for field in ({"seeds": ["/a\0b"]}, {"output": "/a\0b"}):
        with pytest.raises(SpecError, match="no zero character"):
            sweep_spec(**field)


def test_a_home_is_not_taken_for_a_folder_named_tilde() -> None:
    with pytest.raises(SpecError, match=f"did you mean {Path.home()}/x"):
        sweep_spec(output="~/x")


class Loaded:
    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        return ()
