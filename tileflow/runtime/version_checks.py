"""The versions that a table was made with, beside those that are installed here."""

from __future__ import annotations

import logging
from functools import cache

from ..errors import TableError
from . import observe
from .table import Table


def check_validators(table: Table) -> None:
    """Compare the versions that ``table`` was made with to those here, by major and minor number.

    A new toolchain orphans no row: it is said, once. Raises TableError where a *required* one differs or is unknown.
    """
    for validator in table.validators:
        here = _version_here(validator.name, table)
        if here is not None and _same_release(validator.value, here):
            continue
        text = f"{validator.value}, here {here or 'not known'}"
        if validator.level == "require":
            raise TableError(
                f"the table requires its {validator.name}",
                got=text,
                where=table.kernel.ref,
                hint="export the table for this version",
            )
        if here is not None:
            level = logging.WARNING if validator.level == "warn" else logging.INFO
            observe.say_once(
                level, table.kernel.ref, validator.name, f"the table was made with {validator.name} {text}"
            )


def _version_here(name: str, table: Table) -> str | None:
    own = {"semantic_hash": table.kernel.semantic_hash, "schema": str(table.schema_version), "launch_abi": "1"}
    if name in own:
        return own[name]
    return _installed(name)


@cache
def _installed(name: str) -> str | None:
    """The version of a package here. Asking reads and parses a file."""
    from importlib import metadata

    for package in {"triton": ("triton", "pytorch-triton-rocm", "triton-rocm")}.get(name, (name,)):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def _same_release(one: str, other: str) -> bool:
    return one == other or one.split("+")[0].split(".")[:2] == other.split("+")[0].split(".")[:2]
