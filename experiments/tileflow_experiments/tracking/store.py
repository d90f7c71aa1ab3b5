"""What a replay requires of a store of MLflow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tileflow.errors import TileflowError

from .runs import MlflowRun, StudyIdentity

# The page of runs, not the one for agents' traces. MLflow's interface goes by this tag of an experiment; that of 3.17
# asks the page's address alone, then what the browser showed last (see `page`).
KIND = ("mlflow.experimentKind", "custom_model_development")
ABOUT = (
    "mlflow.note.content",
    "Sweeps of tileflow: a run for each kernel, sizes and device; its trials below.",
)
PARENT = "mlflow.parentRunId"
HIDDEN = "***"  # in place of a password


class MlflowUnusable(TileflowError):
    """The store takes nothing until somebody mends it; trying again does not help."""


class MlflowAway(TileflowError):
    """The store did not answer. The journal has it all, so trying again loses nothing."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Refused:
    """MLflow takes all runs but this one. ``why``: its own words."""

    why: str


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """A trial's run to write, the ``number``-th of its study. ``run_id``: empty for one that MLflow does not know."""

    trial_id: str
    number: int
    parent_id: str
    run_id: str
    run: MlflowRun


NOTHING = (0, 0)  # the attempt of a run that was not written whole: earlier than any


@dataclass(slots=True)
class KnownRuns:
    """The runs that MLflow has of a sweep: of studies by their identity, and of trials with the attempt that is logged
    whole. ``parents``: by a trial's run, the study's that it is below."""

    studies: dict[StudyIdentity, str] = field(default_factory=dict)
    trials: dict[str, tuple[str, tuple[int, int]]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)

    def without_strays(self) -> KnownRuns:
        """Return the runs, of which those below a study's run that somebody deleted count as not logged: they are
        written again, below the new one."""
        there = {*self.studies.values()}
        trials = {
            trial: (run_id, attempt if self.parents.get(run_id) in there else NOTHING)
            for trial, (run_id, attempt) in self.trials.items()
        }
        return KnownRuns(self.studies, trials, self.parents)


class Store(Protocol):
    """A place that runs are written to.

    ``changes_params``: a parameter may get another value, which MLflow's own interface refuses. ``at_once``: how many
    trials to write before the log's progress is noted, so that a slow store is told from a silent one; 0 for any
    number. All methods raise MlflowUnusable, and whatever their transport raises where the store does not answer.
    """

    changes_params: bool
    at_once: int
    experiment_id: str

    def known(self, sweep_id: str) -> KnownRuns:
        """Return the runs that the store has of a sweep."""

    def write_study(self, run_id: str, run: MlflowRun) -> str | Refused:
        """Make the run, or bring it up to date. Returns its id, or Refused."""
        ...

    def write_trials(self, entries: Sequence[RunUpdate]) -> list[str | Refused]:
        """Write many trials' runs. Each is written whole or not at all; the next replay writes what is missing."""
        ...

    def keep(self, run_id: str, folder: Path) -> None:
        """Store the files in ``folder`` as the run's artifacts."""
        ...


AWAY = "MLflow must answer"
DELETED = "was deleted meanwhile"
# What a store that is there says, what it lacks, and what to do about it: the first that fits. sqlite has no classes
# for it, and MLflow wraps the words of all others in its own.
_NO_ENTRY = (
    "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, for a user who may write"
)
_CLOSED = "let this user write to the database, its folder and the artifacts, or name another store by --mlflow"
_REFUSALS = (
    (("error code 401", "error code 403", "unauthenticated", "not authenticated", "unauthorized", "permission_denied",
      "forbidden"), "MLflow must let this user in", _NO_ENTRY),
    (("too many 429", "error code 429", "resource_exhausted", "request_limit_exceeded"),
     "MLflow must take this many requests", "it asks for fewer: wait, or lift its limit"),
    (("too many 5", "error code 5"), "MLflow must work", "its server fails: see its own log, or wait until it is back"),
    (("error code 404", "endpoint_not_found", "not in a valid json format", "error code 3"),
     "MLflow must be what answers", "something else does: --mlflow names its server, with its path behind a proxy"),
    (("database is locked", "database table is locked"), "MLflow's database must be free",
     "another program holds it: wait for that one, or end it"),
    ((DELETED,), "a sweep's runs must stay while it is logged", "it is made again"),
    (("readonly database", "unable to open database file", "permission denied", "read-only file system"),
     "MLflow's store and the sweep's folder must take files", _CLOSED),
    (("database or disk is full", "no space left on device", "quota exceeded"),
     "MLflow's store and the sweep's folder must have room", "make room"),
)  # fmt: skip


def refusal_of(error: BaseException) -> tuple[str, str]:
    """Return what a store lacks that raised ``error``, and what to do about it."""
    said = f"{error} {error.__cause__ or ''}".lower()
    for words, constraint, step in _REFUSALS:
        if any(word in said for word in words):
            return constraint, step
    if type(error).__name__ == "RestException":  # MLflow's, of a server or a proxy before it, in words of its own
        return (
            "MLflow must serve what is asked",
            f"see its server's own log; where a proxy asks for a login, {_NO_ENTRY}",
        )
    return AWAY, "start it, or wait until it is back"


def deleted_experiment(uri: str, name: str, experiment_id: str) -> MlflowUnusable:
    """Return the error of an experiment that somebody deleted: what is written into it nobody sees."""
    return MlflowUnusable(
        "a sweep's experiment must not be deleted",
        got=f"{name!r}, deleted",
        where=masked(uri),
        hint=f"`mlflow experiments restore --experiment-id {experiment_id}`, then `tileflow sweep log OUT`",
    )


def page(uri: str, experiment_id: str) -> str:
    """Return the address of the runs in MLflow's interface; for a database only the path on whichever server shows
    it."""
    place = f"#/experiments/{experiment_id}/runs?workflowType=machine_learning"
    return f"{masked(uri).rstrip('/')}/{place}" if uri.startswith("http") else place


def masked(uri: str) -> str:
    """Return ``uri``, or a message with one, without a password, for messages and logs.

    A database's may hold / and @ and may be a value of the query; what comes before the last @ is then taken for it.
    """
    uri = re.sub(r"(\bhttps?://[^:/@\s]*):[^@/\s]*@", rf"\1:{HIDDEN}@", uri)
    uri = re.sub(r"((?<!http)(?<!https)://[^:/@\s]*):\S*@", rf"\1:{HIDDEN}@", uri)
    return re.sub(r"([?&;](?:password|passwd|pwd|sslpassword)=)[^&;\s]*", rf"\1{HIDDEN}", uri, flags=re.IGNORECASE)
