"""Launches that begin while the one before them ends: programmatic dependent launch, NVIDIA's from Hopper on.

A launch that asks for it may have its blocks placed as soon as the last blocks of the launch before it in the stream
are done, before the memory that those wrote can be seen. So the first instruction of each of our kernels waits for
that: nothing is read, and nothing overwritten, before all that came earlier in the stream is complete. What is won is
the time between two launches. A launch that does not ask, as those of torch.compile's launchers, finds nothing to wait
for.

The instruction stands in the assembly text alone. The generated source, which Triton's interpreter runs and people
read, has no word of it, and is one for Triton's language and for Gluon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..target import Target

REVISION = 1  # of what is written: of the binaries' key, and of Triton's
WAIT = "griddepcontrol.wait;"
_ENTRY = re.compile(r"(\.entry[^{;]*\{\n)")

_compiling = ContextVar("compiling a kernel that may launch dependently", default=False)


def waiting(ptx: str) -> str:
    """``ptx`` with entries that wait, before anything else, for all that came before them in their stream."""
    return _ENTRY.sub(rf"\1\t{WAIT}\n", ptx)


def waits(ptx: str) -> bool:
    """Whether every entry of ``ptx`` waits so: then its launches may be dependent ones."""
    return ptx.count(WAIT) == len(_ENTRY.findall(ptx)) > 0


@contextmanager
def dependent(target: Target) -> Iterator[None]:
    """What this thread compiles inside waits so, where ``target`` can and :func:`in_stages` is Triton's hook."""
    token = _compiling.set(target.has_dependent_launches)
    try:
        yield
    finally:
        _compiling.reset(token)


def key() -> str:
    """What tells a source that is compiled here from one that is compiled elsewhere: Triton's cache must not."""
    return f" waits {REVISION}" if _compiling.get() else ""


def in_stages(before: Callable[..., Any] | None) -> Callable[..., Any]:
    """Triton's hook of its compiler's stages that has the assembly text wait; ``before``: the hook that was there.

    A hook is the whole process's: what other threads compile meanwhile is theirs, and stays as it is.
    """

    def hook(backend: Any = None, stages: Any = None, *rest: Any, **named: Any) -> Any:
        found = before(backend, stages, *rest, **named) if before else None
        if stages is None:  # asked for the parts of a key
            return found or ("", "")
        if _compiling.get() and "ptx" in stages:
            make = stages["ptx"]
            stages["ptx"] = lambda source, metadata: waiting(make(source, metadata))
        return found

    return hook
