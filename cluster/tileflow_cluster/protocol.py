"""What a sweep's driver and whoever evaluates its trials say to each other.

A driver submits :class:`TrialRequest` and :class:`RaceRequest`, polls :class:`~.trial.TrialResult`, and asks
:meth:`Evaluator.capacity` before it asks a strategy for more. Four evaluators follow this protocol: inline (this
process), local (this machine), replay (recorded outcomes) and Ray. All values are frozen and pickle. A kernel travels
as its name and hash, never as code; one that cannot be imported is in memory that workers of the same host map
(:mod:`.shared_call`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tileflow.config import Config
from tileflow.cost import StaticFacts
from tileflow.errors import InternalError, SpecError
from tileflow.measure.kernel import API_LOADER
from tileflow.runtime.abi import Binary
from tileflow.runtime.problem import Scalar

from .trial import Facts, TrialResult

_encode = json.JSONEncoder(separators=(",", ":")).encode
_encode_sorted = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode

SHARED_LOADER = "tileflow_cluster.shared_call:load"

Mode = Literal["static", "dynamic"]
Ordered = Literal["", "pause", "stop"]
ProblemItems = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class KernelRef:
    """A kernel by name: ``name`` is ``module:qualname``; workers import it and check ``semantic_hash``.

    ``sys_path``: directories that must be importable on a worker, in order, before its own. ``shared``: the reference
    of the :class:`.shared_call.SharedCall` that has the kernel and the problem's arguments; workers of its host alone
    can open it, and import nothing.
    """

    name: str
    semantic_hash: str
    sys_path: tuple[str, ...] = ()
    shared: str = ""

    @property
    def loader(self) -> str:
        """``module:function`` that makes a kernel of :attr:`reference`."""
        return SHARED_LOADER if self.shared else API_LOADER

    @property
    def reference(self) -> str:
        """What :attr:`loader` takes: the shared call's reference where there is one, else the kernel's name."""
        return self.shared or self.name

    @property
    def required_hash(self) -> str:
        """The version that a worker must find; a shared call's kernel is the driver's own, and is looked at there."""
        return "" if self.shared else self.semantic_hash

    def __post_init__(self) -> None:
        module, colon, qualname = self.name.partition(":")
        if not (module and colon and qualname):
            raise SpecError("a kernel is named module:qualname", got=repr(self.name))
        if self.shared:
            return
        if module == "__main__":
            raise SpecError(
                "a kernel must be importable by workers",
                got=repr(self.name),
                hint="move it from the script you run into a module of its own and import it from there",
            )
        if "<locals>" in qualname:
            raise SpecError(
                "a kernel must be importable by workers",
                got=repr(self.name),
                hint="define it at the top level of its module, not inside a function",
            )


def problem_items(problem: Mapping[str, Scalar]) -> ProblemItems:
    """Return a problem's keyword arguments as sorted pairs."""
    return tuple(sorted(problem.items()))


def problem_key(problem: ProblemItems) -> str:
    """Return the canonical text of a problem's keyword arguments. It is never remembered by the problem: 1, 1.0 and
    True are one key of a mapping, and the text of one would be taken for that of the others."""
    return _encode_sorted(dict(problem))


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of one problem on one device class: a :class:`TrialRequest` or a :class:`RaceRequest`.

    ``request_id``: unique within a sweep, the driver's choice. ``attempt`` counts from 1. ``epoch`` numbers leases:
    every time a worker is given the request it takes the next one, and whatever an older lease still answers is
    dropped. ``problem``: keyword arguments of ``Kernel.inputs``. ``incumbent_us``: the best time so far, which scales
    the measuring limits; None where there is none. ``seed``: of the inputs' values. ``others_wait``: other studies
    wait for the device, so this problem's inputs and reference get little time (:class:`tileflow.errors.SlowProblem`).
    ``budget_s``: seconds that the study has, beyond which nobody wants to wait for its reference; None where it has no
    such budget.
    """

    request_id: str
    kernel: KernelRef
    problem: ProblemItems
    device_class: str
    mode: Mode = field(default="static", kw_only=True)
    incumbent_us: float | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    others_wait: bool = field(default=False, kw_only=True)
    budget_s: float | None = field(default=None, kw_only=True)
    attempt: int = field(default=1, kw_only=True)
    epoch: int = field(default=1, kw_only=True)

    def _key_of(self, *asked: str) -> str:
        return _digest(
            self.kernel.name,
            self.kernel.semantic_hash,
            problem_key(self.problem),
            self.device_class,
            self.mode,
            *asked,
        )


@dataclass(frozen=True, slots=True)
class TrialRequest(Request):
    """One config to evaluate. ``remeasure``: measure even where the outcome is known; such a result is never a
    duplicate."""

    config: Config
    remeasure: bool = field(default=False, kw_only=True)

    @property
    def key(self) -> str:
        """The identity of what is asked, known before compiling: the same for every request for the same config."""
        return self._key_of(self.config.key)


@dataclass(frozen=True, slots=True)
class RaceRequest(Request):
    """Configs to rank: they are held against each other on one device, at the end of a search.

    ``candidates``: (trial id, config) of each; all of them were built by this evaluator, which still keeps their
    binaries. What comes back is :attr:`~tileflow.measure.types.Outcome.ranked`.
    """

    candidates: tuple[tuple[str, Config], ...]

    def __post_init__(self) -> None:
        if not self.candidates:
            raise InternalError("a race must have a candidate", got=self.request_id)

    @property
    def key(self) -> str:
        """As of a trial."""
        return self._key_of("race", *(trial_id for trial_id, _ in self.candidates))

    @property
    def remeasure(self) -> bool:
        """What is known of the candidates answers no race."""
        return True

    def alone(self, config: Config) -> TrialRequest:
        """The request for one of the candidates by itself, measured once more."""
        return TrialRequest(
            self.request_id,
            self.kernel,
            self.problem,
            self.device_class,
            config,
            mode=self.mode,
            incumbent_us=self.incumbent_us,
            seed=self.seed,
            remeasure=True,
            others_wait=self.others_wait,
            budget_s=self.budget_s,
            attempt=self.attempt,
            epoch=self.epoch,
        )


AnyRequest = TrialRequest | RaceRequest


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """What serves one device class. ``measured``: on hardware, else by the cost model. ``workers``: how many now."""

    name: str
    measured: bool
    workers: int


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the evaluator started.

    ``considered``: final results of any kind. ``measured``: timed on hardware (or by its stand-in in tests).
    ``device_idle``: share of device workers' time without a trial, 0 to 1. ``compile_idle``: likewise of compile
    workers. ``compiler_ready_at``, ``device_ready_at``: when the first of these workers was ready, ``data_ready_at``:
    when a device had the first problem's inputs and reference that were made ahead; seconds since 1970, None for what
    has not been or is not noted.
    """

    elapsed_s: float = 0.0
    considered: int = 0
    measured: int = 0
    modelled: int = 0
    duplicates: int = 0
    retried: int = 0
    dropped: int = 0
    compile_s: float = 0.0
    device_idle: float = 0.0
    compile_idle: float = 0.0
    compiler_ready_at: float | None = None
    device_ready_at: float | None = None
    data_ready_at: float | None = None

    @property
    def considered_per_s(self) -> float:
        """Final results per second, 0 before any time has passed."""
        return self.considered / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def measured_per_s(self) -> float:
        """Measured trials per second, 0 before any time has passed."""
        return self.measured / self.elapsed_s if self.elapsed_s else 0.0


Waiting = Mapping[object, Mapping[str, TrialRequest]]  # of each search, by request id, the oldest first


class SchedulingPolicy(Protocol):
    """The driver's policy of what runs next on a device: it knows which requests are worth a device's time."""

    def built(self, request: TrialRequest, facts: StaticFacts) -> None:
        """Take in that ``request`` was compiled, with these facts, and waits for its device class."""

    def select(self, waiting: Waiting, worker: str) -> Selection:
        """Select the request that goes next to ``worker``, a name that is stable over calls.

        ``waiting``: the built requests of the worker's device class, at least one.
        """


@dataclass(frozen=True, slots=True)
class Selection:
    """A policy's decision for one worker, as request ids.

    ``take``: the request to run now, None where there is none. ``drop``: those never to run. ``incumbent_us``: the best
    time by now in the search of the one taken.
    """

    take: str | None
    drop: tuple[str, ...] = ()
    incumbent_us: float | None = None


class Evaluator(Protocol):
    """Takes requests, gives results in whatever order they end. Not thread-safe: one driver thread uses it."""

    def device_classes(self) -> tuple[DeviceClass, ...]:
        """Return what there is to evaluate on now."""

    def capacity(self, device_class: str) -> int:
        """Return how many more requests keep the workers of ``device_class`` busy; 0 while draining.

        Raises ClusterError where nothing serves it (any more).
        """

    def away(self, device_class: str) -> str:
        """Return why nothing can be done for ``device_class`` now, though it will or may be; empty while it can."""

    def unused(self) -> Sequence[str]:
        """Return the workers that exist but must not be used, with the reason: quarantined GPUs, other toolchains."""

    @property
    def ordered(self) -> Ordered:
        """What somebody else has told this sweep to do."""

    def announce(self, status: Mapping[str, Any]) -> None:
        """Publish this sweep's status to whoever asks for it."""

    def submit(self, request: AnyRequest) -> None:
        """Queue one request and return at once. Raises ClusterError where nothing serves its device class."""

    def poll(self, timeout_s: float) -> list[TrialResult]:
        """Return the results since the last call; wait up to ``timeout_s`` seconds for a first one where any is
        pending.

        Raises ClusterError where nothing can be asked any more, of any class.
        """

    def pending(self) -> int:
        """Return how many submitted requests have a final result that was not polled yet."""

    def fetch_binaries(self, trial_id: str) -> tuple[Binary, ...]:
        """Return the machine code of a trial whose result says ``binaries_kept``. Raises ClusterError."""

    def keeps(self, trial_id: str) -> bool:
        """Whether the trial's machine code is kept, so that it may enter a race."""

    def set_policy(self, policy: SchedulingPolicy) -> None:
        """Let ``policy`` select, in the driver's thread, what runs next on a device; without one the oldest goes
        first."""

    def cancel(self, request_id: str) -> None:
        """Cancel a request that is not compiled yet: it comes back as ``cancelled``. Any other goes on."""

    def drain(self) -> None:
        """Take no more requests. What is not on a device comes back as ``cancelled``; what is there has a short grace.

        Returns at once; poll until :meth:`pending` is 0.
        """

    @property
    def draining(self) -> bool:
        """Whether :meth:`drain` was called, or the evaluator caught a SIGTERM."""

    def counters(self) -> Counters:
        """Return the totals since the evaluator started."""

    def close(self) -> None:
        """Stop every worker. Idempotent. Results of pending requests are lost."""


def source_hash(hashes: Sequence[str]) -> str:
    """Return one hash for the sources of all launches of a call, in order (``TritonSource.hash`` covers options and
    mode)."""
    return _digest(*hashes)


def trial_id(request: TrialRequest, source: str, toolchain: str) -> str:
    """Return the identity of a trial: the same for configs of one study with the same sources, options, mode and
    toolchain.

    The kernel's name is part of it, since two kernels of a sweep may be the same text. ``source`` is
    :func:`source_hash` of the emitted sources; for a config that emits none, ``config:<key>``.
    """
    kernel = request.kernel
    problem, device_class = problem_key(request.problem), request.device_class
    return _digest(kernel.name, kernel.semantic_hash, problem, device_class, source, request.mode, toolchain)


def config_trial_id(request: TrialRequest) -> str:
    """Return the trial id of a request without source: it was rejected, or never came back from compiling."""
    return trial_id(request, f"config:{request.config.key}", "")


def toolchain_text(compiled_by: Facts) -> str:
    """Return the versions as text, such as ``ptxas=12.9 torch=2.13.0 triton=3.7.1``, in sorted order."""
    return " ".join(f"{name}={version}" for name, version in sorted(compiled_by))


def _digest(*parts: Any) -> str:
    return hashlib.sha256(_encode(parts).encode()).hexdigest()[:24]
