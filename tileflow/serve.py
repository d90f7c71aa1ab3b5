"""Planning a call: rows with their binaries, then a compiler, the reference or an error, as ``on_miss`` says.

The compiler is imported where something must be compiled, and only then.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

import torch

from .errors import OutOfResources
from .installed import has_compiler
from .lazy_dataclass import dataclass
from .locks import Lock
from .runtime import observe
from .runtime.argtree import bind_call, tensors
from .runtime.bounded import BoundedCache
from .runtime.call_cache import Direct
from .runtime.describe import refuse_recording
from .runtime.dispatch import Shapes
from .runtime.environment import triton_interprets
from .runtime.guards import failing
from .runtime.launch import Launcher
from .runtime.paths import Path, Symbol, read_path, read_symbol
from .runtime.preload import launcher_maker
from .runtime.problem import Problem
from .runtime.recorded import memory_of
from .runtime.registry import on_change, on_miss
from .runtime.serving import (
    Attempt,
    BuiltServer,
    Declined,
    MissedCalls,
    Server,
    asked_of,
    decide,
    no_row,
    refused,
    servers_of_rows,
)
from .runtime.table_lookup import Hit
from .target import ANY_TARGET, target

if TYPE_CHECKING:
    from .config import Config
    from .emit.source import TritonSource
    from .frontend.split import HostFunction
    from .lowered import Lowered
    from .runtime.call_cache import CallCache
    from .target import Target

MOST_BUILT = 4_096  # configs that were compiled for calls of this process
MOST_VARIANTS = 4  # of a launch that are each compiled for the sizes that it captures
MOST_SHAPES = 8  # of calls of one kind that are each compiled for their own sizes
COMPILING = ("default", "compile")  # the policies under which a compiler is looked for, once nothing else serves
_MOST_SHRINKS = 8  # of a default that the device has too little for

_log = logging.getLogger("tileflow")
_built: BoundedCache[BuiltServer] = BoundedCache(MOST_BUILT)
MOST_LAYOUTS = 8  # of tensors, for each of which variants that take any size are built
_shapes: dict[Any, int] = {}
_layouts: dict[Any, list[str]] = {}
_counting = Lock()
on_change(_built.clear)


class Kernel(Protocol):
    """A kernel as planning needs it; :class:`tileflow.Kernel` is one."""

    name: str
    host: HostFunction
    scope: FunctionType
    cache: CallCache

    @property
    def semantic_hash(self) -> str:
        """The hash of the kernel's source, by which its rows are found in a table."""

    def describe(self, *args: Any, **kwargs: Any) -> Problem:
        """The problem of a call: which arguments it has, with their sizes, strides and dtypes."""

    def positional_args(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The call's arguments in the order of the signature, defaults filled in."""

    def lower(self, args: Sequence[Any], target: Target, mode: str = ...) -> Lowered:
        """The kernel lowered for these arguments and this target."""

    def lower_launch(
        self, region: int, frame: Mapping[str, Any], given: tuple[Any, ...], problem: Problem, target: Target, mode: str
    ) -> Lowered:
        """One launch lowered, with the local variables of the host code at that place."""

    def launchers(self, lowered: Lowered, config: Config, device: torch.device) -> dict[int, list[Launcher]]:
        """The launchers of a config by region, compiled if they must be."""

    def launcher(self, source: TritonSource, target: Target, device: torch.device) -> Launcher:
        """The launcher of one source for a device, compiled if it must be."""

    def run_eagerly(self, *args: Any, **kwargs: Any) -> Any:
        """Run the call as plain PyTorch, tile by tile."""

    def stand_in(self, *args: Any, **kwargs: Any) -> Any:
        """Run the call in plain torch: by the author's reference or by the kernel's own text over real tiles."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call that is planned. ``live``: the class of the GPU ``device``, None on a CPU."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    problem: Problem
    device: torch.device
    live: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """What outlives a call with its plan: nothing of its arguments, whose memory would live as long. ``ints``: the
    names of those with ints."""

    problem: Problem
    device: torch.device
    live: str | None
    ints: frozenset[str]


def planned(kernel: Kernel, call: Call) -> Planned:
    """What is kept of a call."""
    return Planned(call.problem, call.device, call.live, kernel.cache.with_ints(call.args, call.kwargs))


def plan(kernel: Kernel, call: Call) -> Iterator[Attempt | Direct]:
    """What may serve a call, in order. Raises MissError at its end where nothing may."""
    if call.device.type == "meta":
        counter = observe.served(kernel.name, "shapes", "the tensors have no memory")
        yield Direct(_on_a_gpu(call)(partial(kernel.host.run, Shapes())), counter)
        return
    if call.device.type == "cpu" and not triton_interprets():
        counter = observe.served(kernel.name, "eager", "the tensors are on a CPU")
        observe.say_once(
            logging.WARNING, kernel.name, "eager", "runs as plain Python over tiles: the tensors are on a CPU"
        )
        yield Direct(kernel.run_eagerly, counter)
        return
    refuse_recording(kernel.name, bind_call(kernel.host.signature, kernel.name, call.args, call.kwargs))
    policy, kept = on_miss(kernel.name), planned(kernel, call)
    asked = asked_of(kernel.host.sites.values())
    rows = partial(
        servers_of_rows,
        kernel.name,
        kernel.semantic_hash,
        call.problem,
        call.live,
        launcher_maker(kernel, call.device) if runs_code(call.device) else None,
        (call.device, kernel.cache.number),
    )
    attempted: set[tuple[Any, ...]] = set()
    tried: list[str] = []
    nearest: Hit | None = None
    for hit, server in rows():
        if hit.step == "default" and hit.row.launches and policy != "default":
            continue
        if server is not None:
            answers = asked(server.config)
            if answers not in attempted:
                attempted.add(answers)
                yield Attempt(
                    server,
                    asked,
                    partial(_servers, rows),
                    partial(_counter, kernel.name, call.problem, call.live),
                    partial(_further, kernel, kept, server.config, False) if policy in COMPILING else None,
                )
            tried.append("the guards of the rows decline")
        elif hit.bundle is None and may_compile(policy):
            yield from _built_attempts(kernel, call, hit, None)
        else:
            nearest = nearest or hit
            tried.append("the rows have no machine code for such a call")
    yield from _missed(kernel, call, policy, nearest, tried)


def _missed(
    kernel: Kernel, call: Call, policy: str, nearest: Hit | None, tried: Sequence[str]
) -> Iterator[Attempt | Direct]:
    """What takes the place of a row."""
    memory = memory_of(bind_call(kernel.host.signature, kernel.name, call.args, call.kwargs))
    missed = no_row(kernel.name, call.problem, call.live, tried, memory)
    if may_compile(policy):
        if nearest is None and runs_code(call.device):
            yield from _portable_attempts(kernel, call, missed)
        yield from _built_attempts(kernel, call, nearest, missed)
        return
    if policy in ("default", "reference"):
        counter = observe.served(kernel.name, "reference", "no row serves the call", call.live)
        observe.say_once(logging.WARNING, kernel.name, "reference", "runs as its reference in torch, not as a kernel")
        yield Direct(kernel.stand_in, MissedCalls(counter, missed))
        return
    why = "on_miss is 'error'" if policy == "error" else "there is no compiler (triton) on this machine"
    raise refused(kernel.name, call.problem, call.live, why)


def _servers(rows: Callable[[], Iterator[tuple[Hit, Server | None]]]) -> Iterator[Server]:
    return (server for _, server in rows() if server is not None)


def _counter(kernel: str, problem: Problem, live: str | None, server: Server) -> Any:
    decide(kernel, problem, server.step, server.config)
    if server.step not in ("override", "exact"):
        observe.say_once(logging.WARNING, kernel, server.step, server.reason)
    return observe.served(kernel, server.step, server.reason, live)


# ---- compiling ----------------------------------------------------------------------------------------------------


def runs_code(device: torch.device) -> bool:
    """Whether machine code runs on the device."""
    return device.type == "cuda"


def _on_a_gpu(call: Call, hit: Hit | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What host code of a call without a GPU is wrapped in: it asks about its device as it was lowered."""
    from .language.host_device import as_on

    return partial(as_on, _target_of(call, hit))


def _target_of(call: Call, hit: Hit | None) -> Target:
    """What a call is compiled for: the GPU that it is on, else that of the row."""
    return target(call.live or (hit and hit.device) or ANY_TARGET)


def may_compile(policy: str) -> bool:
    """Whether what no row serves is compiled: the policy of misses says so, and a compiler is here."""
    return policy in COMPILING and has_compiler()


def _built_attempts(kernel: Kernel, call: Call, hit: Hit | None, missed: Any) -> Iterator[Attempt]:
    """The call compiled now, or found compiled: threads that meet it at once wait for one of them. What was found may
    decline what host code makes now, or what a global holds now, and is compiled anew."""

    kept = planned(kernel, call)

    def counter(server: Server) -> Any:
        served = _counter(kernel.name, kept.problem, kept.live, server)
        return served if missed is None else MissedCalls(served, missed)

    key = (kernel.cache.number, kernel.cache.key(call.args, dict(call.kwargs)), None if hit is None else hit.config.key)
    was_there = _built.get(key) is not None
    server = _built.get_or_make(key, lambda: _build(kernel, call, hit))
    further = partial(_further, kernel, kept, server.config, True)
    around = None if runs_code(call.device) else _on_a_gpu(call, hit)
    yield Attempt(server, lambda config: (), lambda: iter(()), counter, further, around)
    if was_there:
        _built.drop(key)
        server = _built.get_or_make(key, lambda: _build(kernel, call, hit))
        further = partial(_further, kernel, kept, server.config, True)
        yield Attempt(server, lambda config: (), lambda: iter(()), counter, further, around)


def _further(kernel: Kernel, kept: Planned, config: Config, is_last: bool, declined: Declined) -> BuiltServer | None:
    """A launch that no variant takes, compiled out of what it captures: host code made, or a container or a global
    holds, another int or constant than when the variants were made. Ints that vary become run-time values.

    None without a compiler, and where the call can begin anew instead: the first launch, by another row where not
    ``is_last``, or by a variant for the values of int arguments, where those select code.
    """
    if not has_compiler():
        return None
    changed = Counter(changed_ints(kernel, declined))
    # an argument is a run-time value from the start, what is in one from its first change on
    selecting = {path for path, count in changed.items() if count > 1 or path in kernel.host.signature.parameters}
    loose = kept.ints - kernel.cache.by_value
    begins_anew = not declined.region and kernel.host.restartable
    if begins_anew and (not is_last or {path.partition(".")[0] for path in selecting} & loose):
        return None
    kernel.host.varying.update(changed)
    mode = "static" if len(declined.variants) < MOST_VARIANTS else "dynamic"
    device = target(kept.live or ANY_TARGET)
    lowered = kernel.lower_launch(declined.region, declined.frame, declined.given, kept.problem, device, mode)
    launchers = kernel.launchers(lowered, lowered.space.adapt(config.to_dict()), kept.device)
    return BuiltServer(config, launchers, "compiled", "a launch that no variant took")


def changed_ints(kernel: Kernel, declined: Declined) -> Iterator[str]:
    """The paths of captured ints that variants hold fixed, and that are others now, for each variant."""
    for variant in declined.variants:
        yield from _changed_ints(kernel, variant, declined)


def _changed_ints(kernel: Kernel, variant: Launcher, declined: Declined) -> Iterator[str]:

    def read(name: str) -> int:
        return read_symbol(Symbol.parse(name), declined.frame, kernel.scope, declined.begins, declined.ends)

    for condition in failing(variant.guards, read):
        for name in condition.symbols():
            path = Symbol.parse(name).path
            if Symbol.parse(name).field == "value" and path is not None and type(_at(path, kernel, declined)) is int:
                yield name


def _at(path: Path, kernel: Kernel, declined: Declined) -> Any:
    return read_path(path, declined.frame, kernel.scope)


def _portable_attempts(kernel: Kernel, call: Call, missed: Any) -> Iterator[Attempt]:
    """Serve by variants that take any shape, once a kernel was compiled for many: a further shape compiles nothing."""
    key = (kernel.cache.number, call.problem.kinds, call.device)
    with _counting:
        _shapes[key] = _shapes.get(key, 0) + 1
        if _shapes[key] <= MOST_SHAPES:
            return
        layouts = _layouts.setdefault(key, [])
        layout = call.problem.layouts
        if deserves_variants(layout, layouts):
            layouts.append(layout)
        layout = layout if layout in layouts else nearest_layout(layout, layouts)
    server = _built.get_or_make((*key, layout), lambda: _build_portable(kernel, call))
    counted = partial(_counter, kernel.name, call.problem, call.live)

    def counter(server: Server) -> Any:
        return MissedCalls(counted(server), missed)

    around = None if runs_code(call.device) else _on_a_gpu(call)
    yield Attempt(server, lambda config: (), lambda: iter(()), counter, around=around)


def deserves_variants(layout: str, known: Sequence[str]) -> bool:
    """Whether variants are built for a layout: for the first ones that are met, and for twice as many that lie along
    other dimensions than all before, which these would serve an element at a time."""
    if layout in known or len(known) >= 2 * MOST_LAYOUTS:
        return False
    return len(known) < MOST_LAYOUTS or all(_along(layout) != _along(other) for other in known)


def _along(layout: str) -> list[list[bool]]:
    """Along which dimensions each tensor lies."""
    return [[c == "1" for c in mine] for mine, _ in _strides([(t, t) for t in layout.split(",")])]


def nearest_layout(layout: str, known: Sequence[str]) -> str:
    """The layout of ``known`` whose variants, which serve all, serve this one fastest: it lies along the same
    dimensions in as many tensors as possible, since that decides how loads run; then it has most in common."""

    def likeness(other: str) -> tuple[int, int]:
        pairs = list(zip(layout.split(","), other.split(","), strict=True))
        along = sum([c == "1" for c in mine] == [c == "1" for c in theirs] for mine, theirs in _strides(pairs))
        return along, sum(a == b for mine, theirs in _strides(pairs) for a, b in zip(mine, theirs, strict=True))

    return max(known, key=likeness)


def _strides(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What pairs of :attr:`TensorSpec.runs` say of strides alone."""
    for mine, theirs in pairs:
        yield mine.rstrip("u").partition("p")[0], theirs.rstrip("u").partition("p")[0]


def _build_portable(kernel: Kernel, call: Call) -> BuiltServer:
    from .portable import portable_config, portable_sources

    _log.warning("%s was compiled for %d shapes: variants that take any shape are built now", kernel.name, MOST_SHAPES)
    lowered = kernel.lower(kernel.positional_args(call.args, call.kwargs), target(call.live or ANY_TARGET), "dynamic")
    # warp-specialised variants where the default is so, the pipelined ones behind them
    config = lowered.default if lowered.default != lowered.default_pipelined else None
    made: dict[int, list[Launcher]] = {}
    for source in portable_sources(lowered, config):
        made.setdefault(source.region, []).append(kernel.launcher(source, lowered.target, call.device))
    return BuiltServer(portable_config(lowered, config), made, "compiled", "variants for any shape")


def _build(kernel: Kernel, call: Call, hit: Hit | None) -> BuiltServer:
    """Compile the call now, under the row's config fitted to the call's own space. The default config takes its place
    where there is no row, or where the row is of another problem and the default serves such better."""
    device = _target_of(call, hit)
    lowered = kernel.lower(kernel.positional_args(call.args, call.kwargs), device)
    if any(tensor.device.type != "meta" for tensor in tensors(lowered.args)):
        # host code reads data, so that sizes differ from call to call: they are no constants
        lowered = kernel.lower(lowered.args, device, "dynamic")
    if hit is None or hit.default_is_better:
        _log.warning(
            "%s has no tuned row for %s: its own default config runs; kernel.tune(...) finds a better one.",
            kernel.name,
            lowered.problem.key,
        )
        return fitting_server(kernel, lowered, call.device)
    fitted = lowered.space.adapt(hit.config.to_dict())
    reason = hit.reason
    if hit.step == "exact" and lowered.mode == "static" and (lost := _lost_choices(hit.config, fitted)):
        reason = "its config is not of this version's space: the nearest one runs"
        text = f"the row of {lowered.problem.key} was tuned with {lost}; kernel.tune(...) finds a new one"
        observe.say_once(logging.WARNING, kernel.name, "row of another space", f"{reason}: {text}")
    config = _runnable(lowered, fitted, call.device)
    return BuiltServer(config, kernel.launchers(lowered, config, call.device), hit.step, reason)


def _lost_choices(tuned: Config, fitted: Config) -> str:
    """The choices of a row that its own problem's space has no more, as after an update; empty where it has all."""
    now = fitted.to_dict()
    lost = [f"{name}={choice!r}" for name, choice in tuned.to_dict().items() if name not in now or now[name] != choice]
    return ", ".join(lost[:4]) + (f" and {len(lost) - 4} more" if len(lost) > 4 else "")


def _runnable(lowered: Lowered, config: Config, device: torch.device) -> Config:
    """The config, or on a CPU the nearest one that Triton's interpreter runs: it has no clusters and no schedules."""
    return lowered.interpretable(config) if device.type == "cpu" else config


def default_of_call(kernel_hash: str, lowered: Lowered) -> Config:
    """The default that a call on a GPU runs (:mod:`.settled`), built where this process does not know it. Raises
    BuildError where Triton refuses the heuristic's."""
    from .build.compile import build
    from .settled import settled_default

    return settled_default(lowered, kernel_hash, lambda source: build(source, lowered.target).resources)


def fitting_server(kernel: Kernel, lowered: Lowered, device: torch.device) -> BuiltServer:
    """The default, or where its binary spills or the device turns out to have too little for it, a smaller config."""
    from .default import smaller_config

    on_gpu = device.type == "cuda"
    config = default_of_call(kernel.semantic_hash, lowered) if on_gpu else _runnable(lowered, lowered.default, device)
    for _ in range(_MOST_SHRINKS):
        try:
            return BuiltServer(config, kernel.launchers(lowered, config, device))
        except OutOfResources as error:
            smaller = smaller_config(config, lowered.space)
            if smaller is None:
                raise
            _log.warning("%s: %s; a smaller config runs instead", kernel.name, error)
            config = smaller
    return BuiltServer(config, kernel.launchers(lowered, config, device))
