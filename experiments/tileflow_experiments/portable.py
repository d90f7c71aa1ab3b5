"""Rows that need no search, built for any device class on a machine without a GPU.

A *portable* row is a kernel's default on a device class: variants that together take any size, stride and alignment of
its kind of arguments. A *static* row is the default config of one problem, with its sizes as constants.
"""

from __future__ import annotations

import os
import queue
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tileflow_cluster.protocol import ProblemItems

from tileflow.build.worker import BuildProcess
from tileflow.config import Config
from tileflow.errors import BuildError, InternalError, OutOfResources, SpecError, TileflowError
from tileflow.runtime.abi import Binary
from tileflow.runtime.problem import Problem
from tileflow.runtime.table import Fallback, Requirement, launches_of, requirements_of
from tileflow.target import Target, target

if TYPE_CHECKING:
    from tileflow.api import Kernel
    from tileflow.emit.source import TritonSource
    from tileflow.lowered import Lowered

LIMIT_S = 300.0  # seconds for one row, which has several variants of each launch
MOST_SHRINKS = 8  # steps to a smaller default where the device has too little


@dataclass(frozen=True, slots=True)
class Order:
    """A row to build. ``kernel``: ``module:qualname``, importable by this process.

    ``problem``: an example, or the problem of another kind of row: keyword arguments of the kernel's ``inputs``.
    ``config``: the default one where None.
    """

    kernel: str
    problem: ProblemItems
    device_class: str
    kind: Literal["portable", "static", "dynamic"] = "portable"
    config: Config | None = None

    @property
    def title(self) -> str:
        """The order in words, for messages: kind, kernel, problem and device class."""
        return f"{self.kind} {self.kernel} {' '.join(f'{n}={v}' for n, v in self.problem)} on {self.device_class}"


@dataclass(frozen=True, slots=True)
class BuiltRow:
    """A row as it was built. ``modelled_us``: of a static row, the cost model's time for the problem."""

    order: Order
    semantic_hash: str
    space_fingerprint: str
    problem: Problem
    config: Config
    requirements: tuple[Requirement, ...]
    binaries: tuple[Binary, ...]
    compiled_by: tuple[tuple[str, str], ...]
    modelled_us: float | None = None

    def fallback(self) -> Fallback:
        """Return it as a row of a table's ``defaults``."""
        device = target(self.order.device_class)
        return Fallback(
            self.config,
            device.vendor,
            device.arch,
            self.problem,
            launches_of(self.binaries),
            self.requirements,
            f"takes any size, stride and alignment; made from {self.problem.key}",
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that cannot be built, and why."""

    order: Order
    error: TileflowError


def portable_sources(kernel: Kernel, args: Sequence[Any], device: Target, config: Config) -> tuple[TritonSource, ...]:
    """Return the sources of ``config`` that together take any size, stride and alignment, in the order to try them."""
    return kernel.portable(*args, target=device, config=config)


def build_rows(
    orders: Iterable[Order], stopping: Callable[[], bool] = lambda: False, processes: int = 0
) -> list[BuiltRow | Failure]:
    """Build every row in ``processes`` children (0: one per core). A row that fails is returned as a Failure.

    Once ``stopping`` returns True, the rest are left out. Raises SpecError for ``processes`` below 0.
    """
    require_processes(processes)
    wanted = list(orders)
    results: dict[int, BuiltRow | Failure] = {}
    waiting: queue.SimpleQueue[tuple[int, Order]] = queue.SimpleQueue()
    for item in enumerate(wanted):
        waiting.put(item)

    def work(cache: str) -> None:
        with BuildProcess(environment={"TRITON_CACHE_DIR": cache}, unwanted=stopping) as child:
            while not stopping():
                try:
                    number, order = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    results[number] = child.call("tileflow_experiments.portable:build_row", (order,), LIMIT_S)
                except TileflowError as error:
                    if not stopping():
                        results[number] = Failure(order, error)

    workers = min(len(wanted), processes or len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="tileflow-build-") as cache, ThreadPoolExecutor(max(workers, 1)) as pool:
        for future in [pool.submit(work, cache) for _ in range(workers)]:
            future.result()
    if len(results) != len(wanted) and not stopping():
        raise InternalError("every order must have a result", got=f"{len(results)} of {len(wanted)}")
    return [results[number] for number in sorted(results)]


def require_processes(processes: int) -> None:
    """Raise SpecError where ``processes`` is no number of them."""
    if processes < 0:
        raise SpecError(
            "rows must be built by processes",
            got=f"{processes} of them",
            where="processes",
            hint="0 stands for one a core",
        )


def require_built(rows: Iterable[BuiltRow | Failure]) -> list[BuiltRow]:
    """All of ``rows``. Raises BuildError with every one that does not build."""
    every = list(rows)
    if failures := [row for row in every if isinstance(row, Failure)]:
        raise BuildError(
            "every row must build",
            got=f"{len(failures)} of {len(every)} that do not",
            hint="\n  ".join(f"{f.order.title}: {f.error}" for f in failures),
        )
    return [row for row in every if isinstance(row, BuiltRow)]


def build_row(order: Order) -> BuiltRow:
    """Lower, emit and build one row in this process.

    Raises SpecError, KernelError and BuildError; OutOfResources where not even the smallest config fits the device.
    """
    from tileflow_cluster.pipeline import toolchain_facts

    from tileflow.api import load_kernel

    kernel, device = load_kernel(order.kernel), target(order.device_class)
    arguments: dict[str, Any] = dict(order.problem)
    args = kernel.inputs(device="meta", **arguments)
    lowered = kernel.lower(args, device, "static" if order.kind == "static" else "dynamic")
    config, binaries = _fitting(order, kernel, args, lowered)
    requirements = requirements_of(lowered.space, config, lowered.problem)
    modelled_us = None
    if order.kind == "static":
        modelled_us = _modelled_us(kernel, config, binaries, lowered)
    elif order.kind == "portable":  # its guards check the sizes
        requirements = tuple(r for r in requirements if all(s.startswith("target.") for s in r.check.symbols()))
    return BuiltRow(
        order,
        kernel.semantic_hash,
        lowered.space.fingerprint,
        lowered.problem,
        config,
        requirements,
        binaries,
        toolchain_facts(),
        modelled_us,
    )


def _fitting(order: Order, kernel: Kernel, args: Sequence[Any], lowered: Lowered) -> tuple[Config, tuple[Binary, ...]]:
    """Return the order's config, else the default one, and its machine code.

    Where the device has too little for the default, a smaller config replaces it.
    """
    from tileflow.build.compile import build
    from tileflow.default import smaller_config

    if order.config is None:
        config = lowered.space.repair(lowered.default)
    else:  # a row may be older than a knob, which then has the default that it had without one
        config = lowered.space.complete(order.config.to_dict())
    for shrinks in range(MOST_SHRINKS + 1):
        try:
            if order.kind == "portable":
                sources = portable_sources(kernel, args, lowered.target, config)
            else:
                sources = lowered.emit(config)
            return config, tuple(build(source, lowered.target) for source in sources)
        except OutOfResources:
            smaller = smaller_config(config, lowered.space)
            if order.config is not None or smaller is None or shrinks == MOST_SHRINKS:
                raise
            config = smaller
    raise AssertionError("the last turn returns or raises")


def _modelled_us(kernel: Kernel, config: Config, binaries: tuple[Binary, ...], lowered: Lowered) -> float:
    from tileflow_cluster.pipeline import count_launches

    from tileflow import cost

    launches = count_launches(kernel, config, binaries, lowered)
    return cost.estimate(lowered.traffic, launches, lowered.target).total_us


def homes(problems: Iterable[tuple[str, str, Problem]]) -> list[int]:
    """Return the positions of the problems that defaults are made from.

    For each kernel, device class and kind of arguments it is the problem in the middle of the others. ``problems``:
    (kernel, device class, problem).
    """
    groups: dict[tuple[str, str, str], list[tuple[int, Problem]]] = {}
    for number, (kernel, device_class, problem) in enumerate(problems):
        groups.setdefault((kernel, device_class, problem.kinds), []).append((number, problem))
    return [
        min(group, key=lambda one: (sum(one[1].distance(other) for _, other in group), one[0]))[0]
        for group in groups.values()
    ]


def defaults_of(rows: Iterable[BuiltRow], kernel: str) -> dict[str, tuple[Fallback, ...]]:
    """Return a table's ``defaults`` out of the portable rows of ``kernel``."""
    found: dict[str, tuple[Fallback, ...]] = {}
    for row in rows:
        if row.order.kernel == kernel and row.order.kind == "portable":
            found[row.order.device_class] = (*found.get(row.order.device_class, ()), row.fallback())
    return found
