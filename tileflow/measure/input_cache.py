"""Problems' arguments and references, kept on the device: the configs of a sweep share them.

Making them takes longer than measuring a config (a reference in higher precision, in plain torch), and studies take
turns on a GPU, so those of several problems are kept, the latest ones, while they leave most of the card free.

A reference that the card has no room for is made on the CPU, once a host (:mod:`.host_share`), and stays in host
memory, from which checks copy it piece by piece. Where the CPU has no room for it either, or a kernel's own text has to
stand for it and takes long, it is the default config's output, as far as its witnesses agree (:mod:`.witnesses`).
"""

from __future__ import annotations

import gc
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..build.serve import report
from . import host_share
from .check import Made, Reference, reference_of
from .deadline import Allowance, OutOfTime
from .failure import slow_problem
from .inputs import copied, leaves, map_tensors, poisoned, to_host
from .kernel import MeasurableKernel, load
from .noise import Measured
from .request import MeasureRequest
from .warmup import warm_up_libraries
from .witnesses import Witnesses, witnesses_on_device

if TYPE_CHECKING:
    import torch

CACHED_SHARE = 0.4  # of the card's memory; calls, their outputs and a race's graphs need the rest

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CachedInputs:
    """Arguments of one seed on the device, and what a call on them must give. ``sums``: of the bits of all that."""

    args: tuple[Any, ...]
    reference: Reference
    sums: torch.Tensor

    @staticmethod
    def of(args: tuple[Any, ...], reference: Reference) -> CachedInputs:
        """The data as it is now."""
        return CachedInputs(args, reference, _sums(args, reference))

    @property
    def is_intact(self) -> bool:
        """Whether nothing has written over any of it."""
        return bool((_sums(self.args, self.reference) == self.sums).all())


@dataclass(slots=True)
class _Problem:
    kernel: MeasurableKernel
    seeds: dict[int, CachedInputs] = field(default_factory=dict)


_cache: OrderedDict[Key, _Problem] = OrderedDict()
_slowest_s: float | None = None  # of the seeds whose references were made on this device
_slow: dict[Key, set[str]] = {}  # by problem: witnesses of noise that have no answer in time
_noise: dict[tuple[Key, int], Measured] = {}  # by problem and seed: a few numbers, which outlive the tensors
_witnesses: dict[Key, Witnesses] = {}  # two calls and what is known of them, which outlive the tensors too


def key(request: MeasureRequest) -> Key:
    """The key of a request's data; requests with equal keys share it."""
    return request.loader, request.kernel, request.problem


def cached() -> frozenset[Key]:
    """The problems whose data is there."""
    return frozenset(_cache)


def prepare(request: MeasureRequest) -> tuple[MeasurableKernel, list[CachedInputs]]:
    """The kernel, and the data of each of the request's seeds. Raises what the kernel's author's functions raise,
    SlowProblem where they take too long, and NoText where its own text has to stand for a reference and has no result
    in time."""
    problem = _cache.pop(key(request), None)
    if problem is None:
        report("load")
        problem = _Problem(load(request.loader, request.kernel, request.sys_path, request.semantic_hash))
        report("prepare")
    made = [seed for seed in request.seeds if seed not in problem.seeds]
    for seed in made:
        slow = _slow.setdefault(key(request), set())
        measured = _noise.setdefault((key(request), seed), Measured(slow=slow))
        problem.seeds[seed] = _prepare_seed(problem.kernel, request, seed, measured)
        problem.kernel = problem.kernel.kind(*problem.seeds[seed].args)
    _cache[key(request)] = problem
    if made:
        make_room()
    return problem.kernel, [problem.seeds[seed] for seed in request.seeds]


def forget(request: MeasureRequest | None = None) -> None:
    """Drop what is kept for ``request``'s problem; all problems where None, and give their memory back."""
    global _slowest_s
    import torch

    if request is not None:
        _cache.pop(key(request), None)
        return
    _cache.clear()
    _slowest_s = None
    _witnesses.clear()
    host_share.withdraw()
    gc.collect()
    torch.cuda.empty_cache()


def renew(request: MeasureRequest) -> None:
    """Drop what a config has written over of the data kept for ``request``'s problem: all of it where its bits are not
    those that it was made with, which takes a hundredth of what making it takes, else what comparisons keep."""
    problem = _cache.get(key(request))
    if problem is None or not all(its.is_intact for its in problem.seeds.values()):
        forget(request)
        return
    for its in problem.seeds.values():
        its.reference.scales.clear()


def _sums(args: tuple[Any, ...], reference: Reference) -> torch.Tensor:
    """The sum of the words of each tensor that is on the arguments' device, shape (tensors,), int64: what a config
    could write over."""
    import torch

    data = [leaf for _, leaf in leaves((args, reference.result, reference.args), "data")]
    tensors = [leaf for leaf in data if isinstance(leaf, torch.Tensor)]
    found = [_sum(t) for t in tensors if t.device == tensors[0].device]
    return torch.stack(found) if found else torch.zeros(0, dtype=torch.int64)


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())  # of an expanded one
    data = tensor.detach()[once].resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)
    return (data.view(torch.int32) if data.numel() % 4 == 0 else data).sum(dtype=torch.int64)


def _prepare_seed(kernel: MeasurableKernel, request: MeasureRequest, seed: int, measured: Measured) -> CachedInputs:
    seconds = request.limits.author_s(_slowest_s)
    try:
        return _made_within(Allowance(seconds), kernel, request, seed, measured)
    except OutOfTime:
        others = "" if _slowest_s is None else f"; others' took {_slowest_s:.2g} s at most"
        raise slow_problem(request, seconds, f"longer{others}") from None


def _made_within(
    allowance: Allowance, kernel: MeasurableKernel, request: MeasureRequest, seed: int, measured: Measured
) -> CachedInputs:
    global _slowest_s
    limited = allowance.limited
    began = time.monotonic()
    # Poisoned, so that an output that the inputs function allocates is not zero by chance.
    with poisoned():
        args = limited(kernel.inputs)(device="cuda", seed=seed, **dict(request.problem))
    _await_device()
    inputs_s = time.monotonic() - began
    _load_libraries(args)
    if request.reference_on == "device":
        began = time.monotonic()
        reference = reference_of(kernel, args, measured, None, request.limits.text, limited)
        if kernel.has_reference:
            _slowest_s = max(_slowest_s or 0.0, inputs_s + time.monotonic() - began)
        return CachedInputs.of(args, reference)
    if request.reference_on == "witnesses":
        if key(request) not in _witnesses:
            _witnesses[key(request)] = witnesses_on_device(kernel.kind(*args), request)
        return CachedInputs.of(args, _witnesses[key(request)].reference(args, measured))
    there = copied(args, to_host)
    name = f"{key(request)} {request.sys_path} seed {seed} of {host_share.digest(there)}"

    def keep(make: Callable[[], Made]) -> Made:
        def pinned() -> Made:
            made: Made = map_tensors(_pinned, make())
            return made

        return host_share.shared(name, pinned)

    return CachedInputs.of(args, reference_of(kernel, there, measured, keep, request.limits.text, limited))


def _await_device() -> None:
    """Wait for what was asked of the device: it is the time of whoever asked."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _load_libraries(args: tuple[Any, ...]) -> None:
    """Load what a process's first product takes, which is not the problem's time."""
    report("device")
    warm_up_libraries(args)
    report("prepare")


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in host memory that the card copies from as fast as it can; every check does."""
    import torch

    return tensor.pin_memory() if torch.cuda.is_available() else tensor


def make_room() -> None:
    """Drop the problems that were not used for longest, and give the card what making the references took: libraries
    allocate beside torch. Waits for the device, so that preparing bears its own time."""
    import torch

    torch.cuda.synchronize()
    limit = CACHED_SHARE * torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    while len(_cache) > 1 and torch.cuda.memory_allocated() > limit:
        _cache.popitem(last=False)
    torch.cuda.empty_cache()
