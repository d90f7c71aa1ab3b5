"""One call of a kernel, seen by autograd: which tensors its launches read and write, and what host code makes of them.

Host code runs on meta tensors that require grad, and what a launch writes requires grad afterwards, so that torch's own
graph says how the results depend on the launches, and what these read on the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import GradientError
from ..frontend.lower import lower_call
from ..frontend.split import HostFunction
from ..ir.graph import KernelIR
from ..ir.op_table import effects_of
from ..ir.types import Value
from ..language.host_cuda import any_target
from ..runtime.argtree import replace, tensors, walk
from ..runtime.paths import Path, read_path
from .called import Called, noting
from .forward import HINT
from .sizes import path_text

# Nodes of torch's graph whose gradients do not depend on values; those of a product and a quotient, by one tensor.
_LINEAR = (
    "AccumulateGrad",
    "Sum",
    "Mean",
    "View",
    "UnsafeView",
    "ReshapeAlias",
    "ToCopy",
    "T",
    "Transpose",
    "Permute",
    "Squeeze",
    "Unsqueeze",
    "Expand",
    "Neg",
    "Add",
    "Sub",
    "Slice",
    "Select",
    "Clone",
    "Alias",
    "Stack",
    "Cat",
    "NanToNum0",
)
_BY_ONE = ("Mul", "Div")


@dataclass(frozen=True, slots=True)
class Launch:
    """``frame``: the host code's variables. ``tensors``: those that the region reads or writes, by path. ``written``:
    the paths that it writes. ``calls``: of torch functions with a derivative of their own, by their result."""

    ir: KernelIR
    frame: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]
    written: frozenset[str]
    calls: Mapping[Value, Called]


@dataclass(slots=True)
class Call:
    """``leaves``: the tensors of the arguments, by their text. ``wanted``: the texts of those whose gradients are asked
    for, if they have some. ``written``: what launches wrote, by id."""

    leaves: dict[str, torch.Tensor]
    wanted: frozenset[str]
    launches: list[Launch] = field(default_factory=list)
    written: dict[int, torch.Tensor] = field(default_factory=dict)
    results: tuple[torch.Tensor, ...] = ()
    is_tuple: bool = False  # of the result
    is_plain: bool = False  # one tensor is returned, or a tuple of several

    def leaf(self, tensor: torch.Tensor) -> str | None:
        """The text of the argument that is ``tensor``."""
        return next((text for text, leaf in self.leaves.items() if leaf is tensor), None)

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The arguments that gradients are taken for, in order."""
        return tuple(text for text, leaf in self.leaves.items() if leaf.requires_grad and text in self.wanted)

    def is_unwanted(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is, or is made of, arguments alone whose gradients nobody asks for."""
        made = [node.variable for node in _nodes(tensor) if hasattr(node, "variable")]
        leaves = [self.leaf(end) for end in made or [tensor]]
        return all(leaf is not None and leaf not in self.wanted for leaf in leaves)

    @property
    def asked(self) -> tuple[int, ...]:
        """Which results have gradients."""
        return tuple(i for i, r in enumerate(self.results) if r.requires_grad)

    @property
    def is_direct(self) -> bool:
        """Whether every result with a gradient is a tensor as a launch wrote it."""
        return all(id(self.results[i]) in self.written for i in self.asked)

    @property
    def reached(self) -> tuple[str, ...]:
        """The arguments on which host code after the launches depends itself, in order."""
        ends = [getattr(node, "variable", None) for i in self.asked for node in _nodes(self.results[i])]
        ends += [self.results[i] for i in self.asked if self.results[i].grad_fn is None]
        return tuple(text for text in self.differentiable if any(end is self.leaves[text] for end in ends))

    @property
    def is_linear(self) -> bool:
        """Whether what host code makes of the written tensors is linear in them."""
        return all(_is_linear(node) for i in self.asked for node in _nodes(self.results[i]))


def observe(
    name: str, host: HostFunction, args: Sequence[Any], parameters: Sequence[str] = (), hint: str = HINT
) -> Call:
    """Trace a call with autograd recording its host code. ``parameters``: of whose arguments gradients are asked for;
    empty for all. Raises GradientError for a launch into an argument."""

    def differentiable(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            value = value.detach()
            return value.requires_grad_() if value.is_floating_point() else value
        return value

    with torch.enable_grad(), noting() as calls:
        given = tuple(replace(a, differentiable) for a in args)
        leaves = [*_leaves(host, given)]
        asked = frozenset(text for name, text, _ in leaves if not parameters or name in parameters)
        call = Call({text: leaf for _, text, leaf in leaves}, asked)

        def watch(ir: KernelIR, frame: Mapping[str, Any]) -> None:
            _check_views(ir, name, hint)
            found = {t.path: read_path(Path.parse(t.path), frame, host.fn) for t in ir.tensors}
            written = frozenset(path for op in ir.walk() for path in effects_of(op).writes)
            call.launches.append(Launch(ir, dict(frame), found, written, dict(calls)))
            calls.clear()  # the next launch counts its values anew
            for path in written:
                tensor = found[path]
                if tensor.requires_grad and id(tensor) not in call.written:
                    raise GradientError(
                        "a kernel whose backward is derived writes to tensors of its own",
                        got=f"{path}, which is an argument or made of one",
                        where=name,
                        hint=f"allocate it by torch.empty; or {hint}",
                    )
                if tensor.is_floating_point():
                    tensor.requires_grad_()
                call.written[id(tensor)] = tensor

        try:
            result = lower_call(host, given, "dynamic", watch=watch, target=any_target()).result
        except RuntimeError as error:
            raise GradientError(
                "autograd records the host code of a kernel whose backward is derived",
                got=str(error).splitlines()[0],
                where=name,
                hint=hint,
            ) from error
        call.results = tuple(tensors((result,)))
        _check_memory(call, name, hint)
        several = result if type(result) is tuple else (result,)
        call.is_tuple = type(result) is tuple
        call.is_plain = all(isinstance(one, torch.Tensor) for one in several) and len(several) > call.is_tuple
    return call


def _check_views(ir: KernelIR, name: str, hint: str) -> None:
    """Raises GradientError for a view that device code takes, of which autograd, which records host code, knows
    nothing."""
    for tensor in ir.tensors:
        if any(kind == "view" for kind, _ in Path.parse(tensor.path).steps):
            base, _, view = tensor.path.partition(".view:")
            raise GradientError(
                "a kernel whose backward is derived takes views in host code, which autograd records",
                got=f"{base}.{view.partition('_')[0]} in device code",
                where=name,
                hint=f"take it before the loop, under a name of its own: part = {base}.{view.partition('_')[0]}(...); "
                f"or {hint}",
            )


def _check_memory(call: Call, name: str, hint: str) -> None:
    """Raises GradientError where launches write to a view and host code returns, or they write to, another of its
    memory: autograd knows of no write to the other."""
    for written in call.written.values():
        for other in (*call.results, *call.written.values()):
            is_shared = other.untyped_storage() is written.untyped_storage()
            if other is not written and is_shared and (other.grad_fn is None or id(other) in call.written):
                raise GradientError(
                    "a kernel whose backward is derived writes to a tensor by one name, which it returns",
                    got=f"stores to a view of shape {tuple(written.shape)} of one of shape {tuple(other.shape)}",
                    where=name,
                    hint=f"return the view, or what host code makes of it behind the loop; or {hint}",
                )


def _leaves(host: HostFunction, args: Sequence[Any]) -> Iterator[tuple[str, str, torch.Tensor]]:
    """The tensors of the arguments, with their parameter's name and their text."""
    bound = host.signature.bind(*args)
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        for steps, leaf in walk(value, ()):
            if isinstance(leaf, torch.Tensor) and all(kind in ("item", "key", "attr") for kind, _ in steps):
                yield name, path_text(name + "".join(f".{kind}:{step}" for kind, step in steps)), leaf


def _nodes(result: torch.Tensor) -> Iterator[Any]:
    seen, todo = set(), [result.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            todo += [following for following, _ in node.next_functions]


def _is_linear(node: Any) -> bool:
    name = node.name().split("::")[-1].rstrip("0123456789").removesuffix("Backward")
    if name in _BY_ONE:
        return sum(following is not None for following, _ in node.next_functions) == 1
    return name in _LINEAR
