"""The commands for other projects' formats, and what they refuse."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from tile_testing import DATA, ROOT
from tileflow_experiments import cli
from tileflow_experiments.spec import read

JOURNAL = DATA / "journals" / "schema_1.jsonl"
TABLE = DATA / "formats" / "table_of_schema_2.json"
NORM = {
    "name": "rmsnorm_h4096",
    "tags": ["fi_api:flashinfer.norm.rmsnorm"],
    "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 4096}},
    "inputs": {"hidden_states": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"}},
}


def call(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["tileflow", *map(str, arguments)])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    return int(ending.value.code or 0)


def test_trials_are_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(JOURNAL, tmp_path / "journal.jsonl")
    options = ["--format", "t4", "--out", tmp_path / "t4"]
    assert call("trials", "export", tmp_path, *options, monkeypatch=monkeypatch) == 0
    assert "4 searches in t4" in capsys.readouterr().out and len([*(tmp_path / "t4").iterdir()]) == 8


def test_a_table_of_another_kernel_is_no_config_of_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--format", "vllm-moe", "--out", tmp_path / "out"]
    assert call("table", "export", TABLE, *options, monkeypatch=monkeypatch) == cli.BAD_INPUT
    assert "rows of fused experts" in capsys.readouterr().err and not (tmp_path / "out").exists()
    options[1] = "other"
    assert call("table", "export", TABLE, *options, monkeypatch=monkeypatch) == cli.BAD_INPUT


def test_the_pretuned_tables_are_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--format", "vllm-moe", "--out", tmp_path]
    assert call("table", "export", ROOT / "configs/pretuned/tables", *options, monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert "device_name=NVIDIA_H200.json" in out and "no fused experts: examples.serving_moe:route, " in out


def test_a_spec_is_written_from_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump/rmsnorm_h4096.json").write_text(json.dumps(NORM))
    out = tmp_path / "spec.yaml"
    options = ["--format", "flashinfer", "--device-class", "nvidia-h200", "--out", out]
    assert call("sweep", "spec", tmp_path / "dump", *options, monkeypatch=monkeypatch) == cli.BAD_INPUT
    assert "none for batch_size" in capsys.readouterr().err and not out.exists()
    assert call("sweep", "spec", tmp_path / "dump", *options, "--size", "batch_size=x", monkeypatch=monkeypatch) == 2
    assert "--size batch_size=1,64" in capsys.readouterr().err and not out.exists()
    more = ["--size", "batch_size=1,64"]
    assert call("sweep", "spec", tmp_path / "dump", *options, *more, monkeypatch=monkeypatch) == 0
    (kernel,) = read(out).kernels
    assert kernel.kernel == "tileflow.kernels.rms:rms_norm_forward"
    assert [dict(problem)["m"] for problem in kernel.problems] == [1, 64]
