"""Derived gradients of gallery kernels beside those written by hand, torch's autograd and torch.compile, in one run.

    python -m tileflow_benchmarks.ratios.derived --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.derived --out DIR --dry-run                     builds only, without one

Each kernel runs under its default config. Values are checked first, against torch's autograd of the reference in higher
precision. Then times are taken in turns, in a process of its own that is watched as those of the other comparisons.

- *derived*, *hand* and *eager* start from what the forward pass saved, which was done beforehand. *derived* is as
  autograd calls it; where its plan saves nothing it starts from the arguments.
- *recomputing*, where it is another kernel, and *compile* start from the arguments and compute again what the forward
  pass computed.

torch.compile is asked where no gradient is written by hand. ``bytes`` is what the launches ask for, access by access:
what two loops read counts twice, of a gather the lanes count. More than by hand is what the derivation wastes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from examples import cross_entropy, layer_norm, rms_norm
from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.derive.kernel import BackwardKernel, SavingKernel, derive_backward
from tileflow.errors import TileflowError
from tileflow.ir.analysis import moved
from tileflow.measure.check import check_call, reference_of
from tileflow.measure.timing import DeviceSampler
from tileflow.target import Target, target

from .command import Comparison, measure_each
from .in_turns import medians
from .watched import Job, say_about, say_found

_ROUNDS = 15
DERIVED, RECOMPUTING, HAND, EAGER, COMPILE = "derived", "recomputing", "hand", "eager", "compile"

Args = tuple[Any, ...]
Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Hand:
    """A gradient written by hand. ``args``: its arguments, made of those of the derived one."""

    kernel: str
    args: Callable[..., Args]


@dataclass(frozen=True, slots=True)
class DerivedCase:
    """A gallery kernel on one problem. ``wanted``: the parameters whose gradients are asked for; empty for all."""

    kernel: str
    problem: Mapping[str, Any]
    hand: Hand | None = None
    wanted: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The kernel's name and its sizes."""
        return f"{self.kernel.partition(':')[2]} {'x'.join(str(size) for size in self.problem.values())}"

    @property
    def backward(self) -> BackwardKernel:
        """The derived gradient."""
        return derive_backward(load_kernel(self.kernel), *self.wanted)

    def args(self, device: str) -> Args:
        """Return the forward kernel's arguments and the gradients of its results."""
        return self.backward.inputs(device=device, **self.problem)

    def saves(self, args: Args) -> bool:
        """Whether the forward pass of a call saves something for the derived gradient."""
        forward = load_kernel(self.kernel)
        return bool(saving_of(forward).planned(*args[: len(forward.host.signature.parameters)]).saved)

    def called(self, name: str, args: Args) -> tuple[Kernel, Args]:
        """Return the kernel of a row, and its arguments for those of the derived one."""
        if name == DERIVED and self.saves(args):
            forward = load_kernel(self.kernel)
            count = len(forward.host.signature.parameters)
            saved = saving_of(forward).save(args[:count])
            backward = saving_of(forward).backward.of(*self.wanted)
            return backward.kind(*args), (*args[:count], *saved, *args[count:])
        if name in (DERIVED, RECOMPUTING):
            return self.backward.kind(*args), args
        assert self.hand is not None
        return load_kernel(self.hand.kernel), self.hand.args(*args)


def saving_of(forward: Kernel) -> SavingKernel:
    """Return the forward pass that saves what the derived gradient of a kernel reads."""
    found = forward.saving
    assert isinstance(found, SavingKernel)
    return found


def _norm(args: Args) -> Args:
    x, weight, eps, grad = args
    return grad, x, weight, rms_norm.train_reference(x.float(), weight.float(), eps)[1]


def _layer(args: Args) -> Args:
    x, weight, bias, eps, grad = args
    return grad, x, weight, *layer_norm.train_reference(x.float(), weight.float(), bias.float(), eps)[1:]


def _loss(args: Args) -> Args:
    logits, labels, _, grad, _ = args
    return grad, logits, labels, cross_entropy.reference(logits.float(), labels)[1]


def _case(
    kernel: str, hand: str = "", args: Callable[[Args], Args] | None = None, *, wanted: str = "", **problem: Any
) -> DerivedCase:
    module = f"examples.{kernel}"
    by_hand = Hand(f"{module}:{hand}", lambda *given: args(given)) if hand and args else None
    return DerivedCase(f"{module}:{kernel}", problem, by_hand, tuple(wanted.split()))


def _attention(args: Args) -> Args:
    q, k, v, causal, _, grad = args
    out, lse = load_kernel("examples.attention:attention").reference(q, k, v, causal, True)
    return q, k, v, out.contiguous(), lse.float(), grad, causal


def _gated(args: Args) -> Args:
    a, b, grad = args
    return grad, a, b


_ROWS: dict[str, Any] = {"m": 8192, "n": 4096}
_INNER: dict[str, Any] = {"m": 8192, "n": 14336}
CASES = (
    _case("rms_norm", "rms_norm_bwd", _norm, **_ROWS),
    _case("layer_norm", "layer_norm_bwd", _layer, **_ROWS),
    _case("softmax", "softmax_bwd", lambda args: (args[1], torch.softmax(args[0], dim=1)), **_ROWS),
    _case("cross_entropy", "cross_entropy_bwd", _loss, m=4096, v=128256),
    _case("swiglu", "swiglu_bwd", _gated, **_INNER),
    _case("geglu", "geglu_bwd", _gated, **_INNER),
    # nobody trains the angles
    _case("rope", "rope_bwd", lambda args: (*args[4:], *args[2:4]), wanted="q k", s=4096, d=128, h=32, hk=8, b=2),
    _case("exp", "exp_bwd", lambda args: (args[1], torch.exp(args[0])), **_INNER),
    _case("kl_div", m=4096, n=32000),
    _case("embedding", m=8192, n=4096, rows=32000),
    _case("matmul", m=4096, k=4096, n=4096),
    _case("attention", "attention_backward", _attention, batch=4, heads=32, m=1024, d=64),
    _case("long_sum", m=64, n=1 << 20),
    DerivedCase("examples.long_sum:long_sum_looped", {"m": 64, "n": 1 << 20}),
)


def names(case: DerivedCase) -> tuple[str, ...]:
    """Return the rows of a case that are kernels of ours."""
    recomputing = (RECOMPUTING,) if case.saves(case.args("meta")) else ()
    return (DERIVED, *recomputing, *((HAND,) if case.hand is not None else ()))


# ---- building ------------------------------------------------------------------------------------------------


def built(number: int, name: str, device: str) -> dict[str, Any]:
    """Build a default config and return what its binaries take of the device and what its launches must move."""
    start, case = time.monotonic(), CASES[number]
    found = {"case": case.name, "config": name, "device": device}
    try:
        kernel, args = case.called(name, case.args("meta"))
        lowered = kernel.lower(args, target(device))
        taken = [build(source, lowered.target).resources for source in lowered.emit(lowered.default)]
    except TileflowError as error:
        return found | {"status": type(error).__name__, "reason": str(error)}
    return found | {
        "status": "built",
        "bytes": moved(lowered.regions),
        "registers": [t.registers for t in taken],
        "spills": [t.spills for t in taken],
        "shared": [t.shared for t in taken],
        "seconds": round(time.monotonic() - start, 1),
    }


# ---- torch's own ---------------------------------------------------------------------------------------------


def _parts(case: DerivedCase, args: Args) -> tuple[Call, Args, Args]:
    """Return a function of the floating-point arguments that gives the results with gradients, these arguments, and
    the gradients."""
    forward = case.backward.forward
    count = len(forward.inputs(device="meta", **case.problem))  # a reference knows nothing of a kernel's defaults
    asked = case.backward.results(*args)
    names = tuple(forward.host.signature.parameters)[:count]
    moved = [
        n
        for n, (name, a) in enumerate(zip(names, args, strict=False))
        if isinstance(a, torch.Tensor) and a.is_floating_point() and (not case.wanted or name in case.wanted)
    ]

    def results(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = list(args[:count])
        for n, leaf in zip(moved, leaves, strict=True):
            given[n] = leaf
        found = forward.reference(*given)
        every = found if isinstance(found, tuple) else (found,)
        return tuple(every[n] for n in asked)

    return results, tuple(args[n] for n in moved), args[len(args) - len(asked) :]


def eager_gradients(case: DerivedCase, args: Args) -> Call:
    """Return torch's own gradients, whose forward pass is done here.

    They are called and never captured: autograd runs them on the stream of the forward pass.
    """
    function, given, grads = _parts(case, args)
    leaves = [t.detach().clone().requires_grad_() for t in given]
    results = function(*leaves)
    to_results = [g.to(r.dtype) for g, r in zip(grads, results, strict=True)]
    return lambda *_: torch.autograd.grad(results, leaves, to_results, retain_graph=True, allow_unused=True)


def compiled_gradients(case: DerivedCase, args: Args) -> Call:
    """Return the gradients from the arguments alone, as one graph of torch.compile."""
    function, given, grads = _parts(case, args)
    with torch.no_grad():
        dtypes = [r.dtype for r in function(*given)]

    def gradients(leaves: tuple[torch.Tensor, ...], grads: tuple[torch.Tensor, ...]) -> Any:
        return torch.func.vjp(function, *leaves)[1](grads)

    compiled = torch.compile(gradients, dynamic=False)
    to_results = tuple(g.to(d) for g, d in zip(grads, dtypes, strict=True))
    return lambda *_: compiled(given, to_results)


# ---- measuring, in a process of its own ----------------------------------------------------------------------


def measure(jobs: list[Job]) -> None:
    """Check the kernels, then time each case's in turns beside torch's. Prints a line per result, and before each."""
    measure_each(jobs, CASES, _measure_case)


def _measure_case(number: int, rows: list[str], device: Target) -> None:
    torch.compiler.reset()  # of the case before
    case, samplers = CASES[number], dict[str, DeviceSampler]()
    args = case.args("cuda")
    for name in rows:
        say_about((number, name))
        kernel, own = case.called(name, args)
        lowered = kernel.lower(own, device)
        call = kernel.compile(lowered, lowered.default, "cuda")
        verdict = check_call(call, own, reference_of(kernel, own), repeats=2)
        if verdict.ok:
            samplers[name] = DeviceSampler(call, own)
        found = {"status": "ok" if verdict.ok else verdict.status.value, "max_err": verdict.max_err}
        say_found((number, name), found | {"reason": verdict.reason})
    say_about((number, EAGER))
    samplers[EAGER] = DeviceSampler(eager_gradients(case, args), (), capture=False)
    if case.hand is None:
        say_about((number, COMPILE))
        samplers[COMPILE] = DeviceSampler(compiled_gradients(case, args), ())
    times = medians(samplers, _ROUNDS)
    for name, us in times.items():
        found = {"us": us, "captured": samplers[name].captured}
        if DERIVED in times:
            found["to_derived"] = round(us / times[DERIVED], 3)
        say_found((number, name), found)


def main() -> int:
    """Run the comparison. Exit code 1 where a gradient was wrong, hung or could not be built."""
    return Comparison(
        "tileflow_benchmarks.ratios.derived",
        __doc__,
        CASES,
        lambda number, _: names(CASES[number]),
        built,
        measure,
        frozenset({EAGER, COMPILE}),
        "derived_ratio.json",
        seconds=40.0,
        is_right=lambda row: row["status"] in ("ok", "built"),
    ).main()


if __name__ == "__main__":
    sys.exit(main())
