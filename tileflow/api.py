"""``@tileflow.kernel``: the one module that knows every layer.

Production calls need only the runtime and the host/device split; the compiler is imported when a call must be lowered.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from .authors_inputs import arguments_for, at_small_sizes
from .config import Choice, Config
from .decorated import check_parts
from .errors import CallError, HostDataError, KernelError, SpecError, VariantError
from .frontend.meaning import code_hash, digest, may_multiply, serialise
from .frontend.parameters import positional
from .frontend.source import plain_function
from .frontend.split import HostFunction, split
from .installed import can_lower, need_lowering
from .interpreting import choices_of, interpreted_config, interpreting
from .locks import cached_property
from .named_objects import object_at
from .runtime import elsewhere
from .runtime.ambient import without_autocast
from .runtime.argtree import bind_call, bound_call, is_traced, replace, tensors
from .runtime.arguments import require
from .runtime.bounded import BoundedCache
from .runtime.call_cache import MISS, MOST_STATES, CallCache, Direct
from .runtime.describe import check_memory, describe, device_class, device_of
from .runtime.dispatch import Shapes, bind
from .runtime.environment import INTERPRET, switch, triton_interprets
from .runtime.handles import importable_name, register
from .runtime.launch import Launcher, launcher_for
from .runtime.overlap import shares_in_part
from .runtime.problem import Problem
from .runtime.recording import record_as_the_environment_says, recorders
from .runtime.registry import stores_into_arguments
from .runtime.serving import Attempt
from .runtime.to_meta import ToMeta
from .runtime.wide_ints import too_wide_argument
from .serve import Call, plan
from .target import ANY_TARGET, Target, target
from .tolerances import UNSAID, Tolerances
from .tuning import refuse_unknown_options, tune

if TYPE_CHECKING:
    from .emit.source import TritonSource
    from .language.torch_rules import TorchRules
    from .library import Operators
    from .lowered import Lowered
    from .operators import Rule

_log = logging.getLogger("tileflow")
_is_dynamo_compiling = torch.compiler.is_dynamo_compiling


def kernel(
    fn: Callable[..., Any] | None = None,
    *,
    inputs: Callable[..., tuple[Any, ...]] | None = None,
    reference: Callable[..., Any] | None = None,
    debug_sizes: Mapping[str, Any] | None = None,
    baseline: Callable[..., Any] | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    max_mismatch_ratio: float | None = None,
    small: Mapping[str, Any] | None = None,
    strays: float | None = None,
) -> Any:
    """Make a GPU kernel of a function whose outermost tile loops are launches.

    ``inputs(**problem, device=...)``: the arguments for a problem, which a sweep names by its keywords; it must work on
    the meta device. ``reference(*args)``: what the result must be, in plain torch; without one the eager meaning is it.
    ``baseline(*args)``: what checks of a search compare with instead, on copies of the arguments as they are; the
    reference is given copies in higher precision. ``debug_sizes``: what of a problem to replace when it is checked at
    small sizes; without it, large ints become small odd ones. ``atol``, ``rtol``, ``max_mismatch_ratio``: see
    :class:`tileflow.tolerances.Tolerances`; without any, the types and the measured rounding noise of a problem say
    what may differ. ``small`` and ``strays`` are former names, of ``debug_sizes`` and ``max_mismatch_ratio``.
    Raises SplitError where the function cannot be cut into host code and device regions.
    """
    for former, name, given in (("small", "debug_sizes", small), ("strays", "max_mismatch_ratio", strays)):
        if given is not None:
            warnings.warn(f"{former}= is called {name}= now", DeprecationWarning, stacklevel=2)
    tolerances = Tolerances(atol, rtol, strays if max_mismatch_ratio is None else max_mismatch_ratio)
    sizes = small if debug_sizes is None else debug_sizes
    if fn is None:
        return lambda function: Kernel(function, inputs, reference, sizes, tolerances, baseline)
    return Kernel(fn, inputs, reference, sizes, tolerances, baseline)


class Kernel:
    """A kernel: call it like the function that it was. See :func:`kernel`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        inputs: Callable[..., tuple[Any, ...]] | None = None,
        reference: Callable[..., Any] | None = None,
        debug_sizes: Mapping[str, Any] | None = None,
        tolerances: Tolerances = UNSAID,
        baseline: Callable[..., Any] | None = None,
    ) -> None:
        fn = plain_function(fn)
        check_parts(fn, {"inputs": inputs, "reference": reference, "baseline": baseline}, debug_sizes)
        self.scope: FunctionType = positional(fn)
        self.host: HostFunction = split(self.scope)
        self.name = f"{fn.__module__}:{fn.__qualname__}"
        self.__name__, self.__doc__, self.__wrapped__ = fn.__name__, fn.__doc__, fn
        self._inputs, self._reference, self._debug_sizes = inputs, reference, debug_sizes
        self.tolerances, self.baseline = tolerances, baseline
        self._meanings: BoundedCache[tuple[str, str]] = BoundedCache(MOST_STATES)  # by the number of what it reads
        self._multiplies: BoundedCache[int] = BoundedCache(MOST_STATES)
        self.cache = CallCache(self)
        self._handle = register(self)

    def __repr__(self) -> str:
        return f"<tileflow kernel {self.name}>"

    def alias(self, ref: str) -> Kernel:
        """The same kernel under another reference, ``module:qualname``: it has the same text and hash, and rows of its
        own."""
        made = Kernel(
            self.__wrapped__, self._inputs, self._reference, self._debug_sizes, self.tolerances, self.baseline
        )
        made.name = ref
        return made

    def __copy__(self) -> Kernel:
        return self  # as with functions: what holds one is copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return load_kernel, (importable_name(self, load_kernel),)

    def by_value(self) -> tuple[Callable[..., Kernel], tuple[Any, ...]]:
        """What makes the kernel again, of what arguments, in a process that cannot import it. ``inputs`` stays here."""
        return Kernel, (self.__wrapped__, None, self._reference, self._debug_sizes, self.tolerances, self.baseline)

    @property
    def semantic_hash(self) -> str:
        """What the kernel means: 64 hex digits that change when its code or a function that it uses does."""
        return self._meaning()[1]

    def _meaning(self) -> tuple[str, str]:
        """The kernel's text, as :func:`serialise` writes it, and its digest, while what it reads stays the same."""
        self.cache.refresh()
        return self._meanings.get_or_make(self.cache.number, self._read_meaning)

    def _read_meaning(self) -> tuple[str, str]:
        text = serialise(self.scope)
        return text, digest(text)

    @cached_property
    def identity(self) -> str:
        """What graphs know the kernel by, in every process: its code, and all that it reads besides arguments.

        No other process has that of a kernel that reads tensors or objects of its own.
        """
        from .frontend.identity import callable_identity

        return callable_identity(self.scope)

    @property
    def multiplies(self) -> bool:
        """Whether the kernel may hold a matrix product, which torch's setting for float32 operands decides about."""
        self.cache.refresh()
        return bool(self._multiplies.get_or_make(self.cache.number, self._may_multiply))

    def _may_multiply(self) -> int:
        try:
            return int(may_multiply(self._meaning()[0]))
        except KernelError:  # code that cannot be read is refused where it is lowered, which names the place
            return 1

    # ---- calling --------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel: by a loaded table's row, else by the default config. Never starts a search.

        Inside a function that torch.compile or torch.export traces, the call becomes an operator of the graph. Raises
        CallError where autograd would record the call: see :func:`tileflow.differentiable`.
        """
        if _is_dynamo_compiling():
            from .dynamo import trace_call

            return trace_call(self._handle, args, kwargs)
        if recorders:
            self.note_call(args, kwargs)
        cache = self.cache
        if elsewhere.contexts[0]:
            result = self._elsewhere(args, kwargs)
            if result is not MISS:
                return result
        try:
            for form in cache.named if kwargs else cache.plain:
                result = form.call(args, kwargs)
                if result is not MISS:
                    return result
        except VariantError as error:
            return cache.declined(error, args, kwargs)
        return cache.run(args, kwargs)

    def warm(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives that is served as one before it was; MISS for any other."""
        return MISS if recorders or elsewhere.contexts[0] else self.cache.by_form(args, kwargs)

    @property
    def interprets(self) -> bool:
        """Whether calls run as plain Python over tiles, or by Triton's interpreter, wherever their tensors are."""
        return interpreting() or bool(switch(INTERPRET)) or triton_interprets()

    def note_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let those that record count a call."""
        for recorder in tuple(recorders):
            recorder.called(self, args, kwargs)

    def _elsewhere(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives that is interpreted, or that host code without a GPU makes; MISS for one that is served."""
        if not elsewhere.really_on.get():
            return self._interpreted(args, kwargs) if interpreting() else MISS
        if self._device(args, kwargs).type == "meta":
            return self.host.run(Shapes(), *args, **kwargs)
        from .language.host_device import truthful

        with truthful():  # to what reads the tensors, as the cache does without a frame of Python's
            return self._interpreted(args, kwargs) if interpreting() else self.cache.call(args, kwargs)

    def _interpreted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        check_memory(self.name, bind_call(self.host.signature, self.name, args, kwargs))
        if any(map(is_traced, tensors((*args, *kwargs.values())))):
            return self._operators(*args, **kwargs)  # what the operator runs is interpreted, when it runs
        self.refuse_grad(tensors((*args, *kwargs.values())))
        if self._device(args, kwargs).type == "meta":  # there are no values to look at
            return as_called_on_any(partial(self.host.run, Shapes()))(*args, **kwargs)
        return self.run_eagerly(*args, config=interpreted_config.get(), **kwargs)

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Attempt | Direct]:
        """What may serve a call, in order: see :mod:`tileflow.serve`. Raises CallError where the call is refused."""
        check_memory(self.name, bind_call(self.host.signature, self.name, args, kwargs))
        if any(map(is_traced, tensors((*args, *kwargs.values())))):
            return iter((Direct(self._operators, _Uncounted()),))
        self.refuse_grad(tensors((*args, *kwargs.values())))
        device = self._device(args, kwargs)
        if switch(INTERPRET) and device.type != "meta":
            return iter((Direct(self.run_eagerly, _Uncounted()),))
        live = device_class(device) if device.type == "cuda" else None
        return plan(self, Call(args, kwargs, self.describe(*args, **kwargs), device, live))

    def _device(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
        """The device of a call. Raises CallError for none and for several, first for what no kernel takes: tensors may
        be in there, and not be found."""
        try:
            return device_of((*args, *kwargs.values()))
        except CallError:
            self.describe(*args, **kwargs)
            raise

    def changes_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether host code writes into its arguments, asked of a call on the meta device. True where none can be."""
        to_meta = ToMeta()
        example = [replace(a, to_meta) for a in self.positional_args(args, kwargs)]
        before = [a._version for a in tensors(example)]
        try:
            self.lower(example, target(ANY_TARGET))
        except HostDataError:
            return True
        return before != [a._version for a in tensors(example)]

    def serve(self, args: tuple[Any, ...], bound: partial[Any]) -> None:
        """Calls with positional arguments like these run ``bound`` (see :meth:`bind`) until tables are loaded or
        forgotten."""
        self.cache.remember(args, bound.args[0])

    @cached_property
    def _operators(self) -> Operators:
        """What torch.library knows of the kernel."""
        return operators_of(self)

    def refuse_grad(self, values: Iterable[Any]) -> None:
        """Raises CallError where autograd would record a call with these tensors."""
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values):
            raise CallError(
                "a kernel without a backward takes tensors that do not require grad",
                got=f"{self.name} with one that does",
                hint="pair it with a backward by tileflow.differentiable, or call it under torch.no_grad()",
            )

    def compile(self, lowered: Lowered, config: Config, device: torch.device | str) -> Callable[..., Any]:
        """Emit, build and bind one config now: for the GPU ``device``, or for the CPU under ``TRITON_INTERPRET=1``."""
        device = torch.device(device)
        call = self.bind(config, self.launchers(lowered, config, device))
        if device.type == "cuda":
            return call
        from .language.host_device import as_on

        return as_on(lowered.target, call)

    def launchers(self, lowered: Lowered, config: Config, device: torch.device) -> dict[int, list[Launcher]]:
        """What launches each region under one config, emitted and built now."""
        made: dict[int, list[Launcher]] = {}
        for source in lowered.emit(config):
            made.setdefault(source.region, []).append(self.launcher(source, lowered.target, device))
        return made

    def launcher(self, source: TritonSource, target: Target, device: torch.device) -> Launcher:
        """What launches a source, built now: for a GPU, or for the CPU under ``TRITON_INTERPRET=1``."""
        if device.type == "cuda":
            from .build.compile import build

            return launcher_for(build(source, target), device, self.scope)
        from .build.interpret import interpreter_launcher

        return interpreter_launcher(source, self.scope, target)

    def stand_in(self, *args: Any, **kwargs: Any) -> Any:
        """What a kernel computes, in plain torch: the author's reference where the kernel stores into no argument, else
        the kernel's own text over real tiles."""
        if (
            self._reference is not None
            and stores_into_arguments(self.name, self.semantic_hash, self.host.signature.parameters) is False
        ):
            return self._reference(*self.positional_args(args, kwargs))
        return self.run_eagerly(*args, **kwargs)

    def bind(self, config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> partial[Any]:
        """The host function over launchers of its regions, as a plain callable."""
        return bind(self.host.run, config, launchers)

    def run_eagerly(self, *args: Any, config: Mapping[str, Choice] | None = None, **kwargs: Any) -> Any:
        """The user's function as Python over torch tensors, with real tiles of the config's block sizes.

        Raises CallError for arguments that overlap as no launch takes them.
        """
        from .language import eager
        from .language.eager_builtins import replacing, with_builtins
        from .language.knob_names import KernelText

        regions = {region.loop.lineno: region.index for region in self.host.regions}
        lines = tuple(range(r.loop.lineno, (r.loop.end_lineno or r.loop.lineno) + 1) for r in self.host.regions)
        text = KernelText(self.scope.__code__.co_filename, regions, self.host.sites, lines)
        device = device_of((*args, *kwargs.values()))
        self._refuse_overlap(args, kwargs)
        # a generated kernel knows nothing of autocast
        try:
            session = eager.session(device, self.scope.__code__, text, _torch_rules(), config)
            with session, replacing.session(), without_autocast(device):
                return as_called_on_any(with_builtins(self.scope))(*args, **kwargs)
        except OverflowError as error:  # torch says neither the int nor whose it is
            values = bind_call(self.host.signature, self.name, args, kwargs)
            raise too_wide_argument(values, self.name) or error from None

    def _refuse_overlap(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises CallError where lowering does for arguments that share elements at other indices: tiles that run in
        turn give them a result, which programs that run in no order do not."""
        given = [*tensors((*args, *kwargs.values()))]
        if any(map(is_traced, given)) or not shares_in_part(given) or not can_lower():
            return
        to_meta = ToMeta()
        try:
            self.lower([replace(a, to_meta) for a in self.positional_args(args, kwargs)], target(ANY_TARGET))
        except KernelError:  # the text is run to look at it: one that has no compiled form yet has no launch either
            return

    @cached_property
    def backward(self) -> Kernel:
        """The derived backward pass: see :func:`tileflow.derive_backward`."""
        need_lowering("deriving a backward pass", self.name)
        made: Kernel = importlib.import_module("tileflow.derive.kernel").BackwardKernel(self)
        return made

    @cached_property
    def saving(self) -> Kernel:
        """The forward pass that also writes what its derived backward, ``saving.backward``, reads."""
        need_lowering("deriving a forward pass", self.name)
        made: Kernel = importlib.import_module("tileflow.derive.kernel").SavingKernel(self)
        return made

    def tracing(self) -> contextlib.AbstractContextManager[None]:
        """The context in which the kernel is traced; another dialect brings its own rules by it."""
        return contextlib.nullcontext()

    def kind(self, *args: Any) -> Kernel:
        """The kernel whose host code and regions a call has: this one. A derived backward has several."""
        return self

    # ---- describing -----------------------------------------------------------------------------

    def describe(self, *args: Any, **kwargs: Any) -> Problem:
        """The call's arguments as metadata: what a table is keyed by."""
        host = self.host
        return describe(self.name, host.signature, args, kwargs, code_hash, host.constants, self.multiplies)

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        """Arguments for a problem (the author's ``inputs``); names of dtypes become dtypes. Of a recorded call (see
        :mod:`tileflow.runtime.recorded`) arguments like its own."""
        return arguments_for(problem, self._inputs, self.name, self.host.signature, device, seed)

    def reference(self, *args: Any) -> Any:
        """What the kernel must return for ``args``: what its author's reference gives, else its own text as plain
        Python, over blocks as large as their values allow."""
        if self._reference is not None:
            return self._reference(*args)
        return self.run_eagerly(*args, config=self._eager_blocks(args))

    @property
    def has_reference(self) -> bool:
        """Whether its author wrote a reference or a baseline; else its own text as plain Python stands for one."""
        return self._reference is not None or self.baseline is not None

    def _eager_blocks(self, args: Sequence[Any]) -> dict[str, int] | None:
        """None without a compiler, and for a text that takes these arguments as Python alone, as one whose operations
        are for other dtypes."""
        if not can_lower():
            return None
        from .ir.eager_blocks import eager_blocks

        try:
            return eager_blocks(self.lower(args, target(ANY_TARGET)).regions)
        except KernelError:
            return None

    def small(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        """The problem at small odd sizes, for the interpreter; a recorded call itself, of which there are none."""
        return at_small_sizes(problem, self._debug_sizes)

    # ---- compiling ------------------------------------------------------------------------------

    def lower(self, args: Sequence[Any], target: Target, mode: str = "static") -> Lowered:
        """Trace a call: nothing is launched, and no GPU is needed. ``mode``: ``static`` or ``dynamic`` shapes, or
        another one of :mod:`tileflow.ir.modes`, in which variants for any call are made.

        Raises KernelError with the place in the user's source, CallError without a compiler.
        """
        need_lowering("lowering a kernel", self.name)
        from .ir.modes import SHAPE_MODES
        from .lowered import Lowered

        if mode not in SHAPE_MODES:
            raise SpecError("a shape mode is static or dynamic", got=repr(mode), hint=f"or {', '.join(SHAPE_MODES)}")
        problem = self.describe(*args)
        try:
            to_meta = ToMeta()
            return Lowered(self.host, tuple(replace(a, to_meta) for a in args), problem, target, mode)
        except HostDataError:
            if all(tensor.device.type == "meta" for tensor in tensors(args)):
                raise
            return Lowered(self.host, tuple(args), problem, target, mode)

    def lower_launch(
        self, region: int, frame: Mapping[str, Any], given: tuple[Any, ...], problem: Problem, target: Target, mode: str
    ) -> Lowered:
        """Trace one launch of a running call. It captures ``frame``, the locals of host code, and ``given``, the
        arguments of ``tile``. ``problem``: of a call with the same key. Raises as :meth:`lower`."""
        need_lowering("lowering a kernel", self.name)
        from .lowered import Launch, Lowered

        to_meta = ToMeta()
        held = {name: replace(value, to_meta) for name, value in frame.items()}
        return Lowered(self.host, (), problem, target, mode, launch=Launch(region, held, given))

    def portable(self, *args: Any, target: Target, config: Config | None = None) -> tuple[TritonSource, ...]:
        """The sources that together serve every call like this one, whatever its sizes, strides and alignment, in the
        order in which their guards are to be tried: see :mod:`tileflow.portable`, which also says under which config
        host code runs beside them. Raises KernelError, ConfigError.
        """
        lowered = self.lower(args, target, "dynamic")
        from .portable import portable_sources

        return portable_sources(lowered, config)

    def explain(self, *args: Any, target_name: str = "nvidia-h200") -> str:
        """What bounds a call, its knobs, its ops under the author's lines, and what its variant assumes."""
        lowered = self.lower(args, target(target_name))
        from .explain import explain

        return explain(lowered)

    def triton_source(
        self, *args: Any, config: Mapping[str, Choice] | Config | None = None, target_name: str = "nvidia-h200"
    ) -> tuple[TritonSource, ...]:
        """The generated source of each region of a call; ``.lines`` has the user's line of each of its lines. Knobs
        that ``config`` does not name are at their defaults."""
        lowered = self.lower(args, target(target_name))
        return lowered.emit(_chosen(lowered, config))

    def repro(
        self, *args: Any, config: Mapping[str, Choice] | Config | None = None, target_name: str = "nvidia-h200"
    ) -> str:
        """A standalone Python script of a call: the generated text, random tensors of the call's shapes, the launches.

        It needs torch and Triton only, and runs on a GPU, or under ``TRITON_INTERPRET=1``. Raises as :meth:`lower`.
        """
        lowered = self.lower(args, target(target_name))
        from .repro import script

        return script(lowered, _chosen(lowered, config), self.scope)

    def tune(self, *args: Any, **options: Any) -> Any:
        """Search for the best config of this call on this machine's GPUs, keep its row and load it.

        ``args``, and those of ``options`` that the kernel has parameters for, are the call's, whose tensors stay as
        they are. All other options are those of :func:`tune`. Returns the row, None where no config works.
        """
        given = {name: value for name, value in options.items() if name in self.host.signature.parameters}
        rest = {name: value for name, value in options.items() if name not in given}
        refuse_unknown_options(rest, f"{self.name}.tune", self.host.signature.parameters)
        (row,) = tune([(self, args, given)], **rest)
        return row

    def positional_args(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """A call's arguments by position, defaults filled in. Raises CallError where the kernel does not take them."""
        return bound_call(self.host.signature, self.name, args, kwargs).args


def as_called_on_any(host_code: Callable[..., Any]) -> Callable[..., Any]:
    """Host code that is told, where its tensors are on no GPU, of the one that is compiled for there."""
    from .language.host_device import as_on

    return as_on(target(ANY_TARGET), host_code)


def operators_of(kernel: Kernel, rule: Rule | None = None) -> Operators:
    """The kernel as operators of torch.library, differentiated by ``rule``. Raises CallError without a compiler: what
    an operator returns for fake tensors is found by lowering the call."""
    need_lowering(
        "torch.compile and torch.export of a kernel's calls", kernel.name, "or call it outside: torch.compiler.disable"
    )
    from .library import Operators

    return Operators(kernel, rule)


class _Uncounted:
    """Counts calls that are no launches: traced and interpreted ones."""

    calls = 0


def load_kernel(ref: str) -> Kernel:
    """The kernel at ``module:qualname``, and behind it ``.backward`` for its derived gradients, ``.backward(x+y)`` for
    those of the arguments ``x`` and ``y``. Raises SpecError that names what is missing."""
    require(ref, str, "a kernel's name", "module:qualname, examples.softmax:softmax, say")
    module_name, _, whole = ref.partition(":")
    qualname, _, wanted = whole.removesuffix(")").partition("(")
    if not module_name or not qualname or module_name.startswith(".") or not module_name.isprintable():
        raise SpecError("a kernel is named module:qualname", got=repr(ref), hint="examples.softmax:softmax, say")
    if module_name == "__main__":
        raise SpecError(
            "a kernel lives in a module that other processes can import",
            got=ref,
            hint="move it out of the script into a module beside it",
        )
    found = object_at(module_name, qualname, ref)
    found = getattr(found, "__tileflow_kernel__", found)  # a kernel of another dialect carries its own
    if not isinstance(found, Kernel):
        raise SpecError("the name must be that of a @tileflow.kernel function", got=type(found).__name__, where=ref)
    if not wanted:
        return found
    if not hasattr(found, "of"):
        raise SpecError("arguments are named behind .backward", got=ref, hint=f"{found.name}.backward({wanted})")
    chosen: Kernel = found.of(*wanted.split("+"))
    return chosen


def _chosen(lowered: Lowered, config: Mapping[str, Choice] | Config | None) -> Config:
    if config is None:
        return lowered.default
    choices = choices_of(config)
    return config if isinstance(config, Config) else lowered.space.normalise(lowered.space.complete(choices))


record_as_the_environment_says()


def _torch_rules() -> TorchRules:
    """What plain Python refuses of torch's functions."""
    if can_lower():
        from .frontend import plain_python

        return plain_python
    from .language.torch_rules import WithoutCompiler

    return WithoutCompiler()
