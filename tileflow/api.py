"""``@tileflow.kernel``: the one module that knows every layer.

Production calls need only the runtime and the host/device split; the compiler is imported when a call must be lowered.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from .config import Choice, Config
from .errors import CallError, KernelError, LaunchError, OutOfResources, SpecError, VariantError
from .frontend.parameters import positional
from .frontend.source import code_hash, digest, may_multiply, serialise
from .frontend.split import HostFunction, split
from .runtime.describe import describe, device_class, is_traced, tensors
from .runtime.dispatch import KeyedRegion, bind, keyed
from .runtime.handles import enroll
from .runtime.keys import FastKeys, call_key, fast_keys
from .runtime.launch import Launcher, launcher_for
from .runtime.problem import Problem
from .runtime.registry import Hit, generation, lookup, reject
from .target import Target, target

if TYPE_CHECKING:
    from .emit.source import TritonSource
    from .library import Operators
    from .lowered import Lowered

_log = logging.getLogger("tileflow")
_is_dynamo_compiling = torch.compiler.is_dynamo_compiling
_interpreting: list[Mapping[str, Choice]] = []


def kernel(
    fn: Callable[..., Any] | None = None,
    *,
    inputs: Callable[..., tuple[Any, ...]] | None = None,
    reference: Callable[..., Any] | None = None,
    small: Mapping[str, Any] | None = None,
    strays: float = 0.0,
) -> Any:
    """Make a GPU kernel of a function whose outermost tile loops are launches.

    ``inputs(**problem, device=...)``: the arguments for a problem, which a sweep names by its keywords; it must work on
    the meta device. ``reference(*args)``: what the result must be, in plain torch; without one the eager meaning is it.
    ``small``: what of a problem to replace when it is checked at small sizes; without it, large ints become small odd
    ones. ``strays``: the share of a result's elements, 0 to 1, that may differ from the reference's, where a kernel
    decides by what it computed. Raises SplitError where the function cannot be cut into host code and device regions.
    """
    if fn is None:
        return lambda function: Kernel(function, inputs, reference, small, strays)
    return Kernel(fn, inputs, reference, small, strays)


class Kernel:
    """A kernel: call it like the function that it was. See :func:`kernel`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        inputs: Callable[..., tuple[Any, ...]] | None = None,
        reference: Callable[..., Any] | None = None,
        small: Mapping[str, Any] | None = None,
        strays: float = 0.0,
    ) -> None:
        assert isinstance(fn, FunctionType)
        self.scope: FunctionType = positional(fn)
        self.host: HostFunction = split(self.scope)
        self.name = f"{fn.__module__}:{fn.__qualname__}"
        self.__name__, self.__doc__, self.__wrapped__ = fn.__name__, fn.__doc__, fn
        self._inputs, self._reference, self._small, self.strays = inputs, reference, small, strays
        self._bound: dict[Any, Callable[..., Any]] = {}
        self._fast: FastKeys | None = None
        self._find: Callable[[tuple[Any, ...]], Any] = _nothing
        self._generation = generation[0]
        names = enumerate(self.host.signature.parameters)
        # the arguments whose values tell calls apart, by their positions
        self.by_value = {i: name for i, name in names if name in self.host.constants}
        self._handle = enroll(self, self.name)

    def __repr__(self) -> str:
        return f"<tileflow kernel {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return load_kernel, (self.name,)

    @cached_property
    def semantic_hash(self) -> str:
        """What the kernel means: 64 hex digits that change when its code or a function that it uses does."""
        return digest(self._serialised)

    @cached_property
    def _serialised(self) -> str:
        return serialise(self.scope)

    @cached_property
    def _multiplies(self) -> bool:
        try:
            return may_multiply(self._serialised)
        except KernelError:  # code that cannot be read is refused where it is lowered, which names the place
            return True

    # ---- calling --------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel: by a loaded table's row, else by the zero-search default. Never starts a search.

        Inside a function that torch.compile or torch.export traces, the call becomes an operator of the graph. Raises
        CallError where autograd would record the call: see :func:`tileflow.differentiable`.
        """
        if _is_dynamo_compiling():
            from .dynamo import in_graph, pack

            return in_graph(self._handle, *[pack(a) for a in args], **{n: pack(a) for n, a in kwargs.items()})
        if not kwargs and self._generation == generation[0] and not _interpreting:
            bound = self._find(args)
            if bound is not None:
                try:
                    return bound(*args)
                except VariantError as error:
                    self.tell_by_value(error, args, kwargs)
        return self._any_call(args, kwargs)

    def _any_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of any kind, warm or not."""
        if _interpreting:
            return self._first_call(None, args, kwargs)
        if self._generation != generation[0]:
            self._forget()
            self._generation = generation[0]
        key = self._full_key(args, kwargs)
        try:
            bound = self._bound.get(key)
        except TypeError as error:
            raise CallError("a constexpr argument is a number, a string or a tuple of them", got=str(error),
                            hint="pass tuple(...) in place of a list") from error  # fmt: skip
        if bound is None:
            return self._first_call(key, args, kwargs)
        try:
            return bound(*args, **kwargs)
        except VariantError as error:
            self.tell_by_value(error, args, kwargs)
        return self._any_call(args, kwargs)

    def tell_by_value(self, error: VariantError, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """From now on the values of the int arguments tell calls apart, for they select code: the call can be made
        again. Raises ``error`` where they do already, or where host code would have done something twice.
        """
        given = self.host.signature.bind(*args, **kwargs).arguments
        ints = {i: n for i, n in enumerate(self.host.signature.parameters) if type(given.get(n)) is int}
        if error.region or ints.keys() <= self.by_value.keys():
            raise error
        example = self.lower(self._positional(tuple(args), dict(kwargs)), target(_ANY_TARGET)).args
        if any(a._version for a in tensors(example)):  # host code writes into its arguments
            raise error
        self.by_value |= ints
        self._forget()

    def _forget(self) -> None:
        """No call is warm any more."""
        self._bound.clear()
        self._fast, self._find = None, _nothing

    def _full_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        constants = [args[i] if i < len(args) else kwargs.get(name) for i, name in self.by_value.items()]
        return call_key(args, kwargs), *constants

    def _first_call(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Resolve, run, remember. A row that runs out of resources is rejected and the next one tried."""
        # the key tells these calls from others, and they are not remembered
        if any(map(is_traced, tensors((*args, *kwargs.values())))):
            return self._operators(*args, **kwargs)
        self.refuse_grad(tensors((*args, *kwargs.values())))
        if _interpreting:
            return self.run_eagerly(*args, config=_interpreting[-1], **kwargs)
        if os.environ.get("TILEFLOW_INTERPRET", "0") not in ("", "0"):
            return self.run_eagerly(*args, **kwargs)
        problem = self.describe(*args, **kwargs)
        device = _device_of(args, kwargs)
        live = device_class(device) if device.type == "cuda" else None
        while True:
            hit = lookup(self.name, self.semantic_hash, problem, live)
            try:
                bound = self._resolve(hit, args, kwargs, device, live)
                result = bound(*args, **kwargs)
            except OutOfResources as error:
                if hit is None:
                    raise
                reject(hit, self.name, problem, str(error))
                continue
            except LaunchError:
                if hit is None or hit.binaries() is None:
                    raise
                # none of the bundle's variants accepts this call: compile the row's config for it
                _log.warning("%s: no binary of the bundle serves %s; compiling", self.name, problem.key)
                bound = self._compiled(hit, args, kwargs, device, live)
                result = bound(*args, **kwargs)
            self._bound[key] = bound = self._keyed(bound)
            if not kwargs:
                self._quicken(args, bound)
            return result

    def serve(self, args: tuple[Any, ...], bound: partial[Any]) -> None:
        """Calls with positional arguments like these run ``bound`` (see :meth:`bind`) until tables are loaded or
        forgotten."""
        self._bound[self._full_key(args, {})] = again = self._keyed(bound)
        self._quicken(args, again)

    def _keyed(self, bound: partial[Any]) -> partial[Any]:
        """What calls with the key of one run after it."""
        if self.host.flat is None:
            return bound
        return keyed(self.host.flat, bound, [KeyedRegion(r.locals, r.settled) for r in self.host.regions])

    def _quicken(self, args: tuple[Any, ...], bound: partial[Any]) -> None:
        """Give a call its fast key, which those have that are of the kinds that came first."""
        if self._fast is None:
            self._fast = fast_keys(args, self.by_value, self._multiplies)
        if self._fast is not None:
            self._fast.remember(args, bound)
            self._find = self._fast.find

    @cached_property
    def _operators(self) -> Operators:
        """What torch.library knows of the kernel."""
        from .library import Operators

        return Operators(self)

    def refuse_grad(self, values: Iterable[Any]) -> None:
        """Raises CallError where autograd would record a call with these tensors."""
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values):
            raise CallError(
                "a kernel without a backward takes tensors that do not require grad",
                got=f"{self.name} with one that does",
                hint="pair it with a backward by tileflow.differentiable, or call it under torch.no_grad()",
            )

    def _resolve(
        self, hit: Hit | None, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device, live: str | None
    ) -> partial[Any]:
        """The host function with launchers: from the row's binaries, or compiled now."""
        binaries = hit.binaries() if hit is not None and live is not None else None
        if hit is not None and binaries is not None:
            ready = {r: [launcher_for(b, device, self.scope) for b in bs] for r, bs in binaries.items()}
            return self.bind(hit.config, ready)
        return self._compiled(hit, args, kwargs, device, live)

    def _compiled(
        self, hit: Hit | None, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device, live: str | None
    ) -> partial[Any]:
        """The call compiled now: by the row's config, fitted to this call's own space, or by the default where there is
        no row, or one of another problem that serves such calls worse."""
        lowered = self.lower(self._positional(args, kwargs), target(live or (hit and hit.device) or _ANY_TARGET))
        if hit is None or hit.default_is_better:
            _log.warning(
                "%s has no tuned row for %s: the zero-search default runs; kernel.tune(...) finds a better one.",
                self.name,
                lowered.problem.key,
            )
            return self._fitting(lowered, device)
        return self.compile(lowered, lowered.space.adapt(hit.config.to_dict()), device)

    def _fitting(self, lowered: Lowered, device: torch.device) -> partial[Any]:
        """The default, or where the device turns out to have too little for it, a smaller config."""
        from .default import smaller_config

        config = lowered.default
        for _ in range(_MOST_SHRINKS):
            try:
                return self.compile(lowered, config, device)
            except OutOfResources as error:
                smaller = smaller_config(config, lowered.space)
                if smaller is None:
                    raise
                _log.warning("%s: %s; a smaller config runs instead", self.name, error)
                config = smaller
        return self.compile(lowered, config, device)

    def compile(self, lowered: Lowered, config: Config, device: torch.device | str) -> partial[Any]:
        """Emit, build and bind one config now: for the GPU ``device``, or for the CPU under ``TRITON_INTERPRET=1``."""
        device = torch.device(device)
        launchers: dict[int, list[Launcher]] = {}
        if device.type == "cuda":
            from .build.compile import build

            for source in lowered.emit(config):
                launcher = launcher_for(build(source, lowered.target), device, self.scope)
                launchers.setdefault(source.region, []).append(launcher)
        else:
            from .build.interpret import interpreter_launcher

            for source in lowered.emit(config):
                launcher = interpreter_launcher(source, self.scope, lowered.target)
                launchers.setdefault(source.region, []).append(launcher)
        return self.bind(config, launchers)

    def bind(self, config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> partial[Any]:
        """The host function over launchers of its regions, as a plain callable."""
        return bind(self.host.run, config, launchers)

    def run_eagerly(self, *args: Any, config: Mapping[str, Choice] | None = None, **kwargs: Any) -> Any:
        """The user's function as Python over torch tensors, with real tiles of the config's block sizes."""
        from .language import eager
        from .language.knob_names import KernelText

        regions = {region.loop.lineno: region.index for region in self.host.regions}
        text = KernelText(self.scope.__code__.co_filename, regions, self.host.sites)
        device = _device_of(args, kwargs)
        # a generated kernel knows nothing of autocast
        with eager.session(device, self.scope.__code__, text, config), torch.autocast(device.type, enabled=False):
            return self.scope(*args, **kwargs)

    # ---- describing -----------------------------------------------------------------------------

    def describe(self, *args: Any, **kwargs: Any) -> Problem:
        """The call's arguments as metadata: what a table is keyed by."""
        host = self.host
        return describe(self.name, host.signature, args, kwargs, code_hash, host.constants, self._multiplies)

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        """Arguments for a problem (the author's ``inputs``); names of dtypes become dtypes."""
        if self._inputs is None:
            raise SpecError(
                "a kernel that is tuned by name says how to make its arguments",
                got=self.name,
                hint="@tileflow.kernel(inputs=...), a function of the problem's sizes and device",
            )
        values = {k: getattr(torch, v) if _names_dtype(v) else v for k, v in problem.items()}
        with torch.random.fork_rng(devices=[torch.device(device)] if device.startswith("cuda") else []):
            torch.manual_seed(seed)
            return tuple(self._inputs(**values, device=device))

    def reference(self, *args: Any) -> Any:
        """What the kernel must return for ``args``."""
        return self._reference(*args) if self._reference is not None else self.run_eagerly(*args)

    def small(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        """The problem at small odd sizes, for the interpreter."""
        if self._small is not None:
            return {**problem, **self._small}
        odd = iter((33, 49, 71, 19, 37, 23, 29, 31))
        return {k: next(odd) if type(v) is int and v > 64 else v for k, v in problem.items()}

    # ---- compiling ------------------------------------------------------------------------------

    def lower(self, args: Sequence[Any], target: Target, mode: str = "static") -> Lowered:
        """Trace a call: nothing is launched, and no GPU is needed. ``mode``: ``static`` or ``dynamic`` shapes, or
        another one of :mod:`tileflow.ir.modes`, in which variants for any call are made.

        Raises KernelError with the place in the user's source.
        """
        from .errors import HostDataError
        from .ir.modes import SHAPE_MODES
        from .lowered import Lowered

        if mode not in SHAPE_MODES:
            raise SpecError("a shape mode is static or dynamic", got=repr(mode), hint=f"or {', '.join(SHAPE_MODES)}")
        problem = self.describe(*args)
        try:
            return Lowered(self.host, tuple(_to_meta(a) for a in args), problem, target, mode)
        except HostDataError:
            if not any(isinstance(a, torch.Tensor) and a.device.type != "meta" for a in args):
                raise
            return Lowered(self.host, tuple(args), problem, target, mode)

    def portable(self, *args: Any, target: Target, config: Config | None = None) -> tuple[TritonSource, ...]:
        """The sources that together serve every call like this one, whatever its sizes, strides and alignment, in the
        order in which their guards are to be tried: see :mod:`tileflow.portable`, which also says under which config
        host code runs beside them. Raises KernelError, ConfigError.
        """
        from .portable import portable_sources

        return portable_sources(self.lower(args, target, "dynamic"), config)

    def explain(self, *args: Any, target_name: str = "nvidia-h200") -> str:
        """The IR, the knobs, the traffic and the roofline time of a call."""
        return self.lower(args, target(target_name)).explain()

    def triton_source(
        self, *args: Any, config: Config | None = None, target_name: str = "nvidia-h200"
    ) -> tuple[TritonSource, ...]:
        """The generated source of each region of a call; ``.lines`` has the user's line of each of its lines."""
        lowered = self.lower(args, target(target_name))
        return lowered.emit(config or lowered.default)

    def repro(self, *args: Any, config: Config | None = None, target_name: str = "nvidia-h200") -> str:
        """A standalone Python script of a call: the generated text, random tensors of the call's shapes, the launches.

        It needs torch and Triton only, and runs on a GPU, or under ``TRITON_INTERPRET=1``. Raises as :meth:`lower`.
        """
        from .repro import script

        lowered = self.lower(args, target(target_name))
        return script(lowered, config or lowered.default, self.scope)

    def tune(self, *args: Any, budget_s: float = 60.0, **options: Any) -> Any:
        """Search for the best config of this call on this machine's GPU, load its row, and return it.

        The search is in the ``tune`` extra (``pip install tileflow[tune]``), which this package does not import.
        """
        try:
            search = importlib.import_module("tileflow_experiments.tune")
        except ModuleNotFoundError as error:
            raise SpecError(
                "tuning needs the tune extra", got=str(error), hint="pip install 'tileflow[tune]'"
            ) from error
        return search.tune_call(self, args, budget_s=budget_s, **options)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        bound = self.host.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args


_ANY_TARGET = "nvidia-h200"
_MOST_SHRINKS = 8  # of a default that the device has too little for


def _nothing(args: tuple[Any, ...]) -> Any:
    """Finds what serves a call as long as no call has a fast key."""


def load_kernel(ref: str) -> Kernel:
    """The kernel at ``module:qualname``. Raises SpecError that names what is missing."""
    module_name, _, qualname = ref.partition(":")
    if not module_name or not qualname:
        raise SpecError("a kernel is named module:qualname", got=repr(ref))
    if module_name == "__main__":
        raise SpecError("a kernel lives in a module that other processes can import", got=ref,
                        hint="move it out of the script into a module beside it")  # fmt: skip
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise SpecError("the kernel's module must import", got=f"{type(error).__name__}: {error}", where=ref,
                        hint="run from the folder that it is in, or set PYTHONPATH") from error  # fmt: skip
    for part in qualname.split("."):
        if not hasattr(found, part):
            raise SpecError("the kernel must exist in its module", got=repr(part), where=ref)
        found = getattr(found, part)
    found = getattr(found, "__tileflow_kernel__", found)  # a kernel of another dialect carries its own
    if not isinstance(found, Kernel):
        raise SpecError("the name must be that of a @tileflow.kernel function", got=type(found).__name__, where=ref)
    return found


@contextlib.contextmanager
def interpret(config: Mapping[str, Choice] | None = None) -> Iterator[None]:
    """Inside, kernels run as plain Python over real tiles, with ``config``'s block sizes where it names them."""
    _interpreting.append(config or {})
    try:
        yield
    finally:
        _interpreting.pop()


def interpreting() -> bool:
    """Whether the calls stand inside :func:`interpret`."""
    return bool(_interpreting)


def _device_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device:
    """The device of the call's tensors, of a call without any the one that it names. Raises CallError for several."""
    values = (*args, *kwargs.values())
    devices = {v.device for v in tensors(values)} or {v for v in values if isinstance(v, torch.device)}
    if len(devices) != 1:
        raise CallError("a kernel's tensors are on one device", got=", ".join(map(str, devices)) or "no tensor",
                        hint="pass at least one tensor, and move all to one device: x.to(device)")  # fmt: skip
    (device,) = devices
    return device


def _to_meta(value: Any) -> Any:
    """A tensor without its data, aligned or not as it was; other values as they are."""
    if isinstance(value, torch.Tensor) and value.device.type != "meta":
        if value.data_ptr() % 16:
            return value
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device="meta", requires_grad=value.requires_grad
        )
    return value


def _names_dtype(value: Any) -> bool:
    return isinstance(value, str) and isinstance(getattr(torch, value, None), torch.dtype)
