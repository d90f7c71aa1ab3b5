"""MLflow, fed from the journal by a process of its own: the only writer there, and never waited for while tuning.

A process and not a thread: MLflow's client takes a third of a core at twenty trials a second, which the driver needs.
One parent run a study, one child run a trial id. The process follows the journal's file, so that whatever MLflow has
not got yet, because it was away or because the process died, is what comes next. A child run is known by its tags
``tileflow.sweep_id`` and ``tileflow.trial_id``: replaying a journal twice leaves the same runs.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tileflow.errors import TileflowError

from . import journal as journals
from .figures import best_so_far, convergence, roofline
from .records import StudyKey, TrialRecord

log = logging.getLogger(__name__)

FOLLOW_S = 0.5
RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
BATCH = 900
_METRICS = (
    "median_us", "p20_us", "p80_us", "ci95_us", "max_err", "registers", "spills", "shared_bytes", "occupancy",
    "traffic_bytes", "flops", "roofline_frac", "modelled_us",
    "queue_s", "compile_s", "built_s", "device_s", "prepare_s", "load_s", "verify_s", "bench_s",
    "sm_clock_mhz", "temp_c", "power_w", "attempt",
)  # fmt: skip


class MlflowLog:
    """``uri``: MLflow's tracking store (``sqlite:////absolute/mlflow.db``, ``http://127.0.0.1:5000``).

    ``artifacts``: where a new experiment keeps its artifacts, for a store that has no place of its own.
    """

    def __init__(self, journal: Path, uri: str, artifacts: Path) -> None:
        self._arguments = [str(journal), uri, str(artifacts)]
        self._uri = uri
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tileflow_experiments.mlflow_log", *self._arguments],
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is the driver's to answer
        )

    def finish(self, files: Sequence[Path], timeout_s: float) -> bool:
        """Log the rest and ``files`` as artifacts of every parent; False where MLflow did not take it all in time."""
        assert self._process is not None
        names = json.dumps([str(file) for file in files if file.exists()])
        try:
            self._process.communicate(f"{names}\n", timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        complete = self._process.returncode == 0
        if not complete:
            log.warning("MLflow at %s lacks part of the sweep; `tileflow sweep resume` replays it", self._uri)
        return complete


def main(journal: Path, uri: str, artifacts: Path) -> int:
    """Follow until standard input says which files to keep, then log the rest; until its end where the driver died."""
    follower = Follower(journal, uri, artifacts)
    follower.start()
    files = sys.stdin.readline()
    if not files:
        return 1
    follower.finish([Path(file) for file in json.loads(files)])
    return 0


class Follower:
    """A thread that follows the journal, so that the main one may wait for the word to finish."""

    def __init__(self, journal: Path, uri: str, artifacts: Path | None = None) -> None:
        self._journal = journal
        self._uri = uri
        self._artifacts = artifacts
        self._finish = threading.Event()
        self._files: Sequence[Path] = ()
        self._thread = threading.Thread(target=self._run, name="mlflow", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, files: Sequence[Path]) -> None:
        """Log the rest and ``files``, however long that takes."""
        self._files = files
        self._finish.set()
        self._thread.join()

    def _run(self) -> None:
        failures = 0
        while True:
            try:
                replay = Replay(self._uri, self._journal, self._artifacts)
                while not self._finish.wait(FOLLOW_S):
                    replay.catch_up()
                    failures = 0
                replay.catch_up()
                replay.close(self._files)
                return
            except Exception as error:  # MLflow's stores raise whatever their transport does
                wait = RETRY_S[min(failures, len(RETRY_S) - 1)]
                failures += 1
                if failures == 1:
                    log.warning("MLflow at %s is away (%s: %s); tuning goes on", self._uri, type(error).__name__, error)
                time.sleep(wait)


class Replay:
    """Brings MLflow up to date with a journal. Raises whatever MLflow raises; a new Replay goes on from there."""

    def __init__(self, uri: str, journal: Path, artifacts: Path | None = None) -> None:
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
        self._tail = Tail(journal)
        header = self._tail.header()
        self._sweep_id: str = header["sweep_id"]
        self._experiment = self._find_experiment(header["spec"]["name"], artifacts)
        self._parents: dict[StudyKey, str] = {}
        self._children: dict[str, str] = {}
        self._logged: dict[str, tuple[int, int]] = {}
        self._history: dict[StudyKey, list[TrialRecord]] = {}
        self._curve_length: dict[StudyKey, int] = {}
        self._load_runs()

    def catch_up(self) -> None:
        """Log every line that the journal has gained."""
        touched = set()
        for record in self._tail.trials():
            self._log_trial(record)
            touched.add(record.study)
        for study in touched:
            self._log_curve(study)

    def close(self, files: Sequence[Path]) -> None:
        """Figures and ``files`` on every parent, which then ends."""
        for study, run_id in self._parents.items():
            history = self._history.get(study, [])
            self._client.log_figure(run_id, convergence(history, study.title), "convergence.png")
            self._client.log_figure(run_id, roofline(history, study.title), "roofline.png")
            for file in files:
                self._client.log_artifact(run_id, str(file))
            self._client.set_terminated(run_id)

    # ---- runs -----------------------------------------------------------------------------------

    def _find_experiment(self, name: str, artifacts: Path | None) -> str:
        known = self._client.get_experiment_by_name(name)
        if known is not None:
            return str(known.experiment_id)
        location = None if artifacts is None else artifacts.as_uri()
        return str(self._client.create_experiment(name, artifact_location=location))

    def _load_runs(self) -> None:
        """The runs of this sweep that MLflow has already."""
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment], f"tags.`tileflow.sweep_id` = '{self._sweep_id}'", max_results=1000, page_token=token
            )
            for run in page:
                tags = run.data.tags
                if "tileflow.trial_id" in tags:
                    self._children[tags["tileflow.trial_id"]] = run.info.run_id
                    if "tileflow.attempt" in tags:
                        started, attempt = tags["tileflow.attempt"].split()
                        self._logged[tags["tileflow.trial_id"]] = (int(started), int(attempt))
                else:
                    self._parents[_study_of(tags)] = run.info.run_id
            token = page.token
            if not token:
                return

    def _parent(self, record: TrialRecord) -> str:
        study = record.study
        if study not in self._parents:
            tags = self._tags(record) | {
                "tileflow.problem": json.dumps(dict(study.problem), sort_keys=True),
                "tileflow.semantic_hash": record.semantic_hash,
            }
            run = self._client.create_run(
                self._experiment, start_time=_ms(record.started_at), tags=tags, run_name=study.title
            )
            self._parents[study] = run.info.run_id
        return self._parents[study]

    def _tags(self, record: TrialRecord) -> dict[str, str]:
        return {
            "tileflow.sweep_id": self._sweep_id,
            "tileflow.kernel": record.study.kernel,
            "tileflow.device_class": record.study.device_class,
        }

    def _log_trial(self, record: TrialRecord) -> None:
        self._history.setdefault(record.study, []).append(record)
        parent = self._parent(record)
        attempt = (_ms(record.started_at), record.result.attempt)
        if not record.trial_id:  # lost before it was known which trial it was
            return
        if attempt <= self._logged.get(record.trial_id, (0, 0)):
            return
        run_id = self._children.get(record.trial_id)
        if run_id is None:
            tags = self._tags(record) | {"tileflow.trial_id": record.trial_id, "mlflow.parentRunId": parent}
            run = self._client.create_run(self._experiment, attempt[0], tags=tags, run_name=record.trial_id)
            run_id = self._children[record.trial_id] = run.info.run_id
        verdict = self._verdict(record)
        self._client.log_batch(run_id, metrics=self._metrics(record), params=self._params(record), tags=verdict)
        took = sum(record.seconds[name] for name in ("queue_s", "compile_s", "verify_s", "bench_s"))
        status = "FINISHED" if record.time_us is not None else "FAILED"
        self._client.set_terminated(run_id, status=status, end_time=_ms(record.started_at + took))
        self._logged[record.trial_id] = attempt

    def _params(self, record: TrialRecord) -> list[Any]:
        from mlflow.entities import Param

        values = record.config.to_dict() | dict(record.study.problem)
        return [Param(key_name(name), str(value)) for name, value in values.items()]

    def _metrics(self, record: TrialRecord) -> list[Any]:
        from mlflow.entities import Metric

        at = _ms(record.started_at)
        columns = record.columns()
        named = ((name, columns[name]) for name in _METRICS)
        return [Metric(name, float(value), at, 0) for name, value in named if value is not None]

    def _verdict(self, record: TrialRecord) -> list[Any]:
        from mlflow.entities import RunTag

        columns = record.columns()
        error = (columns["error_class"], columns["error_digest"])
        values = {
            "tileflow.status": record.status.value,
            "tileflow.measured": str(record.measured).lower(),
            "tileflow.seed_source": record.seed_source,
            "tileflow.config": json.dumps(record.config.to_dict(), sort_keys=True),
            "tileflow.error": ": ".join(filter(None, error)),
            "tileflow.host": columns["host"],
            "tileflow.attempt": f"{_ms(record.started_at)} {record.result.attempt}",
        }
        return [RunTag(name, value) for name, value in values.items() if value]

    def _log_curve(self, study: StudyKey) -> None:
        """The best time so far: ``best_us`` by trials, ``best_us_by_second`` by whole seconds."""
        from mlflow.entities import Metric

        points = best_so_far(self._history[study])
        new = points[self._curve_length.get(study, 0) :]
        self._curve_length[study] = len(points)
        start = self._history[study][0].started_at
        metrics = []
        for trials, seconds, best in new:
            at = _ms(start + seconds)
            metrics += [Metric("best_us", best, at, trials), Metric("best_us_by_second", best, at, int(seconds))]
        for batch in _batches(metrics):
            self._client.log_batch(self._parents[study], metrics=batch)


class Tail:
    """Reads what a journal has gained since the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def header(self) -> journals.Line:
        return journals.header(journals.read(self._path)[:1])

    def trials(self) -> list[TrialRecord]:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            found = journals.parse(file.read())
        self._offset += found.end
        return list(journals.attempts(found.lines))


def replay(journal: Path, uri: str, files: Sequence[Path] = (), artifacts: Path | None = None) -> None:
    """Bring MLflow at ``uri`` up to date with a whole journal, here and now. Raises TileflowError where it is away."""
    try:
        everything = Replay(uri, journal, artifacts)
        everything.catch_up()
        everything.close(files)
    except TileflowError:
        raise
    except Exception as error:  # MLflow's stores raise whatever their transport does
        raise TileflowError("MLflow must answer", got=f"{type(error).__name__}: {error}", where=uri) from error


def key_name(name: str) -> str:
    """A knob's name as MLflow takes it: letters, digits, ``_-./: `` only."""
    return re.sub(r"[^\w\-./: ]", ".", name, flags=re.ASCII)


def _study_of(tags: dict[str, str]) -> StudyKey:
    problem = tuple(sorted(json.loads(tags["tileflow.problem"]).items()))
    return StudyKey(tags["tileflow.kernel"], problem, tags["tileflow.device_class"])


def _batches(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[i : i + BATCH] for i in range(0, len(items), BATCH))


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
