"""Kernels as operators of ``torch.library``: what torch.compile and torch.export see of a kernel.

A call that they trace is lowered, to find what it stores into, and becomes an operator (see :mod:`.operators`). Where
its tensors are on a GPU the operator shows a compiler its Triton functions, if it can (see :mod:`.visible`). Any other
is opaque: what serves a call is found in each call, as outside of graphs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import FunctionType
from typing import Any, Protocol

import torch

from .errors import CallError, TileflowError, VariantError
from .frontend.effects import effects
from .frontend.identity import template_identity
from .language.host_cuda import told_of
from .operators import Operator, Rule, Subject, define, result_of
from .runtime import observe
from .runtime.ambient import READERS
from .runtime.argtree import arguments_of, flatten_call, leaves_of, unflatten_call
from .runtime.call_cache import CallCache
from .runtime.recording import recorders
from .runtime.registry import on_change
from .runtime.to_meta import says_where
from .target import ANY_TARGET, Target, target
from .visible import Hidden, Visible, launch_visibly, visible
from .visible import Kernel as Shown

_STAND_IN = 2  # for a size that depends on data: one that torch's compiler allows, and that fits most tensors beside it

_changes = count()
_tables = [0]  # a number of the tables that are loaded, and of what misses do
on_change(lambda: _tables.__setitem__(0, next(_changes) + 1))


class Kernel(Subject, Shown, Protocol):
    """A kernel that is made operators; :class:`tileflow.Kernel` is one."""

    scope: FunctionType
    cache: CallCache

    @property
    def interprets(self) -> bool:
        """Whether calls run as plain Python over tiles or by Triton's interpreter, wherever their tensors are."""


@dataclass(frozen=True, slots=True)
class Example:
    """A leaf of the call being compiled: a number, or a tensor's metadata. Symbolic sizes are the example's own."""

    number: Any = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: torch.dtype | None = None

    @staticmethod
    def of(leaf: Any) -> Example:
        """The example of one leaf; a tensor gives shape, strides and dtype, and anything else itself."""
        if isinstance(leaf, torch.Tensor):
            return Example(None, tuple(map(_example, leaf.shape)), tuple(map(_example, leaf.stride())), leaf.dtype)
        return Example(_example(leaf))

    def make(self, device: torch.device | None) -> Any:
        """The number, or a meta tensor that stands for one on ``device``."""
        if self.dtype is None:
            return self.number
        made = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")
        return made if device is None else says_where(made, device)


@dataclass(frozen=True, slots=True)
class _CallSetting:
    """The device of a visible call, and what decides its config besides the arguments."""

    device: torch.device
    is_dynamic: bool
    outside: int
    tables: int


class Operators:
    """The operators of one kernel. ``rule``: its derivative; without one, no tensor may require grad."""

    def __init__(self, kernel: Kernel, rule: Rule | None = None) -> None:
        self._kernel = kernel
        self._rule = rule
        self._made: dict[Hashable, tuple[Operator, Callable[..., Any]]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The call through its operator, on tensors of any kind: fake, functional, real.

        Raises CallError where it has no meaning as an operator (see :func:`tileflow.frontend.effects.effects`), and
        KernelError where it cannot be lowered.
        """
        template, leaves = flatten_call(self._kernel.host, args, kwargs)
        if self._rule is None:
            self._kernel.refuse_grad(leaves)
        _check_constants(template, self._kernel.name)
        operator, call = self.find(template, leaves)
        outputs = call(*leaves)
        # of a tensor that is traced, autograd's own layer sees the operator and not what it stores
        torch.autograd.graph.increment_version([leaves[index] for index in operator.stored])
        return result_of(operator, outputs, leaves)

    def find(self, template: Hashable, leaves: Sequence[Any]) -> tuple[Operator, Callable[..., Any]]:
        """The operator of a call, and what calls it."""
        device = next((leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)), None)
        given = template, tuple(map(Example.of, leaves)), _settings(self._kernel)
        key = *given, self._place(leaves), device, _told_of(device)
        if key not in self._made:
            # in a thread of its own: the modes by which a compiler records operators are this thread's, and lowering
            # must not be recorded
            with ThreadPoolExecutor(1) as thread, self._blaming_stand_ins(leaves):
                self._made[key] = thread.submit(self._make, *key).result()
        return self._made[key]

    @contextmanager
    def _blaming_stand_ins(self, leaves: Sequence[Any]) -> Iterator[None]:
        """What is refused of a call may be refused of the sizes that stand for those that depend on data."""
        try:
            yield
        except TileflowError as error:
            if not any(map(_depends_on_data, leaves)):
                raise
            raise CallError(
                f"a compiled kernel takes {_STAND_IN} for each size that depends on data",
                got=str(error),
                where=self._kernel.name,
                hint="where another size is meant, call the kernel outside the compiled function",
            ) from error

    def _place(self, leaves: Sequence[Any]) -> _CallSetting | None:
        """None where no compiler could be shown the call."""
        devices = {leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)}
        if len(devices) != 1 or any(isinstance(leaf, torch.SymFloat) for leaf in leaves):
            return None
        if self._kernel.interprets or recorders:  # somebody looks at each call
            return None
        if any(map(_depends_on_data, leaves)):  # no config is chosen by sizes that nobody knows
            return None
        (device,) = devices
        if device.type != "cuda":
            return None
        self._kernel.cache.refresh()
        return _CallSetting(device, any(map(_is_symbolic, leaves)), self._kernel.cache.number, _tables[0])

    def _make(
        self,
        template: Hashable,
        examples: Sequence[Example],
        settings: Settings,
        place: _CallSetting | None,
        device: torch.device | None,
        told: Target | None,
    ) -> tuple[Operator, Callable[..., Any]]:
        kernel, rule = self._kernel, self._rule
        found = effects(kernel.host, template, [example.make(device) for example in examples], told)
        if rule is not None and found.stored:
            stored = [leaf.path for leaf in leaves_of(template) if leaf.index in found.stored]
            raise CallError(
                "a differentiable kernel does not change its arguments",
                got=f"stores into {', '.join(stored)}",
                where=kernel.name,
                hint="store into a tensor that the kernel makes, and return it",
            )
        if rule is not None and (given := arguments_of(found.results)):
            raise CallError(
                "a differentiable kernel's outputs in a compiled graph are new tensors",
                got=f"{leaves_of(template)[given[0]].path}, an argument",
                where=kernel.name,
                hint="return what the kernel makes; the caller has its arguments",
            )
        seen = None if place is None else _visible(kernel, template, examples, place)
        operator = Operator(
            kernel,
            template,
            found.results,
            found.stored,
            repr(settings),
            "" if rule is None else rule.identity,
            "" if seen is None else seen.identity,
        )
        return operator, define(operator, rule, None if seen is None else _shown(operator, kernel, seen))


def _visible(kernel: Kernel, template: Hashable, examples: Sequence[Example], place: _CallSetting) -> Visible | None:
    """What a compiler is shown of a call; None where it stays opaque, which is logged once with its reason."""
    args = unflatten_call(kernel.host, template, [example.make(place.device) for example in examples])
    try:
        return visible(kernel, args, place.device, place.is_dynamic)
    except (Hidden, VariantError) as why:
        observe.say_once(logging.INFO, kernel.name, "opaque", f"stays an opaque operator in compiled graphs: {why}")
        return None


def _told_of(device: torch.device | None) -> Target | None:
    """What host code is told of the device of a call; None for a GPU that this machine may not have, whose driver
    answers where it has it."""
    if device is not None and device.type == "cuda":
        return told_of()  # by host code that calls the kernel, of a GPU that is not there
    return target(ANY_TARGET)


def _shown(operator: Operator, kernel: Kernel, seen: Visible) -> Callable[[Sequence[Any]], Any]:
    """An operator's call as a compiler sees it."""

    def call(leaves: Sequence[Any]) -> Any:
        arguments = unflatten_call(kernel.host, operator.template, leaves)
        return operator.flat(seen.run(kernel, arguments, launch_visibly), leaves)

    return call


def _check_constants(template: Hashable, where: str) -> None:
    """Raises CallError where a constant is a set, say, which has no identity."""
    try:
        hash(template)
    except TypeError:
        template_identity(template, where)
        raise


def _example(number: Any) -> Any:
    """The value of a symbolic number in the call that is being compiled; reading it guards nothing. A size that depends
    on data has none yet, and a stand-in, the same in all that is computed of it. Raises CallError for such a float,
    which torch hands to no operator."""
    if not isinstance(number, (torch.SymInt, torch.SymFloat)):
        return number
    if number.node.hint is not None:
        return number.node.hint
    if isinstance(number, torch.SymFloat):
        raise CallError(
            "a compiled kernel's floats do not depend on data",
            got=str(number),
            hint="pass a tensor of one element, and read it in the kernel as scale[()]",
        )
    of = number.node.expr
    return int(of.subs(dict.fromkeys(of.free_symbols, _STAND_IN)))


def _depends_on_data(leaf: Any) -> bool:
    return any(isinstance(number, torch.SymInt) and number.node.hint is None for number in _numbers(leaf))


def _numbers(leaf: Any) -> tuple[Any, ...]:
    return (*leaf.shape, *leaf.stride()) if isinstance(leaf, torch.Tensor) else (leaf,)


def _is_symbolic(leaf: Any) -> bool:
    return any(isinstance(number, torch.SymInt) for number in _numbers(leaf))


Settings = tuple[tuple[str, Hashable], ...]


def _settings(kernel: Kernel) -> Settings:
    """torch's settings now that host code can see, by name: its outputs' dtypes may depend on them."""
    return tuple((name, READERS[name]()) for name in sorted(kernel.host.ambient))
