"""The folder of one ``kernel.tune``: its journal, its tables and what its libraries log.

One in the temporary directory goes once the rows are kept elsewhere. It stays where the tuning ended otherwise, and
whoever tuned is told where it is; that of a process that was killed goes a day later, with another tuning.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tileflow_cluster.scratch import Scratch, remove_abandoned

from tileflow.runtime.files import require_folder

from .outputs import Outputs, writing

VARIABLE = "TILEFLOW_TUNINGS"
PREFIX = "tileflow-tune-"
LEAST_AGE_S = 24 * 3600.0  # of a killed process's folder: somebody may want to know how far it was


@dataclass(slots=True)
class TuningFolder:
    """``is_needed``: whether it tells more than the rows do; a temporary one that does not goes."""

    outputs: Outputs
    is_needed: bool = True

    @property
    def log(self) -> Path:
        """What libraries log."""
        return self.outputs.folder / "tune.log"

    @property
    def _tells(self) -> bool:
        """Whether anything was written that says how the tuning went, and is there yet."""
        return any(path.is_file() and path.stat().st_size for path in (self.log, self.outputs.journal))


@contextmanager
def tuning_folder(out: str | PathLike[str] | None) -> Iterator[TuningFolder]:
    """The folder ``out``, else a new one in the folder that ``TILEFLOW_TUNINGS`` names: both stay. Else a temporary.

    An exception gets a note of the folder where that tells more. Raises SpecError where the folder can take no files.
    """
    above = os.environ.get(VARIABLE, "")
    if out is None and not above:
        with _temporary() as folder:
            yield folder
        return
    name = f"{PREFIX}{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
    outputs = Outputs((Path(above, name) if out is None else Path(out)).absolute())
    outputs.require_none()
    require_folder(outputs.folder, VARIABLE if out is None else "out")
    with writing(outputs.folder):
        outputs.folder.mkdir(parents=True, exist_ok=True)
    with _noted(TuningFolder(outputs)) as folder:
        yield folder


@contextmanager
def _temporary() -> Iterator[TuningFolder]:
    remove_abandoned(PREFIX, LEAST_AGE_S)
    scratch = Scratch(PREFIX)
    folder = TuningFolder(Outputs(scratch.path))
    try:
        with _noted(folder):
            yield folder
    finally:
        if folder.is_needed and folder._tells:
            scratch.keep()
        else:
            scratch.remove()


@contextmanager
def _noted(folder: TuningFolder) -> Iterator[TuningFolder]:
    try:
        yield folder
    except BaseException as error:
        folder.is_needed = True
        if folder._tells:
            error.add_note(f"what was logged is in {folder.log}")
        raise
