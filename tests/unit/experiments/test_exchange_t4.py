"""A journal's trials as T4 results, which auto-tuners share."""

from __future__ import annotations

import importlib.resources
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tile_testing import DATA
from tileflow_experiments import journal as journals
from tileflow_experiments.exchange import t4

from tileflow.errors import SpecError
from tileflow.measure.types import Status

JOURNAL = DATA / "journals" / "schema_1.jsonl"

# What version 1.0.0 of the format asks for, and further fields refused where a misspelt one would otherwise pass.
_NUMBER, _TEXT = {"type": "number", "minimum": 0}, {"type": "string"}
PHASES = ("compilation_time", "framework", "search_algorithm", "validation", "benchmark")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["schema_version", "results"],
    "properties": {
        "schema_version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "metadata": {"type": "object", "properties": {"timeunit": {"enum": ["seconds", "milliseconds"]}}},
        "results": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["configuration", "times", "invalidity", "correctness"],
                "additionalProperties": False,
                "properties": {
                    "timestamp": _TEXT,
                    "configuration": {"type": "object", "minProperties": 1},
                    "objectives": {"type": "array", "items": _TEXT, "minItems": 1},
                    "times": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            **dict.fromkeys(
                                ("compilation_time", "framework", "search_algorithm", "validation", "benchmark"),
                                _NUMBER,
                            ),
                            "runtimes": {"type": "array", "items": _NUMBER},
                        },
                    },
                    "invalidity": {"enum": ["timeout", "compile", "runtime", "correctness", "constraints", "correct"]},
                    "correctness": {"type": "number"},
                    "measurements": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name", "value"],
                            "properties": {
                                "name": _TEXT,
                                "value": {"type": ["number", "string", "array"]},
                                "unit": _TEXT,
                            },
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return t4.export(journals.fold(journals.read(JOURNAL)), tmp_path_factory.mktemp("t4"))


def results_of(written: list[Path], device: str) -> list[dict[str, Any]]:
    return [r for path in written if device in path.name for r in json.loads(path.read_text())["results"]]


def test_every_search_has_results_and_metadata(written: list[Path]) -> None:
    assert len(written) == len(set(written)) == 4
    for path in written:
        metadata = json.loads(path.with_name(path.name.replace("-results", "-metadata")).read_text())
        assert metadata["schema_version"] == "1.0.0" and metadata["metadata"]["tuned"]["kernel"] == "fakes:kernel"
        assert metadata["metadata"]["tuned"]["measured"] is ("nvidia-h200" in path.name)
        assert metadata["metadata"]["environment"]["requirements"]


def test_results_follow_the_schema(written: list[Path]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for path in written:
        jsonschema.validate(json.loads(path.read_text()), SCHEMA)


@pytest.mark.parametrize("package", ["kernel_tuner", "autotuning_methodology"])
def test_results_follow_the_schemas_that_others_ship(written: list[Path], package: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    files = importlib.resources.files(pytest.importorskip(package))
    name = {"kernel_tuner": "schema/T4/1.0.0/results-schema.json", "autotuning_methodology": "schemas/T4.json"}[package]
    schema = json.loads(files.joinpath(name).read_text())
    for path in written:
        jsonschema.validate(json.loads(path.read_text()), schema)


def test_each_ending_has_its_word_and_only_good_trials_a_time(written: list[Path]) -> None:
    folded = journals.fold(journals.read(JOURNAL))
    settled = [r for records in folded.trials.values() for r in records if r.completed]
    found = [r for path in written for r in json.loads(path.read_text())["results"]]
    assert Counter(r["invalidity"] for r in found) == Counter(t4.INVALIDITY[r.status] for r in settled)
    assert {r["invalidity"] for r in found} > {"correct"}, "the journal has failures too"
    for result in found:
        is_timed = {"time", "modelled_time"} & {m["name"] for m in result["measurements"]}
        assert bool(is_timed) == (result["invalidity"] == "correct")
        assert result["correctness"] == (result["invalidity"] != "correctness")


def test_times_are_milliseconds_and_modelled_ones_are_called_so(written: list[Path]) -> None:
    folded = journals.fold(journals.read(JOURNAL))
    best = min(r.time_us for rs in folded.trials.values() for r in rs if r.measured and r.time_us is not None)
    times = [m["value"] for r in results_of(written, "nvidia-h200") for m in r["measurements"] if m["name"] == "time"]
    assert min(times) == pytest.approx(best / 1000)
    modelled = results_of(written, "amd-mi300x")
    assert {tuple(r["objectives"]) for r in modelled} == {("modelled_time",)}
    assert not [m for r in modelled for m in r["measurements"] if m["name"] == "time"]


def test_every_ending_of_a_trial_that_blames_its_config_has_a_word() -> None:
    assert set(t4.INVALIDITY) == {*Status} - {Status.CANCELLED}


def test_a_sweep_without_trials_is_refused(tmp_path: Path) -> None:
    lines = [line for line in journals.read(JOURNAL) if line["kind"] == "header"]
    with pytest.raises(SpecError, match="trials to export"):
        t4.export(journals.fold(lines), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_where_a_search_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The searches before it were."""
    folded = journals.fold(journals.read(JOURNAL))
    made = iter([{}, {"of": float("nan")}])
    monkeypatch.setattr(t4, "metadata", lambda *_: next(made))
    with pytest.raises(ValueError, match="JSON"):
        t4.export(folded, tmp_path / "t4")
    assert not (tmp_path / "t4").exists()
