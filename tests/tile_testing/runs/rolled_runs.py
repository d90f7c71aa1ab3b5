"""Kernels of :mod:`..kernels.rolled_kernels` with each set of their reductions as loops, in the interpreter."""

from __future__ import annotations

import itertools

import torch

from tileflow.measure.check import check_call
from tileflow.measure.check import reference_of as make_reference
from tileflow.passes.roll import rollable
from tileflow.target import target

from ..kernels import rolled_kernels


def check(name: str, shape: tuple[int, ...]) -> dict[tuple[int, ...], str]:
    """What is wrong under each choice of the reductions' knobs that the space has; empty where nothing is."""
    kernel = getattr(rolled_kernels, name)
    args = (torch.randn(shape, generator=torch.Generator().manual_seed(0)),)
    reference = make_reference(kernel, args)
    lowered = kernel.lower(args, target("nvidia-h200"))
    sites = list(rollable(lowered.regions[0]))
    found = {}
    for wanted in itertools.product((0, 128), repeat=len(sites)):
        config = lowered.space.adapt(lowered.default.to_dict() | dict(zip(sites, wanted, strict=True)))
        chosen = tuple(int(config[site]) for site in sites)
        if chosen not in found:
            found[chosen] = check_call(kernel.compile(lowered, config, "cpu"), args, reference).reason
    return found
