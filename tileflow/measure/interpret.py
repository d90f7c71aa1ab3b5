"""Is a config right, without a GPU? Its sources through Triton's interpreter, in a process of their own."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..build.process import Died, Done, Failed, TimedOut
from ..build.warm_process import WarmProcess
from ..config import Config
from ..emit.source import TritonSource
from ..errors import ConfigError, TileflowError
from ..ir.traffic import Traffic
from ..runtime.problem import Scalar
from ..target import Target, target
from .check import Reference, check_call, reference_of
from .failure import build_failure, checked, failed
from .inputs import poisoned
from .kernel import API_LOADER, load
from .types import Outcome, Status

GROWTH = (1, 5, 25, 125)
FULL = 250  # stands for the full size, where it is no more than MOST_FULL times the small one
MOST_FULL = 300
EVEN = 16  # elements: whole 16 bytes of any type
MOST_BYTES, MOST_FLOPS = 1 << 22, 1 << 30  # of a call that has no smaller size
_CHECKS = "tileflow.measure.interpret:check_here"


@dataclass(frozen=True, slots=True)
class InterpretRequest:
    """One config of one problem, at the smallest odd sizes that allow it.

    ``target_name``: for whom the sources are emitted.
    """

    kernel: str
    problem: tuple[tuple[str, Scalar], ...]
    config: Config
    target_name: str = "nvidia-h200"
    mode: str = "static"
    sys_path: tuple[str, ...] = ()
    seed: int = 0
    limit_s: float = 120.0
    loader: str = API_LOADER


class InterpreterProcess(WarmProcess):
    """A warm child in which Triton interprets. Not thread-safe; one request at a time.

    ``unwanted``: once true, a check that runs ends as at its limit.
    """

    def __init__(self, unwanted: Callable[[], bool] | None = None) -> None:
        environment = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
        warm = ("torch", "triton", "tileflow.measure.interpret")
        super().__init__(warm=warm, environment=environment, unwanted=unwanted)

    def check(self, request: InterpretRequest) -> Outcome:
        """``ok``, ``incorrect`` or ``nonfinite`` with the place, or how lowering, emitting or running failed."""
        match self._ask(_CHECKS, (request,), request.limit_s):
            case Done(value):
                assert isinstance(value, Outcome)
                return value
            case Failed(error):
                raise error
            case TimedOut():
                return failed(Status.BENCH_TIMEOUT, f"interpreting took longer than {request.limit_s:g} s")
            case Died() as died:
                return failed(Status.WORKER_LOST, str(died))


def check_interpreted(request: InterpretRequest) -> Outcome:
    """One check in a process that starts and ends with it (some three seconds)."""
    with InterpreterProcess() as process:
        return process.check(request)


def check_here(request: InterpretRequest) -> Outcome:
    """:meth:`InterpreterProcess.check`'s work, in a process that interprets."""
    kernel: Any = load(request.loader, request.kernel, request.sys_path)
    device = target(request.target_name)
    ready = emit_small(kernel, request, device)
    if isinstance(ready, Outcome):
        return ready
    return _compared(kernel, request, device, ready)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A config and its sources at some size, arguments of that size, and what a call on them must give."""

    args: tuple[Any, ...]
    config: Config
    sources: tuple[TritonSource, ...]
    reference: Reference


def _compared(kernel: Any, request: InterpretRequest, device: Target, ready: _Ready) -> Outcome:
    from ..build.interpret import interpreter_launcher
    from ..language.host_device import as_on

    started = time.perf_counter()
    try:
        kernel = kernel.kind(*ready.args)  # a derived backward has host code for each kind of call
        launchers: dict[int, list[Any]] = {}
        for source in ready.sources:
            launchers.setdefault(source.region, []).append(interpreter_launcher(source, kernel.scope, device))
        call = as_on(device, kernel.bind(ready.config, launchers))
        verdict = check_call(call, ready.args, ready.reference)
    except TileflowError as error:
        return build_failure(error)
    except Exception as error:  # whatever numpy or Triton's interpreter makes of a wrong source
        return failed(Status.COMPILE_ERROR, error)
    return replace(checked(verdict), verify_s=time.perf_counter() - started, measured=False)


def emit_small(kernel: Any, request: InterpretRequest, device: Target) -> _Ready | Outcome:
    """What to run, at the least sizes that allow the config and the author's own code; or why there are none.

    A block or a loop's step that is larger than a small size exists only at larger ones. The sizes are made up here, so
    what the author's code raises at one of them (an assertion that a length is a multiple of a chunk) means: not this
    size.
    """
    refused: Outcome | None = None
    until = time.monotonic() + request.limit_s / 2
    for problem in grown_sizes(kernel.small(dict(request.problem)), dict(request.problem)):
        try:
            with poisoned():
                args = kernel.inputs(device="cpu", seed=request.seed, **problem)
            lowered = kernel.lower(args, device, mode=request.mode)
            if "interpreted" in problem:  # it has one size
                _require_little(lowered.traffic)
            config = lowered.interpretable(request.config)
            return _Ready(args, config, lowered.emit(config), reference_of(kernel, args))
        except ConfigError as error:
            refused = refused or build_failure(error)
        except TileflowError as error:
            return build_failure(error)
        except Exception as error:
            reason = f"no size that tileflow tried is one that the kernel allows; at {problem}: {type(error).__name__}"
            refused = refused or replace(failed(Status.CANCELLED, f"{reason}: {error}"), measured=False)
        if time.monotonic() > until:
            break
    assert refused is not None
    return refused


def _require_little(traffic: Traffic) -> None:
    """Raises ValueError for a call of one size that Triton's interpreter would take minutes for: its arguments may be
    small and its results large."""
    if traffic.bytes > MOST_BYTES or traffic.flops > MOST_FLOPS:
        raise ValueError(f"a call to be interpreted moves {MOST_BYTES} bytes and has {MOST_FLOPS} operations at most")


def grown_sizes(small: dict[str, Scalar], full: dict[str, Scalar]) -> Iterator[dict[str, Scalar]]:
    """``small`` with every choice of growing sizes, none beyond ``full``, the least work first.

    Each choice comes in two forms. The odd sizes show masks and tails; the others are multiples of what the full ones
    are multiples of, without which some knobs do not exist (the copy engine's, which needs rows of whole 16 bytes).
    """
    sizes = {n: size for n, size in small.items() if type(size) is int}
    limits = {n: limit for n, limit in full.items() if type(limit) is int and sizes.get(n, limit) < limit}
    chosen = {n: (*GROWTH, *((FULL,) if limit <= MOST_FULL * sizes[n] else ())) for n, limit in limits.items()}
    tried: list[dict[str, int]] = []
    for factors in sorted(itertools.product(*chosen.values()), key=math.prod):
        odd = {
            n: limit if factor == FULL else min(sizes[n] * factor, limit)
            for (n, limit), factor in zip(limits.items(), factors, strict=True)
        }
        for grown in (odd, {n: _like(size, limits[n]) for n, size in odd.items()}):
            if grown not in tried:
                tried.append(grown)
                yield {**small, **grown}


def _like(size: int, full: int) -> int:
    """The next odd multiple of the power of two in ``full``, up to :data:`EVEN`; none beyond ``full``."""
    step = math.gcd(full, EVEN)
    return min((-(-size // step) | 1) * step, full)
