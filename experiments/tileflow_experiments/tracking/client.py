"""MLflow by its own client: over HTTP, and for databases that :mod:`.database` does not know.

Several requests are in flight, since a server takes milliseconds for each.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .runs import ATTEMPT, SWEEP, TRIAL, Metric, MlflowRun, identity_in
from .store import (
    ABOUT,
    DELETED,
    KIND,
    NOTHING,
    PARENT,
    KnownRuns,
    MlflowAway,
    Refused,
    RunUpdate,
    deleted_experiment,
    masked,
)

IN_FLIGHT = 8
BATCH = 900  # MLflow takes 1,000 of everything together
# MLflow's own defaults wait for minutes; a replay tries again from outside, where it can say so.
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
ACTIVE = "active"
FAILS_TWICE = 2
_PAUSES = (0.1, 1.0, 3.0)  # seconds between tries
_FAILURES = ("too many 500 error responses", "error code 500")  # of a server that fails, with this or with all
_REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "MALFORMED_REQUEST", "INVALID_STATE")


class ClientStore:
    """A store behind MLflow's client. ``artifacts``: where a new experiment keeps its artifacts, for a store without
    a place."""

    changes_params = False
    at_once = 2 * IN_FLIGHT

    def __init__(self, uri: str, experiment: str, artifacts: Path | None) -> None:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        logging.getLogger("urllib3").setLevel(logging.ERROR)  # it warns of each try, where who logs says it once
        from mlflow.tracking import MlflowClient

        self._uri = uri
        self._client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
        self.experiment_id = find_experiment(self._client, uri, experiment, artifacts)
        self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="mlflow")
        self._written: dict[str, MlflowRun] = {}  # of studies: what MLflow has of them

    def known(self, sweep_id: str) -> KnownRuns:
        """Return the runs of a sweep, found by its tag, page by page. Duplicates left by lost answers are deleted."""
        known, token = KnownRuns(), None
        while True:
            page = self._client.search_runs(
                [self.experiment_id], f"tags.`{SWEEP}` = '{sweep_id}'", max_results=1000, page_token=token
            )
            for run in page:
                self._remember(known, run.info.run_id, run.data.tags)
            token = page.token
            if not token:
                return known.without_strays()

    def _remember(self, known: KnownRuns, run_id: str, tags: Mapping[str, str]) -> None:
        """Record a run, and delete it where a request whose answer was lost has left a second one."""
        if TRIAL not in tags:
            if known.studies.setdefault(identity_in(tags), run_id) != run_id:
                self._client.delete_run(run_id)
            return
        mine = (run_id, attempt_of(tags))
        other = known.trials.get(tags[TRIAL])
        if other is not None:
            mine, second = sorted((mine, other), key=lambda found: found[1], reverse=True)
            self._client.delete_run(second[0])
        known.trials[tags[TRIAL]] = mine
        known.parents[run_id] = tags.get(PARENT, "")

    def write_study(self, run_id: str, run: MlflowRun) -> str | Refused:
        """Write a study's run; Refused where MLflow refuses it. Returns its id."""
        return self._tried(lambda: self._write_study(run_id, run), run_id)

    def _write_study(self, run_id: str, run: MlflowRun) -> str:
        client = self._client
        if not run_id:
            made = client.create_run(self.experiment_id, run.started_ms, tags=filled(run.tags), run_name=run.name)
            run_id = str(made.info.run_id)
        before = self._written.get(run_id)
        there = before.params if before is not None else client.get_run(run_id).data.params
        params = {name: value for name, value in run.params.items() if name not in there}
        tags = dict(run.tags)
        if before is not None:
            tags = {name: value for name, value in tags.items() if before.tags.get(name) != value}
        if before is None or before.name != run.name:
            client.update_run(run_id, name=run.name)
        for start in range(0, max(len(run.metrics), 1), BATCH):
            self._log(run_id, run.metrics[start : start + BATCH], {} if start else tags, {} if start else params)
        if run.ended_ms is not None:
            client.set_terminated(run_id, status=run.status, end_time=run.ended_ms)
        elif before is None or before.status != run.status:
            client.update_run(run_id, status=run.status)
        self._written[run_id] = run
        return run_id

    def write_trials(self, entries: Sequence[RunUpdate]) -> list[str | Refused]:
        """Write trials' runs with several requests in flight. Returns their ids, or Refused, in order."""
        return list(self._pool.map(lambda entry: self._tried(lambda: self._write_trial(entry), entry.run_id), entries))

    def _write_trial(self, entry: RunUpdate) -> str:
        """Write a trial's run, the tag of its attempt last: without that tag the run is written again."""
        run, run_id = entry.run, entry.run_id
        last = {ATTEMPT: run.tags[ATTEMPT]}
        if run_id:
            self._client.update_run(run_id, name=run.name)
            last = dict(run.tags) | {PARENT: entry.parent_id}
        else:
            tags = {name: value for name, value in filled(run.tags).items() if name != ATTEMPT}
            tags |= {PARENT: entry.parent_id}
            made = self._client.create_run(self.experiment_id, run.started_ms, tags=tags, run_name=run.name)
            run_id = str(made.info.run_id)
        self._client.set_terminated(run_id, status=run.status, end_time=run.ended_ms)
        self._log(run_id, run.metrics, last, run.params)
        return run_id

    def _log(self, run_id: str, metrics: Sequence[Metric], tags: Mapping[str, str], params: Mapping[str, str]) -> None:
        from mlflow import entities

        self._client.log_batch(
            run_id,
            metrics=[entities.Metric(*metric) for metric in metrics],
            params=[entities.Param(*item) for item in params.items()],
            tags=[entities.RunTag(*item) for item in tags.items()],
            synchronous=True,
        )

    def _tried(self, write: Callable[[], str], run_id: str) -> str | Refused:
        """Return what ``write`` does; Refused where MLflow refuses the content, or fails with it twice while it answers
        all else. ``run_id``: the run to be written, where there is one.

        What it does not answer for now, as where it limits requests, says nothing of the content: that is tried again a
        few times, and then raised, so that a later replay writes it.
        """
        from mlflow.exceptions import MlflowException

        failures = 0
        for pause in (*_PAUSES, None):
            try:
                return write()
            except MlflowException as error:
                if error.error_code not in _REFUSALS:
                    failures += any(words in str(error) for words in _FAILURES)
                    if failures < FAILS_TWICE:
                        if pause is None:
                            raise
                        time.sleep(pause)
                        continue
                self._require_there(run_id)
                return Refused(first_line(error))
        raise AssertionError("the last try either returns or raises")

    def _require_there(self, run_id: str) -> None:
        """Raise MlflowUnusable where somebody has deleted the experiment, MlflowAway where it is the run: MLflow then
        refuses whatever is written. Raises what the client does where MLflow is away."""
        experiment = self._client.get_experiment(self.experiment_id)
        if experiment.lifecycle_stage != ACTIVE:
            raise deleted_experiment(self._uri, experiment.name, self.experiment_id)
        if run_id and self._client.get_run(run_id).info.lifecycle_stage != ACTIVE:
            raise MlflowAway(
                "a sweep's runs must stay while it is logged",
                got=f"run {run_id}, which {DELETED}",
                where=masked(self._uri),
                hint="it is made again; `tileflow sweep log OUT` does that too",
            )

    def keep(self, run_id: str, folder: Path) -> None:
        """Upload the files in ``folder`` as the run's artifacts."""
        self._client.log_artifacts(run_id, str(folder))


def find_experiment(client: Any, uri: str, name: str, artifacts: Path | None) -> str:
    """Return the experiment's id. It is made where there is none, and opens on its runs.

    Raises MlflowUnusable for one that somebody deleted.
    """
    known = client.get_experiment_by_name(name)
    if known is None:
        known = _made_experiment(client, name, artifacts)
    if known.lifecycle_stage != ACTIVE:
        raise deleted_experiment(uri, name, known.experiment_id)
    if KIND[0] not in known.tags:
        client.set_experiment_tag(known.experiment_id, *KIND)
    return str(known.experiment_id)


def _made_experiment(client: Any, name: str, artifacts: Path | None) -> Any:
    """Make the experiment. Returns it, or the one that another sweep of its name made at the same moment."""
    from mlflow.exceptions import MlflowException

    location = None if artifacts is None else artifacts.as_uri()
    try:
        made = client.create_experiment(name, artifact_location=location, tags=dict((KIND, ABOUT)))
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
        return client.get_experiment_by_name(name)
    return client.get_experiment(made)


def attempt_of(tags: Mapping[str, str]) -> tuple[int, int]:
    """Return the attempt that is logged whole; the earliest of all where none is."""
    if ATTEMPT not in tags:
        return NOTHING
    started, _, attempt = tags[ATTEMPT].partition(" ")
    return (int(started), int(attempt))


def filled(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags without the empty ones, which a new run does not need."""
    return {name: value for name, value in tags.items() if value}


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class name, at most 300 characters."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
