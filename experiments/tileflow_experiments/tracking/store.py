"""What a store of MLflow must do for a replay, whatever it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tileflow.errors import TileflowError

from ..records import StudyKey
from .runs import MlflowRun

# The page of runs, not the one for agents' traces. MLflow's interface goes by this tag of an experiment; that of 3.17
# asks the page's address alone, then what the browser showed last (see `page`).
KIND = ("mlflow.experimentKind", "custom_model_development")
ABOUT = (
    "mlflow.note.content",
    "Sweeps of tileflow: a run for each kernel, sizes and device; its trials below.",
)
PARENT = "mlflow.parentRunId"


class MlflowUnusable(TileflowError):
    """The store will take nothing until somebody mends it; trying again does not help."""


class MlflowAway(TileflowError):
    """The store did not answer. The journal has it all, so trying again loses nothing."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Refused:
    """MLflow takes all but this one. ``why``: in its own words."""

    why: str


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """A trial's run to write, the ``number``-th of its study. ``run_id``: empty for one that MLflow does not know."""

    trial_id: str
    number: int
    parent_id: str
    run_id: str
    run: MlflowRun


@dataclass(slots=True)
class KnownRuns:
    """The runs that MLflow has of a sweep: of studies, and of trials with the attempt that is logged whole."""

    studies: dict[StudyKey, str] = field(default_factory=dict)
    trials: dict[str, tuple[str, tuple[int, int]]] = field(default_factory=dict)


class Store(Protocol):
    """``changes_params``: a parameter may get another value, which MLflow's own interface refuses.

    All raise MlflowUnusable, and whatever their transport does where they are away."""

    changes_params: bool
    experiment_id: str

    def known(self, sweep_id: str) -> KnownRuns: ...

    def write_study(self, run_id: str, run: MlflowRun) -> str | Refused:
        """Make the run, or bring it up to date. Returns its id."""
        ...

    def write_trials(self, entries: Sequence[RunUpdate]) -> list[str | Refused]:
        """The same of many trials; each is there whole or not at all, or is written again by the next replay."""
        ...

    def keep(self, run_id: str, folder: Path) -> None:
        """The files in ``folder`` become the run's artifacts."""
        ...


def page(uri: str, experiment_id: str) -> str:
    """The address of the runs in MLflow's interface; of a database behind that of whichever server shows it."""
    place = f"#/experiments/{experiment_id}/runs?workflowType=machine_learning"
    return f"{masked(uri).rstrip('/')}/{place}" if uri.startswith("http") else place


def masked(uri: str) -> str:
    """``uri`` without a password, for people and logs."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", uri)
