"""``@helion.kernel`` over :class:`tileflow.api.Kernel`: explicit configs, settings, ``bind``."""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from ... import api
from ...build import compat
from ...errors import CallError, ConfigError, MissingAttribute, UnsupportedOp, VariantError
from ...interpreting import interpreting
from ...runtime.argtree import tensors
from ...runtime.bounded import BoundedCache
from ...runtime.call_cache import MOST_KEYS
from ...runtime.describe import device_class, device_of
from ...runtime.keys import call_key
from ...runtime.recording import recorders
from ...runtime.serving import Declined
from ...runtime.table_lookup import hits
from ...serve import changed_ints
from ...target import ANY_TARGET, Target, target
from ...tuning import tune
from . import notes
from .autotuner import FiniteSearch, Search
from .config import Config
from .settings import Settings, of_the_dialect
from .wording import errors_in_the_dialect

if TYPE_CHECKING:
    from ... import config as native
    from ...lowered import Lowered
    from ...runtime.launch import Launcher
    from ...runtime.problem import Problem

MOST_RUNS = 8  # of one kind of call, as what it reads besides its arguments changes


@dataclass(frozen=True, slots=True)
class OutputCodeOptions:
    """What else ``to_code`` prints there. Here the generated text stands alone in any case."""

    allow_helion_deps: bool = True
    jax_fn: bool = False


class Traced(api.Kernel):
    """The kernel underneath: lowered and emitted as the settings say. ``mode`` of a lowering is theirs."""

    def __init__(self, fn: Callable[..., Any], settings: Settings) -> None:
        with errors_in_the_dialect():
            super().__init__(fn, tolerances=settings.tolerances, baseline=settings.autotune_baseline_fn)
        self.settings = settings

    def tracing(self) -> AbstractContextManager[None]:
        """The dialect's rules, as the settings have them, for the time of a trace."""
        return self.settings.tracing()

    def by_value(self) -> tuple[Callable[..., api.Kernel], tuple[Any, ...]]:
        """What makes the kernel again in a process that cannot import it: the function and the settings."""
        return Traced, (self.__wrapped__, self.settings)

    def lower(self, args: Sequence[Any], target: Target, mode: str = "") -> Lowered:
        """The kernel lowered by the dialect's rules, in the settings' mode unless one is given. Where the dialect means
        something else than tileflow does, the user is told."""
        from .semantics import flag_differences

        with self.settings.tracing():
            lowered = super().lower(args, target, mode or self.settings.mode)
        flag_differences(lowered)
        return lowered

    def lower_launch(
        self, region: int, frame: Mapping[str, Any], given: tuple[Any, ...], problem: Problem, target: Target, mode: str
    ) -> Lowered:
        """One launch lowered by the dialect's rules."""
        with self.settings.tracing():
            return super().lower_launch(region, frame, given, problem, target, mode)

    def launchers(self, lowered: Lowered, config: native.Config, device: torch.device) -> dict[int, list[Launcher]]:
        """The launchers of a config by region, emitted by the dialect's rules."""
        with self.settings.tracing():
            return super().launchers(lowered, config, device)

    def describe(self, *args: Any, **kwargs: Any) -> Problem:
        """The problem of a call, described by the dialect's rules."""
        with self.settings.tracing():
            return super().describe(*args, **kwargs)

    def run_eagerly(self, *args: Any, **kwargs: Any) -> Any:
        """The call as Python over real tiles, by the dialect's rules."""
        with of_the_dialect():
            return super().run_eagerly(*args, **kwargs)


class Kernel:
    """What ``helion.kernel`` returns.

    A call runs by the config that the decorator names, else by a loaded table's row, else by the default config;
    on CPU tensors as plain Python, unless Triton's interpreter is on. ``fn`` is the user's function; tileflow's own
    kernel, for sweeps, is ``__tileflow_kernel__``.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        configs: Sequence[Config] = (),
        settings: Settings | None = None,
        key: Callable[..., Any] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.configs = list(configs)
        self.fn = fn
        self.key = key
        self.__tileflow_kernel__ = Traced(fn, self.settings)
        self.signature = self.__tileflow_kernel__.host.signature
        self.name = fn.__name__
        self._runs: BoundedCache[tuple[Callable[..., Any], ...]] = BoundedCache(MOST_KEYS)
        self._forgotten = 0
        functools.update_wrapper(self, fn)
        self.__code__, self.__globals__ = fn.__code__, fn.__globals__  # torch.library reads these of a function
        self.__defaults__, self.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__

    def __copy__(self) -> Kernel:
        return self  # as with functions: what holds one is copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        """Return the kernel itself: a copied module holds the same one, as with functions."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """A kernel is pickled by its name. Raises SpecError where other processes cannot import it."""
        _, (name,) = self.__tileflow_kernel__.__reduce__()
        return _named, (name,)

    def by_value(self) -> tuple[Callable[..., Kernel], tuple[Any, ...]]:
        """What makes the kernel again, of what arguments, in a process that cannot import it."""
        return Kernel, (self.fn, self.configs, self.settings, self.key)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel under the config of this kind of call; what it reads may make the call begin once again."""
        if torch.compiler.is_dynamo_compiling() or interpreting():
            return self.__tileflow_kernel__(*args, **kwargs)
        if recorders:
            self.__tileflow_kernel__.note_call(args, kwargs)
        return self._served(args, kwargs)

    def _served(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call by what was made for one like it, which may decline what a global or host code holds now; else by what
        is made for this one."""
        cache, key = self.__tileflow_kernel__.cache, self._key(args, kwargs)
        known = self._runs.get(key) or ()
        for run in known:
            try:
                return run(*args, **kwargs)
            except VariantError as error:
                if cache.begin_again(error, args, kwargs):
                    return self._served(args, kwargs)  # by the key that has its ints
                self._note_numbers(error)
        cache.watch(args, kwargs)
        run = self._prepare(self.normalize_args(*args, **kwargs))
        self._runs.replace(key, (run, *known)[:MOST_RUNS])
        try:
            return run(*args, **kwargs)
        except VariantError as error:
            if not cache.begin_again(error, args, kwargs):
                raise
        return self._served(args, kwargs)

    def _note_numbers(self, error: VariantError) -> None:
        """An int from outside that changed is a run-time value from then on: each further one would be compiled for."""
        if not error.tried:
            return
        frame, begins, ends, variants = error.tried
        declined = Declined(error.region, frame, begins, ends, (), variants)
        changed = set(changed_ints(self.__tileflow_kernel__, declined))
        passed = self.signature.parameters
        self.__tileflow_kernel__.host.varying.update(p for p in changed if p.partition(".")[0] not in passed)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        """What tells calls apart, of what the kernel reads now besides its arguments."""
        cache = self.__tileflow_kernel__.cache
        cache.refresh()
        if self._forgotten != cache.forgotten:  # with it went what passed functions are watched for
            self._forgotten = cache.forgotten
            self._runs.clear()
        return cache.number, cache.key(args, kwargs)

    def _prepare(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        return self.bind(args).runner(self.__tileflow_kernel__)

    def normalize_args(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The positional arguments of a call, defaults filled in. Raises CallError where the kernel does not take
        them."""
        return self.__tileflow_kernel__.positional_args(args, kwargs)

    def bind(self, args: Sequence[Any]) -> BoundKernel:
        """The kernel for arguments like these. Raises CallError where they are no tuple or list, as one tensor."""
        if not isinstance(args, (tuple, list)):
            raise CallError(
                "a kernel is bound to a tuple of its arguments",
                got=f"a {type(args).__name__}",
                where=self.__tileflow_kernel__.name,
                hint=f"{self.name}.bind((x,))",
            )
        return BoundKernel(self, self.normalize_args(*args))

    def autotune(self, args: Sequence[Any], *, force: bool = True, **options: Any) -> Config:
        """Find the best config for these arguments and use it for all further calls. See
        :meth:`BoundKernel.autotune`."""
        if self.configs and not force:
            return self.configs[0]
        best = self.bind(args).autotune(args, **options)
        self.configs = [best]
        self._runs.clear()
        return best

    def reset(self) -> None:
        """Forget what was compiled."""
        self._runs.clear()

    def specialization_key(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Calls of equal keys run what was compiled for one of them."""
        key = () if self.key is None else (self.key(*args),)
        return call_key(tuple(args), {}), *key

    def kernel_source(self) -> str:
        """The text of the function, decorators too."""
        return inspect.getsource(self.fn)

    def __getattr__(self, name: str) -> Any:
        raise _absent("a kernel", name, OF_KERNELS)

    def __repr__(self) -> str:
        return f"<helion kernel {self.__tileflow_kernel__.name}>"


class BoundKernel:
    """A kernel with example arguments: tensors of other shapes need another one."""

    def __init__(self, kernel: Kernel, args: tuple[Any, ...]) -> None:
        self.kernel = kernel
        self.settings = kernel.settings
        self.device = device_of(args)
        self._args = args
        self._traced = kernel.__tileflow_kernel__
        self._made: dict[str, Any] = {}  # of what the kernel reads besides its arguments, which has this number
        self._number = -1
        self._config = kernel.configs[0] if kernel.configs else self._picked()
        if len(kernel.configs) > 1:
            notes.once(
                f"{kernel.name} with {len(kernel.configs)} configs", "the first one runs; autotune(args) times them"
            )

    def _picked(self) -> Config | None:
        """What the author's own ``autotuner_fn`` picks for these arguments. One that searches is not asked: a call
        never starts a search."""
        make = self.settings.autotuner_fn
        picker = None if make is None else make(self, self._args)
        return None if picker is None or isinstance(picker, Search) else _config(picker.autotune())

    def _finite_search(self, args: Sequence[Any]) -> FiniteSearch | None:
        """The search over named configs that ``autotuner_fn`` makes; None where it makes none."""
        make = self.settings.autotuner_fn
        made = None if make is None else make(self, self.kernel.normalize_args(*args))
        return made if isinstance(made, FiniteSearch) else None

    @property
    def lowered(self) -> Lowered:
        """The kernel lowered for the device of the arguments; for an H200 where they are on a CPU."""
        name = device_class(self.device) if self.device.type == "cuda" else ANY_TARGET
        made: Lowered = self._kept("lowered", lambda: self._traced.lower(self._args, target(name)))
        return made

    def _kept(self, name: str, make: Callable[[], Any]) -> Any:
        """What was made before, while the kernel reads the same besides its arguments; else what ``make`` gives."""
        cache = self._traced.cache
        cache.watch(self._args, {})
        cache.refresh()
        if self._number != cache.number:
            self._made, self._number = {}, cache.number
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def runner(self, without_config: Callable[..., Any] | None) -> Callable[..., Any]:
        """The callable that serves calls. ``without_config``: serves where no config was named, in place of the default
        one."""
        if self.settings.prints:
            print(self.to_triton_code(), file=sys.stderr)
        if self.settings.eager or self._is_plain:
            return self._eagerly()
        if without_config is None or self._config is not None:
            return self.compile_config()
        return torch.no_grad()(without_config) if self._needs_no_grad else without_config

    @property
    def _is_plain(self) -> bool:
        """Whether there is nothing here that runs what is generated."""
        if self.device.type == "cuda" or compat.interpreting():
            return False
        notes.once(
            f"{self.kernel.name} on {self.device}", "runs as plain Python; TRITON_INTERPRET=1 runs what is generated"
        )
        return True

    @property
    def _needs_no_grad(self) -> bool:
        """The dialect lets calls pass by autograd."""
        return torch.is_grad_enabled() and any(a.requires_grad for a in tensors(self._args))

    def __call__(self, *args: Any) -> Any:
        """Run the kernel for arguments like the ones that it was bound to. It is lowered anew where a global or host
        code holds something else than when it was."""
        args = self.kernel.normalize_args(*args)
        try:
            return self._kept("run", lambda: self.runner(None))(*args)
        except VariantError as error:
            self._traced.cache.begin_again(error, args, {})
        self._made = {}
        return self._kept("run", lambda: self.runner(None))(*args)

    def set_config(self, config: Config | Mapping[str, Any]) -> None:
        """Take ``config`` for the calls from now on."""
        self._config = _config(config)
        self._made.pop("run", None)

    def ensure_config_exists(self, args: Sequence[Any]) -> None:
        """Take the default config where none was named."""
        if self._config is None:
            self.set_config(self.default_config())

    @property
    def config_spec(self) -> BoundKernel:
        """What knows the default config: this object."""
        return self

    def default_config(self) -> Config:
        """The default config in the dialect's words."""
        from .translate import from_native

        return from_native(self.lowered.default, self.lowered)

    def compile_config(
        self, config: Config | Mapping[str, Any] | None = None, *, allow_print: bool = True
    ) -> Callable[..., Any]:
        """A callable of the kernel's arguments under ``config``; by default under the config that was set, or the
        kernel's own default."""
        if self._is_plain:
            return functools.partial(self._traced.run_eagerly, config=self._native(config).to_dict())
        return self._traced.compile(self.lowered, self._native(config), self.device)

    def normalize(self, config: Config | Mapping[str, Any]) -> None:
        """Raises ConfigError where ``config`` has unknown keys, or lists of wrong lengths."""
        self._native(config)

    def to_triton_code(self, config: Config | Mapping[str, Any] | None = None, **options: Any) -> str:
        """The generated source of every launch. ``options``, of what else to print there, are accepted, all but JAX.
        Raises UnsupportedOp."""
        if isinstance(asked := options.get("options"), OutputCodeOptions) and asked.jax_fn:
            raise UnsupportedOp("kernels are compiled by Triton", got="jax_fn=True", hint="call the kernel on tensors")
        with self.settings.tracing():
            return "\n".join(source.text for source in self.lowered.emit(self._native(config)))

    @property
    def configs(self) -> list[Config]:
        """The configs that the decorator names."""
        return self.kernel.configs

    def format_kernel_decorator(self, config: Config | Mapping[str, Any], settings: Settings | None = None) -> str:
        """The decorator that names ``config``, as source text."""
        shapes = (settings or self.settings).static_shapes
        return f"@helion.kernel(config={_config(config)!r}, static_shapes={shapes!r})"

    def run_ref(self, *args: Any) -> Any:
        """The user's function as plain Python over real tiles."""
        return self.run_eagerly(*args)

    def __getattr__(self, name: str) -> Any:
        raise _absent("a bound kernel", name, OF_BOUND_KERNELS)

    to_code = to_triton_code
    bench_compile_config = compile_config

    def run_eagerly(self, *args: Any, **kwargs: Any) -> Any:
        """The user's function as plain Python over real tiles, of the config's sizes where one is given."""
        return self._eagerly()(*args, **kwargs)

    def _eagerly(self) -> Callable[..., Any]:
        """The same as a callable, which does not keep the example's memory alive as this object does."""
        chosen = self._native(None).to_dict() if self._config is not None else None
        return functools.partial(self._traced.run_eagerly, config=chosen)

    def autotune(self, args: Sequence[Any], *, force: bool = True, **options: Any) -> Config:
        """The fastest of the decorator's configs on this GPU, or of those that its ``autotuner_fn`` names; else a sweep
        by :func:`tileflow.tune`, whose ``options`` they are. Raises CallError without a GPU, but where
        ``device_class=`` names one for the cost model, and where no config works.
        """
        named = self._finite_search(args)
        if self.device.type != "cuda" and ("device_class" not in options or len(self.kernel.configs) > 1 or named):
            raise CallError(
                "configs are timed on a GPU",
                got=f"arguments on {self.device}",
                hint="name one by config=, or sweep elsewhere and load the table",
            )
        if len(self.kernel.configs) > 1:
            best = self.fastest(self.settings.allowed(self.kernel.configs), args)
        elif named is not None:
            best = _config(named.autotune())
        else:
            from .translate import from_native

            self.settings.say_what_a_search_leaves_out()
            budget = {"budget_s": self.settings.autotune_budget_seconds or 60.0}
            (row,) = tune([(self._traced, self.kernel.normalize_args(*args))], **budget | options)
            if row is None:
                raise CallError(
                    "a kernel is tuned where one of its configs works", got="none does", where=self._traced.name
                )
            best = from_native(self.lowered.space.adapt(row.config.to_dict()), self.lowered)
        self.set_config(best)
        return best

    def fastest(self, configs: Sequence[Config], args: Sequence[Any]) -> Config:
        """The one of ``configs`` under which a call takes least time on the current GPU and is right: see
        :func:`.choosing.fastest`."""
        from .choosing import fastest

        return fastest(self, configs, self.kernel.normalize_args(*args))

    def known_configs(self, most: int | None = None) -> list[Config]:
        """The configs of loaded tables' rows for calls like this one, the best first, at most so many."""
        from .translate import from_native

        kernel = self._traced
        device = device_class(self.device) if self.device.type == "cuda" else None
        found = hits(kernel.name, kernel.semantic_hash, kernel.describe(*self._args), device)
        space = self.lowered.space
        configs = (from_native(space.adapt(hit.config.to_dict()), self.lowered) for hit in found)
        return list(islice(dict.fromkeys(configs), most))

    def _native(self, config: Config | Mapping[str, Any] | None) -> native.Config:
        from .translate import to_native

        chosen = self._config if config is None else config
        return self.lowered.default if chosen is None else to_native(_config(chosen), self.lowered)


OF_KERNELS = {
    "autotune_multi": "tileflow.tune([(kernel, args), ...]): a row for each, which calls find by their arguments",
    "cute_structural_policy": "kernels are compiled by Triton",
    "jax_fn": "kernels are compiled by Triton: call the kernel on tensors",
}
OF_BOUND_KERNELS = {
    "config_envelope": "kernels are compiled by Triton: config_spec.default_config() gives a Config",
    "env": "what the compiler knows is bound.lowered",
    "get_cached_path": "tables keep results: tileflow.load(path)",
    "maybe_log_repro": "kernel.__tileflow_kernel__.repro(args)",
}


def _absent(what: str, name: str, hints: Mapping[str, str]) -> MissingAttribute:
    return MissingAttribute(f"{what} has the attribute", got=name, hint=hints.get(name, ""))


def _named(ref: str) -> Any:
    """The dialect's kernel at ``module:qualname``."""
    module, _, qualname = ref.partition(":")
    return operator.attrgetter(qualname)(importlib.import_module(module))


def _config(config: Config | Mapping[str, Any]) -> Config:
    if isinstance(config, Config):
        return config
    if not isinstance(config, Mapping):
        raise ConfigError(
            "a config is a Config, or a dictionary of one's keys",
            got=f"{type(config).__name__} {config!r}"[:120],
            hint="helion.Config(block_sizes=[16], num_warps=4)",
        )
    return Config.from_dict(config)


def kernel(
    fn: Callable[..., Any] | None = None,
    *,
    config: Config | Mapping[str, Any] | None = None,
    configs: Sequence[Config | Mapping[str, Any]] | None = None,
    key: Callable[..., Any] | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> Any:
    """Make a kernel of a function, as a decorator with or without arguments.

    ``config``: the one to run; ``configs``: those that ``autotune`` chooses from. ``key`` is accepted: calls are told
    apart by all of their arguments anyway. ``options`` are those of :class:`Settings`. Raises ConfigError.
    """
    if config is not None and configs is not None:
        raise ConfigError("a kernel takes config or configs, not both", got="both")
    if settings is not None and not isinstance(settings, Settings):
        raise ConfigError(
            "settings are a Settings", got=f"a {type(settings).__name__}", hint="helion.Settings(static_shapes=False)"
        )
    if settings is not None and options:
        raise ConfigError("settings are given as one object or by name, not both", got=sorted(options))
    chosen = [_config(c) for c in ([config] if config is not None else configs or ())]
    made = settings or Settings(**options)

    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(function.fn if isinstance(function, Kernel) else function, chosen, made, key)

    return decorate if fn is None else decorate(fn)


jit = kernel


def aot_kernel(fn: Callable[..., Any] | None = None, *, batched: Any = None, **options: Any) -> Any:
    """A kernel as :func:`kernel` makes it: here a loaded table chooses a config ahead of time."""
    return kernel(fn, **options)
