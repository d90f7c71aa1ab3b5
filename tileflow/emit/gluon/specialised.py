"""IR + Config -> TritonSource: the warp-specialised kernel of a region's structure."""

from __future__ import annotations

from ...config import Config
from ...ir.graph import KernelIR
from ...schedule.computed import Computed
from ...schedule.gradient_loop import GradientLoop
from ...schedule.single import Single
from ...schedule.structure import find_structure
from ...target import Target
from ..parameters import Divisible
from ..source import TritonSource
from .computed_kernel import ComputedKernel
from .gradients import GradientsKernel
from .grouped_kernel import GroupedKernel
from .kernel import GluonKernel
from .parts_kernel import PartsKernel
from .product_kernel import ProductKernel
from .split_kernel import SplitKernel


def emit_specialised(ir: KernelIR, config: Config, target: Target, divisible: Divisible = "all") -> TritonSource:
    """The warp-specialised program of a region (its structural passes done) under ``config``. Raises ConfigError where
    the region or the config has no such schedule."""
    return specialised_kernel(ir, config, target, divisible).run()


def specialised_kernel(ir: KernelIR, config: Config, target: Target, divisible: Divisible = "all") -> GluonKernel:
    """The emission of that program, which holds the schedule that the program was written from once it has run."""
    found = find_structure(ir)
    kind: type[GluonKernel] = GluonKernel
    if isinstance(found, Computed):
        kind = ComputedKernel
    elif isinstance(found, Single):
        kind = _of_single(found)
    elif isinstance(found, GradientLoop):
        kind = GradientsKernel
    return kind(ir, config, target, divisible)


def _of_single(found: Single) -> type[GluonKernel]:
    if found.is_split:
        return SplitKernel
    return GroupedKernel if found.is_ragged else PartsKernel if found.parts is not None else ProductKernel
