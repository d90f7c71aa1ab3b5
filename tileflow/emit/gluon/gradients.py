"""A loop of gradients in Gluon: its schedule, and what the author computes between its products."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import ConfigError, InternalError
from ...ir.attributes import AccessAttrs
from ...ir.graph import Block, Op, Operand
from ...ir.types import Value, itemsize
from ...schedule.chained import read_by
from ...schedule.gradient_loop import GradientLoop, Sum
from ...schedule.gradients import NAMES, Box, ScoreShape, Shape, SumShape, gradients
from ...schedule.types import Compute, Cut, EachTile, Multiply, Schedule, Step, Turn
from ...space.knobs import NUM_STAGES
from ..descriptors import box_of
from .context import GluonContext
from .full_blocks import masked_parts, of_full, part_name
from .kernel import GluonKernel
from .roles import is_scalar
from .steps import Steps


def _loop(e: GluonContext) -> GradientLoop:
    if not isinstance(e.structure, GradientLoop):
        raise ConfigError("this program is of a loop of gradients", got=type(e.structure).__name__)
    return e.structure


class GradientRoles(Steps):
    """Writes the roles of a loop of gradients."""

    def __init__(self, e: GluonContext, schedule: Schedule, turns: str, always: bool, walks: bool = False) -> None:
        super().__init__(e, schedule, turns, always, walks)
        self._kept: dict[Value, str] = {}  # what parts give later ones, and its name in the consumer

    def _begin_turn(self, steps: tuple[Step, ...], turn: Turn) -> None:
        if turn.base == "first":  # only loads stand in front of the first turn, which are told where it begins
            return
        super()._begin_turn(steps, turn)
        if any(isinstance(step, Multiply) for step in steps):
            self._e.block(Block((), _loop(self._e).scalars, ()))

    def _cut(self, step: Cut) -> None:
        raise InternalError("a loop of gradients is computed in whole rows", got=step)

    def _each_tile(self, step: EachTile) -> None:
        raise InternalError("a program of a loop of gradients works on one tile", got=step)

    def _compute(self, step: Compute) -> None:
        if step.part in ("start", "finish"):
            {"start": self._start, "finish": self._finish}[step.part]()
            return
        kind, _, number = step.part.rpartition("_")
        if kind == "ahead_of":
            assert step.turn is not None
            self._ahead(int(number), step.turn)
        else:
            self._part(int(number), step.full)

    def _start(self) -> None:
        e, found = self._e, _loop(self._e)
        e.block(Block((), tuple(op for op in found.before if not is_scalar(op)), ()))
        for n, sum_ in enumerate(found.sums):
            e.writer.line(f"sums_{n} = {self._entry(found.entry(sum_), found.total(sum_))}")
        for n, score in enumerate(found.scores):
            e.writer.line(f"no_scores_{n} = {e.full(score.product.output.dims, '0.0', 'gl.float32')}")

    def _ahead(self, number: int, turn: Turn) -> None:
        """What its place follows from is computed in the function, of the turn that it is called for."""
        e, found = self._e, _loop(self._e)
        loaded, name = found.loaded(number), f"ahead_of_{number}"
        made = self._function(name)
        if made is None:
            with e.lines() as writer, e.spread_over_a_warp():
                self._scalars(read_by(found.ahead[number]), found.scalars)
                e.block(Block((), found.ahead[number], loaded))
                writer.line(f"return {self._names(loaded)}")
            made = e.define_function(name, "What is loaded beside the blocks, by pointers.", writer)
        tile = e.plan.ir.tiles[found.keys]
        begin, block = e.bound(tile, tile.begin), e.plan.step_text(tile.block)
        if turn.base == "next":
            last = int(self._turns) - 1 if self._turns.isdigit() else f"{self._turns} - 1"
            begin = f"{begin} + gl.minimum(turn + 1, {last}) * {block}"
        e.writer.line(f"{self._names(loaded)} = {made.call(**{f'{e.tile(tile.name)}_begin': begin})}")

    def _part(self, number: int, full: bool) -> None:
        e, found = self._e, _loop(self._e)
        kept = found.kept(number)
        sums = [(n, sum_) for n, sum_ in enumerate(found.sums) if sum_.part == number]
        if not kept and not sums:
            return
        e.bind(found.scores[number].product.output, f"scores_{number}", "float32")
        loaded = tuple(v for n in range(number + 1) for v in found.loaded(n) if v in read_by(found.parts[number]))
        names = {v: e.name(v) for v in loaded}
        with e.lines() as writer, self._block_is_full(full):
            self._gather(loaded)
            e.block(Block((), found.parts[number], kept))
            results = [e.name(v) for v in kept] + [self._operand(n, sum_) for n, sum_ in sums]
            writer.line(f"return {', '.join(results)}")
        scores = f"the scores{of_full(full)} up to {number}"
        says = f"What follows from {scores}: operands of sums, and what later parts read."
        made = e.define_function(part_name(f"part_{number}", full), says, writer)
        names |= {v: self._kept.setdefault(v, e.name(v)) for v in kept}  # one name, whichever function gives it
        for value, name in names.items():
            e.bind(value, name, e.held(value))
        targets = [e.name(v) for v in kept] + [f"operand_{n}" for n, _ in sums]
        e.writer.line(f"{', '.join(targets)} = {self._call(made)}")

    def _gather(self, loaded: tuple[Value, ...]) -> None:
        """Bring what was loaded ahead to the lanes that need it."""
        e = self._e
        for value in (v for v in loaded if e.is_row(v.dims)):
            name = e.fresh("v")
            e.writer.line(f"{name} = gl.convert_layout({e.name(value)}, {e.layout(value.dims)})")
            e.bind(value, name, e.held(value))

    def _operand(self, number: int, sum_: Sum) -> str:
        """A part's result as a product takes it from registers."""
        e, operand = self._e, sum_.operand
        layout = e.operand_of(sum_.product, f"AS_OPERAND_{number}")
        return f"gl.convert_layout({e.as_dtype(operand, _dtype(operand))}, {layout})"

    def _finish(self) -> None:
        e, found = self._e, _loop(self._e)
        for n, sum_ in enumerate(found.sums):
            e.bind(found.total(sum_), f"sums_{n}", "float32")
        made = self._finished(found.after)
        targets = ", ".join(e.saves)
        e.writer.line(f"{targets} = {made.call()}" if targets else made.call())

    def _names(self, values: tuple[Value, ...]) -> str:
        return ", ".join(self._e.name(v) for v in values)


class GradientsKernel(GluonKernel):
    """One emission of a loop of gradients."""

    roles = GradientRoles
    own_names = NAMES

    @property
    def boxes(self) -> Mapping[str, Op]:
        """The loads that the copy engine does: ``held_N`` once a tile, ``block_N`` once a turn."""
        found = _loop(self)
        held = {f"held_{n}": op for n, op in enumerate(found.held)}
        return held | {f"block_{n}": op for n, op in enumerate(found.blocks)}

    @property
    def saves(self) -> Mapping[str, Op]:
        """The stores that it does, by the registers that they write: ``result_N``."""
        return {f"result_{n}": op for n, op in enumerate(_loop(self).saved)}

    @property
    def turn_scalars(self) -> tuple[Op, ...]:
        """The operations that compute the scalars of a turn."""
        return _loop(self).scalars

    def _check(self) -> None:
        if self.walks:
            raise ConfigError(
                "a program of a loop of gradients works on one tile", got="persistent", hint="choose persistent 0"
            )
        super()._check()

    def _schedule(self) -> Schedule:
        found = _loop(self)
        for sum_ in found.sums:
            self.by(self.extent(sum_.product.output.dims[1]))
        shape = Shape(
            tuple(map(self._box, found.held)),
            tuple(map(self._box, found.blocks)),
            tuple(ScoreShape(s.held, s.block, s.transposed) for s in found.scores),
            tuple(SumShape(s.block, s.transposed, s.part) for s in found.sums),
            tuple(map(self._box, found.saved)),
            tuple(n for n, ops in enumerate(found.ahead) if ops),
            masked_parts(self, dict(enumerate(found.parts))),
        )
        return gradients(shape, self.groups, self.plan.launch(NUM_STAGES))

    def _box(self, op: Op) -> Box:
        tensor = self.plan.ir.tensor(AccessAttrs.of(op).tensor)
        return Box(tensor.name, box_of(self, op).block, itemsize(tensor.dtype))


def _dtype(operand: Operand) -> str:
    assert isinstance(operand, Value)  # the finder refuses numbers
    return operand.type.dtype
