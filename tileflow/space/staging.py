"""Shared memory of loops with products: what waits there while the matrix units work.

After Triton's software pipeline. A load that flows into a product has a buffer for each turn that it runs ahead, and
one more where warp groups multiply, which read it while the next one arrives; a turn that is written out several times
loads as often. Where a load waits for the number that another one brought, the turns of both share the stages. What
warp groups read and no turn loads is there once: operands from before the loop, right operands that are computed.
Single warps have all operands in registers, and pass what they computed by way of shared memory.

Triton pipelines innermost loops alone: that over a persistent program's tiles where no other is left. In all other
blocks, and in one stage, an operand waits from its load to its last product, and inner loops run beside it.

AMD's warps do so too with what is not loaded ahead, one tile after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from math import prod

from ..config import Direction, Knob
from ..expr import FALSE, TRUE, Expr, all_of, any_of
from ..ir.attributes import TileAttrs, site_of
from ..ir.graph import Block, KernelIR, Op, uses, walk
from ..ir.kinds import LOOPS, OpKind
from ..ir.op_table import PRODUCTS, having
from ..ir.opdef import Trait
from ..ir.types import Value, itemsize
from ..target import Target
from .extents import Extents
from .knobs import FLATTEN, NUM_STAGES, NUM_WARPS, PERSISTENT, PRECISION, STAGES, STATIC, TRANSPOSED, UNROLL
from .leaving import handed_on, leaving, stored_beside
from .loops import grouped, loops_of, stages_of, turned_round
from .names import loop_site

# what passes on a loaded tile without a copy in registers
_VIEWS = having(Trait.STAYS_SHARED)
_LEAST_COPIED = 4  # bytes that the copies of one thread have at least
_WORD = 4  # bytes of a number that warps exchange, at least
_PARTS = 2  # of an operand, as much memory each as the whole; three of half of it need less


@dataclass(frozen=True, slots=True)
class Staging:
    """One block of ops with products. ``site``: of its loop; empty outside of loops. ``size``: bytes of its operands
    in shared memory, ``stored``: of a store beside them. ``steps``: towards smaller ones. ``largest``: the product with
    the largest operands."""

    site: str
    size: Expr
    stored: Expr
    steps: tuple[tuple[str, Direction], ...]
    largest: Op


def stagings(ir: KernelIR, extents: Extents, knobs: Mapping[str, Knob], target: Target) -> Iterator[Staging]:
    """The staging of every block of ops that has products of its own."""
    makers = ir.definitions
    stored, halved = stored_beside(ir, extents, knobs)
    sizes: dict[int, Expr] = {}
    blocks = list(blocks_of(ir, ir.body))
    for block, site in reversed(blocks):  # inner ones first
        inner = {id(op): _largest(sizes[id(region)] for region in op.regions) for op in block.ops if op.kind in LOOPS}
        dots = [op for op in block.ops if op.kind in PRODUCTS]
        here = _Sizes(ir, extents, knobs, target, makers, block, site, inner)
        sizes[id(block)] = here.of(dots) if dots else _largest(inner.values())
    for block, site in blocks:
        if any(op.kind in PRODUCTS for op in block.ops):
            around = block is ir.body and any(op.kind in LOOPS for op in block.ops)
            overlaps = stages_of(ir, site, knobs).ne(1) if site else Expr.of(int(around))
            is_flat = _is_flat(ir, block, knobs) != FALSE
            steps: list[tuple[str, Direction]] = [(FLATTEN.name(ir), "down")] if is_flat else []
            yield Staging(site, sizes[id(block)], stored * overlaps, (*steps, *halved), _largest_product(ir, block))


def _is_flat(ir: KernelIR, block: Block, knobs: Mapping[str, Knob]) -> Expr:
    """Whether a block is what surrounds a loop that is one pipeline with the loop over a persistent program's tiles."""
    if block is not ir.body or FLATTEN.name(ir) not in knobs:
        return FALSE
    return FLATTEN.symbol(ir).ne(0).and_(PERSISTENT.symbol(ir).ne(0))


def _largest_product(ir: KernelIR, block: Block) -> Op:
    """The product of a block whose right operand has most elements of whole dimensions, which no config makes fewer."""

    def elements(op: Op) -> int:
        return prod(ir.hint(d.extent) for d in op.values[1].dims if d.extent.symbols() <= ir.hints.keys())

    return max((op for op in block.ops if op.kind in PRODUCTS), key=elements)


def _largest(sizes: Iterable[Expr]) -> Expr:
    most = Expr.of(0)
    for size in sizes:
        most = most.max(size)
    return most


def written_out(ir: KernelIR, site: str, knobs: Mapping[str, Knob]) -> Expr:
    """How many turns of a loop follow one another in the text."""
    repeats, static = Expr.of(1), STATIC.symbol(site)
    if UNROLL.name(site) in knobs:
        repeats = UNROLL.symbol(site)
    if STATIC.name(site) in knobs:
        (turns,) = (loop.turns for loop in loops_of(ir, {}) if loop.site == site)
        assert turns is not None
        repeats = repeats * (turns * static.ne(0) + static.eq(0))
    return repeats


def blocks_of(ir: KernelIR, block: Block, site: str = "") -> Iterator[tuple[Block, str]]:
    """Each block of ops with the site of its loop, where that is an innermost one: others are not pipelined."""
    yield block, site
    for op in block.ops:
        for region in op.regions:
            inner = site
            if op.kind is OpKind.FOR:
                inner = "" if any(o.kind in LOOPS for o in walk(region)) else loop_site(ir, TileAttrs.of(op).tile)
            yield from blocks_of(ir, region, inner)


@dataclass(frozen=True, slots=True)
class _Sizes:
    ir: KernelIR
    extents: Extents
    knobs: Mapping[str, Knob]
    target: Target
    makers: Mapping[Value, Op]
    block: Block
    site: str
    inner: Mapping[int, Expr]  # bytes of the loops in the block, by their op

    def of(self, dots: list[Op]) -> Expr:
        inside = {v for op in self.block.ops for v in op.outputs}
        groups: dict[Value, Expr] = {}  # the tiles that products take as they were loaded, and when warp groups do
        once_made: dict[Value, Expr] = {}  # the same of right operands that each turn would compute alike
        kept, computed = dict[Value, None](), Expr.of(0)
        for op in dots:
            when = self._in_groups(op)
            for value in map(self._source, op.values[:2]):
                if value not in inside:
                    kept[value] = None
                elif self._is_load(value):
                    groups[value] = any_of((groups.get(value, FALSE), when))
            computed = computed.max(self._computed(op, inside, when))
            right = self._source(op.values[1])
            if self._is_hoisted(right, inside):
                once_made[right] = any_of((once_made.get(right, FALSE), when.and_(self._turned(op).eq(0))))
        staged = self._staged(dots)
        ahead = self._ahead()
        once = {load: self._bytes(load) * self._is_asked_for(load, dots) for load in staged}
        held = {
            load: once[load] * self._buffers(ahead // self._links(dots, ahead), groups.get(load, FALSE))
            for load in staged
        }
        pipelined = sum(held.values(), Expr.of(0)) * ahead.ne(0) if ahead != Expr.of(0) else Expr.of(0)
        turned, boxed = Expr.of(0), Expr.of(0)
        if self.target.vendor == "nvidia" and ahead != FALSE:
            found = leaving(self.ir, self.block, self.extents, self.knobs)
            turned, boxed = (size if self.site else size * ahead.ne(0) for size in found)
        total = computed.max(turned).max(self._exchanged(dots) * ahead.ne(0)) + pipelined + boxed
        if self.target.vendor == "nvidia" or not self.site:
            waiting, beside = self._at_once(dots, once)
            total = (total + waiting * ahead.eq(0)).max(beside)
            if self.target.vendor == "nvidia":
                total = total.max(self._beside_one_pipeline(computed, waiting))
        for size in map(self._bytes, kept if self.target.vendor == "nvidia" else (*kept, *staged)):
            total = total + size if self.target.vendor == "nvidia" else total.max(size)
        return total + sum((self._bytes(value) * when for value, when in once_made.items()), Expr.of(0))

    def _beside_one_pipeline(self, computed: Expr, waiting: Expr) -> Expr:
        """Bytes where sums are handed on to multiply-adds, and with what products outside of it take beside a loop that
        is one pipeline with the loop over tiles: the next tile's operands are on their way meanwhile."""
        handed = handed_on(self.ir, self.block, self.extents, self.knobs)
        flat = _is_flat(self.ir, self.block, self.knobs)
        outside = handed.max(computed) + waiting
        return ((handed + waiting) * handed.ne(0)).max((outside + _largest(self.inner.values())) * flat)

    def _is_hoisted(self, value: Value, inside: set[Value]) -> bool:
        """Whether a turn computes a value of what was there before the loop alone: Triton makes it once, so that its
        memory is nothing else's in any turn."""
        op = self.makers.get(value)
        if not self.site or value not in inside or op is None:
            return False
        is_free = op.kind in (OpKind.CAST, OpKind.POINTWISE) or op.kind in _VIEWS
        here = [v for v in op.values if v in inside or v in self.block.params]
        return is_free and all(v in inside and self._is_hoisted(v, inside) for v in here)

    def _turned(self, op: Op) -> Expr:
        site = site_of(op)
        return TRANSPOSED.symbol(site) if TRANSPOSED.name(site) in self.knobs else FALSE

    def _in_groups(self, op: Op) -> Expr:
        """Whether warp groups do a product, the way round that it is."""
        if not self.target.has_warp_groups:
            return FALSE
        turned, (straight, round_) = self._turned(op), (f(self.ir, op, self.extents) for f in (grouped, turned_round))
        return turned.eq(0).and_(straight).or_(turned.ne(0).and_(round_))

    def _computed(self, op: Op, inside: set[Value], groups: Expr) -> Expr:
        """Bytes of the operand that a turn computes and passes by way of shared memory: any of single warps, which
        share it; the right one of warp groups."""
        left, right = (
            Expr.of(0) if self._is_load(v) or v not in inside else self._bytes(v)
            for v in map(self._source, op.values[:2])
        )
        if self._is_hoisted(self._source(op.values[1]), inside):
            right = right * groups.eq(0)
        parts = self._parts(op, inside, groups)
        return left.max(right) * groups.eq(0) + right * groups * self._turned(op).eq(0) + parts

    def _parts(self, op: Op, inside: set[Value], groups: Expr) -> Expr:
        """Bytes of the operands' parts, where the matrix units take these in several: of the right one, and beside
        products by multiply-adds, whose threads hold other elements, of a left one that no load of the turn brings."""
        name = PRECISION.name(site_of(op))
        if name not in self.knobs:
            return Expr.of(0)
        left, right = op.values[:2]
        source = self._source(left)
        others = {PRECISION.name(site_of(o)) for o in self.block.ops if o.kind is OpKind.DOT and o is not op}
        by_threads = any_of(Expr.sym(other).eq(0) for other in others & self.knobs.keys())
        passed = FALSE if self._is_load(source) and source in inside else groups.and_(by_threads)
        return (self._bytes(right) + self._bytes(left) * passed) * _PARTS * Expr.sym(name).ne(0)

    def _exchanged(self, dots: list[Op]) -> Expr:
        """Bytes by which single warps put together what each of them reduced of a product's row: warp groups have rows
        of their own. Beside operands of 65536 bytes those of 64 rows by four warps were 1024 too many (MI300X)."""
        warps, follows = NUM_WARPS.symbol(self.ir), {op.output for op in dots}
        for op in self.block.ops:
            read = {*op.values, *(v for region in op.regions for v in uses(region))}
            follows |= {*op.outputs} if read & follows else set()
        reduced = [op.output for op in self.block.ops if op.kind is OpKind.REDUCE and op.output in follows]
        sizes = (self.extents.elements(v.dims) * max(itemsize(v.type.dtype), _WORD) * warps for v in reduced)
        return _largest(sizes) * all_of(map(self._in_groups, dots)).eq(0)

    def _source(self, value: Value) -> Value:
        while value in self.makers and self.makers[value].kind in _VIEWS:
            value = self.makers[value].values[0]
        return value

    def _is_load(self, value: Value) -> bool:
        return value in self.makers and self.makers[value].kind is OpKind.LOAD

    def _staged(self, dots: list[Op]) -> list[Value]:
        """The tiles that a turn loads: those that flow into products, and others where the loop's own number of stages
        may ask for them."""
        own = STAGES.name(self.site) in self.knobs
        reached = self._reached(v for op in dots for v in op.values)
        loads = [op.output for op in self.block.ops if op.kind is OpKind.LOAD and op.output.dims]
        return [v for v in loads if own or v in reached]

    def _is_asked_for(self, load: Value, dots: list[Op]) -> Expr:
        """Whether a load waits in shared memory: one that flows into no product does in a loop that says how many
        stages it has."""
        if load in self._reached(v for op in dots for v in op.values):
            return TRUE
        return STAGES.symbol(self.site).ne(0)

    def _reached(self, values: Iterable[Value], without: Set[Value] = frozenset()) -> set[Value]:
        """What the block makes of which ``values`` are made, themselves included; ``without``: past these nothing."""
        waiting, reached = list(values), set[Value]()
        makers = {v: op for op in self.block.ops for v in op.outputs if v not in without}
        while waiting:
            value = waiting.pop()
            if value not in reached and value in makers:
                reached.add(value)
                waiting += makers[value].values
                waiting += [v for branch in makers[value].regions for v in uses(branch)]
        return reached

    def _at_once(self, dots: list[Op], held: Mapping[Value, Expr]) -> tuple[Expr, Expr]:
        """The most bytes of ``held`` that wait together where nothing is pipelined, as in turns that are written out:
        each from where it is loaded to the last product that it flows into, and one more, which may come early. And the
        most of them and of an inner loop that runs meanwhile."""
        places = {id(op): n for n, op in enumerate(self.block.ops)}
        last = {load: places[id(self.makers[load])] for load in held}
        taken = {dot.output for dot in dots}
        for dot in dots:  # in order; what it is added to waits in registers, and so does what an earlier product gave
            last |= {load: places[id(dot)] for load in self._reached(dot.values[:2], taken) if load in held}

        def alive(now: int) -> Expr:
            waiting = (b for load, b in held.items() if places[id(self.makers[load])] <= now <= last[load])
            return sum(waiting, Expr.of(0))

        most = _largest(alive(now) for now in {places[id(self.makers[load])] for load in held})
        beside = _largest(alive(places[loop]) + size for loop, size in self.inner.items())
        return (most + _largest(held.values())).min(sum(held.values(), Expr.of(0))), beside

    def _bytes(self, value: Value) -> Expr:
        return self.extents.elements(value.dims) * itemsize(value.type.dtype)

    def _ahead(self) -> Expr:
        """How many turns the loads of the block run ahead of its products; 0 where no loop of theirs is pipelined."""
        around = self._is_alone_in_programs()
        if not self.site:
            return (NUM_STAGES.symbol(self.ir) - 1) * around
        ahead = stages_of(self.ir, self.site, self.knobs) - 1
        if self.target.vendor == "nvidia" and STATIC.name(self.site) in self.knobs:
            # without a loop, the one that is pipelined is the one around, over a persistent program's tiles
            ahead = ahead * STATIC.symbol(self.site).eq(0).or_(around)
        return ahead

    def _is_alone_in_programs(self) -> Expr:
        """Whether the block is what a loop over a persistent program's tiles repeats, or that and one loop whose turns
        are written out, so that no other loop is in it."""
        loops = [op for op in self.ir.walk() if op.kind in LOOPS]
        if self.target.vendor != "nvidia" or PERSISTENT.name(self.ir) not in self.knobs:
            return FALSE
        if len(loops) > (1 if self.site else 0) or (not self.site and self.block is not self.ir.body):
            return FALSE
        unrolled = all_of(Expr.sym(site).eq(0) for site in self.extents.sites.values())
        return PERSISTENT.symbol(self.ir).ne(0).and_(unrolled)

    def _links(self, dots: list[Op], ahead: Expr) -> Expr:
        """How many loads follow one another on the way to a product, each at an address that the one before brought:
        as many distances have the turns ahead, divided among them. A load further away than there are turns is none of
        them."""
        if self.target.vendor != "nvidia":
            return Expr.of(1)
        longest = _largest(Expr.of(n) * Expr.of(n).lt(ahead) for n in self._distances(dots))
        return longest + 1

    def _distances(self, dots: list[Op]) -> set[int]:
        """How many loads come after each one of the block on its way to a product, where that is one number, and what
        it brings are numbers of 32 bits or more: shorter ones are not loaded ahead."""
        found: dict[Value, set[int]] = {}
        makers = {v: op for op in self.block.ops for v in op.outputs}
        for dot in dots:
            waiting, seen = [(v, 0) for v in dot.values[:2]], set[tuple[Value, int]]()
            while waiting:
                value, distance = waiting.pop()
                if value not in makers or (value, distance) in seen:
                    continue
                seen.add((value, distance))
                op = makers[value]
                if op.kind is OpKind.LOAD:
                    if distance and itemsize(value.type.dtype) < _LEAST_COPIED:
                        continue
                    found.setdefault(value, set()).add(distance)
                    distance += 1
                waiting += [(v, distance) for v in op.values]
        return {n for distances in found.values() if len(distances) == 1 for n in distances}

    def _buffers(self, ahead: Expr, groups: Expr) -> Expr:
        if self.target.vendor == "amd":
            return ahead
        repeats = written_out(self.ir, self.site, self.knobs) if self.site else Expr.of(1)
        return (ahead + groups).max(1) * repeats
