"""Portable variants, made from one call and run on others, each alone and all together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tile_testing.compiler_gallery import kernel
from tile_testing.runs.interpreted import Case, arguments, load_module
from tileflow.api import Kernel
from tileflow.build.interpret import interpreter_launcher
from tileflow.emit.source import TritonSource
from tileflow.errors import VariantError
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.portable import portable_config, portable_sources
from tileflow.runtime.launch import Launcher
from tileflow.target import target

DEVICE = "nvidia-h200"


class Variants:
    """What one example gives: its launchers by region, in the order in which they are tried."""

    def __init__(self, subject: Kernel, example: Sequence[Any]) -> None:
        self.subject = subject
        lowered: Lowered = subject.lower(example, target(DEVICE), "dynamic")
        self.config = portable_config(lowered)
        self.launchers: dict[int, list[Launcher]] = {}
        for source in portable_sources(lowered):
            if source.language != "triton":  # which copies operands: the executor of schedules runs it
                continue
            self.launchers.setdefault(source.region, []).append(self._launcher(source))
        self.levels = max(map(len, self.launchers.values()))

    def _launcher(self, source: TritonSource) -> Launcher:
        return interpreter_launcher(source, self.subject.scope, target(DEVICE))

    def bind(self, launchers: Mapping[int, Sequence[Launcher]]) -> Any:
        return self.subject.bind(self.config, launchers)

    def level(self, n: int) -> Any:
        """The kernel with one variant a region: the ``n``-th, or the last."""
        return self.bind({region: [every[min(n, len(every) - 1)]] for region, every in self.launchers.items()})


def check(example: Case, calls: Sequence[Case]) -> tuple[list[str], list[set[int]]]:
    """What is wrong, and by call which variants took it."""
    variants = Variants(kernel(example.kernel), arguments(example))
    wrong: list[str] = []
    taken: list[set[int]] = []
    for call in calls:
        args = arguments(call)
        reference = make_reference(variants.subject.reference, args)
        verdict = check_call(variants.bind(variants.launchers), args, reference)
        wrong += [] if verdict.ok else [f"{call}: {verdict.reason}"]
        taken.append(set())
        for n in range(variants.levels):
            try:
                verdict = check_call(variants.level(n), args, reference)
            except VariantError:
                continue
            taken[-1].add(n)
            wrong += [] if verdict.ok else [f"{call} by variant {n}: {verdict.reason}"]
    return wrong, taken


def run(module: str, name: str, example: tuple[Any, ...], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What the kernel gives for each call by the variants of ``example``; for what none takes, None."""
    variants = Variants(getattr(load_module(module), name), example)
    results: list[Any] = []
    for args in calls:
        try:
            results.append(variants.bind(variants.launchers)(*args))
        except VariantError:
            results.append(None)
    return results
