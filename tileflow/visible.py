"""What a compiler sees of a call: the Triton functions of its launches, instead of an opaque operator.

torch's documented interface for user-defined Triton kernels, ``torch.library.triton_op`` over ``wrap_triton``, takes
host code of plain torch with launches in it. Inductor then writes those launches into its own code, where they cost
what its own cost, and nothing of ours runs any more. For that the config must be known while the graph is made: it is
that of the best row that is loaded then, for the sizes of the call that is being compiled, else the default.

A call that cannot be shown stays an opaque operator, which looks all of that up in each call: :class:`Hidden` says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

import torch

from .config import Config
from .emit.source import TritonSource
from .errors import BuildError, CallError
from .expr import Expr
from .frontend.meaning import digest
from .frontend.split import HostFunction
from .language.host_device import host_code_on
from .runtime import observe
from .runtime.argtree import tensors
from .runtime.describe import device_class
from .runtime.dispatch import RuntimeContext
from .runtime.guards import conjuncts
from .runtime.paths import Path, Symbol, digest_of, read_path, root_reader
from .runtime.problem import Problem
from .runtime.registry import on_miss
from .runtime.serving import decide, no_row
from .runtime.table_lookup import Hit, hits
from .serve import default_of_call, may_compile
from .target import Target, target

if TYPE_CHECKING:
    from .lowered import Lowered

_OPTIONS = frozenset({"num_warps", "num_stages"})  # those that torch takes for a function of the user's
_NAMES = {"min": torch.sym_min, "max": torch.sym_max, "__builtins__": {}}  # all that the text of an Expr may name

Launch = Callable[[TritonSource, tuple[Any, ...], dict[str, Any]], None]


class Hidden(Exception):
    """Why a compiler cannot be shown a call. Not an error: the call is an opaque operator."""


class Kernel(Protocol):
    """Whose call it is: a :class:`tileflow.Kernel`."""

    name: str
    host: HostFunction
    scope: FunctionType

    @property
    def semantic_hash(self) -> str:
        """The hash of the kernel's source."""

    def describe(self, *args: Any, **kwargs: Any) -> Problem:
        """The problem of a call: which arguments it has, with their sizes, strides and dtypes."""

    def lower(self, args: Sequence[Any], target: Target, mode: str = ...) -> Lowered:
        """The kernel lowered for these arguments and this target."""


@dataclass(frozen=True, slots=True)
class Visible:
    """What a compiler is shown of calls of one kind: ``config``, that host code runs under, and the sources."""

    config: Config
    sources: tuple[TritonSource, ...]
    target: str

    @property
    def identity(self) -> str:
        """What tells it from all else that the kernel could be shown as, in every process."""
        return digest("\n".join([self.target, self.config.key, *(source.hash for source in self.sources)]))

    def run(self, kernel: Kernel, args: Sequence[Any], launch: Launch) -> Any:
        """The kernel's host code on ``args``, of which tensors and sizes may be symbolic, with ``launch`` for each
        launch. Raises VariantError where no source accepts one."""
        return kernel.host.run(_Context(self, kernel.scope, launch), *args)


def visible(kernel: Kernel, args: Sequence[Any], device: torch.device, is_dynamic: bool) -> Visible:
    """What a compiler may be shown of a call with ``args``, tensors on the meta device for those of ``device``.

    ``is_dynamic``: whether a size, a stride or a number of it is symbolic. Raises Hidden, and KernelError where the
    call cannot be lowered.
    """
    policy = _policy(kernel)
    live = _class_of(device)
    problem = kernel.describe(*args)
    found = hits(kernel.name, kernel.semantic_hash, problem, live)
    hit = next((h for h in found if h.step != "default" or not h.row.launches or policy == "default"), None)
    lowered = kernel.lower(args, target(live), "dynamic" if is_dynamic else "static")
    if any(tensor.device.type != "meta" for tensor in tensors(lowered.args)):
        raise Hidden("host code reads data")
    fitting = None if hit is None or hit.default_is_better else hit
    config = _default(kernel, lowered) if fitting is None else lowered.space.adapt(fitting.config.to_dict())
    shown = Visible(config, lowered.emit(config), live)
    for source in shown.sources:
        for why in _obstacles(source, kernel.scope, is_dynamic):
            raise Hidden(why)
    with host_code_on(lowered.target, lowered.args):
        shown.run(kernel, lowered.args, _check_launch)
    _note(kernel, problem, live, hit, config)
    return shown


def _class_of(device: torch.device) -> str:
    """The class of the device. Raises Hidden where it is not on this machine, which fake tensors may be for."""
    try:
        return device_class(device)
    except CallError as error:
        raise Hidden(str(error)) from error


def _default(kernel: Kernel, lowered: Lowered) -> Config:
    """The default that a call outside a graph runs. Raises Hidden where that has no build: the call itself says why."""
    try:
        return default_of_call(kernel.semantic_hash, lowered)
    except BuildError as error:
        raise Hidden(str(error)) from error


def launch_visibly(source: TritonSource, grid: tuple[Any, ...], arguments: dict[str, Any]) -> None:
    """Launch so that torch's tracers see it; where nobody traces, it simply runs."""
    torch.library.wrap_triton(_function(source))[grid](**arguments, **dict(source.constexprs))


def _policy(kernel: Kernel) -> str:
    """What misses of the kernel do. Raises Hidden where nothing is compiled for them."""
    policy = on_miss(kernel.name)
    if not may_compile(policy):
        raise Hidden(f"on_miss is {policy!r}, or there is no compiler (triton)")
    return policy


def _note(kernel: Kernel, problem: Problem, live: str, hit: Hit | None, config: Config) -> None:
    """Count the graph as one call, and a miss where no row is in it."""
    if hit is None:
        no_row(kernel.name, problem, live, ())
    step = "compiled" if hit is None else hit.step
    decide(kernel.name, problem, step, config)
    observe.count(kernel.name, step, "in a compiled graph, which is not counted further", live)


# ---- what cannot be shown -----------------------------------------------------------------------------------------


def _obstacles(source: TritonSource, scope: FunctionType, is_dynamic: bool) -> Iterator[str]:
    """Why torch, or the graph, cannot hold a launch."""
    expressions = [source.guards, *source.grid, *(a.value for a in source.args if a.value is not None)]
    yield from _outside(source, scope, expressions)
    if source.language != "triton":
        yield f"{source.name} is a {source.language} function"
    if source.cluster > 1:
        yield f"{source.name} has {source.cluster} blocks of a cluster for a program"
    for name, value in source.options:
        if name not in _OPTIONS:
            yield f"{source.name} is compiled with {name}={value}"
    for arg in source.args:
        if arg.kind == "descriptor":
            yield f"{source.name} moves {arg.path} by a descriptor"
        if arg.copies is not None:
            yield f"{source.name} adds to copies of {arg.path}, which its launch makes"
        if arg.kind == "int" and arg.type != "i32":
            yield f"{source.name} takes {arg.name} as {arg.type}"
        if arg.dtype == "float4_e2m1fn_x2":
            yield f"{source.name} reads pairs of 4 bits"
    if is_dynamic and any("bit_length" in e.python(lambda name: "0") for e in expressions):
        yield f"{source.name} rounds a size to a power of two"


def _outside(source: TritonSource, scope: FunctionType, expressions: Sequence[Expr]) -> Iterator[str]:
    """What a launch reads anew in each call, and a graph would hold fixed."""
    symbols = [Symbol.parse(name) for e in expressions for name in e.symbols()]
    paths = [path for symbol in symbols for path in (symbol.path, symbol.other) if path is not None]
    for path in sorted({*paths, *(Path.parse(a.path) for a in source.args if a.path)}, key=str):
        if path.root == "__tileflow__":
            yield f"{source.name} draws a random seed in each call"
        elif root_reader(path.root, scope)[1] is not None or any(kind == "global" for kind, _ in path.steps):
            yield f"{source.name} reads {path.root} in each call, which is no argument"


def _check_launch(source: TritonSource, grid: tuple[Any, ...], arguments: dict[str, Any]) -> None:
    """Raises Hidden for a 1 that the function asks something of: to a compiler it is a constant, and no value of it."""
    for arg in source.args:
        if arg.kind == "int" and arguments[arg.name] == 1 and re.search(rf"\b{arg.name}\.", source.code):
            raise Hidden(f"{source.name} converts {arg.name}, which is 1")


# ---- launching ----------------------------------------------------------------------------------------------------


class _Context(RuntimeContext):
    """A host context whose bounds, sizes and numbers may be symbolic."""

    __slots__ = ()

    def __init__(self, shown: Visible, scope: FunctionType, launch: Launch) -> None:
        constants = target(shown.target).symbols()
        launchers: dict[int, list[Any]] = {}
        for source in shown.sources:
            launchers.setdefault(source.region, []).append(_Launcher(source, scope, constants, launch))
        super().__init__(shown.config, launchers)

    def launch(
        self,
        region: int,
        frame: dict[str, Any],
        begin_or_end: Any,
        end: Any = None,
        block_size: Any = None,
        *,
        step: Any = None,
    ) -> None:
        """Launch the first variant whose guards hold: those of symbolic sizes become guards of the graph."""
        ends = begin_or_end if end is None else end
        many = isinstance(ends, (list, tuple))
        ends = tuple(ends) if many else (ends,)
        begins = (0,) * len(ends) if end is None else tuple(begin_or_end) if many else (begin_or_end,)
        self.accepting(region, frame, begins, ends)


class _Launcher:
    """Follows a source's ABI as a binary's launcher does, with ``launch`` in place of the driver."""

    def __init__(self, source: TritonSource, scope: FunctionType, constants: Mapping[str, int], launch: Launch) -> None:
        self.guards = source.guards
        self._source, self._scope, self._launch = source, scope, launch
        self._conditions = [c.substitute(constants) for c in conjuncts(source.guards)]
        self._grid = [extent.substitute(constants) for extent in source.grid]

    def __call__(self, frame: Mapping[str, Any], begins: tuple[Any, ...], ends: tuple[Any, ...]) -> bool:
        values = _Values(frame, self._scope, begins, ends)
        if not all(self._fits(values)) or not all(_holds(condition, values) for condition in self._conditions):
            return False
        grid = tuple(_evaluate(extent, values) for extent in self._grid)
        if all(extent > 0 for extent in grid):
            self._launch(self._source, grid, {arg.name: self._argument(arg, values) for arg in self._source.args})
        return True

    def _fits(self, values: _Values) -> Iterator[bool]:
        """Whether each tensor has the dtype and the rank that the source assumes."""
        for arg in self._source.args:
            if arg.dtype:
                tensor = values.at(Path.parse(arg.path))
                yield str(tensor.dtype) == f"torch.{arg.dtype}" and tensor.dim() == arg.rank

    @staticmethod
    def _argument(arg: Any, values: _Values) -> Any:
        return values.at(Path.parse(arg.path)) if arg.value is None else _evaluate(arg.value, values)


class _Values(dict[str, Any]):
    """The values of launch symbols, each read when it is first asked for."""

    def __init__(
        self, frame: Mapping[str, Any], scope: FunctionType, begins: tuple[Any, ...], ends: tuple[Any, ...]
    ) -> None:
        super().__init__()
        self._frame, self._scope, self._begins, self._ends = frame, scope, begins, ends

    def at(self, path: Path) -> Any:
        return read_path(path, self._frame, self._scope)

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._read(Symbol.parse(name))
        return value

    def _read(self, symbol: Symbol) -> Any:
        if symbol.path is None:
            return (self._begins if symbol.field == "begin" else self._ends)[symbol.axis]
        match symbol.field:
            case "shape":
                return self.at(symbol.path).shape[symbol.axis]
            case "stride":
                return self.at(symbol.path).stride()[symbol.axis]
            case "digest":
                return digest_of(self.at(symbol.path))
            case "align":  # what is stored where is the compiler's affair, and so is what it assumes of addresses
                return 1
            case "apart" | "in_step":  # in a graph that is made functional, what is stored into is memory of its own
                return 1
        return self.at(symbol.path)


def _holds(condition: Expr, values: _Values) -> bool:
    """Whether a guard holds. Divisibility of a symbolic size must be known: it is not worth a graph of its own."""
    found = _evaluate(condition, values)
    if isinstance(found, torch.SymBool) and "%" in condition.python(str):
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        return statically_known_true(found)
    return bool(found)


def _evaluate(expression: Expr, values: _Values) -> Any:
    return eval(_code(expression), _NAMES | {"env": values})


@cache
def _code(expression: Expr) -> Any:
    return compile(expression.python(lambda name: f"env[{name!r}]"), "<a launch symbol's value>", "eval")


@cache
def _function(source: TritonSource) -> Any:
    """The function of a source, with the options that it is compiled with."""
    import triton

    from .build.compile import load_function

    config = triton.Config({}, **dict(source.options))
    return triton.autotune(configs=[config], key=[])(load_function(source))
