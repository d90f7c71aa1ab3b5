"""What programs ask about the machine before they choose a kernel or a config."""

from __future__ import annotations

import torch

from ...runtime.describe import device_properties
from ...target import classify


def is_hip() -> bool:
    """Whether this torch is built for ROCm."""
    return torch.version.hip is not None


def supports_tensor_descriptor() -> bool:
    """Whether descriptors of tensors in global memory are there: on NVIDIA GPUs from 9.0 on."""
    return torch.cuda.is_available() and classify(device_properties(torch.cuda.current_device())).has_tensor_maps


def requires_torch_version(least: str) -> bool:
    """Whether torch is of this version or newer; what follows its numbers does not count."""
    return _numbers(torch.__version__) >= _numbers(least)


def get_tensor_descriptor_fn_name() -> str:
    """The name of Triton's function for tensor descriptors."""
    return "tl.make_tensor_descriptor"


def use_tileir_tunables() -> bool:
    """Always false: tileflow has no TileIR backend."""
    return False


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in version.split("+")[0].split(".")[:2])
