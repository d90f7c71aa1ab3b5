"""Plan: everything about one region under one config that can be decided before text is written.

Block sizes as numbers, which tiles need a mask, which tensors need 64-bit offsets, the names of arguments.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import gcd, prod

from ..config import Choice, Config
from ..errors import ConfigError, InternalError
from ..expr import Expr, all_of
from ..ir.graph import KernelIR, TensorParam, Tile
from ..ir.signs import is_nonnegative
from ..ir.types import INT32_MAX, Dim, Value, fills_registers
from ..runtime.paths import Symbol
from ..space.knob import C, LaunchKnob, SiteKnob
from ..space.knobs import definition
from .divisors import Divisors

# Python's own text would be wrong here: Triton divides towards zero
_TRITON = {
    "floordiv": "({0} // {1})",
    "mod": "({0} % {1})",
    "cdiv": "tl.cdiv({0}, {1})",
    "min": "tl.minimum({0}, {1})",
    "max": "tl.maximum({0}, {1})",
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "not": "({0} == 0)",
}
# Python's division where a number may be negative: Triton's goes toward zero, and its rest has the dividend's sign
_FLOORED = {
    "floordiv": "({0} // {1} - (({0} % {1} != 0) & (({0} < 0) != ({1} < 0))))",
    "mod": "({0} % {1} + tl.where(({0} % {1} != 0) & (({0} < 0) != ({1} < 0)), {1}, 0))",
    "cdiv": "({0} // {1} + (({0} % {1} != 0) & (({0} < 0) == ({1} < 0))))",
}
# What the text of grids, modules and tiles is written with.
PART = "cta"  # the variable of a block's number in its cluster
OWN = frozenset(
    {
        "tl",
        "triton",
        "gl",
        "gluon",
        "libdevice",
        "settled",
        "opaque",
        "INTERPRETED",
        "pid",
        "pid_0",
        "pid_1",
        "pid_2",
        "program",
        "die",
        PART,
        "before",
        "run",
        "first",
        "band",
        "height",
        "plane",
        *keyword.kwlist,
        *dir(builtins),
    }
)
_OUR_BEGINNINGS = ("BLOCK_", "REDUCE_", "TUNABLE_")
_OUR_ENDINGS = ("_ptr", "_begin", "_idx", "_mask", "_at", "_count", "_arg")
_FOLDED = frozenset({"sym", "sum", "prod", "floordiv", "mod"})


class KernelPlan:
    """One region, one config. Raises ConfigError for a config that names a knob that is not defined."""

    def __init__(self, ir: KernelIR, config: Config) -> None:
        self.ir = ir
        self.config = config
        self.numbers: dict[str, int] = sizes_of(config)
        self.constexprs: dict[str, Choice] = {}
        self.used: set[str] = set()  # knobs that are constexprs
        self.symbols: dict[str, str] = {}
        self.guards: list[Expr] = list(ir.guards)
        self._grids = dict.fromkeys(ir.grid)
        self._divisors = Divisors(ir, self.number)
        self._full: frozenset[str] = frozenset()  # tiles whose block is full in a branch of the text
        self.cluster = _blocks_of_clusters(ir)
        self._divided = None if ir.divided is None else ir.divided.extent

    # ---- sizes ----------------------------------------------------------------------------------

    def number(self, e: Expr) -> int | None:
        """The value of an Expr where the config and the static sizes settle it."""
        if e.symbols() <= self.numbers.keys():
            return e.evaluate(self.numbers)
        return None

    def holds(self, condition: Expr) -> bool:
        """Whether the config and the static sizes settle that a condition is true."""
        return bool(self.number(condition))

    def extent(self, e: Expr) -> int:
        """The register extent of a dimension: its size up to a power of two, or a block's part of that."""
        size = self.number(e)
        if size is None:
            size = e.evaluate({**self.ir.hints, **self.numbers})
            self.guard(e.le(1 << max(size - 1, 0).bit_length()))
        whole = 1 << max(size - 1, 0).bit_length()
        return whole // self.cluster if self.is_divided(e) else whole

    def begin(self, e: Expr, group: int = 1) -> str:
        """The text of the first lane that a block has of a dimension, or of its first group of so many lanes; empty
        where it has all of them."""
        return f"{PART} * {self.extent(e) // group}" if self.is_divided(e) else ""

    def is_divided(self, e: Expr) -> bool:
        """Whether the blocks of a cluster have a part each of a dimension of this extent."""
        return e == self._divided

    def extent_text(self, e: Expr) -> str:
        """``BLOCK_TILE_M`` for a block symbol, ``(2 * BLOCK_TILE_M)`` for what follows from one, else the number."""
        if self.is_folded(e) and self.number(e) == self.extent(e):
            return self.text(e)
        return str(self.extent(e))

    def is_folded(self, e: Expr) -> bool:
        """Whether an Expr over blocks has a text that Triton computes while it compiles."""
        if e.op not in _FOLDED or not e.symbols() <= self.numbers.keys():
            return False
        parts = [a for a in e.args if isinstance(a, Expr) and a.op != "const"]
        return bool(e.symbols()) and all(map(self.is_folded, parts))

    def fills(self, block: Expr) -> bool:
        """Whether a block is all lanes of its register extent: a power of two."""
        return self.block(block) == self.extent(block)

    def step_text(self, block: Expr) -> str:
        """The distance between two tiles: the block itself, also where registers hold more lanes."""
        return self.extent_text(block) if self.fills(block) else str(self.block(block))

    def turns_at_once(self, tile: Tile) -> int:
        """How many programs share a loop's turns."""
        if not tile.dealt:
            return 1
        programs = self.ir.tiles[tile.dealt].end
        assert isinstance(programs, Expr) and programs.constant is not None  # a config's number
        return programs.constant

    def constexpr(self, knob: str) -> str:
        """The name of a knob's constexpr parameter."""
        name = constexpr_name(knob)
        self.constexprs[name] = self.numbers[knob]
        self.used.add(knob)
        return name

    def text(self, e: Expr, wide: bool = False) -> str:
        """A size expression as Triton text; its symbols become arguments. ``wide``: computed in 64 bits, as it is in
        any case where the example's value does not fit 32."""
        wide = wide or self._overflows(e)
        match e.op:
            case "const":
                return str(e.args[0])
            case "sym":
                name = self.symbol(e.args[0])
                is_narrow = e.args[0] not in self.numbers and not self.ir.shape_mode.is_wide
                return f"tl.cast({name}, tl.int64)" if wide and is_narrow else name
            case "sum":
                return "(" + " + ".join(self.text(a, wide) for a in e.args) + ")"
            case "prod":
                return "(" + " * ".join(self.text(a, wide) for a in e.args) + ")"
        if e.op not in _TRITON:
            raise InternalError("a size in a kernel is arithmetic", got=str(e), hint="please report this")
        # of a count, 0 or less is none: a rounding up needs a sign for its divisor alone
        signed = e.args[1:] if e.op == "cdiv" else e.args
        is_floored = e.op in _FLOORED and not self._is_settled(e) and not all(map(is_nonnegative, signed))
        form = _FLOORED[e.op] if is_floored else _TRITON[e.op]
        return form.format(*(self.text(a, wide) for a in e.args))

    def _is_settled(self, e: Expr) -> bool:
        """Whether Triton computes an expression while it compiles, as Python does: of constants, by operators."""
        if not e.symbols() <= self.numbers.keys() or _TRITON.get(e.op, "").startswith("tl."):
            return False
        return all(self._is_settled(a) for a in e.args if isinstance(a, Expr))

    def is_in_64_bits(self, e: Expr) -> bool:
        """Whether :meth:`text` computes an expression in 64 bits, though most sizes are passed in 32."""
        if self.ir.shape_mode.is_wide or e.symbols() <= self.numbers.keys() or e.is_truth:
            return False
        if e.op == "sym":
            return abs(self.ir.hints.get(e.args[0], 0)) > INT32_MAX
        return self._overflows(e) or any(isinstance(a, Expr) and self.is_in_64_bits(a) for a in e.args)

    def _overflows(self, e: Expr) -> bool:
        """Whether a sum or a product needs 64 bits; where 32 suffice for the example, launches check products, and sums
        too unless sizes are constants. Other arithmetic needs them beside a constant that has more."""
        if e.op not in ("sum", "prod"):
            return any(isinstance(a, Expr) and abs(a.constant or 0) > INT32_MAX for a in e.args)
        if not e.symbols() <= self.ir.hints.keys() | self.numbers.keys():
            return False
        if self.is_open(e):
            return True
        sizes = e.substitute(self.numbers)
        if abs(sizes.evaluate(self.ir.hints)) > INT32_MAX:
            return True
        if len(sizes.args) > 1 and (e.op == "prod" or not self.ir.shape_mode.is_static):
            self.guard(sizes.le(INT32_MAX))
            if any(Symbol.parse(s).field == "value" for s in sizes.symbols()):  # an int of the author's may be negative
                self.guard(Expr.of(-INT32_MAX).le(sizes))
        return False

    def symbol(self, symbol: str) -> str:
        """The text of a symbol: a constexpr where its number is known, else a parameter of the kernel."""
        if symbol in self.numbers:
            return self.constexpr(symbol)
        name = symbol_name(symbol)
        self.symbols[symbol] = name
        return name

    def guard(self, condition: Expr) -> None:
        """Add a condition on which the kernel's text relies; a constant one is dropped."""
        if condition.constant is None and condition not in self.guards:
            self.guards.append(condition)

    def require(self, condition: Expr) -> None:
        """A condition on sizes and blocks that launches check. Raises ConfigError where it is known to be false."""
        known = condition.substitute(self.numbers)
        if known.constant == 0:
            raise ConfigError(
                "blocks come out even where a reshape cuts or merges tiles",
                got=str(condition),
                hint="space.repair(config) gives the nearest valid one",
            )
        self.guard(known)

    def text_of(self, e: Expr, dtype: str) -> str:
        """The text of a size that the trace holds in ``dtype``: for some block sizes it has 64 bits."""
        is_of_blocks = not e.symbols() <= self.ir.hints.keys()
        return self.text(e, wide=is_of_blocks and dtype == "int64")

    # ---- masks ----------------------------------------------------------------------------------

    def is_masked(self, dim: Dim) -> bool:
        """Whether some lanes of this dimension do not count under this config."""
        if dim.tile is None:
            size = self.number(dim.extent)
            return size is None or not fills_registers(size)
        tile = self.ir.tiles[dim.tile]
        if dim.tile in self._full:
            return False
        if tile.lengths is not None:
            return True
        block = self.number(tile.block)
        if not self.fills(tile.block):
            return True
        if not isinstance(tile.begin, Expr) or not isinstance(tile.end, Expr):
            divisor = gcd(self._divisors.of(tile.begin), self._divisors.of(tile.end))
            return block is None or divisor % block != 0
        length = self.number(tile.end - tile.begin)
        if length is not None and length <= 0:  # a loop that the hardware may enter ahead of time
            return True
        return length is None or block is None or length % block != 0

    @contextmanager
    def full_blocks(self, *tiles: str) -> Iterator[None]:
        """Within, no lanes of these tiles are masked: the text asks beforehand whether the block is full."""
        outer, self._full = self._full, self._full | {*tiles}
        try:
            yield
        finally:
            self._full = outer

    def divisor(self, bound: Expr | Value) -> int:
        """A number that divides a loop's bound; 0 for zero, 1 where nothing is known."""
        return self._divisors.of(bound)

    # ---- 64 bits --------------------------------------------------------------------------------

    def is_wide(self, tensor: TensorParam) -> bool:
        """Whether offsets into the tensor need 64 bits; where 32 suffice for the example, launches check that."""
        last = Expr.of(0)
        for size, stride in zip(tensor.shape, tensor.strides, strict=True):
            last = last + (size - 1) * stride
        if self.is_open(last):
            return True
        if last.evaluate(self.ir.hints) > INT32_MAX:
            return True
        self.guard(last.le(INT32_MAX))
        return False

    def is_open(self, e: Expr) -> bool:
        """Whether a size is not known to fit 32 bits, and no launch checks that it does."""
        return self.ir.shape_mode.is_wide and bool(e.symbols() & self.ir.hints.keys())

    # ---- knobs ----------------------------------------------------------------------------------

    def launch(self, knob: LaunchKnob[C]) -> C:
        """The choice of a knob of the launch."""
        return knob.chosen(self.config, self.ir)

    def choice(self, knob: SiteKnob[C], site: str) -> C:
        """The choice of a knob of a site."""
        return knob.chosen(self.config, site)

    def block(self, e: Expr) -> int:
        """The number of a block size. Raises InternalError where the config does not decide it."""
        number = self.number(e)
        if number is None:
            raise InternalError("a block size is settled by the config", got=str(e), hint="please report this")
        return number

    def all_guards(self) -> Expr:
        """All guards so far in one expression, with the known numbers put in."""
        return all_of(g.substitute(self.numbers) for g in self.guards)

    def environment(self) -> Mapping[str, int]:
        """The known numbers by symbol: block sizes, and sizes where they are constants."""
        return self.numbers


def _blocks_of_clusters(ir: KernelIR) -> int:
    """How many blocks a program is: those that share a loop's turns, or hold a row together."""
    counts = [ir.tiles[name].end for name in ir.cluster]
    sharing = prod(n.constant or 1 for n in counts if isinstance(n, Expr))
    return sharing if ir.divided is None else ir.divided.blocks


def sizes_of(config: Config) -> dict[str, int]:
    """The choices that sizes are made of, by their symbols: those of a whole launch are none, and their plain names
    (``group``, ``order``) are an author's to use. Raises ConfigError where there is no such knob."""
    kinds = {name: definition(name) for name, _ in config.items}
    return {n: c for n, c in config.items if isinstance(c, int) and not isinstance(kinds[n], LaunchKnob)}


def constexpr_name(knob: str) -> str:
    """``BLOCK_TILE_M`` for ``block:tile_m``."""
    return re.sub(r"\W+", "_", knob).upper()


def symbol_name(symbol: str) -> str:
    """The parameter of a launch symbol."""
    return parameter_name(re.sub(r"\W+", "_", re.sub(r"\.(cell|default|global|item|key|attr):", "_", symbol)))


def parameter_name(name: str) -> str:
    """The parameter of a number that its author calls ``name``: that, or what no other name in the text is."""
    is_ours = name in OWN or name.startswith(_OUR_BEGINNINGS) or name.endswith(_OUR_ENDINGS)
    return f"{name}_arg" if is_ours else name
