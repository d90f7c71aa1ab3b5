"""Which address of MLflow a sweep logs to, looked at before anything is spent."""

from __future__ import annotations

import logging
import os
import re
from importlib.metadata import entry_points
from urllib.parse import urlsplit

from tileflow.errors import SpecError

from ..ray_job import COPY, in_a_job
from .store import HIDDEN, masked

log = logging.getLogger(__name__)

MEMORY = ":memory:"
VARIABLE = "MLFLOW_TRACKING_URI"

_OPTION = "--mlflow"
_HINT = "sqlite:////data/mlflow.db, postgresql+psycopg://user@host/db or http://host:5000"
_BY_NAME = ("databricks", "uc")  # what MLflow takes without a scheme
_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "file")
_PLUGINS = "mlflow.tracking_store"  # the entry points by which others add stores to MLflow
_FOLDERS = "MLFLOW_ALLOW_FILE_STORE"
_READ_OTHERWISE = "?%"  # an address's query begins with the one, and the other stands for a character


def uri_of(given: str | None, own: str, before: str = "") -> str:
    """Return the URI that a sweep logs to: ``given``, else that of ``before``, else the environment's, else ``own``, of
    a file in its folder.

    ``before``: the one that ``mlflow-log.json`` names, without a password. Raises SpecError for one that keeps nothing,
    is read as another place than it seems to be, or needs the password again.
    """
    if given:
        return _required(given, _OPTION)
    if before:
        return _as_before(before, own)
    named = os.environ.get(VARIABLE)
    return _required(named, VARIABLE) if named else _own(own)


def _as_before(before: str, own: str) -> str:
    """Return the URI of the store that a sweep was logged to, of which ``before`` lacks the password."""
    if before == own or _of_a_folder(before, own.partition(":///")[2]):
        return _own(own)
    named = os.environ.get(VARIABLE, "")
    if masked(named) == before:
        return named
    if HIDDEN in before:
        raise SpecError(
            "a sweep goes on in the MLflow that it logs to",
            got=f"no address; it logged to {before}, whose password is kept nowhere",
            where=_OPTION,
            hint=f"name it again by {VARIABLE}, or another: --mlflow {own}",
        )
    log.info("the sweep is logged to %s, as before; --mlflow names another", before)
    return before


def _own(own: str) -> str:
    folder = os.path.dirname(own.partition(":///")[2])
    if any(character in folder for character in _READ_OTHERWISE):
        raise SpecError(
            "a sweep's folder must have neither ? nor % in its path: the address of its MLflow store has it",
            got=repr(folder),
            where="--out",
            hint=f"name another folder, or another store: --mlflow {_HINT}",
        )
    return own


def _of_a_folder(uri: str, own: str) -> bool:
    """Whether ``uri`` is the default store of a sweep's folder, this one's or one that it was copied or moved from."""
    file = _file(uri) if uri.startswith("sqlite") else ""
    if os.path.basename(file) != os.path.basename(own):
        return False
    return os.path.exists(own) or os.path.exists(os.path.join(os.path.dirname(file), "journal.jsonl"))


def _file(uri: str) -> str:
    return uri.partition(":///")[2].partition("?")[0]


def _require_known(uri: str, where: str) -> None:
    """Raise SpecError for an address that no MLflow will ever answer at. A replay would take it for a server that is
    away, and a sweep would wait for it at its end."""
    scheme = "file" if os.path.isabs(uri) else uri.partition(":")[0].partition("+")[0]
    if scheme == "file" and os.environ.get(_FOLDERS, "").lower() not in ("1", "true"):
        raise SpecError(
            "MLflow's store must be a database or a server",
            got=f"{uri!r}, a folder, into which MLflow writes no more runs",
            where=where,
            hint=f"{_HINT}; {_FOLDERS}=true lets MLflow write to folders",
        )
    if scheme not in (*_SCHEMES, *_BY_NAME) and scheme not in entry_points(group=_PLUGINS).names:
        raise SpecError(
            "MLflow's store must be of a kind that MLflow knows",
            got=repr(masked(uri)),
            where=where,
            hint=f"{', '.join(_SCHEMES)}, or that of an installed plugin ({_PLUGINS}): {_HINT}",
        )
    if scheme in ("http", "https") and not urlsplit(uri).hostname:
        raise SpecError("a server must be named by its host", got=repr(uri), where=where, hint="http://host:5000")


def _required(uri: str, where: str) -> str:
    """Return ``uri``, of a file by its whole path. ``where``: what named it. Raises SpecError."""
    named = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", uri) or uri.partition(":")[0] in _BY_NAME or os.path.isabs(uri)
    if not named:
        raise SpecError("MLflow's store must be an address", got=repr(masked(uri)), where=where, hint=_HINT)
    _require_known(uri, where)
    if not uri.startswith("sqlite"):
        return uri
    file = _file(uri)
    if os.path.isdir(file):
        raise SpecError(
            "MLflow's sqlite database must be a file",
            got=f"{uri!r}, a folder",
            where=where,
            hint="sqlite:////data/mlflow.db",
        )
    if file in ("", MEMORY):
        raise SpecError(
            "MLflow's store must be kept",
            got=f"{uri!r}, a database in memory",
            where=where,
            hint="sqlite:////data/mlflow.db",
        )
    if not os.path.isabs(file) and in_a_job():
        raise SpecError(
            "a job's MLflow store must be absolute",
            got=repr(uri),
            where=where,
            hint=f"{COPY}: four slashes, sqlite:////data/mlflow.db",
        )
    return uri.replace(f":///{file}", f":///{os.path.abspath(file)}", 1)
