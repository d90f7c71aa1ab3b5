"""``tileflow doctor`` says what is there, what is missing, and what to do."""

from __future__ import annotations

import importlib.metadata
import os
import re
import socket
from pathlib import Path

import pytest
from tile_testing import ROOT
from tileflow_experiments import doctor
from tileflow_experiments.cli import app
from tileflow_experiments.doctor import Finding, State
from typer.testing import CliRunner

import tileflow


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process that asks takes seconds, and only one test is about it."""
    monkeypatch.setattr("tileflow_cluster.devices.visible_gpus", lambda: ())


def about(topic: str) -> list[Finding]:
    return [finding for finding in doctor.findings() if finding.topic == topic]


def test_versions_are_those_installed() -> None:
    (torch,) = about("torch")
    assert torch.state is State.OK and torch.text == importlib.metadata.version("torch")


def test_a_missing_package_is_named_with_its_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "ray":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    (ray,) = about("ray")
    assert ray.state is State.MISSING and "kernel.tune" in ray.text and "tileflow[tune]" in ray.hint
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1 and "1 missing" in result.output


def test_an_address_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"ray://127.0.0.1:{port}")
    (ray,) = about("Ray")
    assert ray.state is State.MISSING and str(port) in ray.text and "ray start --head" in ray.hint
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{server.getsockname()[1]}")
        (ray,) = about("Ray")
    assert ray.state is State.OK


def test_folders_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEFLOW_CACHE", str(tmp_path / "not" / "made" / "yet"))
    assert about("cache")[0].state is State.OK and not (tmp_path / "not").exists()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (cache,) = about("cache")
    assert cache.state is State.MISSING and "TILEFLOW_CACHE" in cache.hint


def test_secrets_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hunter2")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:hunter2@db/mlflow")
    found = [finding.text for finding in about("environment")]
    assert "MLFLOW_TRACKING_TOKEN=(set)" in found and not any("hunter2" in text for text in found)


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> object:
        raise OSError("no such device")

    monkeypatch.setattr("tileflow_cluster.devices.visible_gpus", refused)
    (gpus,) = about("gpus")
    assert gpus.state is State.MISSING and "no such device" in gpus.text
    assert about("cache"), "the checks after it were made"


def test_the_version_is_the_packages() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output.strip()) == (0, f"tileflow {tileflow.__version__}")


def test_the_page_of_variables_is_complete() -> None:
    """Each TILEFLOW_ variable that the sources read is on the page, and no other."""
    root = ROOT
    page = set(re.findall(r"^\| `(TILEFLOW_[A-Z_]+)`", (root / "docs/reference/environment.md").read_text(), re.M))
    read: set[str] = set()
    for folder in ("tileflow", "search", "cluster", "experiments", "scripts"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix == ".py" or (folder == "scripts" and path.is_file() and path.suffix != ".pyc"):
                read |= set(re.findall(r"\bTILEFLOW_[A-Z_]+\b", path.read_text()))
    assert read - INSIDE == page
    assert read >= INSIDE, "a variable that is no longer used"


# set by one of our processes for its children
INSIDE = {"TILEFLOW_DEMO", "TILEFLOW_LANE"}
