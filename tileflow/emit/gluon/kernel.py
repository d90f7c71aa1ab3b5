"""A region's warp-specialised kernel in Gluon: the entry and, of two chained products, its schedule."""

from __future__ import annotations

from typing import ClassVar

from ...errors import ConfigError
from ...expr import Expr
from ...ir.access import covers
from ...ir.attributes import AccessAttrs, TileAttrs
from ...ir.graph import Block, Op, SliceIndex, TileIndex
from ...ir.kinds import OpKind
from ...ir.types import INT32_MAX, Value, itemsize
from ...schedule.attention import PROGRAMS, Shape, attention, rows_of
from ...schedule.memory import shared_bytes
from ...schedule.types import ROWS_OF_A_GROUP, Buffer, Schedule
from ...space.knobs import NUM_STAGES, PERSISTENT, PING_PONG
from ...space.schedule_checks import grows_with_rows
from .. import grid
from ..descriptors import box_of
from ..parameters import Box
from ..source import TritonSource
from . import halves as _halves
from . import rules as _rules
from .context import GluonContext
from .full_blocks import masked_parts
from .functions import Function
from .roles import Roles, scalars_before, turns_of
from .steps import Steps, place_in_row, turn_text

_IMPORTED = (_halves, _rules)  # for their rules
_HEADER = """\
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
"""
_REGISTER_STEP = 8  # registers come in so many
MOST_GROUPS_AHEAD, MOST_AHEAD = 2, 2  # groups, and vectors over keys, that are loaded ahead of a turn's products


class GluonKernel(GluonContext):
    """One emission: the entry, which starts the roles, and the roles' functions around it."""

    roles: ClassVar[type[Steps]] = Roles
    _helpers: str = ""  # functions of the generated module that no author wrote

    def run(self) -> TritonSource:
        """The finished source: the roles' functions and the entry that starts them. Raises ConfigError where the
        schedule's buffers exceed the shared memory of a block."""
        self._check()
        self.specialised = self._schedule()
        if shared_bytes(self.specialised) > self.target.smem_per_block:
            raise ConfigError(
                f"a schedule's buffers fit the {self.target.smem_per_block} bytes of a block",
                got=shared_bytes(self.specialised),
                hint="fewer stages or keys in a turn",
            )
        with self.writer.indented():
            self._begin()
        launch_grid = self._launch_grid()
        name = f"{self.plan.ir.name}_{self.plan.ir.region}"
        args = self.parameters.args(self.number_dtypes.parameters)
        for knob, number in sorted(self.plan.constexprs.items()):
            self.module.constant(knob, f"gl.constexpr({number})")
        known = [f"    {n} = {n} // {by} * {by}\n" for n, by in self.parameters.divisors().items()]
        entry = Function(
            name,
            "",
            tuple(a.name for a in args),
            "".join(known) + self.writer.text,
            (*(0 for _ in known), *self.writer.places),
            tuple(len(known) + n for n in self.writer.comments),
        )
        header = self.module.text(_HEADER + self._helpers, "@gluon.jit")
        functions = (*self.functions, entry)
        return TritonSource(
            name=name,
            region=self.plan.ir.region,
            text=header + "".join(f.text for f in functions),
            args=args,
            constexprs=(),
            options=(("maxnreg", self._most_registers()), ("num_warps", self.specialised.consumer.warps)),
            grid=launch_grid,
            guards=self.plan.all_guards(),
            mode="static" if self.plan.ir.shape_mode.is_static else "dynamic",
            lines=(*(0 for _ in range(header.count("\n"))), *(n for f in functions for n in f.lines)),
            comments=_comments(header, functions),
            language="gluon",
            cluster=self.plan.cluster,
            given=self.specialised.given,
        )

    def block(self, block: Block) -> None:
        """The region's own block is the entry's, which starts the roles, unless they look for their tiles
        themselves."""
        if block is not self.plan.ir.body:
            super().block(block)
        elif not self.walks:
            self._entry()

    @property
    def walks(self) -> bool:
        """Whether a program works on several tiles."""
        return bool(self.plan.launch(PERSISTENT))

    def _begin(self) -> None:
        """The program's tile, then the entry; or how many tiles it has, each with a turn."""
        if not self.walks:
            grid.emit_grid(self)
            return
        most = self._turn_count()
        if self.plan.number(most) == 0:
            keys = self.structure.keys
            raise ConfigError("a persistent program has a turn in each tile", got=keys, hint="choose persistent 0")
        self.plan.guard(Expr.of(1).le(most))
        self.plan.guard((grid.total(self) * most).le(INT32_MAX))
        total, line = grid.Counts(self).total(), self.writer.line
        if self._is_uneven:
            line(f"rows = ({total}) // tl.num_programs(0)")
            line(f"tiles = rows + tl.cast({place_in_row('rows')} < ({total}) % tl.num_programs(0), tl.int32)")
        else:
            line(f"tiles = ({total} - tl.program_id(0) + tl.num_programs(0) - 1) // tl.num_programs(0)")
        self._walk()

    @property
    def _is_uneven(self) -> bool:
        """Whether tiles have different numbers of turns."""
        return grows_with_rows(self.plan.ir, self.structure.keys, self.structure.rows)

    def _turn_count(self) -> Expr:
        """How many turns each tile of a program has, or the last one. Raises ConfigError where one might have none."""
        tile, rows = self.plan.ir.tiles[self.structure.keys], self.plan.ir.tiles[self.structure.rows]
        if self._is_uneven and isinstance(rows.end, Expr):
            return rows.end.cdiv(self.plan.block(tile.block))
        if not (isinstance(tile.begin, Expr) and isinstance(tile.end, Expr)):
            raise ConfigError("each tile of a persistent program has turns", got=tile.name, hint="choose persistent 0")
        return (tile.end - tile.begin).cdiv(self.plan.block(tile.block))

    def _walk(self) -> None:
        """The entry of a program that works on several tiles."""
        uneven = self._is_uneven
        turns = "turns" if uneven else self._turns()[0]
        self._start(self.roles(self, self.specialised, turns, always=True, walks=True, uneven=uneven))

    def _launch_grid(self) -> tuple[Expr, Expr, Expr]:
        if not self.walks:
            return grid.launch_grid(self)
        return grid.total(self).min(self._programs() * self.target.sm_count), Expr.of(1), Expr.of(1)

    def _programs(self) -> int:
        """Programs on one multiprocessor."""
        return PROGRAMS[self.specialised.consumer.groups]

    # ---- the schedule ---------------------------------------------------------------------------

    def _check(self) -> None:
        """What the constraints of the space do not say."""
        for op in self.boxes.values():
            self._check_filled(op)

    def _schedule(self) -> Schedule:
        found = self.found
        query, key, value = (box_of(self, op).block for op in (found.query, found.key, found.value))
        saved = found.saved
        out = None if saved is None else box_of(self, saved).block
        out_dtype = "" if saved is None else self.plan.ir.tensor(AccessAttrs.of(saved).tensor).dtype
        shape = Shape(
            query,
            key,
            value,
            itemsize(found.query.output.type.dtype),
            out,
            itemsize(out_dtype) if out_dtype else 0,
            found.key_transposed,
            found.value_transposed,
            masked_parts(self, {"weigh": found.weigh, "narrow": found.narrow}),
            self.loads_ahead,
        )
        self.by(self.extent(found.sums.output.dims[1]))
        return attention(shape, self.groups, self.plan.launch(NUM_STAGES), self.plan.launch(PING_PONG), self.walks)

    @property
    def groups(self) -> int:
        """How many consumer groups share the tile of rows. Raises ConfigError where its rows do not come out even."""
        rows = self.plan.block(self.plan.ir.tiles[self.structure.rows].block)
        groups, rest = divmod(rows, ROWS_OF_A_GROUP)
        if rest or rows_of(groups) != rows:
            raise ConfigError(f"consumer groups have {ROWS_OF_A_GROUP} rows each", got=rows, where=self.structure.rows)
        return groups

    @property
    def loads_ahead(self) -> bool:
        """Whether what a turn loads for its keys is on its way before they are there: a thread of one or two groups has
        the registers, an eighth of a vector each."""
        return self.groups <= MOST_GROUPS_AHEAD and 0 < len(self.found.loaded) <= MOST_AHEAD

    def _most_registers(self) -> int:
        """The registers of a thread when the kernel starts, which the roles then deal out anew."""
        most = self.target.regs_per_sm // (self._programs() * self.specialised.warps * self.target.warp_size)
        return most - most % _REGISTER_STEP

    def _check_filled(self, op: Op) -> None:
        """The copy engine fills with zero what lies outside the tensor, and nothing else."""
        sizes = self.plan.ir.tensor(AccessAttrs.of(op).tensor).shape
        for item, size in zip(AccessAttrs.of(op).index, sizes, strict=True):
            if not isinstance(item, TileIndex | SliceIndex) or covers(self.plan.ir, item, size):
                continue
            masked = self.plan.is_masked(op.output.dims[item.axis])
            if masked and not (isinstance(item, TileIndex) and self._ends_with_rows(item, size)):
                raise ConfigError(
                    "keys past the loop's end lie outside the tensor, where the copy engine reads zeros",
                    got=f"{AccessAttrs.of(op).tensor} in {op.loc}",
                    hint="blocks of keys that divide where the loop begins and ends",
                )

    def _ends_with_rows(self, item: TileIndex, size: Expr) -> bool:
        """Whether a loop ends where a tile of rows does, which is whole blocks of keys or the tensor's end."""
        tile = self.plan.ir.tiles[item.tile]
        maker = self.plan.ir.definitions.get(tile.end) if isinstance(tile.end, Value) else None
        if maker is None or maker.kind is not OpKind.TILE_END:
            return False
        rows = self.plan.ir.tiles[TileAttrs.of(maker).tile]
        block, whole = self.plan.block(tile.block), self.plan.block(rows.block)
        divisible = not any(n % block for n in (whole, self.plan.divisor(tile.begin), self.plan.divisor(rows.begin)))
        if not isinstance(rows.end, Expr) or not divisible:
            return False
        ends = rows.end.eq(size)
        self.plan.guard(ends)
        return bool(self.plan.ir.hint(ends))

    # ---- the entry ------------------------------------------------------------------------------

    def _entry(self) -> None:
        super().block(Block((), scalars_before(self), ()))
        turns, always = self._turns()
        self._start(self.roles(self, self.specialised, turns, always))

    def _start(self, roles: Steps) -> None:
        """Buffers and barriers, then the roles."""
        line = self.writer.line
        consumer, helpers = roles.consumer(), [roles.helper(role) for role in self.specialised.helpers]
        for buffer in self.specialised.buffers:
            dtype, layout = self._memory_of(buffer)
            slots = ", ".join(map(str, (buffer.slots, *buffer.slot_shape)))
            line(f"{buffer.name} = gl.allocate_shared_memory({dtype}, [{slots}], {layout})")
        for barrier in self.specialised.barriers:
            line(f"# {barrier.says}")
            line(
                f"{barrier.name} = gl.allocate_shared_memory(gl.int64, [{barrier.slots}, 1], mbarrier.MBarrierLayout())"
            )
            line(f"for slot in gl.static_range({barrier.slots}):")
            line(f"    mbarrier.init({barrier.name}.index(slot), count={barrier.arrivals})")
        groups = self.specialised.consumer.groups
        partitions = [self._partition(consumer, str(n)) for n in range(groups)]
        partitions += [self._partition(helper, "") for helper in helpers]
        workers = [self.specialised.consumer] * (groups - 1) + [*self.specialised.helpers]
        line("gl.warp_specialize([")
        for partition in partitions:
            line(f"    {partition},")
        line(f"], {[w.warps for w in workers]}, {[w.registers for w in workers]})")

    def _partition(self, role: Function, who: str) -> str:
        args = ", ".join(who if p == "who" else p for p in role.parameters)
        return f"({role.name}, ({args},))"

    def _memory_of(self, buffer: Buffer) -> tuple[str, str]:
        """The dtype and the layout of a buffer: those of its descriptor's boxes."""
        box = self._box_of(buffer).name
        return f"{box}.dtype", f"{box}.layout"

    def _box_of(self, buffer: Buffer) -> Box:
        """The descriptor whose boxes a buffer has."""
        return box_of(self, self.owner(buffer.name))

    def _turns(self) -> tuple[str, bool]:
        """The text of how many turns the loop has, and whether there is one in any case."""
        count, always = turns_of(self)
        if count is not None and self.plan.number(count) is not None:
            return str(self.plan.number(count)), always
        self.writer.line(f"turns = {turn_text(self)}")
        return "turns", always


def _comments(header: str, functions: tuple[Function, ...]) -> tuple[int, ...]:
    """Which lines of the module are the author's, from 0."""
    found: list[int] = []
    start = header.count("\n")
    for function in functions:
        found += [start + n for n in function.comments]
        start += function.text.count("\n")
    return tuple(found)
