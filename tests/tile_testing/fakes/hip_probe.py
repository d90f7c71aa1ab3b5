"""Asks the HIP library that the loader's path has, in a process of its own, and prints what it says as JSON.

``hip_probe.py LIBRARY CODE``: with the machine code of some kernel. Nothing here needs a card.
"""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import replace
from pathlib import Path

from tileflow.errors import LaunchError
from tileflow.expr import TRUE, Expr
from tileflow.runtime.abi import Binary, LaunchAbi, Resources
from tileflow.runtime.drivers import hip_library, hip_load, make_enqueue

CODES = (0, 1, 2, 98, 100, 101, 200, 209, 214, 700, 701, 702, 710, 719, 999)


def refused(binary: Binary) -> str:
    try:
        hip_load(binary, 0)
    except LaunchError as error:
        return str(error)
    return ""


def main() -> None:
    library, code = sys.argv[1:]
    ctypes.CDLL(library)  # as torch's ROCm builds load theirs
    hip = hip_library()
    one = Expr.of(1)
    abi = LaunchAbi("kernel", (), (one, one, one), 256, 0)
    binary = Binary(0, "amd-mi300x", "hsaco", Path(code).read_bytes(), abi, TRUE, Resources(1, 0, 0, 256))
    cooperative = replace(binary, abi=replace(abi, cooperative=True))
    try:
        make_enqueue(hip, cooperative, ctypes.c_void_p(None))
        without = ""
    except LaunchError as error:
        without = str(error)
    said = {
        "path": hip._name,
        "names": {status: hip.hipGetErrorName(status).decode() for status in CODES},
        "load": refused(binary),
        "launch": make_enqueue(hip, binary, ctypes.c_void_p(4096))(0, 1, 1, 1),
        "has_cooperative": hasattr(hip, "hipModuleLaunchCooperativeKernel"),
        "cooperative": without,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
