"""OUT/mlflow-log.json: how far MLflow is, and which lines of the journal it was spared."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tileflow.runtime.table import write_atomically

log = logging.getLogger(__name__)

NAME = "mlflow-log.json"
SHOWN = 10


@dataclass(frozen=True, slots=True)
class SetAside:
    """``line``: of the journal, from 1; 0 for what was made of several. ``what``: the trial or study."""

    line: int
    what: str
    why: str

    @property
    def place(self) -> str:
        return " ".join(filter(None, (f"line {self.line}" if self.line else "", self.what)))


@dataclass(frozen=True, slots=True)
class LogState:
    """``complete``: MLflow has all but ``set_aside``; ``why``: what it lacks the rest for, where somebody knows.

    ``logged_bytes``: of the journal. ``trials``: runs of trials that MLflow has. ``page``: where its interface shows
    them, behind its server's address where that is not known."""

    uri: str
    complete: bool = False
    why: str = ""
    logged_bytes: int = 0
    trials: int = 0
    set_aside: tuple[SetAside, ...] = ()
    page: str = ""

    def write(self, folder: Path) -> None:
        write_atomically(folder / NAME, json.dumps(asdict(self), indent=1).encode())

    def incomplete(self, why: str) -> LogState:
        return replace(self, complete=False, why=why)

    def lines(self) -> list[str]:
        """For people: nothing where MLflow has everything."""
        said = []
        if not self.complete:
            because = f" ({self.why})" if self.why else ""
            said.append(f"MLflow at {self.uri} lacks part of the sweep{because}; `tileflow sweep log` completes it")
        if self.set_aside:
            many = f"{len(self.set_aside)} line{'s' if len(self.set_aside) > 1 else ''} of the journal"
            said.append(f"{many} could not be logged to MLflow and were set aside; {NAME} names them")
        return said


def read(folder: Path) -> LogState | None:
    """None where nothing was ever logged, and for a file that somebody changed: a replay writes it again."""
    try:
        data = json.loads((folder / NAME).read_bytes())
        return LogState(**data | {"set_aside": tuple(SetAside(**item) for item in data["set_aside"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        log.warning("%s cannot be read (%s); `tileflow sweep log` writes it again", folder / NAME, error)
        return None
