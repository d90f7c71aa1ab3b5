"""A loop of gradients in Gluon: its schedule, and what the author computes between its products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...errors import ConfigError, InternalError
from ...expr import Expr
from ...ir.access import added_box, vector_box
from ...ir.attributes import AccessAttrs
from ...ir.graph import Block, Op, Operand
from ...ir.kinds import OpKind
from ...ir.types import Value, itemsize
from ...schedule.chained import read_by
from ...schedule.gradient_loop import GradientLoop, Sum
from ...schedule.gradients import NAMES, AddedShape, Box, ScoreShape, Shape, SumShape, gradients, is_by_columns
from ...schedule.leading import leading_branches
from ...schedule.memory import shared_bytes
from ...schedule.types import Buffer, Compute, Cut, EachTile, Multiply, Put, Save, Schedule, Shared, Step, Turn
from ...space.knobs import NUM_STAGES
from ..descriptors import block_of, box_of
from ..parameters import Box as ParameterBox
from .add_to_global import ADD_TO_GLOBAL
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

    def __init__(self, e: GradientsKernel, schedule: Schedule, turns: str, always: bool, walks: bool = False) -> None:
        super().__init__(e, schedule, turns, always, walks)
        self._kernel = e
        self._kept: dict[Value, str] = {}  # what parts give later ones, and its name in the consumer

    def _begin_turn(self, steps: tuple[Step, ...], turn: Turn) -> None:
        if turn.base == "first":  # only loads stand in front of the first turn, which are told where it begins
            return
        super()._begin_turn(steps, turn)
        if any(isinstance(step, Multiply) for step in steps):
            self._e.block(Block((), _loop(self._e).scalars, ()))

    def _repeat(self, first: str, inner: tuple[Step, ...]) -> None:
        """The turns that take branches of the author's, and then those that take none any more, without them: threads
        have registers for one of both at a time."""
        e, found = self._e, _loop(self._e)
        leading = leading_branches(found.keys, found.scalars, found.parts)
        if leading is None or not any(isinstance(step, Multiply) for step in inner):
            super()._repeat(first, inner)
            return
        tile = e.plan.ir.tiles[found.keys]
        self._scalars((leading.bound,), found.scalars)
        begin, block = e.bound(tile, tile.begin), e.plan.step_text(tile.block)
        count = f"({e.as_dtype(leading.bound, 'int32')} - {begin} + {block} - 1) // {block}"
        e.writer.line(f"branching = gl.minimum(gl.maximum({count}, {first}), {self._end})")
        with e.taking(leading.branches, 0):
            self._turns_between(first, "branching", inner)
        with e.taking(leading.branches, 1):
            self._turns_between("branching", self._end, inner)

    def _name_of_part(self, number: int) -> str:
        """The name of a part; that of turns which take no branch any more is another function."""
        is_later = any(self._e.taken_side(op) == 1 for op in _loop(self._e).parts[number])
        return f"part_{number}{'_later' if is_later else ''}"

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
            self._part(int(number), step.full, step.box)

    def _start(self) -> None:
        e, found = self._e, _loop(self._e)
        e.block(Block((), tuple(op for op in found.before if not is_scalar(op)), ()))
        for n, sum_ in enumerate(found.sums):
            e.writer.line(f"sums_{n} = {self._entry(found.entry(sum_), found.total(sum_))}")
        for n, score in enumerate(found.scores):
            e.writer.line(f"no_scores_{n} = {e.full(score.product.output.dims, '0.0', 'gl.float32')}")
        added = self._kernel.scheduled.added
        if added is not None:
            rows, columns = added.out.shape[-2:]
            e.writer.line(f"no_added = gl.full([{rows}, {columns}], 0.0, gl.float32, {e.by(columns)})")

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

    def _part(self, number: int, full: bool, box: Shared | None) -> None:
        e, found = self._e, _loop(self._e)
        kept, vector = found.kept(number), found.vectors[number]
        sums = [(n, sum_) for n, sum_ in enumerate(found.sums) if sum_.part == number]
        shared = [found.added.operand] if found.added is not None and found.added.part == number else []
        if not kept and not sums and not shared:
            return
        e.bind(found.scores[number].product.output, f"scores_{number}", "float32")
        loaded = tuple(v for n in range(number + 1) for v in found.loaded(n) if v in read_by(found.parts[number]))
        names = {v: e.name(v) for v in loaded}
        made = self._function(part_name(self._name_of_part(number), full))
        if made is None:
            with e.lines() as writer, self._block_is_full(full):
                self._gather(loaded)
                if vector is not None:
                    e.writer.at(vector.loc)
                    e.define(vector.output, f"box.load({e.layout(vector.output.dims)})", vector.output.type.dtype)
                e.block(Block((), found.parts[number], kept))
                results = [e.name(v) for v in kept] + [self._operand(n, sum_) for n, sum_ in sums]
                results += [e.as_dtype(v, v.type.dtype) for v in shared]
                writer.line(f"return {', '.join(results)}")
            scores = f"the scores{of_full(full)} up to {number}"
            says = f"What follows from {scores}: operands of sums, and what later parts read."
            first = () if vector is None else ("box",)
            made = e.define_function(part_name(self._name_of_part(number), full), says, writer, first)
        names |= {v: self._kept.setdefault(v, e.name(v)) for v in kept}  # one name, whichever function gives it
        for value, name in names.items():
            e.bind(value, name, e.held(value))
        targets = [e.name(v) for v in kept] + [f"operand_{n}" for n, _ in sums] + ["shared_operand"] * len(shared)
        given = {} if box is None else {"box": f"{self._slot(box.buffer, box.slot)}.reshape([{self._turn_length}])"}
        e.writer.line(f"{', '.join(targets)} = {self._call(made, **given)}")

    @property
    def _turn_length(self) -> int:
        """The rows of a turn's blocks."""
        return self._e.extent(_loop(self._e).columns)

    def _operand(self, number: int, sum_: Sum) -> str:
        """A part's result as a product takes it from registers."""
        e, operand = self._e, sum_.operand
        layout = e.operand_of(sum_.product, f"AS_OPERAND_{number}")
        return f"gl.convert_layout({e.as_dtype(operand, _dtype(operand))}, {layout})"

    def _store(self, step: Save | Put) -> None:
        if not (isinstance(step, Put) and step.adds):
            super()._store(step)
            return
        e, found = self._kernel, _loop(self._e)
        assert found.added is not None and e.scheduled.added is not None
        self._scalars(found.added.atomic.inputs[1:], found.scalars)
        texts = self._places(found.added.atomic, "")
        at, width = (-1, -1) if e.scheduled.added.by_columns else (-2, -2)
        texts[at] += f" + who * {e.scheduled.added.out.shape[width]}"
        into = self._slot(step.buffer, step.slot)
        e.writer.line(f"{self._matrix(Shared(step.buffer, step.slot))}.store({step.value})")
        e.writer.line("fence_async_shared()")
        e.writer.line(f"add_to_global({e.box_of_added().name}, [{', '.join(texts)}], {into})")

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
        vectors = {f"vector_{n}": op for n, op in enumerate(found.vectors) if op is not None}
        return held | {f"block_{n}": op for n, op in enumerate(found.blocks)} | vectors

    @property
    def saves(self) -> Mapping[str, Op]:
        """The stores that it does, by the registers that they write: ``result_N``."""
        return {f"result_{n}": op for n, op in enumerate(_loop(self).saved)}

    @property
    def turn_scalars(self) -> tuple[Op, ...]:
        """The operations that compute the scalars of a turn."""
        return _loop(self).scalars

    def box_order(self, op: Op) -> tuple[int, ...] | None:
        """The order of a box; of what is added to memory, of the one that the copy engine adds."""
        if op in _loop(self).vectors:
            return vector_box(self.plan.ir, op)
        return added_box(self.plan.ir, op) if op.kind is OpKind.ATOMIC else super().box_order(op)

    def box_starts_aligned(self, op: Op, order: tuple[int, ...]) -> Expr:
        """The condition that its boxes begin at aligned bytes of a row: those of a turn's vector do."""
        return Expr.of(1) if op in _loop(self).vectors else super().box_starts_aligned(op, order)

    def owner(self, buffer: str) -> Op:
        """The load or store whose box a buffer has, or the addition."""
        added = _loop(self).added
        return added.atomic if added is not None and buffer == "leaving" else super().owner(buffer)

    def box_of_added(self) -> ParameterBox:
        """The descriptor by which a group's part of a turn's result is added."""
        found, shape = _loop(self).added, self.scheduled.added
        assert found is not None and shape is not None
        return box_of(self, found.atomic, self.groups, -1 if shape.by_columns else -2)

    def _box_of(self, buffer: Buffer) -> ParameterBox:
        return self.box_of_added() if buffer.name == "leaving" else super()._box_of(buffer)

    def _memory_of(self, buffer: Buffer) -> tuple[str, str]:
        if buffer.name != "shared":
            return super()._memory_of(buffer)
        added = _loop(self).added
        assert added is not None
        dtype = f"gl.{added.operand.type.dtype}"
        return dtype, f"gl.NVMMASharedLayout.get_default_for({list(buffer.shape)}, {dtype})"

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
            tuple(None if op is None else self._box(op) for op in found.vectors),
            masked_parts(self, dict(enumerate(found.parts))),
            self._added(),
        )
        self.scheduled = shape
        self._helpers = "" if shape.added is None else ADD_TO_GLOBAL
        schedule = gradients(shape, self.groups, self.plan.launch(NUM_STAGES))
        return self._deeper(schedule) if shape.added is not None else schedule

    def _deeper(self, schedule: Schedule) -> Schedule:
        """The schedule with a ring for what leaves, where it fits shared memory and programs begin at rows of their
        own: at 1.07 times the speed. Where all programs of a head begin at the same row, and add to it at the same
        time, one slot is 1.05 times as fast: a group that waits for its own falls behind the others."""
        begin = self.plan.ir.tiles[_loop(self).keys].begin
        assert self.scheduled.added is not None
        shape = replace(self.scheduled, added=replace(self.scheduled.added, deep=True))
        deep = gradients(shape, self.groups, self.plan.launch(NUM_STAGES))
        if isinstance(begin, Expr) or shared_bytes(deep) > self.target.smem_per_block:
            return schedule
        self.scheduled = shape
        return deep

    def _added(self) -> AddedShape | None:
        """What the schedule needs to know of what a turn adds to memory."""
        added = _loop(self).added
        if added is None:
            return None
        rows, columns = (self.extent(d) for d in added.product.output.dims)
        by_columns = is_by_columns(rows, columns, self.groups)
        if by_columns is None:
            raise ConfigError(
                "groups share what a turn adds by its columns or rows, 64 of them each", got=f"{rows} x {columns}"
            )
        size = itemsize(added.operand.type.dtype)
        tensor = self.plan.ir.tensor(AccessAttrs.of(added.atomic).tensor)
        part = block_of(self, added.atomic)
        cut = -1 if by_columns else -2
        part = tuple(n // self.groups if i == len(part) + cut else n for i, n in enumerate(part))
        return AddedShape(
            added.held,
            added.part,
            by_columns,
            Box("", (self.group_rows, rows), size),
            Box(tensor.name, part, itemsize(tensor.dtype)),
            deep=False,
        )

    def _box(self, op: Op) -> Box:
        tensor = self.plan.ir.tensor(AccessAttrs.of(op).tensor)
        return Box(tensor.name, box_of(self, op).block, itemsize(tensor.dtype))


def _dtype(operand: Operand) -> str:
    assert isinstance(operand, Value)  # the finder refuses numbers
    return operand.type.dtype
