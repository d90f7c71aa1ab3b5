"""One search of Helion's own tuner, at its defaults: ``... search_comparison.search_helion FOLDER``.

Seed, limit, cores and log come in its environment variables (:func:`.stage.helion_environment`). The clock starts when
its kernel is bound to the arguments, before it has compiled anything; the process in which it measures starts later,
anew from this module, so nothing here runs on import but what makes ``helion`` importable.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tileflow.api import load_kernel

from ..suite import helion_peer
from .notes import Notes
from .searches import TASK, Search
from .series import canonical

helion_peer.prepare()


def bind(kernel: str, args: tuple[Any, ...]) -> Any:
    """Return Helion's version of our ``kernel``, bound to our arguments. Raises KeyError where it has none."""
    from ..suite import helion_kernels

    made: Any = helion_kernels.kernels()[kernel]
    return made.bind(args)


def main(folder: Path) -> int:
    """Run the search that the folder describes, noting its start and its pick. Returns the exit code."""
    import torch

    search = Search.from_json(json.loads((folder / TASK).read_text(encoding="utf-8")))
    notes = Notes(folder)
    problem: dict[str, Any] = dict(search.cell.problem)
    args = load_kernel(search.cell.kernel).inputs(device="cuda", **problem)
    bound = bind(search.cell.kernel, args)
    torch.cuda.synchronize()
    notes.mark("ready")
    picked = bound.autotune(args)
    notes.mark("picked", config=canonical(picked.config))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
