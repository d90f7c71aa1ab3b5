"""What only a kernel's import shows of a sweep's spec: its ``inputs`` is asked for every problem, without memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tileflow.errors import SpecError, TileflowError

from .ray_job import with_files
from .spec import SweepSpec
from .spec_nodes import Node
from .waiting import said_when_slow


class KernelInputs(Protocol):
    """The part of ``tileflow.api.Kernel`` that a spec is checked against."""

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        """Return the arguments of a call for ``problem``; the author's function may raise anything."""


def check(spec: SweepSpec, load: Callable[[str], KernelInputs], strategies: Iterable[str]) -> None:
    """Import every kernel with ``load`` and ask it for every problem on the ``meta`` device. Raises SpecError.

    ``strategies``: the names that the registry knows.
    """
    Node(spec.strategy.name, "strategy.name").one_of(strategies, "a strategy")
    for i, entry in enumerate(spec.kernels):
        where = f"kernels[{i}].kernel"
        try:
            with said_when_slow(f"the import of {entry.kernel}"):
                kernel = load(entry.kernel)
        except TileflowError as error:
            raise SpecError(
                error.constraint, got=error.got or repr(entry.kernel), where=where, hint=with_files(error.hint)
            ) from None
        except Exception as error:  # whatever the author's module raises while it is imported
            raise SpecError(
                "the kernel's module must import",
                got=f"{entry.kernel!r}: {type(error).__name__}: {error}",
                where=where,
                hint="import it in a Python shell from the same folder to see the traceback",
            ) from error
        for j, problem in enumerate(entry.problems):
            problem_inputs(kernel, dict(problem), f"kernels[{i}].problems[{j}]")
    for i, path in enumerate(spec.seeds):
        if not os.path.isfile(path):  # Path.is_file raises for a name that is too long
            raise SpecError(
                "a seed must be a file",
                got=repr(str(path)),
                where=f"seeds[{i}]",
                hint=with_files(
                    "remove it, or give the absolute path of an exported table, a journal.jsonl or a trials.parquet"
                ),
            )


def problem_inputs(kernel: KernelInputs, problem: dict[str, Any], where: str) -> tuple[Any, ...]:
    """The kernel's arguments for ``problem``, without memory. ``where``: the problem's place, for errors.

    Raises SpecError for whatever the author's function raises.
    """
    try:
        with said_when_slow(f"inputs= of the problem {problem} ({where})"):
            return kernel.inputs(device="meta", **problem)
    except SpecError as error:
        raise SpecError(error.constraint, got=error.got or str(problem), where=where, hint=error.hint) from None
    except (Exception, SystemExit) as error:  # the author's own function: it may raise anything
        named = next((key for key in problem if f"'{key}'" in str(error)), None)
        raise SpecError(
            "the kernel's inputs function must accept the problem",
            got=f"{problem}: {type(error).__name__}: {_first_line(error)}",
            where=f"{where}.{named}" if named else where,
            hint="a problem's keys are the keyword arguments of the function given as inputs= to @tileflow.kernel",
        ) from error


def _first_line(error: BaseException) -> str:
    """What an error says, without the frames of C++ that torch appends."""
    return str(error).split("\nException raised from ", 1)[0].strip()
