"""The roles of two chained products: where their boxes lie, and the author's parts between the products."""

from __future__ import annotations

from contextlib import nullcontext

from ...errors import InternalError
from ...expr import Expr
from ...ir.graph import Block, Op
from ...ir.types import Value
from ...schedule.types import Compute, Cut, EachTile, Schedule
from ..dtypes import compute_dtype
from .context import GluonContext
from .full_blocks import of_full, part_name
from .steps import Steps

FEW_SUMS = 64  # columns of a head beside whose sums a thread has registers for all that it loads ahead


class Roles(Steps):
    """Writes the roles of one schedule of two chained products."""

    def __init__(
        self,
        e: GluonContext,
        schedule: Schedule,
        turns: str,
        always: bool,
        walks: bool = False,
        uneven: bool = False,
    ) -> None:
        super().__init__(e, schedule, turns, always, walks, uneven)
        self._found = e.found
        self._carried: list[str] = []
        self._factors: list[str] = []

    def _cut(self, step: Cut) -> None:
        raise InternalError("two chained products are computed in whole rows", got=step)

    def _each_tile(self, step: EachTile) -> None:
        self._each_tile_of("0, tiles", scalars_before(self._e), step.steps)

    # ---- the author's parts ---------------------------------------------------------------------

    def _compute(self, step: Compute) -> None:
        if step.part in ("weigh", "narrow"):
            {"weigh": self._weigh, "narrow": self._narrow}[step.part](step.full)
        else:
            parts = {"start": self._start, "ahead": self._ahead, "rescale": self._rescale, "finish": self._finish}
            parts[step.part]()

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

    def _bind_carried(self, prefix: str, params: list[Value]) -> None:
        self._carried = [self._e.fresh(prefix) for _ in params]
        for name, param in zip(self._carried, params, strict=True):
            self._e.bind(param, name, compute_dtype(param.type.dtype))

    def _ahead(self) -> None:
        e, found = self._e, self._found
        made = self._function("ahead")
        if made is None:
            with e.lines() as writer, e.spread_over_a_warp() if self._is_spread else nullcontext():
                e.block(Block((), found.ahead, found.loaded))
                writer.line(f"return {', '.join(e.name(v) for v in found.loaded)}")
            made = e.define_function("ahead", "What a turn loads for its keys, by pointers.", writer)
        e.writer.line(f"{', '.join(e.name(v) for v in found.loaded)} = {made.call()}")

    @property
    def _is_spread(self) -> bool:
        """Whether lanes keep an eighth of what is loaded ahead each, until scores need it: sums of wide heads leave a
        thread few registers (heads of 128: 0.93 and 0.97 of the time, of 64 1.00 and 1.03; H100, 2026-11-28)."""
        return self._e.extent(self._found.sums.output.dims[1]) > FEW_SUMS

    def _weigh(self, full: bool) -> None:
        e, found = self._e, self._found
        e.bind(found.scores.output, "scores", "float32")
        is_ahead = self._function("ahead") is not None
        loaded = {v: e.name(v) for v in found.loaded} if is_ahead else {}
        made = self._function(part_name("weigh", full))
        if made is None:
            with e.lines() as writer, self._block_is_full(full):
                if loaded and self._is_spread:
                    self._gather(found.loaded)
                part = found.behind_ahead if is_ahead else found.weigh
                e.block(Block((), part, (found.weights, *found.factors)))
                e.resolve_layout(found.weights)
                results = [e.name(found.weights)]
                results += [e.as_dtype(r, compute_dtype(p.type.dtype)) for p, r, _ in found.carried]
                factors = [e.name(v) for v in found.factors]
                writer.line(f"return {', '.join([*results, *factors])}")
            says = f"From the scores{of_full(full)} to their weights, and what goes to the next turn."
            made = e.define_function(part_name("weigh", full), says, writer)
            self._factors = self._factors or factors
            for value, name in zip(found.factors, self._factors, strict=True):  # one name, whichever function gives it
                e.bind(value, name, e.held(value))
        for value, name in loaded.items():
            e.bind(value, name, e.held(value))
        targets = ["weights", *self._carried, *self._factors]
        self._e.writer.line(f"{', '.join(targets)} = {self._call(made)}")

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

    def _narrow(self, full: bool) -> None:
        e, found = self._e, self._found
        made = self._function(part_name("narrow", full))
        if made is None:
            held = e.held(found.weights)
            e.bind(found.weights, "weights", held)
            with e.lines() as writer, self._block_is_full(full):
                operand = found.sums.values[0]
                e.block(Block((), found.narrow, ()))
                text = e.as_dtype(operand, operand.type.dtype)
                writer.line(f"return gl.convert_layout({text}, {e.operand_layout})")
            says = f"The weights{of_full(full)} as the second product takes them from registers."
            made = e.define_function(part_name("narrow", full), says, writer)
        e.writer.line(f"operand = {self._call(made)}")

    def _finish(self) -> None:
        e, found = self._e, self._found
        e.bind(found.loop.outputs[found.sums_at], "sums", "float32")
        for name, (_, _, out) in zip(self._carried, found.carried, strict=True):
            e.bind(out, name, compute_dtype(out.type.dtype))
        made = self._finished(found.after)
        e.writer.line(made.call() if found.saved is None else f"result = {made.call()}")


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
