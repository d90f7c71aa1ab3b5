"""Names by which a graph that a compiler traced, or a pickle, finds a kernel again, also in a process that loads it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

from ..errors import CallError, SpecError
from ..locks import Lock


class Owner(Protocol):
    """What a graph calls. ``identity``: of its name and its contents, equal in every process where they are equal."""

    name: str

    @property
    def identity(self) -> str:
        """What graphs know the owner by, in every process."""


_owners: WeakValueDictionary[str, Owner] = WeakValueDictionary()  # by handle, of either kind
_by_name: dict[str, WeakSet[Owner]] = {}
_numbers = count()
_lock = Lock()


def register(owner: Owner) -> str:
    """A handle of ``owner`` in this process; it does not keep ``owner`` alive."""
    with _lock:
        handle = f"{owner.name}#{next(_numbers)}"
        _owners[handle] = owner
        _by_name.setdefault(owner.name, WeakSet()).add(owner)
    return handle


def graph_handle(handle: str) -> str:
    """The handle for graphs of the owner of a handle in this process: its name and identity."""
    owner = _owners[handle]
    stable = f"{owner.name}@{owner.identity}"
    _owners.setdefault(stable, owner)  # one that is equal serves as well
    return stable


def registered(handle: str) -> Owner:
    """The owner of a handle of either kind. Raises CallError where this process has none of that identity."""
    with _lock:
        found = _owners.get(handle)
        named = [*_by_name.get(handle.rpartition("@")[0], ())]
    for owner in named if found is None else ():
        if f"{owner.name}@{owner.identity}" == handle:
            found = _owners.setdefault(handle, owner)
            break
    if found is None:
        raise CallError(
            "a graph's kernel is the one that it was traced with",
            got=f"none here is {handle}",
            hint="import the module that defines it, unchanged since, or compile the function anew",
        )
    return found


def importable_name(owner: Owner, load: Callable[[str], Owner]) -> str:
    """The name by which other processes import ``owner``, ``module:qualname``: its own where ``load`` finds it there,
    else that of a module which holds it, as a standalone package does. Raises SpecError where there is none: what
    another module has under its name by now is another kernel."""
    refused: SpecError | None = None
    try:
        found = load(owner.name)
    except SpecError as error:
        refused, why = error, f"{error.constraint}: {error.got}"
    else:
        if found is owner or found.identity == owner.identity:
            return owner.name
        why = "another kernel has this name there"
    elsewhere = _name_elsewhere(owner)
    if elsewhere is not None:
        return elsewhere
    raise SpecError(
        "a kernel is pickled by its name, by which other processes import it",
        got=why,
        where=owner.name,
        hint="define it at the top of a module, under its own name",
    ) from refused


def _name_elsewhere(owner: Owner) -> str | None:
    name = owner.name.partition(":")[2]
    for module, its in list(sys.modules.items()):
        if module != "__main__" and getattr(its, "__dict__", {}).get(name) is owner:
            return f"{module}:{name}"
    return None
