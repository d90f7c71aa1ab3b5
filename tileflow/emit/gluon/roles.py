"""The steps of a schedule as lines: what each role waits for, copies, multiplies and computes."""

from __future__ import annotations

from ...expr import Expr
from ...ir.attributes import AccessAttrs
from ...ir.graph import Block, Op, Operand, TileIndex
from ...ir.types import Value
from ...schedule.chained import Chained, read_by
from ...schedule.types import (
    Arrive,
    Await,
    Buffer,
    Compute,
    Copy,
    IfAny,
    Multiply,
    OfGroup,
    Repeat,
    Role,
    Round,
    Save,
    Schedule,
    Shared,
    Slot,
    Staged,
    Step,
    Turn,
    Wait,
)
from ..descriptors import box_of, offsets
from ..dtypes import compute_dtype, triton_dtype
from .context import GluonContext
from .functions import Function

_UNDER_WAY = "_under_way"


class Roles:
    """Writes the roles of one schedule. ``turns``: the text of how many turns there are; ``always``: whether there is
    one for sure."""

    def __init__(self, e: GluonContext, schedule: Schedule, turns: str, always: bool) -> None:
        self._e, self._schedule = e, schedule
        self._turns, self._always = turns, always
        self._carried: list[str] = []
        self._factors: list[str] = []
        e.module.constant("STAGES", f"gl.constexpr({schedule.stages})")
        e.module.constant("GROUPS", f"gl.constexpr({schedule.consumer.groups})")

    @property
    def _found(self) -> Chained:
        return self._e.found

    def consumer(self) -> Function:
        says = "A group of rows: their products, and what the author computes between them."
        return self._role(self._schedule.consumer, says, ("who",))

    def producer(self) -> Function:
        return self._role(self._schedule.producer, "Boxes of memory, copied as far ahead as there are slots.", ())

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
            case IfAny(inner):
                self._if_any(inner)
            case Repeat(first, inner):
                line(f"for turn in range({first}, {self._turns}):")
                with self._e.writer.indented():
                    self._begin_turn(inner, Turn())
                    self._steps(inner)
            case Wait(barrier, slot, round_):
                says = self._schedule.barrier(barrier).says
                line(f"mbarrier.wait({self._slot(barrier, slot)}, {self._parity(barrier, round_)})  # {says}")
            case Arrive(barrier, slot):
                line(f"mbarrier.arrive({self._slot(barrier, slot)}, count=1)")
            case Copy():
                self._copy(step)
            case Multiply():
                self._multiply(step)
            case Await(pending, results, keeps):
                waited = [*(r + _UNDER_WAY for r in results), *keeps]
                line(f"{', '.join((*results, *keeps))} = warpgroup_mma_wait({pending}, [{', '.join(waited)}])")
            case Compute():
                self._compute(step)
            case Save():
                self._save(step)

    def _if_any(self, inner: tuple[Step, ...]) -> None:
        if self._always:
            self._begin_turn(inner, Turn("first"))
            self._steps(inner)
            return
        self._e.writer.line(f"if {self._turns} > 0:")
        with self._e.writer.indented():
            self._begin_turn(inner, Turn("first"))
            self._steps(inner)

    def _begin_turn(self, steps: tuple[Step, ...], turn: Turn) -> None:
        """Where this turn's tile of keys begins, and the scalars that its boxes' places are computed from."""
        if not any(isinstance(s, Compute | Copy) and s.turn is not None for s in steps):
            return
        tile = self._e.plan.ir.tiles[self._e.structure.keys]
        begin = self._e.bound(tile, tile.begin)
        if turn.base == "turn":
            step = f"turn * {self._e.plan.step_text(tile.block)}"
            begin = step if begin == "0" else f"{begin} + {step}"
        self._e.writer.line(f"{self._e.tile(tile.name)}_begin = {begin}")
        for step_ in steps:
            if isinstance(step_, Copy):
                self._scalars(self._e.boxes[step_.buffer].inputs, self._e.turn_scalars)

    def _copy(self, step: Copy) -> None:
        buffer, line = self._schedule.buffer(step.buffer), self._e.writer.line
        full = self._slot(step.full, step.slot)
        load = self._e.boxes[step.buffer]
        where = self._place(load, "" if not isinstance(step.slot, OfGroup) else str(step.slot.number))
        line(f"mbarrier.expect({full}, {buffer.slot_bytes})")
        box = box_of(self._e, load).name
        into = self._slot(step.buffer, step.slot)
        line(f"tma.async_copy_global_to_shared({box}, [{where}], {full}, {into})")

    def _multiply(self, step: Multiply) -> None:
        e = self._e
        left = step.left if isinstance(step.left, str) else self._matrix(step.left)
        right = self._matrix(step.right)
        total = step.into if step.adds else f"no_{step.into}"
        fresh = "" if step.adds else "use_acc=False, "
        text = f"warpgroup_mma({left}, {right}, {total}, {fresh}is_async=True)"
        e.writer.line(f"{step.into}{_UNDER_WAY} = {text}")

    def _save(self, step: Save) -> None:
        e, op = self._e, self._e.saves[step.value]
        self._scalars(op.inputs[1:], e.structure.after)
        box, place = box_of(e, op).name, self._place(op, "who")
        e.writer.line(f"{self._matrix(Shared(step.buffer, step.slot))}.store({step.value})")
        e.writer.line("fence_async_shared()")
        e.writer.line(f"tma.async_copy_shared_to_global({box}, [{place}], {self._slot(step.buffer, step.slot)})")
        e.writer.line("tma.store_wait(0)")

    def _place(self, op: Op, group: str) -> str:
        """Where a box begins; of the queries' rows, the part of a group."""
        texts = offsets(self._e, op)
        for n, item in enumerate(AccessAttrs.of(op).index):
            if isinstance(item, TileIndex) and item.tile == self._e.structure.rows:
                part = {"0": "", "1": f" + {self._e.rows_text}"}.get(group, f" + {group} * {self._e.rows_text}")
                texts[n] += part
        return ", ".join(texts)

    def _scalars(self, wanted: tuple[Operand, ...], ops: tuple[Op, ...]) -> None:
        """Compute the scalars among ``ops`` that some operands follow from."""
        needed: set[Operand] = set(wanted)
        chosen: list[Op] = []
        for op in reversed(ops):
            if set(op.outputs) & needed:
                chosen.insert(0, op)
                needed |= set(read_by([op]))
        self._e.block(Block((), tuple(chosen), ()))

    # ---- the author's parts ---------------------------------------------------------------------

    def _compute(self, step: Compute) -> None:
        {"start": self._start, "weigh": self._weigh, "rescale": self._rescale,
         "narrow": self._narrow, "finish": self._finish}[step.part]()  # fmt: skip

    def _start(self) -> None:
        """What the loop begins with."""
        e, found = self._e, self._found
        e.block(Block((), tuple(op for op in found.before if not is_scalar(op)), ()))
        entry = list(found.entry)
        sums = entry.pop(found.sums_at)
        self._bind_carried("c", [param for param, _, _ in found.carried])
        e.writer.line(f"sums = {self._entry(sums, found.sums_param)}")
        for name, initial, (param, _, _) in zip(self._carried, entry, found.carried, strict=True):
            e.writer.line(f"{name} = {self._entry(initial, param)}")
        scores = found.scores.output.dims
        e.writer.line(f"no_scores = {e.full(scores, '0.0', 'gl.float32')}")

    def _entry(self, initial: Operand, param: Value) -> str:
        held = compute_dtype(param.type.dtype)
        if isinstance(initial, Value):
            self._e.settle_layout(initial)
            return self._e.as_dtype(initial, held)
        text = self._e.as_dtype(initial, held)
        return self._e.full(param.dims, text, triton_dtype(held))

    def _bind_carried(self, prefix: str, params: list[Value]) -> None:
        self._carried = [self._e.fresh(prefix) for _ in params]
        for name, param in zip(self._carried, params, strict=True):
            self._e.bind(param, name, compute_dtype(param.type.dtype))

    def _weigh(self) -> None:
        e, found = self._e, self._found
        e.bind(found.scores.output, "scores", "float32")
        made = self._function("weigh")
        if made is None:
            with e.lines() as writer:
                e.block(Block((), found.weigh, (found.weights, *found.factors)))
                e.settle_layout(found.weights)
                results = [e.name(found.weights)]
                results += [e.as_dtype(r, compute_dtype(p.type.dtype)) for p, r, _ in found.carried]
                self._factors = [e.name(v) for v in found.factors]
                writer.line(f"return {', '.join([*results, *self._factors])}")
            made = e.define_function(
                "weigh", "From the scores to their weights, and what goes to the next turn.", writer
            )
        targets = ["weights", *self._carried, *self._factors]
        self._e.writer.line(f"{', '.join(targets)} = {made.call()}")

    def _rescale(self) -> None:
        e, found = self._e, self._found
        if found.sums.values[2] == found.sums_param:
            return
        made = self._function("rescale")
        if made is None:
            e.bind(found.sums_param, "sums", "float32")
            with e.lines() as writer:
                e.block(Block((), found.rescale, (found.sums.values[2],)))
                writer.line(f"return {e.as_dtype(found.sums.values[2], 'float32')}")
            made = e.define_function("rescale", "The sums of the turns before, as this turn takes them.", writer)
        e.writer.line(f"sums = {made.call()}")

    def _narrow(self) -> None:
        e, found = self._e, self._found
        made = self._function("narrow")
        if made is None:
            held = e.held(found.weights)
            e.bind(found.weights, "weights", held)
            with e.lines() as writer:
                operand = found.sums.values[0]
                e.block(Block((), found.narrow, ()))
                text = e.as_dtype(operand, operand.type.dtype)
                writer.line(f"return gl.convert_layout({text}, {e.operand_layout})")
            made = e.define_function("narrow", "The weights as the second product takes them from registers.", writer)
        e.writer.line(f"operand = {made.call()}")

    def _finish(self) -> None:
        e, found = self._e, self._found
        e.bind(found.loop.outputs[found.sums_at], "sums", "float32")
        for name, (_, _, out) in zip(self._carried, found.carried, strict=True):
            e.bind(out, name, compute_dtype(out.type.dtype))
        with e.lines() as writer:
            e.block(Block((), tuple(op for op in found.after if op is not found.saved), ()))
            if found.saved is not None:
                value = found.saved.inputs[0]
                assert isinstance(value, Value)
                e.settle_layout(value)
                tensor = e.plan.ir.tensor(AccessAttrs.of(found.saved).tensor)
                writer.line(f"return {e.as_dtype(value, tensor.dtype)}")
        first = () if "who" not in writer.text else ("who",)
        made = e.define_function("finish", "What is left to do with the sums of all turns.", writer, first)
        e.writer.line(made.call() if found.saved is None else f"result = {made.call()}")

    def _function(self, name: str) -> Function | None:
        return next((f for f in self._e.functions if f.name == name), None)

    # ---- names ----------------------------------------------------------------------------------

    def _turn(self, turn: Turn) -> str:
        if turn.base == "first":
            return str(turn.offset)
        base = "turn" if turn.base == "turn" else self._turns
        offset = turn.offset - (turn.base == "last")
        if base.isdigit():
            return str(int(base) + offset)
        return base if not offset else f"({base} {'-' if offset < 0 else '+'} {abs(offset)})"

    def _slot(self, name: str, slot: Slot) -> str:
        """``key_full.index(turn % STAGES)``."""
        if isinstance(slot, Staged):
            turn = self._turn(slot.turn)
            position = str(int(turn) % self._schedule.stages) if turn.isdigit() else f"{turn} % STAGES"
        elif slot.number is not None:
            position = str(slot.number)
        else:
            position = "who" if not slot.after else f"(who + {slot.after}) % GROUPS"
        return f"{name}.index({position})"

    def _parity(self, barrier: str, round_: Round) -> str:
        """The parity of the round that is waited for."""
        staged = self._schedule.barrier(barrier).per == "stage"
        if round_.turn is None:
            return str(round_.behind & 1)
        turn = self._turn(round_.turn)
        if turn.isdigit():
            return str((int(turn) // (self._schedule.stages if staged else 1) - round_.behind) & 1)
        text = f"({turn} // STAGES) & 1" if staged else f"{turn} & 1"
        if round_.behind & 1:
            text = f"({text}) ^ 1"
        if round_.head_start & 1:
            text = f"({text}) ^ (1 if who == 0 else 0)"
        return text

    def _matrix(self, operand: Shared) -> str:
        """A slot as a matrix: dimensions of a box that have one element fall away."""
        buffer: Buffer = self._schedule.buffer(operand.buffer)
        text = self._slot(operand.buffer, operand.slot)
        if len(buffer.shape) != 2:
            op = self._e.owner(operand.buffer)
            dims = (op.output if op.outputs else op.values[0]).dims
            text += f".reshape([{', '.join(str(self._e.extent(d)) for d in dims)}])"
        return f"{text}.permute((1, 0))" if operand.transposed else text


def is_scalar(op: Op) -> bool:
    """Whether an operation in front of the loop is the whole program's, and no group's."""
    return not any(v.dims for v in (*op.values, *op.outputs)) and not op.regions


def scalars_before(e: GluonContext) -> tuple[Op, ...]:
    """Those operations in front of the loop, in order."""
    return tuple(op for op in e.structure.before if is_scalar(op))


def turns_of(e: GluonContext) -> tuple[Expr | None, bool]:
    """How many turns the loop has where that is settled, and whether there is one in any case: loops that end with a
    tile of the grid's have one."""
    tile = e.plan.ir.tiles[e.structure.keys]
    if isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
        count = (tile.end - tile.begin).cdiv(e.plan.block(tile.block))
        number = e.plan.number(count)
        return count, number is not None and number > 0
    return None, False
