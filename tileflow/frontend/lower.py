"""Lowering: run a kernel's host code on meta tensors and trace every region that it launches."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from ..config import Choice
from ..errors import HostDataError, Location, TileflowError, TraceError
from ..expr import Expr
from ..ir.graph import Block, BlockSymbol, KernelIR, Op, Tile, walk
from ..language.knobs import check_choices
from ..runtime.dispatch import host_knob
from .capture import Capturer, launch_values
from .control import Control, TileLoop
from .device_functions import DEVICE
from .host_values import SymbolicInt, constant, expr_of
from .rewrite import rewrite_region
from .source import function_source, location
from .split import HostFunction, RegionSource
from .trace import Names, TraceMode, Tracer, code_location
from .values import UNDEFINED, TileProxy


@dataclass(frozen=True, slots=True)
class HostKnob:
    """A knob that host code asked for, at ``line`` of the user's file.

    ``choices``: of a tunable; ``low``, ``high``: of a block size.
    """

    name: str
    line: int
    low: int = 1
    high: int = 1
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class LoweredCall:
    """All regions that one call launches, in order, and the knobs of its host code."""

    regions: tuple[KernelIR, ...]
    host_knobs: tuple[HostKnob, ...]


Watch = Callable[[KernelIR, Mapping[str, Any]], None]


def lower_call(
    host: HostFunction,
    args: tuple[Any, ...],
    mode: str,
    choices: Mapping[str, Choice] | None = None,
    watch: Watch | None = None,
) -> LoweredCall:
    """Trace a call. ``args`` are meta tensors (or real ones) and scalars; ``choices`` answer the host code's knobs.

    ``watch`` is shown each launch: its IR and the host function's locals.

    Raises KernelError with the place in the user's source.
    """
    context = _Lowering(host, mode, choices or {}, watch)
    bound = host.signature.bind(*args)
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if name in host.constants:
            bound.arguments[name] = constant(value)
        elif type(value) is int:
            bound.arguments[name] = SymbolicInt(value, Expr.sym(name))
    try:
        host.run(context, *bound.args, **bound.kwargs)
    except (NotImplementedError, RuntimeError) as error:
        if "meta" not in str(error):
            raise
        raise HostDataError(
            "host code of a kernel that is lowered without data may not read values", got=str(error).splitlines()[0],
            where=_place(error, {host.fn.__code__.co_filename}), hint="lower it from real example inputs",
        ) from error  # fmt: skip
    if not context.regions:
        source = function_source(host.fn)
        raise TraceError("a kernel launches at least one tile loop", got="none in this call",
                         where=location(source, source.tree))  # fmt: skip
    return LoweredCall(tuple(context.regions), tuple(context.knobs.values()))


class _Lowering:
    """The host context that traces."""

    def __init__(self, host: HostFunction, mode: str, choices: Mapping[str, Choice], watch: Watch | None) -> None:
        self.host = host
        self.mode = mode
        self.choices = choices
        self.watch = watch
        self.regions: list[KernelIR] = []
        self.knobs: dict[str, HostKnob] = {}
        self.chosen: dict[str, int] = {}

    def launch(self, region: int, frame: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        source = self.host.regions[region]
        ir = _RegionTrace(self, source, frame, args, kwargs).trace()
        if ir.hash not in {r.hash for r in self.regions}:
            self.regions.append(ir)
        if self.watch is not None:
            self.watch(ir, frame)

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        line = sys._getframe(1).f_lineno
        name = host_knob(site, function, args)
        if function.__name__ == "register_block_size":
            low, high = (1, *args) if len(args) == 1 else args
            high = max(int(high), int(low))  # a size may be 0, a block size not
            self.knobs[name] = HostKnob(name, line, int(low), high)
            return self._symbolic(name, self.choices.get(name, min(32, high)))
        choices = check_choices(*args)
        self.knobs[name] = HostKnob(name, line, choices=choices)
        chosen = self.choices.get(name, choices[0])
        return chosen if isinstance(chosen, (str, bool)) else self._symbolic(name, chosen)

    def _symbolic(self, name: str, chosen: Choice) -> SymbolicInt:
        self.chosen[name] = int(chosen)
        return SymbolicInt(int(chosen), Expr.sym(name))


class _RegionTrace:
    """One launch, traced."""

    def __init__(
        self, lowering: _Lowering, source: RegionSource, frame: dict[str, Any], args: Any, kwargs: Any
    ) -> None:
        self.lowering, self.source, self.frame = lowering, source, frame
        fn = lowering.host.fn
        device = next((v.device for v in frame.values() if isinstance(v, torch.Tensor)), torch.device("meta"))
        self.tracer = Tracer(lowering.mode, {}, Names(source.index), {fn.__code__.co_filename}, device)
        self.tracer.kernel = fn.__code__
        self.tracer.chosen = lowering.chosen
        self.control = Control(self.tracer)
        self.loop: TileLoop = DEVICE[source.function.__name__](self.tracer, *args, **kwargs)

    def trace(self) -> KernelIR:
        t, fn = self.tracer, self.lowering.host.fn
        capturer = Capturer(t)
        t.at(Location(self.source.file, self.source.loop.lineno, self.source.loop.col_offset,
                      self.source.lines[self.source.loop.lineno - 1].rstrip()))  # fmt: skip
        proxies = self._grid()
        captured = [self._captured(capturer, fn, c.name) for c in self.source.captures]
        t.at(None)
        run = rewrite_region(self.source, fn)
        try:
            with TraceMode(t):
                run(self.control, *proxies, *captured)
        except TileflowError as error:
            if error.where is not None:
                raise
            where = _place(error, t.files)
            raise type(error)(error.constraint, got=error.got, where=where, hint=error.hint) from error
        except UnboundLocalError as error:
            raise TraceError(
                "a variable is assigned on every way to its use",
                got=f"{error.name or error} without a value",
                where=_place(error, t.files),
                hint="assign it before the loop, or in both branches",
            ) from error
        except TypeError as error:
            hint = "where torch wants a tensor, write one: torch.clamp(x, min=0), torch.full_like(x, 1)"
            if "indices must be integers" in str(error):
                hint = "a long range counts in scalars of the kernel, tfl.static_range(...) in Python ints"
            raise TraceError(
                "device code must be what tileflow can record",
                got=str(error).splitlines()[0],
                where=_place(error, t.files),
                hint=hint,
            ) from error
        return self._finish()

    def _captured(self, capturer: Capturer, fn: FunctionType, name: str) -> Any:
        try:
            value = launch_values(self.frame, fn, name)
        except KeyError:
            return UNDEFINED
        return capturer.capture(value, name)

    def _grid(self) -> list[Any]:
        """The tiles of the outermost loop."""
        t, loop, proxies = self.tracer, self.loop, []
        for axis, target in enumerate(self._targets()):
            name = t.names.fresh(target)
            begin, end = self._bound("begin", axis, loop.begins[axis]), self._bound("end", axis, loop.ends[axis])
            block = self._block(name, axis)
            t.tiles[name] = Tile(name, block, begin, end, True, t.is_wide(begin, end))
            proxy = TileProxy(name, t, t.scopes[-1], Expr.of(0))
            proxies.append(t.tile_scalar("tile_begin", proxy) if loop.scalar else proxy)
        return [tuple(proxies)] if self._is_whole else proxies

    @property
    def _is_whole(self) -> bool:
        """``for tiles in tile([m, n])``: one variable holds the tuple."""
        return self.loop.several and not isinstance(self.source.loop.target, ast.Tuple)

    def _targets(self) -> tuple[str, ...]:
        """The name of each axis."""
        targets, axes = self.source.targets, len(self.loop.ends)
        if self._is_whole:
            return targets * axes
        if len(targets) != axes:
            raise TraceError("a tile loop has a variable for each axis", where=self.tracer.location(),
                             got=f"{', '.join(targets)} for {axes} axes")  # fmt: skip
        return targets

    def _block(self, name: str, axis: int) -> Expr:
        t, given = self.tracer, self.loop.blocks[axis]
        if given is None:
            return t.new_block(name, int(self.loop.ends[axis]) - int(self.loop.begins[axis]))
        expr = expr_of(given)
        if expr is not None and expr.op != "sym" and t.mode == "dynamic":
            # it may hold this axis' size as a plain number, and a launch does not tell its block sizes
            t.assume(f"end.{axis}", int(self.loop.ends[axis]))
        return Expr.of(int(given)) if expr is None else expr

    def _bound(self, kind: str, axis: int, value: Any) -> Expr:
        """A bound of the grid: a constant in static mode; in dynamic mode a symbol, but 0 stays 0.

        A knob stays one; what host code computed from it may hold sizes as plain numbers, which another launch changes.
        """
        t = self.tracer
        symbol = f"{kind}.{axis}"
        expr = expr_of(value)
        if expr is not None and expr.op == "sym" and ":" in str(expr.args[0]):
            return expr
        if t.mode == "static" or int(value) == 0:
            t.assume(symbol, int(value))
            return Expr.of(int(value))
        t.hints[symbol] = int(value)
        return Expr.sym(symbol)

    def _finish(self) -> KernelIR:
        t = self.tracer
        used = {s for tile in t.tiles.values() for s in tile.block.symbols()} | _shape_symbols(t.builder.ops)
        host = {k.name: (k.low, k.high) for k in self.lowering.knobs.values() if not k.choices}
        blocks = {n: b for n, b in {**host, **t.blocks}.items() if n in used}
        return KernelIR(
            name=self.lowering.host.fn.__name__,
            region=self.source.index,
            mode=t.mode,
            tensors=tuple(t.tensors.values()),
            scalars=tuple(t.scalars.values()),
            tiles=dict(t.tiles),
            grid=tuple(t.tiles)[: len(self.loop.ends)],
            blocks=tuple(BlockSymbol(n, low, 1 << max(high - 1, 0).bit_length()) for n, (low, high) in blocks.items()),
            body=Block((), t.builder.ops, ()),
            guards=tuple(t.guards),
            hints=dict(t.hints),
        )


def _shape_symbols(ops: Iterable[Op]) -> set[str]:
    """The symbols in the shapes of what ``ops`` compute."""
    every = (v for op in walk(Block((), tuple(ops), ())) for v in op.outputs)
    return {s for v in every for d in v.dims for s in d.extent.symbols()}


def _place(error: BaseException, files: set[str]) -> Location | None:
    """The innermost of the user's places that an exception went through."""
    found = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename in files:
            found = code_location(step.tb_frame.f_code, step.tb_lasti, step.tb_lineno)
        step = step.tb_next
    return found
