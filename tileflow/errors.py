"""Every error that tileflow raises: the constraint, what was got, where, what to do, and whether a retry helps.

TileflowError
+-- KernelError            the kernel's author can mend it; carries the author's file, line and caret
|   +-- SplitError         host/device split: what a tile loop may contain, what host code may read
|   +-- TraceError         a torch operation, a shape, an index or a carried value inside a tile loop
|   |   +-- UnsupportedOp
|   |   +-- ShapeError
|   |   +-- MissingAttribute   also an AttributeError, so that ``hasattr`` keeps its meaning
|   +-- GradientError      a kernel whose backward pass cannot be derived
|   +-- HostDataError      host code reads values, and there are none (meta tensors)
+-- ConfigError            an unknown knob, an illegal value, a violated constraint
+-- CallError              a call's arguments: shapes, dtypes, devices
|   +-- MissError          no row serves the call, and nothing may take its place
+-- BuildError             Triton or the assembler refused a source
|   +-- BuildTimeout
+-- LaunchError            the driver refused a launch
|   +-- VariantError       the call's arguments select code that was not built
|   +-- OutOfResources     too much shared memory, too many registers: another config may work
+-- TableError             a table or a bundle is truncated, tampered with, too new, of another kernel version
+-- SpecError              a sweep spec names an unknown field, kernel, device class ...
|   +-- SlowProblem        inputs and a reference that take longer than others may wait
|   +-- OtherFiles         a kernel that is missing, or another version, where a worker is
+-- ClusterError           placement, leases, a lost worker
+-- InternalError          ours: asks for a report
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source. ``line`` counts from 1, ``column`` from 0; ``text`` is that line."""

    file: str
    line: int
    column: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def caret(self) -> str:
        """The source line with a caret under the column; empty when the text is not known."""
        if not self.text:
            return ""
        indentation = len(self.text) - len(self.text.lstrip())
        shift = max(self.column - indentation, 0)
        return f"    {self.text.strip()}\n    {' ' * shift}^"


class TileflowError(Exception):
    """Base of all. ``constraint`` is what must hold, ``got`` the values that broke it, ``hint`` the next step."""

    retryable: bool = False

    def __init__(
        self, constraint: str, *, got: object = None, where: Location | str | None = None, hint: str = ""
    ) -> None:
        self.constraint = constraint
        self.got = got
        self.where = where
        self.hint = hint
        super().__init__(self._render())

    def _render(self) -> str:
        lines = [self.constraint if self.got is None else f"{self.constraint}, but got {self.got}"]
        if self.where is not None:
            lines.append(f"  at {self.where}")
        if isinstance(self.where, Location) and self.where.text:
            lines.append(self.where.caret())
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)

    def reword(self, change: Callable[[str], str]) -> None:
        """Say the same in other words: ``change`` of each text but the user's own line."""
        self.constraint, self.hint = change(self.constraint), change(self.hint)
        self.got = self.got if self.got is None else change(str(self.got))
        self.args = (self._render(),)

    def stand_at(self, where: Location | None) -> None:
        """Say where, of an error that does not know its place."""
        self.where = where
        self.args = (self._render(),)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.constraint, self.got, self.where, self.hint)


def _rebuild(
    cls: type[TileflowError], constraint: str, got: object, where: Location | str | None, hint: str
) -> TileflowError:
    return cls(constraint, got=got, where=where, hint=hint)


class KernelError(TileflowError):
    """The kernel's source must change."""


class SplitError(KernelError):
    """The function cannot be cut into host code and device regions."""


class TraceError(KernelError):
    """The body of a tile loop cannot be recorded."""


class UnsupportedOp(TraceError):
    """A torch operation that tiles do not have."""


class ShapeError(TraceError):
    """Tiles whose dimensions do not agree."""


class MissingAttribute(TraceError, AttributeError):
    """A method or attribute that a tile does not have."""


class GradientError(KernelError):
    """The kernel's backward pass cannot be derived: it is written by hand."""


class HostDataError(KernelError):
    """Host code of a kernel depends on values; lower it from real example inputs."""


class ConfigError(TileflowError):
    """A config names an unknown knob, an illegal value, or violates a constraint."""


class CallError(TileflowError):
    """A kernel was called with arguments it cannot take."""


class MissError(CallError):
    """No row of a table serves a call, and ``on_miss`` lets nothing take its place."""


class BuildError(TileflowError):
    """Triton or the assembler refused a generated source."""


class BuildTimeout(BuildError):
    """Compiling took longer than its limit."""


class LaunchError(TileflowError):
    """The driver refused a launch."""


class VariantError(LaunchError):
    """No variant of a region accepts the call: its arguments select other code. ``region``: which launch it was.
    ``tried``: what it would have launched with, the bounds of its loop and the variants, where these are known."""

    region: int = 0
    tried: tuple[Any, ...] = ()


class OutOfResources(LaunchError):
    """The device has too little shared memory or too few registers for this binary."""


class TableError(TileflowError):
    """A table or bundle cannot be trusted or does not belong to this kernel."""


class SpecError(TileflowError):
    """A sweep spec is wrong; names the field, the value and the remedy."""


class SlowProblem(SpecError):
    """A problem's inputs and its reference take longer than others may wait for them."""


class OtherFiles(SpecError):
    """A worker's host has not the kernel that the driver has: it is missing there, or another version. The worker of
    another host may have it."""


class ClusterError(TileflowError):
    """Placement or a worker failed; the trial is not to blame."""

    retryable = True


class InternalError(TileflowError):
    """A mistake of tileflow's own."""
