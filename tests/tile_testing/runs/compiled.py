"""Cases of kernels, compiled for the catalogue's devices, which no GPU is needed for."""

from __future__ import annotations

from tile_testing.kernels.cases import Case
from tileflow.build.compile import build
from tileflow.target import target

TARGETS = ("nvidia-a100", "nvidia-h200", "nvidia-b200", "amd-mi300x", "amd-mi350x")


def compile_for_one(case: Case, number: int) -> None:
    """Build a case under its own config for one device, the ``number``-th of ``TARGETS`` in turn."""
    device = target(TARGETS[number % len(TARGETS)])
    lowered = case.kernel.lower(case.args, device)
    for source in lowered.emit(lowered.space.repair(lowered.default.with_(dict(case.config)))):
        assert build(source, device).code
