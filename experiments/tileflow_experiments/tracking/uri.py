"""Which address of MLflow a sweep logs to, looked at before anything is spent."""

from __future__ import annotations

import os
import re

from tileflow.errors import SpecError

from .store import masked

MEMORY = ":memory:"
_WHERE = "--mlflow"
_HINT = "sqlite:////data/mlflow.db, postgresql+psycopg://user@host/db or http://host:5000"
_BY_NAME = ("databricks", "uc")  # what MLflow takes without a scheme
_READ_OTHERWISE = "?%"  # an address's query begins with the one, and the other stands for a character


def uri_of(given: str | None, own: str) -> str:
    """Return the URI that a sweep logs to: ``given``, else ``own``, that of a file in the sweep's folder.

    Raises SpecError for one that keeps nothing, or is read as another place than it seems to be.
    """
    if given:
        _require(given)
        return given
    folder = os.path.dirname(own.partition(":///")[2])
    if any(character in folder for character in _READ_OTHERWISE):
        raise SpecError(
            "a sweep's folder must have neither ? nor % in its path: the address of its MLflow store has it",
            got=repr(folder),
            where="--out",
            hint=f"name another folder, or another store: --mlflow {_HINT}",
        )
    return own


def _require(uri: str) -> None:
    named = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", uri) or uri.partition(":")[0] in _BY_NAME or os.path.isabs(uri)
    if not named:
        raise SpecError("MLflow's store must be an address", got=repr(masked(uri)), where=_WHERE, hint=_HINT)
    if not uri.startswith("sqlite"):
        return
    file = uri.partition(":///")[2].partition("?")[0]
    if file in ("", MEMORY):
        raise SpecError(
            "MLflow's store must be kept",
            got=f"{uri!r}, a database in memory",
            where=_WHERE,
            hint="sqlite:////data/mlflow.db",
        )
    if not os.path.isabs(file) and "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:
        raise SpecError(
            "a job's MLflow store must be absolute",
            got=repr(uri),
            where=_WHERE,
            hint="the job's own folder is a throwaway copy: four slashes, sqlite:////data/mlflow.db",
        )
