"""IR + Config -> TritonSource: a region's warp-specialised kernel in Gluon, by its structure."""

from __future__ import annotations

from ...config import Config
from ...ir.graph import KernelIR
from ...schedule.gradient_loop import GradientLoop
from ...schedule.structure import find_structure
from ...target import Target
from ..source import TritonSource
from .gradients import GradientsKernel
from .kernel import GluonKernel


def emit_specialised(ir: KernelIR, config: Config, target: Target, divisible: bool = True) -> TritonSource:
    """The warp-specialised program of a region (its structural passes done) under ``config``. Raises ConfigError where
    the region or the config has no such schedule."""
    is_gradient = isinstance(find_structure(ir), GradientLoop)
    kernel = GradientsKernel if is_gradient else GluonKernel
    return kernel(ir, config, target, divisible).run()
