"""The labels that a node should carry: ``ray start --labels "$(python -m tileflow_cluster.labels)" ...``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tileflow.errors import ClusterError, TileflowError

from .devices import VisibleGpu, visible_gpus

DEVICE_CLASS = "tileflow.dev/device-class"
ARCH = "tileflow.dev/arch"
VENDOR = "tileflow.dev/vendor"


def labels_for(gpus: Sequence[VisibleGpu]) -> dict[str, str]:
    """Return the labels of a node with these GPUs; none for a node without. Raises ClusterError for several classes."""
    targets = {gpu.target.name: gpu.target for gpu in gpus}
    if len(targets) > 1:
        raise ClusterError(
            "a Ray node must hold GPUs of one device class",
            got=", ".join(targets),
            hint="start one `ray start` for each class, each with its own CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES",
        )
    return {
        label: value
        for target in targets.values()
        for label, value in ((DEVICE_CLASS, target.name), (ARCH, target.arch), (VENDOR, target.vendor))
    }


def main() -> int:
    """Print the labels as ``ray start --labels`` takes them; nothing on a node without GPUs."""
    try:
        labels = labels_for(visible_gpus())
    except TileflowError as error:
        print(error, file=sys.stderr)
        return 2
    print(",".join(f"{label}={value}" for label, value in labels.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 1 else "usage: python -m tileflow_cluster.labels")
