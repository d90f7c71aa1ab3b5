"""MLflow, fed from the journal by a process of its own. It is the only writer there, and tuning never waits for it.

It is a process and not a thread because it would take a core that the driver needs. It follows the journal's file, so
it continues with whatever MLflow still lacks after an outage or after the process died. ``tracking/`` defines what a
run says; OUT/mlflow-log.json records how far the log is.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tileflow.errors import TileflowError
from tileflow.runtime.files import folder_to_start_in, import_paths, lock, say_without_locks

from .tracking import state as states
from .tracking.replay import Replay
from .tracking.state import LogState
from .tracking.store import AWAY, MlflowAway, MlflowUnusable, masked, refusal_of

log = logging.getLogger(__name__)

FOLLOW_S = 0.5
RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
LOOK_S = 0.1
MOST_RESTARTS = 3


class MlflowLog:
    """The driver's handle of the logging process. Where that is killed, another one goes on.

    ``uri``: MLflow's tracking store (``sqlite:////absolute/mlflow.db``, ``http://127.0.0.1:5000``). ``artifacts``:
    where a new experiment keeps its artifacts, for a store without a place of its own.
    """

    def __init__(self, journal: Path, uri: str, artifacts: Path) -> None:
        self._arguments = [str(journal), str(artifacts)]
        self._folder = journal.parent
        self._uri = uri
        self._process: subprocess.Popen[str] | None = None
        self._restarts = 0
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="mlflow watcher", daemon=True)

    def start(self) -> None:
        """Start the process. Raises OSError where its files cannot be written to the folder."""
        LogState(masked(self._uri)).write(self._folder)
        self._spawn()
        self._watcher.start()

    def _spawn(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tileflow_experiments.mlflow_log", *self._arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(import_paths())},
            cwd=folder_to_start_in(),
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is the driver's to answer
        )
        self._send(json.dumps(self._uri))  # which may hold a password, so it is no argument

    def _watch(self) -> None:
        """Replace a process that ends while the sweep goes on: who looks at MLflow would see nothing more of it."""
        while not self._ending.wait(FOLLOW_S):
            assert self._process is not None
            if self._process.poll() is not None and not self._replaced(self._process.returncode):
                return

    def _replaced(self, code: int) -> bool:
        """Start another process in place of one that ended with ``code``. Where too many have, note why MLflow lacks
        the rest, and return False."""
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if self._restarts == MOST_RESTARTS:
            _note(self._folder, self._uri, f"the process that logs {how}, and so did {MOST_RESTARTS} before it")
            return False
        self._restarts += 1
        log.warning("the process that logs to MLflow at %s %s; another one goes on", masked(self._uri), how)
        self._spawn()
        return True

    def finish(self, files: Sequence[Path], timeout_s: float) -> bool:
        """Log the rest, and ``files`` (the tables) with the studies of their kernels.

        Returns False where MLflow did not take all of it. It is given up after ``timeout_s`` seconds without progress.
        """
        order = json.dumps([str(file) for file in files if file.exists()])
        code = self._ended(order, timeout_s, patient=True)
        while code is not None and code < 0 and self._replaced(code):
            code = self._ended(order, timeout_s, patient=True)
        return self._is_complete(code)

    def abandon(self, timeout_s: float) -> bool:
        """Log the rest within ``timeout_s`` seconds, since the driver must end. A later replay logs what is missing."""
        return self._is_complete(self._ended("[]", timeout_s, patient=False))

    def _is_complete(self, code: int | None) -> bool:
        if code != 0:
            log.warning("MLflow at %s lacks part of the sweep; `tileflow sweep log` completes it", masked(self._uri))
        return code == 0

    def _send(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended: its exit code says how
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()

    def _ended(self, order: str, timeout_s: float, patient: bool) -> int | None:
        """Tell the process to log the rest and end. Returns its exit code; None where it was given up."""
        self._ending.set()
        if self._watcher.is_alive():
            self._watcher.join()
        process = self._process
        if process is None:
            return 0
        self._send(order)
        seen, deadline = self._progress(), time.monotonic() + timeout_s
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(LOOK_S)
            if patient and (now := self._progress()) != seen:
                seen, deadline = now, time.monotonic() + timeout_s
        if process.poll() is not None:
            return process.returncode
        process.kill()
        process.wait()
        return None

    def _progress(self) -> int:
        try:
            return (self._folder / states.NAME).stat().st_mtime_ns
        except FileNotFoundError:
            return 0


def main(journal: Path, artifacts: Path) -> int:
    """Follow the journal until standard input names the files to keep, then log the rest.

    Each line of standard input is JSON, since a folder's name may hold a newline. The first one is the URI. Where the
    driver died, the rest of the journal is logged. Returns an exit code.
    """
    given = sys.stdin.readline()
    if not given:
        return 1  # the driver died before it said where to
    follower = Follower(journal, json.loads(given), artifacts)
    follower.start()
    files = sys.stdin.readline()
    return 0 if files and follower.finish([Path(file) for file in json.loads(files)]) else 1


class Follower:
    """A thread that follows the journal, so that the main thread may wait for the order to finish."""

    def __init__(self, journal: Path, uri: str, artifacts: Path | None = None) -> None:
        self._journal = journal
        self._uri = uri
        self._artifacts = artifacts
        self._finish = threading.Event()
        self._files: Sequence[Path] = ()
        self._complete = False
        self._thread = threading.Thread(target=self._run, name="mlflow", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self, files: Sequence[Path]) -> bool:
        """Log the rest and ``files``, however long that takes. Returns False where MLflow will never take it as it
        is."""
        self._files = files
        self._finish.set()
        self._thread.join()
        return self._complete

    def _run(self) -> None:
        failures = 0
        folder = self._journal.parent
        while True:
            try:
                with alone(folder):
                    replay = Replay(self._uri, self._journal, self._artifacts, lambda state: state.write(folder))
                    while not self._finish.wait(FOLLOW_S):
                        replay.catch_up()
                        failures = 0
                    replay.catch_up()
                    replay.close(self._files).write(folder)
                self._complete = True
                return
            except MlflowUnusable as error:
                log.error("%s", error)
                _note(folder, self._uri, error.constraint)
                return
            except Exception as error:  # MLflow's stores raise whatever their transport does
                failures += 1
                if failures == 1:
                    log.warning(
                        "MLflow at %s %s (%s); tuning goes on", masked(self._uri), _how_away(error), _said(error)
                    )
                    if not isinstance(error, TileflowError):  # as when another process logs, and keeps the state
                        _note(folder, self._uri, _said(error))
                time.sleep(RETRY_S[min(failures, len(RETRY_S)) - 1])


def replay(journal: Path, uri: str, files: Sequence[Path] = (), artifacts: Path | None = None) -> LogState:
    """Bring MLflow at ``uri`` up to date with a whole journal, in this thread. ``files``: the sweep's tables.

    Raises MlflowAway where it does not answer, MlflowUnusable where it must be mended first.
    """
    folder = journal.parent
    try:
        with alone(folder):
            everything = Replay(uri, journal, artifacts, lambda state: state.write(folder))
            everything.catch_up()
            state = everything.close(files)
            state.write(folder)
            return state
    except MlflowUnusable as error:
        _note(folder, uri, error.constraint)
        raise
    except TileflowError:
        raise
    except Exception as error:  # MLflow's stores raise whatever their transport does
        said = _said(error)
        _note(folder, uri, said)
        constraint, step = refusal_of(error)
        raise MlflowAway(
            constraint, got=said, where=masked(uri), hint=f"{step}; `tileflow sweep log OUT` goes on then"
        ) from error


def _how_away(error: BaseException) -> str:
    """What keeps a store from taking runs, as the predicate of a sentence."""
    constraint, step = refusal_of(error)
    return "is away" if constraint == AWAY else f"takes no runs: {constraint}; {step}"


def _said(error: BaseException) -> str:
    return masked(f"{type(error).__name__}: {error}".splitlines()[0][:300])


def _note(folder: Path, uri: str, why: str) -> None:
    """Record why the log is incomplete, and keep what is known of how far it got. A folder that does not take that, as
    on a full disk, must not end who logs: the note before says that the log is incomplete, too."""
    known = states.read(folder)
    try:
        (known if known is not None else LogState(masked(uri))).incomplete(why).write(folder)
    except OSError as error:
        log.warning("%s does not say why MLflow lacks part of the sweep (%s): %s", folder / states.NAME, why, error)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the right to log this sweep. Raises MlflowAway where another process has it: two would log each trial
    twice."""
    path = folder / "mlflow-log.lock"
    with path.open("w") as held:
        try:
            if not lock(held.fileno(), wait=False):
                say_without_locks(path)
        except BlockingIOError:
            raise MlflowAway(
                "a sweep must be logged by one process",
                got="another one logs it",
                where=str(folder),
                hint="it is complete when that one ends",
            ) from None
        yield


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
