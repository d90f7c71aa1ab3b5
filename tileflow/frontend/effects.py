"""What a call does besides returning: which arguments its kernels store into. Asked of the traced regions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import CallError
from ..ir.graph import KernelIR
from ..ir.op_table import effects_of
from ..language.host_device import host_code_on
from ..runtime.argtree import Leaf, flatten_result, leaves_of, unflatten_call
from ..runtime.dispatch import Shapes
from ..runtime.paths import Path, read_path
from ..target import Target
from .lower import lower_call
from .split import HostFunction


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of a call besides returning. ``stored``: the indices of the leaves that are stored into; ``results``:
    the template of what is returned."""

    stored: frozenset[int]
    results: Hashable


def effects(host: HostFunction, template: Hashable, leaves: Sequence[Any], target: Target | None = None) -> Effects:
    """The effects of a call, out of meta tensors and plain numbers. ``target``: what host code is told of its device;
    None for a GPU that only its driver knows.

    Raises KernelError where the call cannot be lowered, and CallError where it has no meaning as an operator of
    torch.library: an output that is a view of an argument, shares memory with another output, is no tensor, or has a
    shape that depends on the config. An argument that is returned is no output: the caller has it.
    """
    args = unflatten_call(host, template, leaves)
    memory = [leaf.untyped_storage() if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
    written: list[torch.UntypedStorage] = []

    def watch(ir: KernelIR, frame: Mapping[str, Any]) -> None:
        paths = {path for op in ir.walk() for path in effects_of(op).writes}
        written.extend(read_path(Path.parse(path), frame, host.fn).untyped_storage() for path in paths)

    lower_call(host, args, "static", watch=watch, target=target)
    found: list[Any] = []
    with host_code_on(target, leaves):
        results = flatten_result(host.run(Shapes(), *args), leaves, found)
    _check_results(host, results, found, memory)
    with host_code_on(target, leaves):
        _check_shapes(host, args, leaves, found)
    versions = [leaf._version if isinstance(leaf, torch.Tensor) else 0 for leaf in leaves]
    stored = {i for i, own in enumerate(memory) if any(own is other for other in written) or versions[i] > 0}
    return Effects(frozenset(stored), results)


def _check_results(host: HostFunction, results: Hashable, found: Sequence[Any], memory: Sequence[Any]) -> None:
    for leaf, value in zip(leaves_of(results), found, strict=True):
        _check_result(host, leaf, value)
        own = value.untyped_storage()
        others = [*memory, *(v.untyped_storage() for v in found if v is not value and isinstance(v, torch.Tensor))]
        if any(own is other for other in others) or sum(v is value for v in found) > 1:
            raise CallError(
                "a compiled kernel's outputs have memory of their own",
                got=f"{leaf.path} of {host.fn.__name__}",
                hint="return a new tensor, or the argument itself and no view of it",
            )


def _check_result(host: HostFunction, leaf: Leaf, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise CallError(
            "a compiled kernel returns tensors, in tuples or alone",
            got=f"{leaf.path} of {host.fn.__name__}: {value!r}",
            hint="compute numbers outside the kernel, from its arguments",
        )


def _check_shapes(
    host: HostFunction, args: Sequence[Any], leaves: Sequence[Any], found: Sequence[torch.Tensor]
) -> None:
    """Asks for the shapes under other choices of the knobs."""
    others: list[Any] = []
    try:
        flatten_result(host.run(Shapes(other=True), *args), leaves, others)
    except AssertionError:  # the host code's way to refuse a config
        return
    shapes, wanted = [tuple(v.shape) for v in others], [tuple(v.shape) for v in found]
    if shapes != wanted:
        raise CallError(
            "a compiled kernel's outputs have shapes that do not depend on the config",
            got=f"{wanted} and {shapes} from {host.fn.__name__}",
            hint="reduce partial results in the kernel before it returns",
        )
