"""The GPUs that this process sees.

Where this process has no CUDA or HIP context a child process is asked, so that no context stays behind.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow.build.process import Child, Done, Failed
from tileflow.errors import ClusterError
from tileflow.target import Target, Vendor, target

VISIBLE: Mapping[Vendor, str] = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}
_CHOOSE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
ASK_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class VisibleGpu:
    """One GPU as its driver names it, with its device class: one of the catalogue or a described one."""

    uuid: str
    name: str
    device_class: str

    @property
    def target(self) -> Target:
        """The target of the GPU's device class."""
        return target(self.device_class)


def visible_gpus() -> tuple[VisibleGpu, ...]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` and the like leave to this process.

    The first call takes seconds where no GPU is in use here. Raises ClusterError where torch cannot list them.
    """
    torch = sys.modules.get("torch")
    in_use = torch is not None and torch.cuda.is_initialized()
    # Unset is not empty: the first leaves every GPU, the second none.
    found = listed() if in_use else _listed_by_child(tuple(os.environ.get(name) for name in _CHOOSE))
    return tuple(VisibleGpu(**gpu) for gpu in found)


def listed() -> list[dict[str, Any]]:
    """Return the fields of a :class:`VisibleGpu` for each GPU that torch sees. A context stays behind."""
    import torch

    from tileflow.runtime.describe import device_class

    try:
        found = [(torch.cuda.get_device_properties(i), device_class(i)) for i in range(torch.cuda.device_count())]
    except RuntimeError as error:
        raise ClusterError("torch must be able to list the GPUs", got=error) from error
    return [{"uuid": str(p.uuid), "name": p.name, "device_class": made} for p, made in found]


@functools.cache
def _listed_by_child(chosen: tuple[str | None, ...]) -> list[dict[str, Any]]:
    """``chosen``: the variables that choose among the GPUs, as the child finds them."""
    child = Child(warm=("torch",))
    try:
        answer = child.call(f"{__name__}:listed", (), limit_s=ASK_LIMIT_S)
    finally:
        child.kill()
    if isinstance(answer, Done):
        found: list[dict[str, Any]] = answer.value
        return found
    if isinstance(answer, Failed):
        raise answer.error
    raise ClusterError("torch must be able to list the GPUs", got=answer, hint="is a GPU wedged?")


def selectors(count: int, vendor: Vendor) -> tuple[str, ...]:
    """Return what names each of the ``count`` visible GPUs, in order, for a child that shall see just one."""
    given = os.environ.get(VISIBLE[vendor])
    return tuple(map(str, range(count))) if given is None else tuple(given.split(",")[:count])


def driver_version(vendor: Vendor) -> str:
    """Return the kernel module's version; ``unknown`` where the system does not show it."""
    path = Path("/sys/module") / {"nvidia": "nvidia", "amd": "amdgpu"}[vendor] / "version"
    return path.read_text().strip() if path.exists() else "unknown"
