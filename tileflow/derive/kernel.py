"""Derived kernels: the backward pass of a kernel as a kernel of its own, one text for each kind of call."""

from __future__ import annotations

import inspect
import linecache
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from .. import language
from ..api import Kernel
from ..config import Choice, Config
from ..errors import CallError, GradientError
from ..frontend.lower import lower_call
from ..frontend.meaning import digest
from ..frontend.split import HostFunction, split
from ..language.host_cuda import any_target
from ..library import Example
from ..locks import cached_property
from ..runtime.argtree import flatten_call, is_traced, leaves, replace, tensors, unflatten_call
from ..runtime.to_meta import ToMeta
from .observe import Call, observe
from .plan import Plan, plan
from .pull_back import pull_back
from .write import Derived, derive

if TYPE_CHECKING:
    from ..lowered import Lowered
    from ..runtime.problem import Problem
    from ..target import Target

Key = tuple[Any, ...]

SEPARATOR = "+"  # of the parameters in the name of a backward pass that computes some gradients
VERSION = 4  # of what is derived from a kernel's code: another one is another kernel to tables


class _OneKind(Kernel):
    """A derived kernel for one kind of call, whose text is ``derived``."""

    def __init__(self, parent: DerivedKernel, derived: Derived) -> None:
        self.derived, self._parent = derived, parent
        super().__init__(_function(parent.forward, derived))
        self.name = parent.name

        self._inputs, self._reference, self.tolerances = parent.inputs, parent.reference, parent.tolerances

    def _meaning(self) -> tuple[str, str]:
        return self._parent._meaning()

    def __reduce__(self) -> tuple[Any, ...]:
        raise CallError(
            "a derived backward is sent to other processes by its name",
            got=repr(self),
            hint=f"load_kernel({self.name!r})",
        )

    @property
    def has_reference(self) -> bool:
        return self._parent.has_reference

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        return self._parent.inputs(device=device, seed=seed, **problem)


def _function(forward: Kernel, derived: Derived) -> FunctionType:
    """The text's function, in the scope of the forward kernel's; its lines are there for errors and for ``inspect``."""
    scope = forward.scope
    file = f"<backward of {forward.name} {digest(derived.text)[:12]}>"
    lines = derived.text.splitlines(keepends=True)
    linecache.cache[file] = (len(derived.text), None, lines, file)
    cells = dict(zip(scope.__code__.co_freevars, scope.__closure__ or (), strict=True))
    held = {name: cell.cell_contents for name, cell in cells.items()}
    names = {**scope.__globals__, **held, "torch": torch, "math": math, "tfl": language, "pull_back": pull_back}
    exec(compile(derived.text, file, "exec"), names)
    made = names[derived.name]
    assert isinstance(made, FunctionType)
    made.__module__ = scope.__module__
    return made


class DerivedKernel(Kernel):
    """A kernel that is derived of ``forward``: a text for each kind of call, under one name."""

    def __init__(self, forward: Kernel, name: str) -> None:
        for parameter in forward.host.signature.parameters.values():
            # the gradients of the results come behind the arguments
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                raise GradientError(
                    "a kernel whose backward is derived has a name for each argument",
                    got=f"*{parameter.name}",
                    where=forward.name,
                    hint=f"take the tensors in one, {parameter.name}: list[torch.Tensor]",
                )
        self.forward = forward
        self._kinds: dict[tuple[str, str], _OneKind] = {}
        self._known: dict[Key, Any] = {}
        self._by_value: set[Key] = set()
        super().__init__(forward.scope)
        self.name = name

    @property
    def _count(self) -> int:
        return len(self.forward.host.signature.parameters)

    def _remembered(self, args: Sequence[Any], make: Callable[[Sequence[Any]], tuple[Any, bool]]) -> Any:
        """What ``make`` gives for a call, once for its kind; with it, whether the values of ints were asked."""
        if any(map(is_traced, tensors(args))):  # the compiler's modes belong to its thread
            template, values = flatten_call(self.forward.host, args, {})
            examples = [Example.of(value) for value in values]
            device = next(value.device for value in values if isinstance(value, torch.Tensor))
            with ThreadPoolExecutor(1) as thread:
                given = thread.submit(lambda: [example.make(device) for example in examples]).result()
                whole = unflatten_call(self.forward.host, template, given)
                return thread.submit(self._remembered, whole, make).result()
        key: Key = self.forward.describe(*args).key, self.forward.semantic_hash
        numbers = tuple(v for a in args for v in leaves(a) if type(v) is int)
        found = self._known.get((*key, numbers) if key in self._by_value else key)
        if found is None:
            with self.forward.tracing():
                found, by_value = make(_on_meta(args))
            if by_value:
                self._by_value.add(key)
            self._known[(*key, numbers) if by_value else key] = found
        return found

    def _of_text(self, derived: Derived) -> _OneKind:
        own = derived.text, self.forward.semantic_hash  # what the text reads is as it was when it was derived
        if own not in self._kinds:
            self._kinds[own] = _OneKind(self, derived)
        return self._kinds[own]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The call that ``args`` say. Raises CallError for keywords."""
        if kwargs:
            raise CallError("a derived kernel takes its arguments by position", got=", ".join(kwargs), where=self.name)
        return self.kind(*args)(*args)

    def describe(self, *args: Any, **kwargs: Any) -> Problem:
        """The problem of a call, by the kernel of that call's kind."""
        return self.kind(*args).describe(*args, **kwargs)

    def lower(self, args: Sequence[Any], target: Target, mode: str = "static") -> Lowered:
        """The call lowered, by the kernel of its kind."""
        return self.kind(*args).lower(args, target, mode)

    def repro(
        self, *args: Any, config: Mapping[str, Choice] | Config | None = None, target_name: str = "nvidia-h200"
    ) -> str:
        """A standalone script of the call, by the kernel of its kind."""
        return self.kind(*args).repro(*args, config=config, target_name=target_name)

    def run_eagerly(self, *args: Any, config: Mapping[str, Choice] | None = None, **kwargs: Any) -> Any:
        """The call as Python over real tiles, by the kernel of its kind."""
        return self.kind(*args).run_eagerly(*args, config=config, **kwargs)

    def small(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        """The forward kernel's problem at small odd sizes."""
        return self.forward.small(problem)


class SavingKernel(DerivedKernel):
    """A forward pass that also writes what its derived backward reads: ``kernel.saving``.

    It takes all arguments of the forward kernel by position, and returns its results and behind them row statistics,
    as many as :meth:`planned` says. Where nothing but results is saved it is the forward kernel. ``backward`` is the
    backward that reads what is saved.
    """

    def __init__(self, forward: Kernel) -> None:
        super().__init__(forward, f"{forward.name}.saving")
        self.__name__ = f"{forward.__name__}_saving"
        self.__doc__ = f"{forward.__name__}, and what its gradient reads."

    def _meaning(self) -> tuple[str, str]:
        text = f"saving {VERSION} of {self.forward._meaning()[0]}"
        return text, digest(text)

    @cached_property
    def identity(self) -> str:
        """What graphs know the kernel by: the forward kernel's identity and the version of the derivation."""
        return digest(f"saving {VERSION} of {self.forward.identity}")

    @cached_property
    def backward(self) -> BackwardKernel:
        """The derived backward that reads what is saved: ``backward(*args, *saved, *grads)``."""
        return BackwardKernel(self.forward, saves=True)

    def planned(self, *args: Any) -> Plan:
        """What a call saves: the choice that moves the least."""

        def made(derived: Derived) -> HostFunction:
            return split(_function(self.forward, derived))

        def make(given: Sequence[Any]) -> tuple[Plan, bool]:
            found = plan(self.forward.name, self.forward.host, given, made)
            return found, found.backward.by_value

        found = self._remembered(args, make)
        assert isinstance(found, Plan)
        return found

    def kind(self, *args: Any) -> Kernel:
        """The kernel that takes a call's arguments: the forward kernel, where it writes no statistics."""
        chosen = self.planned(*args).forward
        return self.forward if chosen is None else self._of_text(chosen)

    def save(self, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """What a call saves for :attr:`backward`, in order: by launches on a GPU, else by Python over tiles; of meta
        tensors, meta tensors."""
        chosen, kind = self.planned(*args), self.kind(*args)
        device = next(t.device for t in tensors(args))
        if device.type == "meta":
            found = lower_call(kind.host, tuple(args), "static", target=any_target()).result
        else:
            found = kind(*args) if device.type == "cuda" else kind.run_eagerly(*args)
        results = tuple(tensors((found,)))
        count = len(results) - sum(one.result is None for one in chosen.saved)
        rows = iter(results[count:])
        return tuple(next(rows) if one.result is None else results[one.result] for one in chosen.saved)

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        """The forward kernel's arguments for a problem."""
        return self.forward.positional_args(self.forward.inputs(device=device, seed=seed, **problem), {})


class BackwardKernel(DerivedKernel):
    """What :func:`derive_backward` returns.

    ``backward(*args, *grads)``: the arguments of the forward kernel, all of them by position, and the gradient of each
    floating-point result that its launches wrote, in order. It returns the gradient of each floating-point tensor
    among the arguments, in order: several as a tuple, one alone. ``wanted``: of the arguments of these parameters
    alone; empty for all. ``saves``: it is ``backward(*args, *saved, *grads)``, and reads what the forward pass saved
    (:class:`SavingKernel`).
    """

    def __init__(self, forward: Kernel, wanted: tuple[str, ...] = (), saves: bool = False) -> None:
        self.wanted, self.saves = wanted, saves
        self._chosen: dict[tuple[str, ...], BackwardKernel] = {}
        chosen = f"({SEPARATOR.join(wanted)})" if wanted else ""
        super().__init__(forward, f"{forward.name}{'.saving' if saves else ''}.backward{chosen}")
        self.__name__ = "_".join((forward.__name__, *(["saving"] if saves else []), "backward", *wanted))
        self.__doc__ = f"The gradients of the arguments of {forward.__name__}."

    def _meaning(self) -> tuple[str, str]:
        text = f"backward {VERSION}{self._wanted_text} of {self.forward._meaning()[0]}"
        return text, digest(text)

    @property
    def _wanted_text(self) -> str:
        saved = " from what is saved" if self.saves else ""
        return saved + (f" for {SEPARATOR.join(self.wanted)}" if self.wanted else "")

    def of(self, *parameters: str) -> BackwardKernel:
        """The backward pass that computes the gradients of the arguments of ``parameters`` alone, a kernel of its own.
        Raises CallError for a name that the forward kernel does not have."""
        known = tuple(self.forward.host.signature.parameters)
        if wrong := [name for name in parameters if name not in known]:
            raise CallError(
                f"the gradients that are asked for are of parameters of the kernel: {', '.join(known)}",
                got=", ".join(wrong),
                where=self.forward.name,
            )
        wanted = tuple(name for name in known if name in parameters)
        if wanted in ((), known, self.wanted):
            return self if wanted else self._all
        return self._all._chosen.setdefault(wanted, BackwardKernel(self.forward, wanted, self.saves))

    @property
    def _all(self) -> BackwardKernel:
        found = self.forward.saving.backward if self.saves else self.forward.backward
        assert isinstance(found, BackwardKernel)
        return found

    @property
    def _saving(self) -> SavingKernel:
        found = self.forward.saving
        assert isinstance(found, SavingKernel)
        return found

    @cached_property
    def identity(self) -> str:
        """What graphs know the kernel by: the forward kernel's identity and the version of the derivation."""
        return digest(f"backward {VERSION}{self._wanted_text} of {self.forward.identity}")

    # ---- kinds of calls -------------------------------------------------------------------------

    def kind(self, *args: Any) -> Kernel:
        """The kernel that takes a call's arguments, with the gradients or without them."""
        return self._kind(args[: self._count])

    def _kind(self, args: Sequence[Any]) -> _OneKind:
        saved = self._saving.planned(*args).saved if self.saves else ()

        def make(given: Sequence[Any]) -> tuple[_OneKind, bool]:
            derived = derive(self.forward.name, self.forward.host, given, self.wanted, saved)
            return self._of_text(derived), derived.by_value

        found = self._remembered(args, make)
        assert isinstance(found, _OneKind)
        return found

    def source(self, *args: Any) -> str:
        """The text that is derived for a call: a kernel in the language, to read or to go on from by hand."""
        return self._kind(args[: self._count]).derived.text

    def arguments(self, *args: Any) -> tuple[str, ...]:
        """The arguments whose gradients a call returns, in order."""
        return self._kind(args[: self._count]).derived.arguments

    def results(self, *args: Any) -> tuple[int, ...]:
        """Which of the forward kernel's results a call takes the gradients of, in order."""
        return self._kind(args[: self._count]).derived.results

    # ---- a kernel as any other ------------------------------------------------------------------

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        """The forward kernel's arguments for a problem, what a call saved, and random gradients of its results."""
        args = self.forward.positional_args(self.forward.inputs(device=device, seed=seed, **problem), {})
        call = self._observed(args)
        like = [call.results[i] for i in call.asked]
        with torch.random.fork_rng(devices=[torch.device(device)] if device.startswith("cuda") else []):
            torch.manual_seed(seed + 1)
            grads = tuple(torch.randn(t.shape, dtype=t.dtype, device=device) for t in like)
        return *args, *(self._saving.save(args) if self.saves else ()), *grads

    @property
    def has_reference(self) -> bool:
        """Whether the forward kernel's author wrote one, which autograd differentiates."""
        return self.forward._reference is not None

    def reference(self, *args: Any) -> Any:
        """What torch's autograd gives for the forward kernel's reference; without one, the text's eager meaning."""
        if self.forward._reference is None:
            return super().reference(*args)
        with torch.enable_grad():
            given = tuple(replace(a, _detached) for a in args[: self._count])
            found = [*tensors((self.forward._reference(*given[: _most_arguments(self.forward._reference)]),))]
        parameters = self.forward.host.signature.parameters
        asked = [a for a, name in zip(given, parameters, strict=True) if not self.wanted or name in self.wanted]
        inputs = [t for t in tensors(asked) if t.requires_grad]
        results = [found[i] for i in self._observed(args[: self._count]).asked]  # of dtypes that may not be derived
        grads = [g.to(r.dtype) for r, g in zip(results, args[len(args) - len(results) :], strict=True)]
        made = torch.autograd.grad(results, inputs, grads, allow_unused=True)
        made = tuple(torch.zeros_like(x) if g is None else g for x, g in zip(inputs, made, strict=True))
        return made if len(made) > 1 else made[0]

    def _observed(self, args: Sequence[Any]) -> Call:
        return observe(self.forward.name, self.forward.host, _on_meta(args))


def _most_arguments(function: Callable[..., Any]) -> int | None:
    """How many arguments a reference takes, which may know nothing of a kernel's defaults; None: any number."""
    parameters = inspect.signature(function).parameters.values()
    return None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)


def _on_meta(args: Sequence[Any]) -> tuple[Any, ...]:
    to_meta = ToMeta()
    return tuple(replace(a, to_meta) for a in args)


def _detached(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    return value.requires_grad_() if value.is_floating_point() else value


def derive_backward(kernel: Any, *wanted: str) -> BackwardKernel:
    """The backward pass of a kernel, derived: a kernel of its own, tuned and exported like all others.

    ``derive_backward(kernel)(*args, *grads)`` returns the gradients of the floating-point tensors among ``args``; with
    names of parameters behind the kernel, ``wanted``, of those alone, and what only the others need is not computed.
    What the forward pass computed is computed again. Its name is the kernel's with ``.backward`` behind it, and
    ``.backward(x+y)`` where the gradients of ``x`` and ``y`` are wanted. The first call of each kind raises
    GradientError where a gradient is not derived; CallError for a name that the kernel does not have.
    """
    found = getattr(kernel, "__tileflow_kernel__", kernel)
    if not isinstance(found, Kernel) or isinstance(found, DerivedKernel | _OneKind):
        raise CallError("a backward is derived of a @tileflow.kernel function", got=repr(kernel))
    backward = found.backward
    assert isinstance(backward, BackwardKernel)
    return backward.of(*wanted) if wanted else backward


class DerivedRule:
    """A derived backward as the one of :func:`tileflow.differentiable`."""

    def __init__(self, backward: BackwardKernel) -> None:
        self.backward = backward

    @property
    def identity(self) -> str:
        """The identity of the derived kernel."""
        return self.backward.identity

    def __call__(self, saved: Sequence[Any], grads: Sequence[torch.Tensor], needed: Sequence[bool]) -> tuple[Any, ...]:
        """One gradient for each parameter of the forward kernel; None where it is not ``needed``."""
        parameters = self.backward.forward.host.signature.parameters
        args = saved[: len(parameters)]
        able = [any(t.is_floating_point() for t in tensors((value,))) for value in args]
        wanted = [name for name, can, need in zip(parameters, able, needed, strict=True) if can and need]
        backward = self.backward if len(wanted) == sum(able) else self.backward.of(*wanted)
        results = backward.results(*saved)
        found = backward(*saved, *(grads[i].contiguous() for i in results))
        several = iter(found if isinstance(found, tuple) else (found,))
        return tuple(
            _gradients(v, several) if name in wanted else None for name, v in zip(parameters, args, strict=True)
        )


def _gradients(value: Any, found: Iterator[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return next(found) if value.is_floating_point() else None
    return tuple(_gradients(v, found) for v in value) if isinstance(value, tuple | list) else None
