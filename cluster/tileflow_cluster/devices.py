"""What GPUs this process sees, asked in a child process so that no CUDA or HIP context stays behind."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tileflow.errors import ClusterError
from tileflow.target import Target, Vendor, identify

_ASK = """
import json, torch
props = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
vendor = "amd" if torch.version.hip else "nvidia"
print(json.dumps([{"uuid": str(p.uuid), "name": p.name, "vendor": vendor} for p in props]))
"""
ASK_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class VisibleGpu:
    """One GPU as its driver names it."""

    uuid: str
    name: str
    vendor: Vendor

    @property
    def target(self) -> Target:
        """Its catalogue entry. Raises SpecError for a device that the catalogue lacks."""
        return identify(self.name)


def visible_gpus() -> tuple[VisibleGpu, ...]:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` and its like leave to this process; none without a GPU. Takes seconds.

    Raises ClusterError where torch cannot say.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=ASK_LIMIT_S, check=True
        )
    except subprocess.CalledProcessError as error:
        raise ClusterError("torch must be able to list the GPUs", got=error.stderr.strip()[-500:]) from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"torch must list the GPUs within {ASK_LIMIT_S:g} s", hint="is a GPU wedged?") from error
    return tuple(VisibleGpu(**gpu) for gpu in json.loads(done.stdout))


def driver_version(vendor: Vendor) -> str:
    """The kernel module's version; ``unknown`` where the system does not show it."""
    path = Path("/sys/module") / {"nvidia": "nvidia", "amd": "amdgpu"}[vendor] / "version"
    return path.read_text().strip() if path.exists() else "unknown"
