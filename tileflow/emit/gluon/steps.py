"""The steps of a schedule as lines: what each role waits for, copies and multiplies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from ...errors import InternalError
from ...ir.attributes import AccessAttrs
from ...ir.graph import Block, ExprIndex, Op, Operand, TileIndex, ValueIndex
from ...ir.types import Value
from ...schedule.chained import read_by
from ...schedule.types import (
    Arrive,
    Await,
    AwaitPuts,
    Buffer,
    Compute,
    Copy,
    Cut,
    EachTile,
    IfAny,
    IfFull,
    Multiply,
    OfGroup,
    OwnTile,
    Put,
    Repeat,
    Role,
    Round,
    Save,
    Schedule,
    Share,
    Shared,
    Slot,
    Staged,
    Step,
    Take,
    ThisTile,
    Turn,
    Wait,
)
from .. import grid
from ..descriptors import box_of, items_of, offsets
from ..dtypes import compute_dtype, triton_dtype
from .context import GluonContext
from .functions import Function

_SAYS = {
    "producer": "Boxes of memory, copied as far ahead as there are slots.",
    "splitter": "Each turn's boxes, split into the parts that products take.",
}


class Steps(ABC):
    """Writes the roles of one schedule. ``turns``: the text of how many turns there are; ``always``: whether there is
    one for sure; ``walks``: whether a program has several tiles, so that turns are numbered through all of them;
    ``uneven``: whether those have different numbers of turns, which each counts itself."""

    under_way: ClassVar[str] = "_under_way"  # what is added to the name of sums that nobody may read yet

    def __init__(
        self,
        e: GluonContext,
        schedule: Schedule,
        turns: str,
        always: bool,
        walks: bool = False,
        uneven: bool = False,
    ) -> None:
        self._e, self._schedule = e, schedule
        self._turns, self._always, self.walks, self.uneven = turns, always, walks, uneven
        self._issued: set[str] = set()  # registers of products that were not awaited
        self._is_partial = False  # whether this is the side of a branch where a turn's block is partial
        e.module.constant("STAGES", f"gl.constexpr({schedule.stages})")
        e.module.constant("GROUPS", f"gl.constexpr({schedule.consumer.groups})")

    def consumer(self) -> Function:
        """The function of the consumer role, which is given the number of its group as ``who``."""
        says = "A group of rows: their products, and what the author computes between them."
        return self._role(self._schedule.consumer, says, ("who",))

    def helper(self, role: Role) -> Function:
        """The function of a role beside the consumers."""
        return self._role(role, _SAYS[role.name], ())

    def _role(self, role: Role, says: str, first: tuple[str, ...]) -> Function:
        with self._e.lines() as writer:
            self._steps(role.program)
        return self._e.define_function(role.name, says, writer, first)

    # ---- steps ----------------------------------------------------------------------------------

    def _steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: Step) -> None:
        line = self._e.writer.line
        match step:
            case IfAny() | IfFull() | Repeat() | EachTile():
                self._nested(step)
            case Wait(barrier, slot, round_):
                says = self._schedule.barrier(barrier).says
                line(f"mbarrier.wait({self._gate(barrier, slot)}, {self._parity(barrier, round_)})  # {says}")
            case Arrive(barrier, slot):
                line(f"mbarrier.arrive({self._gate(barrier, slot)}, count=1)")
            case Copy():
                self._copy(step)
            case Multiply():
                self._multiply(step)
            case Await(pending, results, keeps, unfinished):
                self._issued -= {*results}
                waited = [*(r + self.under_way for r in (*results, *unfinished)), *keeps]
                names = ", ".join((*results, *unfinished, *keeps))
                line(f"{names} = warpgroup_mma_wait({pending}, [{', '.join(waited)}])")
            case Compute():
                self._compute(step)
            case Take(value, into):
                line(f"{into} = {value}")
            case Save() | Put():
                self._store(step)
            case Share(value, buffer, slot):
                line(f"{self._matrix(Shared(buffer, slot))}.store({value})")
                line("fence_async_shared()")
            case AwaitPuts(pending):
                line(f"tma.store_wait({pending})")
            case Cut():
                self._cut(step)

    def _nested(self, step: IfAny | IfFull | Repeat | EachTile) -> None:
        match step:
            case IfAny(inner):
                self._if_any(inner)
            case IfFull(_, inner, others):
                self._if_full(inner, others)
            case Repeat(first, inner):
                self._repeat(self._later(first), inner)
            case EachTile():
                self._each_tile(step)

    def _each_tile_of(self, numbers: str, before: tuple[Op, ...], steps: tuple[Step, ...]) -> None:
        """The tiles of the program with these ``numbers``; ``before``: operations of a tile that all roles need."""
        e = self._e
        counts = grid.Counts(e)
        counts.total()  # the counts stand in front of the loop
        if self.uneven:
            e.writer.line("start = 0")
        e.writer.line(f"for tile in range({numbers}):")
        with e.writer.indented():
            place = place_in_row("tile") if self.uneven else "tl.program_id(0)"
            e.writer.line(f"pid = {place} + tile * tl.num_programs(0)")
            self._one_tile(counts, before, steps)
            if self.uneven:
                e.writer.line("start += turns")

    def _one_tile(self, counts: grid.Counts, before: tuple[Op, ...], steps: tuple[Step, ...]) -> None:
        """The tile of number ``pid``, whose turns are numbered on from the program's tile before."""
        e = self._e
        grid.emit_tiles(e, counts)
        e.block(Block((), before, ()))
        mark = e.writer.mark
        if self.walks:
            e.writer.line(f"turns = {turn_text(e)}" if self.uneven else f"start = tile * {self._turns}")
        if any(isinstance(s, Multiply) for s in steps):
            self._begin_turn(steps, Turn("first"))
        self._steps(steps)
        e.writer.insert(mark, e.lanes_named(e.writer.text_from(mark)))  # of this tile, not of the program's first

    def _repeat(self, first: str, inner: tuple[Step, ...]) -> None:
        """The turns of a tile from the ``first`` on."""
        self._turns_between(first, self._end, inner)

    def _turns_between(self, first: str, end: str, inner: tuple[Step, ...]) -> None:
        self._e.writer.line(f"for turn in range({first}, {end}):")
        with self._e.writer.indented():
            self._begin_turn(inner, Turn())
            self._steps(inner)

    def _if_any(self, inner: tuple[Step, ...]) -> None:
        if self._always:
            self._begin_turn(inner, Turn("first"))
            self._steps(inner)
            return
        self._e.writer.line(f"if {self._turns} > 0:")
        with self._e.writer.indented():
            self._begin_turn(inner, Turn("first"))
            self._steps(inner)

    def _if_full(self, inner: tuple[Step, ...], others: tuple[Step, ...]) -> None:
        """One number for all threads: warps stay together for the products around it."""
        e, tile = self._e, self._e.plan.ir.tiles[self._e.structure.keys]
        block = f"{e.tile(tile.name)}_begin + {e.plan.step_text(tile.block)}"
        e.writer.line(f"if {block} <= {e.bound(tile, tile.end)}:")
        with e.writer.indented():
            self._steps(inner)
        e.writer.line("else:")
        with e.writer.indented():
            self._is_partial = True
            self._steps(others)
            self._is_partial = False

    def _copy(self, step: Copy) -> None:
        buffer, line = self._schedule.buffer(step.buffer), self._e.writer.line
        full = self._gate(step.full, step.slot)
        part = step.slot.part if isinstance(step.slot, Staged) else None
        load = self._e.boxes[step.buffer if part is None else f"{step.buffer}_{part}"]
        group = step.slot if isinstance(step.slot, OfGroup) else step.slot.group
        where = self._place(load, "" if group is None else str(group.number))
        line(f"mbarrier.expect({full}, {buffer.box_bytes})")
        box = box_of(self._e, load).name
        into = self._slot(step.buffer, step.slot)
        if part is not None:
            axis = buffer.joined % len(buffer.shape)
            into += f".slice({part * buffer.shape[axis]}, {buffer.shape[axis]}, {axis})"
        line(f"tma.async_copy_global_to_shared({box}, [{where}], {full}, {into})")

    def _multiply(self, step: Multiply) -> None:
        e = self._e
        left = step.left if isinstance(step.left, str) else self._matrix(step.left)
        right = self._matrix(step.right)
        total = step.into if step.adds else f"no_{step.into}"
        if step.into in self._issued and step.adds:  # behind the product before it, without a wait
            total += self.under_way
        self._issued.add(step.into)
        fresh = "" if step.adds else "use_acc=False, "
        text = f"warpgroup_mma({left}, {right}, {total}, {fresh}is_async=True)"
        e.writer.line(f"{step.into}{self.under_way} = {text}")

    def _place(self, op: Op, group: str) -> str:
        """The offsets of a box as one text."""
        return ", ".join(self._places(op, group))

    def _places(self, op: Op, group: str) -> list[str]:
        """The offsets of a box; of the queries' rows, those of the group's part."""
        texts = self._offsets(op)
        for n, item in enumerate(items_of(self._e, op)):
            if isinstance(item, TileIndex) and item.tile == self._e.structure.rows:
                part = {"": "", "0": "", "1": f" + {self._e.rows_text}"}.get(group, f" + {group} * {self._e.rows_text}")
                texts[n] += part
        return texts

    def _offsets(self, op: Op) -> list[str]:
        """Where a box begins, a text for each of its dimensions."""
        return offsets(self._e, op)

    def _scalars(self, wanted: tuple[Operand, ...], ops: tuple[Op, ...]) -> None:
        """Compute the scalars among ``ops`` that some operands follow from."""
        needed: set[Operand] = set(wanted)
        chosen: list[Op] = []
        for op in reversed(ops):
            if set(op.outputs) & needed:
                chosen.insert(0, op)
                needed |= set(read_by([op]))
        self._e.block(Block((), tuple(chosen), ()))

    # ---- what structures differ in --------------------------------------------------------------

    def _begin_turn(self, steps: tuple[Step, ...], turn: Turn) -> None:
        """Where this turn's tile of the loop begins, and the scalars that its boxes' places are computed from."""
        if not any(isinstance(s, Compute | Copy | IfFull) and s.turn is not None for s in steps):
            return
        tile = self._e.plan.ir.tiles[self._e.structure.keys]
        begin = self._e.bound(tile, tile.begin)
        if turn.base == "turn":
            step = f"{'(turn - start)' if self.walks else 'turn'} * {self._e.plan.step_text(tile.block)}"
            begin = step if begin == "0" else f"{begin} + {step}"
        self._e.writer.line(f"{self._e.tile(tile.name)}_begin = {begin}")
        for step_ in steps:
            if isinstance(step_, Copy):
                self._scalars(self._e.boxes[step_.buffer].inputs, self._e.turn_scalars)

    def _store(self, step: Save | Put) -> None:
        """What the copy engine writes: of all columns, unless a structure says otherwise."""
        e, op = self._e, self._e.saves[step.value]
        self._scalars(op.inputs[1:], e.structure.after)
        box, place = box_of(e, op).name, self._place(op, "who")
        e.writer.line(f"{self._matrix(Shared(step.buffer, step.slot))}.store({step.value})")
        e.writer.line("fence_async_shared()")
        e.writer.line(f"tma.async_copy_shared_to_global({box}, [{place}], {self._slot(step.buffer, step.slot)})")
        if isinstance(step, Save):
            e.writer.line("tma.store_wait(0)")

    @abstractmethod
    def _compute(self, step: Compute) -> None:
        """A part of the author's body."""

    @abstractmethod
    def _cut(self, step: Cut) -> None:
        """Registers in pieces of their columns."""

    @abstractmethod
    def _each_tile(self, step: EachTile) -> None:
        """The program's tiles, one after the other."""

    def _finished(self, after: tuple[Op, ...]) -> Function:
        """The function of what stands behind the loop, which gives what the copy engine stores."""
        e, saves = self._e, tuple(self._e.saves.values())
        with e.lines() as writer:
            e.block(Block((), tuple(op for op in after if op not in saves), ()))
            if saves:
                writer.line(f"return {', '.join(map(self._result, saves))}")
        first = () if "who" not in writer.text else ("who",)
        return e.define_function("finish", "What is left to do with the sums of all turns.", writer, first)

    def _result(self, op: Op) -> str:
        """What a store writes, as it lies in memory."""
        value = op.inputs[0]
        assert isinstance(value, Value)
        self._e.resolve_layout(value)
        return self._e.as_dtype(value, self._e.plan.ir.tensor(AccessAttrs.of(op).tensor).dtype)

    def _entry(self, initial: Operand, param: Value) -> str:
        """What the loop carries into its first turn."""
        held = compute_dtype(param.type.dtype)
        if isinstance(initial, Value):
            self._e.resolve_layout(initial)
            return self._e.as_dtype(initial, held)
        text = self._e.as_dtype(initial, held)
        return self._e.full(param.dims, text, triton_dtype(held))

    def _block_is_full(self, full: bool) -> AbstractContextManager[None]:
        """Write what follows without masks of the loop's end, where the turn's block is ``full``."""
        return self._e.plan.full_blocks(self._e.structure.keys) if full else nullcontext()

    def _call(self, made: Function, **given: str) -> str:
        """The call of a part of a turn. That of a partial block computes its masks there: LLVM computed them in front
        of the loop, and they were spilled. Where the block begins stays known to be a multiple of its size."""
        if not self._is_partial:
            return made.call(**given)
        e, tile = self._e, self._e.plan.ir.tiles[self._e.structure.keys]
        begin = f"{e.tile(tile.name)}_begin"
        return made.call(**given, **{begin: f"{begin} + {e.kept_in_branch} * {e.plan.step_text(tile.block)}"})

    def _gather(self, loaded: tuple[Value, ...]) -> None:
        """Bring what was loaded ahead to the lanes that need it."""
        e = self._e
        for value in (v for v in loaded if e.is_row(v.dims)):
            name = e.fresh("v")
            e.writer.line(f"{name} = gl.convert_layout({e.name(value)}, {e.layout(value.dims)})")
            e.bind(value, name, e.held(value))

    def _function(self, name: str) -> Function | None:
        return next((f for f in self._e.functions if f.name == name), None)

    # ---- names ----------------------------------------------------------------------------------

    def _later(self, first: int) -> str:
        """The number of a turn of the tile."""
        if not self.walks:
            return str(first)
        return f"start + {first}" if first else "start"

    @property
    def _end(self) -> str:
        """The number of the turn past the tile's last one."""
        return f"start + {self._turns}" if self.walks else self._turns

    def _turn(self, turn: Turn) -> str:
        if turn.base == "next":
            raise InternalError("what is loaded a turn ahead says itself where that is", got=turn)
        if turn.base == "first":
            return self._later(turn.offset)
        if turn.base == "last" and self.walks:
            behind = 1 - turn.offset
            return f"(start + {int(self._turns) - behind})" if self._turns.isdigit() else f"({self._end} - {behind})"
        base = "turn" if turn.base == "turn" else self._end
        offset = turn.offset - (turn.base == "last")
        if base.isdigit():
            return str(int(base) + offset)
        return base if not offset else f"({base} {'-' if offset < 0 else '+'} {abs(offset)})"

    def _slot(self, name: str, slot: Slot) -> str:
        """``key_full.index(turn % STAGES)``."""
        if isinstance(slot, Staged):
            turn = self._turn(slot.turn)
            position = str(int(turn) % self._schedule.stages) if turn.isdigit() else f"{turn} % STAGES"
            if slot.group is not None:
                part = "who" if slot.group.number is None else str(slot.group.number)
                position = f"({position}) * GROUPS + {part}"
        elif slot.number is not None:
            position = str(slot.number)
        else:
            position = "who" if not slot.after else f"(who + {slot.after}) % GROUPS"
        return f"{name}.index({position})"

    def _gate(self, name: str, slot: Slot) -> str:
        """A slot of a barrier: one, whichever groups have parts of a stage."""
        return self._slot(name, Staged(slot.turn) if isinstance(slot, Staged) else slot)

    def _parity(self, barrier: str, round_: Round) -> str:
        """The parity of the round that is waited for."""
        staged = self._schedule.barrier(barrier).per == "stage"
        if round_.turn is None:
            return str(round_.behind & 1)
        turn = self._counted(round_.turn)
        if turn.isdigit():
            text = str((int(turn) // (self._schedule.stages if staged else 1) - round_.behind) & 1)
        else:
            text = f"({turn} // STAGES) & 1" if staged else f"{turn} & 1"
            text = f"({text}) ^ 1" if round_.behind & 1 else text
        if round_.head_start & 1:
            text = f"({text}) ^ (1 if who == 0 else 0)"
        return text

    def _sides(self, op: Op, buffer: Buffer) -> list[int]:
        """The sides of the matrix in a slot: of the box's, the ones that are tiles."""
        items = items_of(self._e, op)
        return [n for n, i in zip(buffer.slot_shape, items, strict=True) if not isinstance(i, ExprIndex | ValueIndex)]

    def _counted(self, which: Turn | OwnTile | ThisTile) -> str:
        if isinstance(which, Turn):
            return self._turn(which)
        return "tile" if isinstance(which, ThisTile) else "(tile // GROUPS)"

    def _matrix(self, operand: Shared) -> str:
        """A slot as a matrix: dimensions of a box that have one element fall away."""
        buffer: Buffer = self._schedule.buffer(operand.buffer)
        text = self._slot(operand.buffer, operand.slot)
        if len(buffer.shape) != 2:
            text += f".reshape([{', '.join(map(str, self._sides(self._e.owner(operand.buffer), buffer)))}])"
        if operand.cut > 1:
            width = buffer.slot_shape[-1] // operand.cut
            text += f".slice(who * {width}, {width}, 1)"
        return f"{text}.permute((1, 0))" if operand.transposed else text


def turn_text(e: GluonContext) -> str:
    """The text of how many turns the loop over keys has, from where it begins and ends."""
    tile = e.plan.ir.tiles[e.structure.keys]
    begin, end = e.bound(tile, tile.begin), e.bound(tile, tile.end)
    length = end if begin == "0" else f"{end} - {begin}"
    return f"({length} + {e.plan.step_text(tile.block)} - 1) // {e.plan.step_text(tile.block)}"


def place_in_row(row: str) -> str:
    """The text of a program's place in a row of as many tiles as there are programs: to and fro, so that a program with
    long tiles in one row has short ones in the next."""
    return f"(tl.program_id(0) + ({row} & 1) * (tl.num_programs(0) - 1 - 2 * tl.program_id(0)))"
