"""Kernels that autograd differentiates: a forward kernel and its backward as one function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .api import Kernel, operators_of
from .errors import CallError
from .frontend.identity import callable_identity, constant_identity
from .frontend.meaning import digest
from .lazy_dataclass import dataclass
from .locks import cached_property
from .runtime.argtree import (
    Leaf,
    bind_call,
    flatten,
    flatten_call,
    is_traced,
    items,
    leaves_of,
    tensors,
    unflatten,
    unflatten_call,
)
from .runtime.call_cache import MISS
from .runtime.describe import refuse_transforms
from .runtime.handles import register

if TYPE_CHECKING:
    from .library import Operators

__all__ = ["BackwardContext", "Differentiable", "differentiable"]


@dataclass(frozen=True, slots=True)
class BackwardContext:
    """What a backward function gets first.

    ``saved``: the values that ``save`` names, in its order. ``needs_input_grad``: one bool for each parameter of the
    forward kernel; of a tuple of tensors, whether one of them needs it.
    """

    saved: tuple[Any, ...]
    needs_input_grad: tuple[bool, ...]


Backward = Callable[..., Any]


def differentiable(
    forward: Kernel,
    backward: Backward | None = None,
    *,
    save: Sequence[str] = (),
    outputs: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> Differentiable:
    """Join a forward kernel and its backward into one differentiable function. Without a backward, one is derived
    (:func:`tileflow.derive_backward`), which reads the arguments and what the forward pass saved where that moves less
    than computing it again.

    ``backward(ctx, *grads)``: ``ctx`` is a :class:`BackwardContext`; ``grads`` holds the gradient of each visible
    output, zeros where nothing depends on it. It returns one gradient for each parameter of ``forward``, in order:
    None for what is no tensor or needs none, a tuple for a tuple of tensors; a single parameter's gradient may stand
    alone. It is ordinary PyTorch, and calls what kernels it likes.

    ``save``: names of parameters and outputs of ``forward`` that ``backward`` reads. ``outputs``: names of what
    ``forward`` returns, in order, if any is saved or hidden. ``hidden``: the outputs that only ``backward`` sees.

    Works under torch.compile. Differentiating twice raises, and autocast changes nothing: kernels take the dtypes that
    they are given. Raises CallError for names that ``forward`` does not have.
    """
    if backward is None:
        if save or outputs or hidden:
            raise CallError(
                "a derived backward saves the arguments",
                got="save, outputs or hidden",
                where=forward.name,
                hint="give the backward that reads what they name",
            )
        return DerivedDifferentiable(forward)
    return Differentiable(forward, Pairing(forward, backward, tuple(save), tuple(outputs), tuple(hidden)))


class Derived:
    """A derived backward, called as one that an author writes."""

    def __init__(self, forward: Kernel, saves: bool = False) -> None:
        # which asks for the compiler where only the runtime is installed
        backward = forward.saving.backward if saves else forward.backward
        from .derive.kernel import BackwardKernel, DerivedRule

        assert isinstance(backward, BackwardKernel)
        self._rule = DerivedRule(backward)
        self.identity = self._rule.identity

    def __call__(self, ctx: BackwardContext, *grads: torch.Tensor) -> tuple[Any, ...]:
        return self._rule(ctx.saved, grads, ctx.needs_input_grad)


class Differentiable:
    """What :func:`differentiable` returns; ``forward`` is the kernel, for ``tune`` and the like."""

    def __init__(self, forward: Kernel, pairing: Pairing) -> None:
        self.forward = forward
        self.__name__, self.__doc__ = forward.__name__, forward.__doc__
        self.name = forward.name
        self._pairing = pairing
        self._handle = register(self)

    def __repr__(self) -> str:
        return f"<differentiable {self.forward!r}>"

    @property
    def identity(self) -> str:
        """What graphs know the function by, in every process (see ``Kernel.identity``)."""
        return digest(f"{self.forward.identity} {self._pairing.identity}")

    @cached_property
    def _operators(self) -> Operators:
        return operators_of(self.forward, self._pairing)

    def __copy__(self) -> Differentiable:
        return self  # as with functions: what holds one is copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Differentiable:
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # a handle is of one process
        return type(self), (self.forward, self._pairing)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The visible outputs, recorded by autograd where it records and a tensor requires grad."""
        if torch.compiler.is_dynamo_compiling():
            from .dynamo import trace_call

            return trace_call(self._handle, args, kwargs)
        if not torch.is_grad_enabled():  # a call with memory that nothing records is its forward kernel's
            result = self.forward.warm(args, kwargs)
            if result is not MISS:
                return self._pairing.visible(result)
        found = [*tensors((*args, *kwargs.values()))]
        is_recorded = torch.is_grad_enabled() and any(t.requires_grad for t in found)
        if any(map(is_traced, found)):
            return self._traced(args, kwargs, is_recorded)
        if is_recorded:
            for number, tensor in enumerate(found):
                refuse_transforms(self.name, f"tensor {number}", tensor)
            return self._recorded(args, kwargs)
        return self._pairing.visible(self.forward(*args, **kwargs))

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_recorded: bool) -> Any:
        return self._pairing.visible(self._operators(*args, **kwargs))

    def _recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        template, leaves = flatten_call(self.forward.host, args, kwargs)
        call = _Call(self.forward, self._pairing, template)
        found = _Function.apply(call, *leaves)  # type: ignore[no-untyped-call]
        return self._pairing.visible(unflatten(call.results, found))


class DerivedDifferentiable(Differentiable):
    """A kernel with the backward that is derived of it. A call that autograd records saves what its plan says (see
    ``tileflow.derive.plan``), by a pair of kernels that its kind of calls has."""

    def __init__(self, forward: Kernel) -> None:
        parameters = tuple(forward.host.signature.parameters)
        super().__init__(forward, Pairing(forward, Derived(forward), parameters, (), ()))
        self._saving: dict[Kernel, Differentiable] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.forward,)

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_recorded: bool) -> Any:
        if not is_recorded or torch.compiler.is_exporting():  # an exported program names kernels of one text
            return super()._traced(args, kwargs, is_recorded)
        whole = self._whole(args, kwargs)
        chosen = self._chosen(whole)
        return Differentiable._traced(chosen, whole, {}, is_recorded)

    def _recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        whole = self._whole(args, kwargs)
        return Differentiable._recorded(self._chosen(whole), whole, {})

    def _whole(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        bound = bind_call(self.forward.host.signature, self.name, args, kwargs)
        return tuple(bound.values())

    def _chosen(self, args: tuple[Any, ...]) -> Differentiable:
        """The pair that serves a call; this one, where nothing is saved."""
        from .derive.kernel import SavingKernel

        saving = self.forward.saving
        assert isinstance(saving, SavingKernel)
        saved = saving.planned(*args).saved
        if not saved:
            return self
        kernel = saving.kind(*args)
        if kernel not in self._saving:
            parameters = tuple(self.forward.host.signature.parameters)
            results = [f"result {i}" for i in range(saving.planned(*args).results)]
            rows = [f"saved {i}" for i, one in enumerate(saved) if one.result is None]
            names = [f"saved {i}" if one.result is None else f"result {one.result}" for i, one in enumerate(saved)]
            pairing = Pairing(
                kernel, Derived(self.forward, saves=True), (*parameters, *names), (*results, *rows), tuple(rows)
            )
            self._saving[kernel] = Differentiable(kernel, pairing)
        return self._saving[kernel]


@dataclass(slots=True)
class _Call:
    """One recorded call; ``results``: the template of what the forward kernel returned."""

    forward: Kernel
    pairing: Pairing
    template: Hashable
    results: Hashable = None


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, *leaves: Any) -> tuple[torch.Tensor, ...]:
        outputs: list[torch.Tensor] = []
        call.results = flatten(
            call.forward(*unflatten_call(call.forward.host, call.template, leaves)), "result", outputs
        )
        ctx.pairing = call.pairing
        call.pairing.setup(ctx, call.template, leaves, outputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return None, *ctx.pairing.backward(ctx, grads)


class _Once(torch.autograd.Function):
    """Hands the first ``count`` tensors on; whoever differentiates them learns that nobody can."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *values: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        ctx.name = name
        return tuple(None if v is None else v.view_as(v) for v in values[:count])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        raise CallError(
            "a kernel paired with a backward is differentiated once",
            got="its backward, differentiated",
            where=ctx.name,
            hint="write the second derivative in plain torch",
        )


def differentiated_once(
    name: str, grads: Sequence[torch.Tensor | None], depend_on: Sequence[torch.Tensor | None]
) -> tuple[torch.Tensor | None, ...]:
    """What a backward returns: with create_graph=True gradients that refuse to be differentiated by what they depend
    on. Without this they would count as constants."""
    if not torch.is_grad_enabled():
        return tuple(grads)
    return _Once.apply(name, len(grads), *grads, *depend_on)  # type: ignore[no-any-return, no-untyped-call]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What the forward leaves on autograd's context besides tensors."""

    template: Hashable
    saved: Hashable
    numbers: tuple[Any, ...]
    outputs: tuple[tuple[Sequence[int], torch.dtype, torch.device], ...]


class Pairing:
    """How a forward kernel is differentiated: the rule of its operators, and of its eager calls."""

    def __init__(
        self,
        forward: Kernel,
        backward: Backward,
        save: tuple[str, ...],
        outputs: tuple[str, ...],
        hidden: tuple[str, ...],
    ) -> None:
        self._name = forward.name
        self._backward = backward
        self._parameters = tuple(forward.host.signature.parameters)
        self._save, self._outputs, self._hidden = save, outputs, hidden
        known = {*self._parameters, *outputs}
        for what, names, among in (("save", save, known), ("hidden", hidden, set(outputs))):
            if wrong := [name for name in names if name not in among]:
                raise CallError(
                    f"{what} names {'parameters and outputs' if what == 'save' else 'outputs'} of the forward kernel",
                    got=", ".join(wrong),
                    where=self._name,
                    hint="outputs=(...) names what the forward kernel returns, in order",
                )

    @cached_property
    def identity(self) -> str:
        """What tells it from other rules for the same kernel, in every process."""
        names = constant_identity((self._save, self._outputs, self._hidden), self._name)
        own = self._backward
        return f"{own.identity if isinstance(own, Derived) else callable_identity(own)} {names}"

    def visible(self, result: Any) -> Any:
        """What the caller sees of the forward kernel's result."""
        if not self._hidden:
            return result
        kept = tuple(v for name, v in zip(self._outputs, self._named(result), strict=True) if name not in self._hidden)
        return kept[0] if len(kept) == 1 else kept

    def _named(self, result: Any) -> Sequence[Any]:
        """The outputs, as many as have names."""
        found = result if isinstance(result, (tuple, list)) else [result]
        if self._outputs and len(found) != len(self._outputs):
            raise CallError(
                "outputs names everything that the forward kernel returns",
                where=self._name,
                got=f"{len(self._outputs)} names and {len(found)} outputs",
            )
        return found

    def setup(self, ctx: Any, template: Hashable, leaves: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        """Save what the backward reads."""
        values = dict(zip(self._parameters, unflatten(template, leaves), strict=True))
        values |= dict(zip(self._outputs, self._named(outputs), strict=False))
        saved: list[Any] = []
        shape = flatten(tuple(values[name] for name in self._save), "saved", saved)
        ctx.save_for_backward(*(v for v in saved if isinstance(v, torch.Tensor)))
        ctx.set_materialize_grads(False)  # hidden outputs have none
        names = self._outputs or ("",) * len(outputs)
        hidden = [o for n, o in zip(names, outputs, strict=True) if n in self._hidden or not o.is_floating_point()]
        ctx.mark_non_differentiable(*hidden)
        numbers = tuple(None if isinstance(v, torch.Tensor) else v for v in saved)
        like = tuple((o.shape, o.dtype, o.device) for o in outputs)
        ctx.recorded = _Recorded(template, shape, numbers, like)

    def backward(self, ctx: Any, grads: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        """The gradient of each leaf."""
        recorded: _Recorded = ctx.recorded
        tensors = ctx.saved_tensors  # once: checkpoints make them again when they are asked for
        kept = iter(tensors)
        saved = [
            next(kept) if leaf.type == "Tensor" else number
            for leaf, number in zip(leaves_of(recorded.saved), recorded.numbers, strict=True)
        ]
        leaves = leaves_of(recorded.template)
        needs = ctx.needs_input_grad[len(ctx.needs_input_grad) - len(leaves) :]
        parameters = items(recorded.template)
        wanted = tuple(any(needs[leaf.index] for leaf in leaves_of(p)) for p in parameters)
        context = BackwardContext(unflatten(recorded.saved, saved), wanted)
        names = self._outputs or ("",) * len(grads)
        seen = [
            _zeros(like) if grad is None else grad
            for name, grad, like in zip(names, grads, recorded.outputs, strict=True)
            if name not in self._hidden
        ]
        with torch.no_grad():
            returned = self._backward(context, *seen)
        found: list[torch.Tensor | None] = [None] * len(leaves)
        for parameter, grad in zip(parameters, self._one_each(returned, len(parameters)), strict=True):
            _scatter(parameter, grad, found)
        return differentiated_once(self._name, found, (*tensors, *grads))

    def _one_each(self, returned: Any, count: int) -> Sequence[Any]:
        given = returned if isinstance(returned, (tuple, list)) else (returned,)
        if len(given) != count:
            raise CallError(
                f"a backward returns one gradient for each parameter of the forward kernel: {self._parameters}",
                got=f"{len(given)}",
                where=self._name,
                hint="None stands for what has no gradient",
            )
        return given


def _zeros(like: tuple[Sequence[int], torch.dtype, torch.device]) -> torch.Tensor:
    shape, dtype, device = like
    return torch.zeros(shape, dtype=dtype, device=device)


def _scatter(parameter: Hashable, grad: Any, found: list[torch.Tensor | None]) -> None:
    """Put the gradient of one parameter at its leaves."""
    if grad is None:
        return
    if isinstance(parameter, Leaf):
        found[parameter.index] = grad
        return
    for inner, part in zip(items(parameter), grad, strict=True):
        _scatter(inner, part, found)
