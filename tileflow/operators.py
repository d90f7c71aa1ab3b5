"""Operators of ``torch.library``: what a graph holds of the calls of a kernel that have one structure.

A schema has no words for functions, dtypes or strings: those are constants of an operator, and tensors, ints and
floats, also the ones that a function closes over, are its arguments. An operator is *opaque*, and calls the kernel as
anybody does; or it is *visible*, and shows a compiler host code of plain torch with Triton functions in it.

An operator's name is a digest of all that it holds fixed, since compilers keep graphs on disk by such names and find
them again in other processes: see :mod:`tileflow.frontend.identity`. Nothing here needs the compiler: a program that
was exported elsewhere is served too (see :mod:`tileflow.programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch

from .errors import CallError
from .frontend.identity import template_identity
from .frontend.meaning import digest
from .frontend.split import HostFunction
from .language.host_cuda import told_of
from .language.host_device import DEVICE, host_code_on, on_device, torch_on
from .lazy_dataclass import dataclass
from .locks import Lock, cached_property
from .runtime.argtree import (
    Argument,
    Constant,
    Inner,
    Leaf,
    SequenceShell,
    flatten_result,
    is_traced,
    items,
    leaves_of,
    unflatten,
    unflatten_call,
)
from .runtime.dispatch import Shapes
from .runtime.paths import ascii_identifier
from .target import ANY_TARGET, target

NAMESPACE = "tileflow"

_CPU = torch.device("cpu")
HERE = "_here"  # ends the name of an operator of which a program brought another into this process

_DIGITS = 24  # of a digest in a name
_TYPES: dict[str, Any] = {"Tensor": torch.Tensor, "SymInt": int, "float": float}  # of a schema, as annotations
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)

_lock = Lock()
_library: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]


class Subject(Protocol):
    """A kernel that is made an operator; :class:`tileflow.Kernel` is one."""

    name: str
    __name__: str
    host: HostFunction

    @property
    def identity(self) -> str:
        """What graphs know the kernel by, in every process."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel."""

    def refuse_grad(self, values: Iterable[Any]) -> None:
        """Raises CallError where autograd would record a call with these tensors."""


class Rule(Protocol):
    """How a kernel is differentiated (see :mod:`tileflow.autograd`), in terms of an operator's arguments, the leaves
    of ``template``, and of all its outputs. ``ctx`` is that of ``torch.autograd.Function``.

    ``identity``: what tells it from other rules, in every process.
    """

    @property
    def identity(self) -> str:
        """What tells this rule from others for the same kernel, in every process."""

    def setup(self, ctx: Any, template: Hashable, leaves: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        """Save in ``ctx`` what :meth:`backward` needs of the arguments and the outputs."""

    def backward(self, ctx: Any, grads: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        """The gradient of each leaf, given those of the outputs; None for a leaf that has none."""


@dataclass(frozen=True, eq=False)
class Operator:
    """The calls of ``kernel`` that have one structure: ``template`` of the arguments, ``results`` of what it returns,
    ``stored``, the indices of the leaves that are stored into.

    ``settings``: torch's, as text, where host code can see them. ``rule``, ``shown``: the identities of its derivative
    and of what a compiler sees of it; empty where it has none.
    """

    kernel: Subject
    template: Hashable
    results: Hashable
    stored: frozenset[int]
    settings: str = "()"
    rule: str = ""
    shown: str = ""

    @cached_property
    def parameters(self) -> dict[str, Leaf]:
        """The operator's arguments by name."""
        names: dict[str, Leaf] = {}
        for leaf in leaves_of(self.template):
            name = ascii_identifier(leaf.path)
            names[f"{name}_{leaf.index}" if name in names else name] = leaf
        return names

    @property
    def mutated(self) -> list[str]:
        """The arguments that are stored into."""
        return [name for name, leaf in self.parameters.items() if leaf.index in self.stored]

    @cached_property
    def schema(self) -> str:
        """All of the operator's schema but its name."""
        mutated = self.mutated
        types = [f"Tensor(a{p.index}!)" if n in mutated else p.type for n, p in self.parameters.items()]
        parameters = ", ".join(f"{type_} {name}" for type_, name in zip(types, self.parameters, strict=True))
        outputs = leaves_of(self.results)
        returned = "Tensor" if len(outputs) == 1 else f"({', '.join(['Tensor'] * len(outputs))})"
        return f"({parameters}) -> {returned}"

    @cached_property
    def name(self) -> str:
        """A name that says the kernel, and has a digest of all that the operator means. Raises CallError for a constant
        that has no identity."""
        kernel = self.kernel
        parts = [
            kernel.name,
            kernel.identity,
            self.rule,
            self.schema,
            self.settings,
            template_identity(self.template, kernel.name),
            template_identity(self.results, kernel.name),
        ]
        told = digest("\n".join(f"{len(part)} {part}" for part in [*parts, *filter(None, [self.shown])]))
        return ascii_identifier(f"{kernel.__name__}_{told[:_DIGITS]}")

    def run(self, *leaves: Any) -> Any:
        """The call itself, as anybody makes it."""
        return self._call(leaves)

    @cached_property
    def _call(self) -> Callable[[Sequence[Any]], Any]:
        kernel, arguments, outputs = self.kernel, _arguments(self), _outputs(self)
        stored = sorted(self.stored)

        def call(leaves: Sequence[Any]) -> Any:
            for index in stored:  # a kernel stores by address, of which autograd would know nothing
                if not leaves[index].is_inference():
                    torch.autograd.graph.increment_version(leaves[index])
            if not torch.is_grad_enabled():
                return outputs(kernel(*arguments(*leaves)), leaves)
            with torch.no_grad():  # the operator's own rule is above this
                return outputs(kernel(*arguments(*leaves)), leaves)

        return call

    def shapes(self, *leaves: Any) -> Any:
        """What the call returns, without values: host code with launches that do nothing."""
        host = self.kernel.host
        if not any(map(_is_fake_on_a_cpu, leaves)):
            with host_code_on(target(ANY_TARGET), leaves):
                return self.flat(host.run(Shapes(), *unflatten_call(host, self.template, leaves)), leaves)
        # a fake tensor says by itself where it is: on a GPU there need be none
        told = [on_device(leaf, DEVICE) if _is_fake_on_a_cpu(leaf) else leaf for leaf in leaves]
        with torch_on(told_of() or target(ANY_TARGET)):
            found = self.flat(host.run(Shapes(), *unflatten_call(host, self.template, told)), told)
        if isinstance(found, tuple):
            return tuple(on_device(tensor, _CPU) for tensor in found)
        return None if found is None else on_device(found, _CPU)

    def flat(self, result: Any, leaves: Sequence[Any]) -> Any:
        """A result of the call with these leaves as the schema has it: without the arguments that it holds. Raises
        CallError where it is not of the operator's structure."""
        outputs: list[Any] = []
        if flatten_result(result, leaves, outputs, self.results) != self.results:
            raise CallError(
                "a compiled kernel returns what it did when it was traced",
                got=str(result),
                where=self.kernel.name,
                hint="let what it returns depend on constants only",
            )
        return outputs[0] if len(outputs) == 1 else tuple(outputs) or None


def _is_fake_on_a_cpu(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu" and is_traced(leaf)


Shown = Callable[[Sequence[Any]], Any]  # of an operator's arguments: its call, as a compiler sees it


@dataclass(frozen=True, slots=True, eq=False)
class Defined:
    """An operator of this process, and what calls it. ``is_loaded``: for a program from another process, which does not
    say how it is differentiated, and what a compiler was shown of it there."""

    operator: Operator
    call: Callable[..., Any]
    is_loaded: bool


_defined: dict[str, Defined] = {}
# The modules that register operators of their own where they are imported, by the operators' names.
MODULES: dict[str, str] = {}


def defined() -> Mapping[str, Defined]:
    """The operators that this process has made so far, by name."""
    return _defined


def define(
    operator: Operator, rule: Rule | None = None, shown: Shown | None = None, *, loaded_as: str = ""
) -> Callable[..., Any]:
    """The callable of an operator, which is registered once: kernels of one identity share it. ``shown``: where it is
    visible; ``loaded_as``: its name in a program of another process."""
    with _lock:
        name = loaded_as or operator.name
        if not loaded_as and name in _defined and _defined[name].is_loaded:
            name += HERE
        if name not in _defined:
            register = register_opaque if shown is None else register_visible
            register(f"{NAMESPACE}::{name}", operator, shown)
            if rule is not None:
                _register_rule(f"{NAMESPACE}::{name}", operator, rule)
            call = getattr(getattr(torch.ops, NAMESPACE), name).default
            _defined[name] = Defined(operator, call, bool(loaded_as))
        return _defined[name].call


def register_opaque(name: str, operator: Operator, shown: Shown | None) -> None:
    """Register an operator by torch.library's functions for schemas; what ``custom_op`` puts around a call would double
    its cost."""
    torch.library.define(name, operator.schema, lib=_library, tags=_TAGS)
    torch.library.impl(name, "default", operator.run, lib=_library)
    torch.library.register_fake(name, operator.shapes, lib=_library)


def register_visible(name: str, operator: Operator, shown: Shown | None) -> None:
    """Register an operator whose kernels torch.compile sees, as ``shown`` gives them."""

    def seen(leaves: Sequence[Any]) -> Any:
        assert shown is not None
        is_seen = any(is_traced(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
        return shown(leaves) if is_seen else operator.run(*leaves)

    made: Any = torch.library.triton_op(name, _annotated(operator, seen), mutates_args=operator.mutated)
    made.register_fake(operator.shapes)


def _register_rule(name: str, operator: Operator, rule: Rule) -> None:
    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        rule.setup(ctx, operator.template, inputs, [output] if isinstance(output, torch.Tensor) else output)

    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return rule.backward(ctx, grads)

    torch.library.register_autograd(name, backward, setup_context=setup)


# ---- functions written for one structure --------------------------------------------------------------------------


def _annotated(operator: Operator, run: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    """``run`` as a function of the operator's arguments, annotated as a schema is inferred from."""
    count = len(leaves_of(operator.results))
    returned: Any = (None, torch.Tensor)[count] if count < 2 else tuple[(torch.Tensor,) * count]  # type: ignore[misc]
    names = {f"of_{name}": _TYPES[leaf.type] for name, leaf in operator.parameters.items()}
    parameters = ", ".join(f"{name}: of_{name}" for name in operator.parameters)
    text = f"def call({parameters}) -> returned:\n    return run(({''.join(f'{n}, ' for n in operator.parameters)}))\n"
    namespace = names | {"returned": returned, "run": run}
    exec(compile(text, f"<operator {operator.name}>", "exec"), namespace)
    made: Callable[..., Any] = namespace["call"]
    return made


def _arguments(operator: Operator) -> Callable[..., tuple[Any, ...]]:
    """What makes a call's arguments of an operator's: one expression, where nothing is inside of something."""
    host, template = operator.kernel.host, operator.template
    parts = items(template)
    if not all(isinstance(part, (Leaf, Constant)) for part in parts):
        return lambda *leaves: unflatten_call(host, template, leaves)
    constants = {f"c{i}": part.value for i, part in enumerate(parts) if isinstance(part, Constant)}
    texts = [f"v{part.index}" if isinstance(part, Leaf) else f"c{i}" for i, part in enumerate(parts)]
    values = ", ".join(f"v{leaf.index}" for leaf in leaves_of(template))
    made: Callable[..., tuple[Any, ...]] = eval(f"lambda {values}: ({''.join(f'{t}, ' for t in texts)})", constants)
    return made


def _outputs(operator: Operator) -> Callable[[Any, Sequence[Any]], Any]:
    """:meth:`Operator.flat`, quick for a tensor and for a tuple or a list of some and of arguments."""
    results = operator.results
    if isinstance(results, Leaf):
        return lambda result, leaves: result if isinstance(result, torch.Tensor) else operator.flat(result, leaves)
    if isinstance(results, Inner) and isinstance(results.shell, SequenceShell) and len(leaves_of(results)) > 0:
        kind, parts = results.shell.type, results.parts
        if kind in (tuple, list) and all(isinstance(part, (Leaf, Argument)) for part in parts):
            own = [place for place, part in enumerate(parts) if isinstance(part, Leaf)]
            given = [(place, part.index) for place, part in enumerate(parts) if isinstance(part, Argument)]

            def several(result: Any, leaves: Sequence[Any]) -> Any:
                is_known = type(result) is kind and len(result) == len(parts)
                is_known = is_known and all(isinstance(one, torch.Tensor) for one in result)
                if not is_known or not all(result[place] is leaves[index] for place, index in given):
                    return operator.flat(result, leaves)
                return tuple([result[place] for place in own]) if len(own) > 1 else result[own[0]]

            return several
    return operator.flat


def result_of(operator: Operator, outputs: Any, leaves: Sequence[Any]) -> Any:
    """What the kernel returned, of what the operator did: an argument that it returned is the caller's own tensor."""
    return unflatten(operator.results, [outputs] if isinstance(outputs, torch.Tensor) else outputs or (), leaves)
