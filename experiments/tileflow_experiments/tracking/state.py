"""OUT/mlflow-log.json: how far MLflow is, and which lines of the journal were set aside."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tileflow.runtime.files import write_atomically

log = logging.getLogger(__name__)

NAME = "mlflow-log.json"
SHOWN = 10


@dataclass(frozen=True, slots=True)
class SetAside:
    """A line that MLflow refused. ``line``: of the journal, from 1; 0 for what was made of several. ``what``: the
    trial or study."""

    line: int
    what: str
    why: str

    @property
    def place(self) -> str:
        """The line and the trial or study, for a message."""
        return " ".join(filter(None, (f"line {self.line}" if self.line else "", self.what)))


@dataclass(frozen=True, slots=True)
class LogState:
    """How far a log is.

    ``complete``: MLflow has all but ``set_aside``. ``why``: why it lacks the rest, where that is known.
    ``logged_bytes``: of the journal. ``trials``: how many trials' runs MLflow has. ``page``: where its interface shows
    them; the path alone where its server's address is unknown.
    """

    uri: str
    complete: bool = False
    why: str = ""
    logged_bytes: int = 0
    trials: int = 0
    set_aside: tuple[SetAside, ...] = ()
    page: str = ""

    def write(self, folder: Path) -> None:
        """Write the state to ``folder``, atomically."""
        write_atomically(folder / NAME, json.dumps(asdict(self), indent=1).encode())

    def incomplete(self, why: str) -> LogState:
        """Return the state marked as incomplete, with the reason."""
        return replace(self, complete=False, why=why)

    def lines(self) -> list[str]:
        """Return the state as lines of text; none where MLflow has everything."""
        said = []
        if not self.complete:
            because = f" ({self.why})" if self.why else ""
            said.append(f"MLflow at {self.uri} lacks part of the sweep{because}; `tileflow sweep log` completes it")
        if self.set_aside:
            many = f"{len(self.set_aside)} line{'s' if len(self.set_aside) > 1 else ''} of the journal"
            said.append(f"{many} could not be logged to MLflow and were set aside; {NAME} names them")
        return said


def read(folder: Path) -> LogState | None:
    """Return the state in ``folder``; None where nothing was ever logged, or the file cannot be read: a replay
    writes it again."""
    try:
        data = json.loads((folder / NAME).read_bytes())
        return LogState(**data | {"set_aside": tuple(SetAside(**item) for item in data["set_aside"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        log.warning("%s cannot be read (%s); `tileflow sweep log` writes it again", folder / NAME, error)
        return None
