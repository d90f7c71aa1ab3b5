"""What a trace knows of its launch's sizes, and what it takes for granted: the guards that each launch checks again."""

from __future__ import annotations

from ..errors import TraceError
from ..expr import Expr
from ..ir.modes import SHAPE_MODES
from ..runtime.wide_ints import NARROWER, WIDE, is_wide, spelled
from .code_locations import Places


class Assumptions(Places):
    """``mode``: one of ``ir.modes``; in static mode every size is a constant already when it gets here, else a symbol.
    ``hints``: the symbols' values in the example.
    """

    def __init__(self, mode: str, hints: dict[str, int], files: set[str]) -> None:
        super().__init__(files)
        self.mode = mode
        self.shape_mode = SHAPE_MODES[mode]
        self.hints = hints
        self.guards: dict[Expr, None] = {}
        self.of_knobs: dict[str, Expr] = {}  # captured ints that host code computed from its knobs, and how
        self.chosen: dict[str, int] = {}  # the host code's own knobs, by symbol: a trace is for one choice of them

    def guard(self, condition: Expr) -> None:
        """Note an assumption over launch symbols; each launch checks it again."""
        if condition.constant is None:
            self.guards[condition] = None

    def assume(self, symbol: str, number: int) -> None:
        """A launch symbol is this number, in every launch of this variant."""
        self.hints[symbol] = number
        if is_wide(number):
            raise TraceError(WIDE, got=f"{symbol} = {spelled(number)}", where=self.location(), hint=NARROWER)
        self.guard(Expr.sym(symbol).eq(number))

    def decide(self, condition: Expr) -> bool:
        """A Python bool from sizes, with a guard that it stays so. Raises TraceError for block sizes."""
        answer = self.specialize(condition, guard=False)
        self.guard(condition if answer else condition.not_())
        return bool(answer)

    def specialize(self, e: Expr, guard: bool = True) -> int:
        """The number of ``e`` in the example, guarded; the host code's own knobs are what this trace has chosen."""
        e = e.substitute(self.chosen)
        unknown = e.symbols() - self.hints.keys()
        if unknown:
            raise TraceError(
                "a block size has no Python number: the config chooses it",
                got=str(e),
                where=self.location(),
                hint="use it in shapes, bounds and arithmetic as it is",
            )
        number = e.evaluate(self.hints)
        if guard:
            self.guard(e.eq(number))
        return number

    def same_size(self, a: Expr, b: Expr) -> bool:
        """Whether two extents are equal: as expressions, or as known sizes under a guard."""
        if a == b:
            return True
        if not (a.symbols() | b.symbols()) <= self.hints.keys():
            return False  # a block size equals nothing but itself
        if a.evaluate(self.hints) != b.evaluate(self.hints):
            return False
        self.guard(a.eq(b))
        return True

    def extent(self, e: Expr) -> Expr:
        """``e`` as it may be in a register shape. Captured run-time ints are specialised in static mode; those that
        host code computed from its knobs are written in terms of the knobs in either mode."""
        for path in e.symbols() & self.of_knobs.keys():
            self.guard(Expr.sym(path).eq(self.of_knobs[path]))
            e = e.substitute({path: self.of_knobs[path]})
        return self.settled(e) if self.shape_mode.is_static else e

    def settled(self, e: Expr) -> Expr:
        """``e`` with the symbols of the launch as numbers, guarded; block sizes stay."""
        own = sorted(e.symbols() & self.hints.keys())
        if own and e.substitute(self.chosen).symbols() <= self.hints.keys():
            return Expr.of(self.specialize(e))
        return e.substitute({symbol: self.specialize(Expr.sym(symbol)) for symbol in own})

    def is_open(self, e: Expr) -> bool:
        """Whether a size is only known to fit 64 bits."""
        return self.shape_mode.is_wide and bool(e.symbols() & self.hints.keys())
