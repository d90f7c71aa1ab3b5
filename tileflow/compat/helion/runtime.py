"""Names that the dialect keeps under ``runtime``."""

from __future__ import annotations

from typing import Any

import torch

from .config import Config
from .kernel import BoundKernel, Kernel, OutputCodeOptions, kernel
from .refusals import absent, refusal
from .settings import RefMode, Settings

__all__ = ["BoundKernel", "Config", "Kernel", "OutputCodeOptions", "RefMode", "Settings", "get_num_sm", "kernel"]

COMPILED = "kernel.bind(args).compile_config(config) gives what launches"
REFUSED = {
    **dict.fromkeys(
        ("cute_cuda_graph", "default_cute_launcher", "default_flydsl_launcher", "default_launcher",
         "default_metal_launcher", "default_pallas_launcher"), COMPILED),
    "get_max_active_clusters": "a knob chooses the clusters of a launch",
    "get_num_xcd": "a knob chooses the order of a launch's programs",
    "set_triton_allocator": "launches take scratch memory from torch",
}  # fmt: skip


def get_num_sm(device: torch.device | str | int, *, reserved_sms: int = 0) -> int:
    """How many multiprocessors a GPU has, without so many that are kept for something else; at least one."""
    count: int = torch.cuda.get_device_properties(device).multi_processor_count
    return max(count - reserved_sms, 1)


def __getattr__(name: str) -> Any:
    return refusal(f"helion.runtime.{name}", REFUSED[name]) if name in REFUSED else absent(__name__, name)
