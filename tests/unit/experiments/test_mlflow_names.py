"""Names of runs and parameters fit the columns of MLflow's stores: SQLite takes any, PostgreSQL refuses longer ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from mlflow.store.tracking.dbmodels import models
from tile_testing.fakes.experiments_fakes import GPU, KERNEL, spec_data
from tileflow_experiments.records import StudyKey
from tileflow_experiments.spec import parse
from tileflow_experiments.tracking.names import MODELLED, config_words, key_name, study_name
from tileflow_experiments.tracking.runs import identity, identity_in
from tileflow_experiments.tracking.study import StudyLog, unique_name

from tileflow.config import Config
from tileflow.errors import SpecError
from tileflow.runtime.problem import Problem, TensorSpec
from tileflow.runtime.recorded import RECORDED, text_of

LONG = StudyKey(KERNEL, (("n", 64), ("text", "x" * 9000)), GPU)


def column(table: Any, name: str) -> int:
    return int(table.__table__.c[name].type.length)


def recorded(tensors: int) -> StudyKey:
    problem = Problem(KERNEL, tuple((f"x{i}", TensorSpec("float32", (64, 8192), (8192, 1))) for i in range(tensors)))
    return StudyKey(KERNEL, (("x0.shape.0", 64), (RECORDED, text_of(problem, {"x0": {"low": 0, "high": 9}}))), GPU)


def test_a_recorded_call_is_named_by_its_arguments() -> None:
    """Its name was the JSON that makes it again: 250 characters are two tensors."""
    assert study_name(recorded(2)) == "kernel x0=float32[64x8192] x1=float32[64x8192] h200"


@pytest.mark.parametrize("key", [LONG, recorded(40)], ids=["long", "recorded"])
@pytest.mark.parametrize("named", [study_name, lambda key: unique_name(key, {study_name(key): LONG_TOO})])
def test_a_long_name_is_cut_to_the_column_and_stays_its_own(key: StudyKey, named: Callable[[StudyKey], str]) -> None:
    name = named(key)
    assert len(f"{name} {MODELLED}") <= column(models.SqlRun, "name")
    name_, value = key.problem[-1]
    assert named(replace(key, problem=(*key.problem[:-1], (name_, _other(value))))) != name


LONG_TOO = replace(LONG, kernel="fakes:other")


def _other(value: Any) -> str:
    return str(value).replace('"x39"', '"y39"') if "x39" in str(value) else f"{value}y"


def test_names_of_parameters_fit_their_column() -> None:
    one, other = key_name("best.load:" + "a" * 300 + "#0"), key_name("best.load:" + "a" * 300 + "#1")
    assert max(len(one), len(other)) <= column(models.SqlParam, "key") == column(models.SqlMetric, "key")
    assert one != other and key_name("best.load:x#0") == "best.load:x.0"
    assert "knob" in config_words(Config.of({"knob": 1}))


@pytest.mark.parametrize(
    "key", [StudyKey(KERNEL, (("n", 64),), GPU), LONG, recorded(40)], ids=["short", "long", "calls"]
)
def test_a_studys_run_is_found_again_by_its_tags(key: StudyKey) -> None:
    """JSON of more than 6000 characters was cut, and read as JSON by the next log, which failed from then on: recorded
    integers, a few hundred, have as many."""
    log = StudyLog(key, "sweep", "c0ffee", 0.0, Config.of({}), "static")
    tags = log.run(study_name(key), None, 0.0).tags
    assert identity_in(tags) == identity(key)
    assert max(map(len, tags.values())) <= column(models.SqlTag, "value")
    name, value = key.problem[-1]
    assert identity(replace(key, problem=(*key.problem[:-1], (name, f"{value} ")))) != identity(key)


@pytest.mark.parametrize("length", [128, 129, 700])
def test_a_sweeps_name_fits_an_experiments(length: int) -> None:
    if length <= 128 < column(models.SqlExperiment, "name"):
        assert parse(spec_data(name="n" * length)).name == "n" * length
        return
    with pytest.raises(SpecError, match=f"at most 128 characters, but this one has {length}"):
        parse(spec_data(name="n" * length))
