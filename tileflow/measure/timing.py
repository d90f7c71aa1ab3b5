"""Timing one call on the device, with a cold L2: graph replays between events, as many as the answer needs.

The L2 is emptied by reading a buffer several times its size before every sample: writing one instead would leave dirty
lines whose write-back the measured call then pays for. The read also gives the host time to enqueue the call, so
that what the events span is device time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import LaunchError
from .inputs import Restorer
from .types import Measurement

if TYPE_CHECKING:
    import torch

Sampler = Callable[[int], list[float]]  # that many times of one call, in microseconds


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure. ``budget_us``: of the calls themselves. Stops before ``max_samples`` once the median's 95 %
    interval is within ``precision`` of it, and once even the fastest fifth is slower than ``hopeless`` times the
    incumbent; after ``first_samples`` where even the fastest of those is. A call that takes ``out_of_reach`` times the
    incumbent and more than ``cheap_us`` is timed once: no noise is as large."""

    first_samples: int = 3
    min_samples: int = 7
    max_samples: int = 100
    budget_us: float = 40_000.0
    precision: float = 0.002
    hopeless: float = 1.15
    out_of_reach: float = 4.0
    cheap_us: float = 5_000.0

    def give_up_us(self, incumbent_us: float | None) -> float:
        """The time from which on a config is out of reach; infinite where there is no incumbent."""
        return math.inf if incumbent_us is None else max(self.out_of_reach * incumbent_us, self.cheap_us)


def measure(sampler: Sampler, effort: Effort, incumbent_us: float | None = None) -> Measurement:
    """Sample until ``effort`` is satisfied.

    The first few samples say how many more the budget allows, and are the whole answer where they cannot beat
    ``incumbent_us`` by far: racing, as in Birattari et al., 2002, with one rival.
    """
    first = sampler(effort.first_samples)
    if incumbent_us is not None and min(first) > effort.hopeless * incumbent_us:
        return summarise(first)
    estimate = percentile(sorted(first), 0.5)
    limit = min(effort.max_samples, max(effort.min_samples, int(effort.budget_us / max(estimate, 1e-3))))
    samples: list[float] = []
    while len(samples) < limit:
        samples += sampler(min(effort.min_samples, limit - len(samples)))
        result = summarise(samples)
        if incumbent_us is not None and result.p20_us > effort.hopeless * incumbent_us:
            break
        if len(samples) > 2 * effort.min_samples and result.ci95_us <= effort.precision * result.median_us:
            break
    return summarise(samples)


def summarise(samples: Sequence[float]) -> Measurement:
    """Median, 20th and 80th percentile, and the half-width of the median's 95 % interval.

    The interval lies between two order statistics whose ranks come from the binomial distribution's normal
    approximation (Conover, Practical Nonparametric Statistics, 3.2); with few samples it is their whole range.
    """
    ordered = sorted(samples)
    low, high = median_interval(ordered)
    return Measurement(
        tuple(samples), percentile(ordered, 0.5), percentile(ordered, 0.2), percentile(ordered, 0.8), (high - low) / 2
    )


def median_interval(ordered: Sequence[float], z: float = 1.96) -> tuple[float, float]:
    """The interval of the median of a sorted sample, at ``z`` standard deviations; see :func:`summarise`."""
    count = len(ordered)
    half = z / 2 * math.sqrt(count)  # z * sqrt(count * 0.5 * 0.5)
    low = max(math.floor(count / 2 - half), 0)
    high = min(math.ceil(count / 2 + half), count - 1)
    return ordered[low], ordered[high]


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Linear interpolation between the two nearest ranks of a sorted sequence."""
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


class DeviceSampler:
    """Samples ``call(*args)`` on the current device. Replays a captured graph; where capturing fails (host code that
    waits for the device, say) it calls, and ``captured`` is False: such times include host work that the L2's
    emptying did not hide. ``first_us``: how long the first call took, its launches included; where that is
    ``give_up_us`` or more it is all that there is to know, and nothing is captured.

    Arguments that the call changes are put back before each sample and by :meth:`restore`.
    """

    def __init__(
        self, call: Callable[..., Any], args: Sequence[Any], *, capture: bool = True, give_up_us: float = math.inf
    ) -> None:
        import torch

        self._args = args  # a graph reads their memory, and would not keep it
        self._restorer = Restorer(args)
        start, end = _events()
        start.record()
        call(*args)
        end.record()
        torch.cuda.synchronize()
        self.first_us: float = start.elapsed_time(end) * 1e3
        self._restorer.observe()
        self._restorer.restore()
        self._flush = _l2_reader(torch.cuda.current_device())
        self._run: Callable[[], Any] = lambda: call(*args)
        graph = _capture(self._run) if capture and self.first_us < give_up_us else None
        self.captured = graph is not None
        if graph is not None:
            self._graph = graph  # replay alone would not keep its memory
            self._run = graph.replay
        self._restorer.restore()

    def __call__(self, count: int) -> list[float]:
        """``count`` samples of the call, in microseconds."""
        return sample_in_turn([self] * count)

    def enqueue(self) -> tuple[Any, Any]:
        """One sample, not waited for: the events before and after it."""
        start, end = _events()
        self._restorer.restore()
        self._flush()
        start.record()
        self._run()
        end.record()
        return start, end

    def restore(self) -> None:
        """Put the arguments back."""
        self._restorer.restore()


def sample_in_turn(samplers: Sequence[DeviceSampler]) -> list[float]:
    """One sample of each, in this order and without a pause, in microseconds."""
    import torch

    pairs = [sampler.enqueue() for sampler in samplers]
    for sampler in samplers[-1:]:
        sampler.restore()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in pairs]


def read_memory(count: int) -> list[float]:
    """So many times of the reading that empties the L2, in microseconds: work that never changes."""
    import torch

    read = _l2_reader(torch.cuda.current_device())
    pairs = [_events() for _ in range(count)]
    for start, end in pairs:
        start.record()
        read()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in pairs]


def _events() -> tuple[Any, Any]:
    """Two events that take times."""
    import torch

    event: Any = torch.cuda.Event
    return event(enable_timing=True), event(enable_timing=True)


@functools.cache
def _l2_reader(device: int) -> Callable[[], Any]:
    """A function that reads four times the L2's size (at least 128 MiB)."""
    import torch

    properties = torch.cuda.get_device_properties(device)
    size = max(4 * int(properties.L2_cache_size), 128 << 20)
    buffer = torch.zeros(size // 4, dtype=torch.float32, device="cuda")
    sink = torch.empty((), dtype=torch.float32, device="cuda")
    return lambda: torch.sum(buffer, dim=0, out=sink)


def _capture(run: Callable[[], Any]) -> torch.cuda.CUDAGraph | None:
    """``run`` as a graph, or None where it cannot be captured. A sticky device error comes through."""
    import torch

    try:
        graph = _captured(run)
    except (RuntimeError, LaunchError):
        torch.cuda.synchronize()  # raises again where it was the device and not the capture that failed
        # A capture that could not end leaves the device's random generator in it, so that every later random number
        # raises; one that ends takes the generator out.
        number = torch.zeros((), device="cuda")
        _captured(lambda: number.zero_())
        return None
    graph.replay()
    torch.cuda.synchronize()
    return graph


def _captured(run: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """``run`` as a graph. Raises what ``run`` raises, and RuntimeError where it did what no graph can hold."""
    import torch

    # Not ``torch.cuda.graph``: it collects garbage and empties the allocator's cache, at many milliseconds a config.
    cuda: Any = torch.cuda  # its streams are not annotated
    graph, stream = torch.cuda.CUDAGraph(), cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin()
        try:
            run()
        finally:
            graph.capture_end()
    return graph
