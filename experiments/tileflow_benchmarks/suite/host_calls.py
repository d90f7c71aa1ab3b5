"""The host's share of a warm call of a small two-input kernel: ours, torch's, and the peers' launchers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tileflow.api import load_kernel

from .results import OURS

if TYPE_CHECKING:
    from .slot_work import Settings

Pair = tuple[torch.Tensor, torch.Tensor]
SHAPES = (1, 64)


def host_calls(settings: Settings) -> dict[str, dict[str, float | str]]:
    """Return shapes in turn -> contender -> microseconds, or the error of one that failed."""
    device, calls = ("cpu", 64) if settings.is_dry else ("cuda", 20_000)
    found: dict[str, dict[str, float | str]] = {}
    for shapes in SHAPES:
        sizes = [1024 + 16 * n for n in range(shapes)]
        pairs = [(torch.randn(n, device=device), torch.randn(n, device=device)) for n in sizes]
        row = found[str(shapes)] = {}
        for name, make in _contenders(settings).items():
            try:
                row[name] = _host_us(make(), pairs, calls, not settings.is_dry)
            except Exception as error:  # a contender that fails is a cell of the table
                row[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return found


def _contenders(settings: Settings) -> dict[str, Callable[[], Callable[..., Any]]]:
    """Return the contenders. torch.compile and Helion are in the modes that serve many shapes by one compile."""
    found: dict[str, Callable[[], Callable[..., Any]]] = {
        OURS: lambda: load_kernel("examples.vector_add:vector_add"),
        "torch.add": lambda: torch.add,
    }
    if "triton" in settings.peers:
        from .triton_kernels import add

        found["triton"] = lambda: add
    if settings.compile_s:
        found["torch.compile"] = lambda: torch.compile(lambda x, y: x + y, dynamic=True)
    if "helion" in settings.peers:
        found["helion"] = _helion
    return found


def _helion() -> Callable[..., Any]:
    from . import helion_peer

    helion_peer.prepare()
    import helion

    from . import helion_kernels

    made = helion_kernels.kernels(config=helion.Config(block_sizes=[1024], num_warps=4), static_shapes=False)
    return made["examples.vector_add:vector_add"]


def _host_us(call: Callable[..., Any], pairs: Sequence[Pair], calls: int, on_gpu: bool) -> float:
    for x, y in [*pairs] * 3:
        call(x, y)
    runs = []
    for _ in range(5):
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for n in range(calls // 5):
            call(*pairs[n % len(pairs)])
        runs.append((time.perf_counter() - start) / (calls // 5) * 1e6)
    return statistics.median(runs)
