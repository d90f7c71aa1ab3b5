"""Compiles ``_native.c`` in place: ``python -P tileflow/runtime/build_native.py``.

It needs a C compiler (CC, or cc, gcc, clang) and the headers of CPython 3.11 or later, and the standard library only.

The limited API makes one build serve every CPython from 3.11, on any machine with this one's architecture and no older
glibc than 2.14. TILEFLOW_NATIVE=0 builds nothing, =1 makes what prevents building an error; ``--quiet`` says only
that.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("_native.c")
BUILT = SOURCE.with_name("_native.abi3.so")
_ON, _OFF = ("1", "true", "on", "yes"), ("0", "false", "off", "no")


class CannotBuild(Exception):
    """What the extension's build lacks, in a sentence."""


class WrongSwitch(CannotBuild):
    """TILEFLOW_NATIVE is neither on nor off."""


def wanted() -> bool | None:
    """Whether TILEFLOW_NATIVE demands the extension, or forbids it; None where it does neither. By the words of
    ``environment.py``, which imports what a build does not have. Raises WrongSwitch."""
    given = os.environ.get("TILEFLOW_NATIVE", "").lower()
    if given not in ("", *_ON, *_OFF):
        raise WrongSwitch(f"TILEFLOW_NATIVE is {', '.join(_ON)}, or {', '.join(_OFF)}, or nothing, but got {given!r}")
    return given in _ON if given else None


def build() -> Path | None:
    """The extension, compiled unless it is newer than its source; None where TILEFLOW_NATIVE forbids it.

    Raises CannotBuild, and WrongSwitch where TILEFLOW_NATIVE does not say.
    """
    if wanted() is False:
        return None
    if BUILT.exists() and BUILT.stat().st_mtime > SOURCE.stat().st_mtime:
        return BUILT
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise CannotBuild(f"there is no Python.h in {headers}")
    with tempfile.TemporaryDirectory(dir=BUILT.parent, prefix=".native") as scratch:
        made = Path(scratch) / BUILT.name
        flags = ["-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror=implicit-function-declaration", f"-I{headers}"]
        run = subprocess.run([*_compiler(), *flags, str(SOURCE), "-o", str(made)], capture_output=True, text=True)
        if run.returncode:
            raise CannotBuild(f"the compiler refused it:\n{run.stderr}")
        _load(made)
        made.replace(BUILT)  # at once, so that no process loads half of it
    return BUILT


def _compiler() -> list[str]:
    given = os.environ.get("CC", "").split()
    found = next(filter(None, map(shutil.which, given[:1] or ["cc", "gcc", "clang"])), None)
    if found is None:
        raise CannotBuild(f"there is no C compiler ({' '.join(given) or 'cc, gcc, clang'})")
    return [found, *given[1:]]


def _load(made: Path) -> None:
    loader = importlib.machinery.ExtensionFileLoader("_native", str(made))
    spec = importlib.util.spec_from_loader("_native", loader)
    assert spec is not None
    try:
        loader.exec_module(importlib.util.module_from_spec(spec))
    except ImportError as error:
        raise CannotBuild(f"what was compiled does not load: {error}") from error


def main() -> int:
    """Build and print the path. Returns 1 where that fails and ``TILEFLOW_NATIVE=1`` demands it, else 0."""
    try:
        built = build()
    except (CannotBuild, OSError) as error:
        required = isinstance(error, WrongSwitch) or wanted()
        print(f"tileflow's launches stay in Python (correct, but slower): {error}", file=sys.stderr)
        return int(bool(required))
    if "--quiet" not in sys.argv:
        print("TILEFLOW_NATIVE=0: nothing built" if built is None else built)
    return 0


if __name__ == "__main__":
    sys.exit(main())
