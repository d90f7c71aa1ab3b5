"""What one checkout emits for calls: runs as a program under that checkout's ``PYTHONPATH``, of whatever version.

    python -P emitted.py CALLS RESULT

It imports nothing of :mod:`tileflow_benchmarks`, and of ``tileflow`` only what versions since 1d0fe62 have.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
import sys
from pathlib import Path
from typing import Any

from tileflow.api import load_kernel
from tileflow.build.compile import build
from tileflow.errors import TileflowError
from tileflow.target import target

DEFAULT = "default"


def emitted(call: dict[str, Any]) -> dict[str, Any]:
    """Each config of a call as a script that needs Triton alone, and the digests of its launches' instructions.

    ``call``: the ``kernel``, its ``problem``, the ``device`` class, and the other ``configs`` by name, or how many are
    to be ``drawn`` from this version's space. Where there is an error, its text stands in the place of what it denies.
    """
    try:
        kernel = load_kernel(call["kernel"])
        args = kernel.inputs(device="meta", **call["problem"])
        lowered = kernel.lower(args, target(call["device"]))
        configs = {DEFAULT: lowered.default}
        for name, config in call.get("configs", {}).items():
            configs[name] = lowered.space.normalise(lowered.space.adapt(config))
        for seed in range(call.get("drawn", 0)):
            configs[f"drawn {seed}"] = lowered.space.normalise(lowered.space.sample(random.Random(seed)))
    except (TileflowError, TypeError) as error:  # an older version's inputs may take other arguments
        return {"error": f"{type(error).__name__}: {error}"}
    return {"configs": {name: _of_config(kernel, args, lowered, config) for name, config in configs.items()}}


def _of_config(kernel: Any, args: Any, lowered: Any, config: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"config": config.to_dict()}
    try:
        sources = lowered.emit(config)
        found["sources"] = [
            [getattr(s, "code", s.text), dict(s.options), dict(s.constexprs), [repr(e) for e in s.grid]]
            for s in sources
        ]
        found["instructions"] = [instructions(build(s, lowered.target).code) for s in sources]
    except TileflowError as error:
        return found | {"error": f"{type(error).__name__}: {error}"}
    try:
        found["script"] = kernel.repro(*args, config=config, target_name=lowered.target.name)
    except TileflowError as error:
        found["no_script"] = f"{type(error).__name__}: {error}"
    return found


def instructions(code: bytes) -> str:
    """A digest of a cubin's instructions: the ``.text`` sections of its ELF file, without names and lines."""
    table, size, count, names_at = (*struct.unpack_from("<Q", code, 0x28), *struct.unpack_from("<HHH", code, 0x3A))
    sections = [struct.unpack_from("<IIQQQQ", code, table + n * size) for n in range(count)]
    names = sections[names_at][4]
    digest = hashlib.sha256()
    for name, _, _, _, offset, length in sections:
        if code.startswith(b".text", names + name):
            digest.update(code[offset : offset + length])
    return digest.hexdigest()


def main() -> None:
    """Read the calls, write what is emitted for each."""
    calls = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps([emitted(call) for call in calls]))


if __name__ == "__main__":
    main()
