"""Kernels as operators of ``torch.library``: what torch.compile and torch.export see of a kernel.

One operator for each structure of arguments, since a schema has no words for functions, dtypes or strings: those are
constants of the operator, and tensors, ints and floats, also the ones that a function closes over, are its arguments.

An operator's name is a digest of all that it holds fixed, since compilers keep graphs on disk by such names and find
them again in other processes: see :mod:`tileflow.frontend.identity`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import torch

from .errors import CallError
from .frontend.effects import Effects, Shapes, effects
from .frontend.identity import template_identity
from .frontend.meaning import digest
from .frontend.split import HostFunction
from .runtime.ambient import READERS
from .runtime.argtree import Leaf, flatten, flatten_call, leaves_of, rebuild, rebuild_call

NAMESPACE = "tileflow"

_DIGITS = 24  # of a digest in a name

_defined: dict[str, Callable[..., Any]] = {}
_lock = Lock()


class Subject(Protocol):
    """What is made an operator: a :class:`tileflow.Kernel`."""

    name: str
    __name__: str
    host: HostFunction

    @property
    def identity(self) -> str: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def refuse_grad(self, values: Iterable[Any]) -> None: ...


class Rule(Protocol):
    """How a kernel is differentiated (see :mod:`tileflow.autograd`), in terms of an operator's arguments, the leaves
    of ``template``, and of all its outputs. ``ctx`` is that of ``torch.autograd.Function``.

    ``identity``: what tells it from other rules, in every process.
    """

    @property
    def identity(self) -> str: ...

    def setup(self, ctx: Any, template: Hashable, leaves: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None: ...

    def backward(self, ctx: Any, grads: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]: ...


@dataclass(frozen=True, slots=True)
class Example:
    """A leaf of the call being compiled: a number, or a tensor's metadata. Symbolic sizes are the example's own."""

    number: Any = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: torch.dtype | None = None

    @staticmethod
    def of(leaf: Any) -> Example:
        if isinstance(leaf, torch.Tensor):
            return Example(None, tuple(map(_example, leaf.shape)), tuple(map(_example, leaf.stride())), leaf.dtype)
        return Example(_example(leaf))

    def make(self) -> Any:
        """The number, or a meta tensor."""
        if self.dtype is None:
            return self.number
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")


class Operators:
    """The operators of one kernel. ``rule``: its derivative; without one, no tensor may require grad."""

    def __init__(self, kernel: Subject, rule: Rule | None = None) -> None:
        self._kernel = kernel
        self._rule = rule
        self._effects: dict[Hashable, Effects] = {}
        self._operators: dict[Hashable, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The call through its operator, on tensors of any kind: fake, functional, real.

        Raises CallError where it has no meaning as an operator (see :func:`tileflow.frontend.effects.effects`), and
        KernelError where it cannot be lowered.
        """
        template, leaves = flatten_call(self._kernel.host, args, kwargs)
        if self._rule is None:
            self._kernel.refuse_grad(leaves)
        _check_constants(template, self._kernel.name)
        found = self._effects_of(template, leaves)
        key = template, found, _settings(self._kernel)
        if key not in self._operators:
            self._operators[key] = _operator(self._kernel, *key, self._rule)
        outputs = self._operators[key](*leaves)
        return rebuild(found.results, [outputs] if isinstance(outputs, torch.Tensor) else outputs)

    def _effects_of(self, template: Hashable, leaves: Sequence[Any]) -> Effects:
        """Asked once for each template and example, in a thread of its own: the modes by which a compiler records
        operators are this thread's, and lowering must not be recorded."""
        examples = tuple(map(Example.of, leaves))
        if (template, examples) not in self._effects:
            with ThreadPoolExecutor(1) as thread:
                found = thread.submit(_lowered_effects, self._kernel, template, examples).result()
            if self._rule is not None and found.stored:
                stored = [leaf.path for leaf in leaves_of(template) if leaf.index in found.stored]
                raise CallError(
                    "a differentiable kernel does not change its arguments", got=f"stores into {', '.join(stored)}",
                    where=self._kernel.name, hint="store into a tensor that the kernel makes, and return it",
                )  # fmt: skip
            self._effects[template, examples] = found
        return self._effects[template, examples]


def _check_constants(template: Hashable, where: str) -> None:
    """Raises CallError where a constant is a set, say, which has no identity."""
    try:
        hash(template)
    except TypeError:
        template_identity(template, where)
        raise


def _example(number: Any) -> Any:
    """The value of a symbolic number in the call that is being compiled; reading it guards nothing."""
    if not isinstance(number, (torch.SymInt, torch.SymFloat)):
        return number
    if number.node.hint is None:
        raise CallError(
            "a compiled kernel's sizes and numbers do not depend on data", got=str(number),
            hint="call the kernel outside the compiled function",
        )  # fmt: skip
    return number.node.hint


def _lowered_effects(kernel: Subject, template: Hashable, examples: Sequence[Example]) -> Effects:
    return effects(kernel.host, template, [example.make() for example in examples])


Settings = tuple[tuple[str, Hashable], ...]


def _settings(kernel: Subject) -> Settings:
    """torch's settings now that host code can see, by name: its outputs' dtypes may depend on them."""
    return tuple((name, READERS[name]()) for name in sorted(kernel.host.ambient))


def _operator(
    kernel: Subject, template: Hashable, found: Effects, settings: Settings, rule: Rule | None
) -> Callable[..., Any]:
    """The operator of one structure of arguments. Kernels of one identity share it."""
    schema, stored = _schema(template, found)
    name = _name(kernel, template, found, settings, rule, schema)
    with _lock:
        if name not in _defined:
            _defined[name] = _define(name, schema, stored, kernel, template, found, rule)
        return _defined[name]


def _define(
    name: str,
    schema: str,
    stored: Sequence[str],
    kernel: Subject,
    template: Hashable,
    found: Effects,
    rule: Rule | None,
) -> Callable[..., Any]:
    """Register an operator."""

    def flat(result: Any) -> Any:
        outputs: list[Any] = []
        if flatten(result, "result", outputs) != found.results:
            raise CallError("a compiled kernel returns what it did when it was traced", got=str(result),
                            where=kernel.name, hint="let what it returns depend on constants only")  # fmt: skip
        return outputs[0] if len(outputs) == 1 else tuple(outputs) or None

    def run(*leaves: Any) -> Any:
        with torch.no_grad():  # the operator's own rule is above this
            return flat(kernel(*rebuild_call(kernel.host, template, leaves)))

    def shapes(*leaves: Any) -> Any:
        return flat(kernel.host.run(Shapes(), *rebuild_call(kernel.host, template, leaves)))

    operator = torch.library.custom_op(f"{NAMESPACE}::{name}", run, mutates_args=stored, schema=schema)
    operator.register_fake(shapes)
    if rule is not None:

        def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            rule.setup(ctx, template, inputs, [output] if isinstance(output, torch.Tensor) else output)

        def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
            return rule.backward(ctx, grads)

        operator.register_autograd(backward, setup_context=setup)
    return operator


def _schema(template: Hashable, found: Effects) -> tuple[str, list[str]]:
    """The operator's schema, and the names of its arguments that are stored into."""
    names: dict[str, Leaf] = {}
    for leaf in leaves_of(template):
        name = re.sub(r"\W", "_", leaf.path)
        names[f"{name}_{leaf.index}" if name in names else name] = leaf
    stored = [name for name, leaf in names.items() if leaf.index in found.stored]
    types = [f"Tensor(a{n.index}!)" if name in stored else n.type for name, n in names.items()]
    parameters = ", ".join(f"{type_} {name}" for type_, name in zip(types, names, strict=True))
    outputs = leaves_of(found.results)
    returned = "Tensor" if len(outputs) == 1 else f"({', '.join(['Tensor'] * len(outputs))})"
    return f"({parameters}) -> {returned}", stored


def _name(
    kernel: Subject, template: Hashable, found: Effects, settings: Settings, rule: Rule | None, schema: str
) -> str:
    """A name that says the kernel, and has a digest of all that the operator means. Raises CallError for a constant
    that has no identity."""
    parts = [
        kernel.name, kernel.identity, "" if rule is None else rule.identity, schema, repr(settings),
        template_identity(template, kernel.name), template_identity(found.results, kernel.name),
    ]  # fmt: skip
    told = digest("\n".join(f"{len(part)} {part}" for part in parts))
    return re.sub(r"\W", "_", f"{kernel.__name__}_{told[:_DIGITS]}")
