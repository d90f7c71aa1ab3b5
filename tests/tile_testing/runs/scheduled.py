"""A call of a kernel by its variants for any size, without a GPU: warp-specialised launches by the executor of
schedules, from the very schedule that a variant's text was written from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from tile_testing.kernels.schedule_bodies import Walk
from tileflow.api import Kernel
from tileflow.build.interpret import path_reader, symbol_reader
from tileflow.config import Config
from tileflow.emit.gluon.computed_kernel import ComputedKernel
from tileflow.emit.gluon.gradients import GradientsKernel
from tileflow.emit.gluon.grouped_kernel import GroupedKernel
from tileflow.emit.gluon.kernel import GluonKernel
from tileflow.emit.gluon.product_kernel import ProductKernel
from tileflow.emit.gluon.specialised import specialised_kernel
from tileflow.emit.gluon.split_kernel import SplitKernel
from tileflow.emit.parameters import Divisible
from tileflow.emit.source import TritonSource
from tileflow.ir.graph import KernelIR
from tileflow.lowered import DIVISIBLE, Lowered
from tileflow.portable import portable_sources
from tileflow.runtime.dispatch import RuntimeContext
from tileflow.runtime.paths import Path
from tileflow.schedule.evaluate import Program
from tileflow.schedule.evaluate_computed import ComputedProgram
from tileflow.schedule.evaluate_gradients import GradientProgram
from tileflow.schedule.evaluate_groups import GroupedProgram, grouped_tiles
from tileflow.schedule.evaluate_product import ProductProgram, program_tiles
from tileflow.schedule.evaluate_split import SplitProgram
from tileflow.schedule.execute import NASTY, NASTY_BLOCKS, Chooser, at_random, execute, execute_cluster
from tileflow.schedule.types import Turns
from tileflow.space.knobs import SCHEDULE

COPIED: Divisible = "copied"
PROGRAMS = 2  # of a persistent launch: each has several tiles, and rings go on from one to the next
Frame = Mapping[str, Any]
StandIn = Callable[[Frame], None]


class Scheduled(RuntimeContext):
    """Runs a call's launches by the first variant that takes each, which ``taken`` notes. ``stand_ins``: for launches
    that are pipelined, which have no executor."""

    def __init__(self, subject: Kernel, lowered: Lowered, config: Config, stand_ins: Mapping[int, StandIn]) -> None:
        super().__init__(config, {})
        self._subject, self._target, self._stand_ins = subject, lowered.target, stand_ins
        self.sources = portable_sources(lowered, config)
        self._kernels = {k.run().hash: k for k in emissions(lowered, config)}
        self.taken: list[TritonSource] = []
        self._interleaving = 0

    def __call__(self, *args: Any) -> Any:
        return self._subject.host.run(self, *args)

    def accepting(self, region: int, frame: Frame, begins: Any, ends: Any, given: Any = None) -> Any:
        source = self.first(region, frame, begins, ends)
        self.taken.append(source)
        if source.language == "gluon":
            self._run(self._kernels[source.hash], _captured(frame, begins, ends))
        else:
            self._stand_ins[region](frame)

    def first(self, region: int, frame: Frame, begins: Any, ends: Any) -> TritonSource:
        """The first variant of a launch whose guards hold."""
        captured = _captured(frame, begins, ends)
        return next(s for s in self.sources if s.region == region and self._takes(s, captured))

    def _takes(self, source: TritonSource, captured: Frame) -> bool:
        return bool(source.guards.evaluate({name: self._read(name, captured) for name in source.guards.symbols()}))

    def _read(self, name: str, captured: Frame) -> int:
        known = self._target.symbols()
        return known[name] if name in known else int(symbol_reader(name, self._subject.scope)(captured))

    def _run(self, kernel: GluonKernel, captured: Frame) -> None:
        ir = kernel.plan.ir

        def at_path(path: str) -> Any:
            return path_reader(Path.parse(path), self._subject.scope)(captured)

        tensors = {t.path: at_path(t.path) for t in ir.tensors}
        scalars = {s.path: at_path(s.path) for s in ir.scalars}
        at = {name: self._read(name, captured) for name in ir.hints}
        if isinstance(kernel, ProductKernel) and kernel.plan.cluster > 1:
            for bodies in _clusters(kernel, tensors, scalars, at):
                execute_cluster(kernel.specialised, bodies, bodies[0].turns, self._choose())
            return
        for body, turns, tiles in _bodies(kernel, tensors, scalars, at):
            execute(kernel.specialised, body, turns, self._choose(), tiles)

    def _choose(self) -> Chooser:
        """Nasty interleavings and random ones in turn."""
        self._interleaving += 1
        nasty = [*NASTY.values(), *NASTY_BLOCKS.values()]
        number = self._interleaving
        return nasty[number // 2 % len(nasty)] if number % 2 else at_random(number)


def _captured(frame: Frame, begins: Any, ends: Any) -> Frame:
    bounds = {f"begin.{i}": v for i, v in enumerate(begins)} | {f"end.{i}": v for i, v in enumerate(ends)}
    return {**frame, **bounds}


def emissions(lowered: Lowered, config: Config) -> Iterator[GluonKernel]:
    """The warp-specialised launches of a call in dynamic mode, each by what is divisible."""
    for ir in lowered.specialised_regions(config):
        if SCHEDULE.chosen(config, ir) == "warp_specialised":
            for divisible in (*DIVISIBLE["dynamic"], COPIED):
                yield specialised_kernel(ir, config, lowered.target, divisible)


def _clusters(
    kernel: ProductKernel, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float], at: Mapping[str, int]
) -> Iterator[list[ProductProgram]]:
    """The blocks of each cluster of a launch."""
    ir, config = kernel.plan.ir, kernel.plan.config
    kind = _kind(kernel)
    for tile in program_tiles(_tiles(kernel, ir, at), 0, 1):
        given = (ir, kernel.single, config, tensors, scalars, [tile], kernel.scheduled, False, at)
        yield [kind(*given, block) for block in range(kernel.plan.cluster)]


def _kind(kernel: ProductKernel) -> type[ProductProgram]:
    """Of the programs of a product whose tiles are known beforehand."""
    if isinstance(kernel, ComputedKernel):
        return ComputedProgram
    return SplitProgram if isinstance(kernel, SplitKernel) else ProductProgram


def _bodies(
    kernel: GluonKernel, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float], at: Mapping[str, int]
) -> Iterator[tuple[Any, Turns, int]]:
    """Each program of a launch: its body, turns of its tiles, and tiles."""
    ir, found, config = kernel.plan.ir, kernel.structure, kernel.plan.config
    tiles = _tiles(kernel, ir, at)
    given = (ir, found, config, tensors, scalars)
    if isinstance(kernel, ProductKernel):
        kind = _kind(kernel)
        for number in reversed(range(PROGRAMS)):
            own: Sequence[Mapping[str, int]] = program_tiles(tiles, number, PROGRAMS)
            if isinstance(kernel, GroupedKernel):
                kind, own = GroupedProgram, grouped_tiles(ir, kernel.single, config, tensors, own, at)
            if own:
                body = kind(ir, kernel.single, config, tensors, scalars, own, kernel.scheduled, kernel.is_dealt, at)
                yield body, body.turns, len(own)
    elif isinstance(kernel, GradientsKernel):
        for begins in program_tiles(tiles, 0, 1):
            program = GradientProgram(*given, begins, at)  # type: ignore[arg-type]
            yield program, program.turns, 1
    elif kernel.walks:
        for number in range(PROGRAMS):
            programs = [Program(*given, begins, at) for begins in program_tiles(tiles, number, PROGRAMS)]  # type: ignore[arg-type]
            if programs:
                yield Walk(programs), tuple(program.turns for program in programs), len(programs)
    else:
        for begins in program_tiles(tiles, 0, 1):
            program = Program(*given, begins, at)  # type: ignore[arg-type]
            yield program, program.turns, 1


def _tiles(kernel: GluonKernel, ir: KernelIR, at: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """Of each axis of the grid its tile, its length and its block."""
    known = {**ir.hints, **kernel.plan.numbers, **at}
    axes = (ir.tiles[name] for name in ir.grid)
    return [(t.name, t.end.evaluate(known), kernel.plan.block(t.block)) for t in axes]  # type: ignore[union-attr]
