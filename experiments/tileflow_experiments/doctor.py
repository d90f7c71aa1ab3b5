"""``tileflow doctor``: what this machine has for writing, tuning and serving kernels, and what it lacks.

Every line is looked up when asked; nothing is changed, and no CUDA context stays behind in this process.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tileflow.errors import TileflowError

from .tracking.store import masked

_GB = 1 << 30
_PROBE_S = 3.0  # seconds for Ray's address to answer
_LEAST_SHARED_MEMORY = 1 << 30  # tensors of `tune` and Ray's object store lie in it
_LEAST_DISK = 5 * _GB


class State(Enum):
    """What a finding means for the reader."""

    OK = "ok"
    NOTE = "note"  # works without, in another way
    MISSING = "missing"  # something named in the text does not work


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was checked, what was found, and the next step where something is missing."""

    topic: str
    state: State
    text: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f"\n{'':25}{self.hint}" if self.hint else ""
        return f"{self.state.value:8} {self.topic:15} {self.text}{hint}"


def findings() -> Iterator[Finding]:
    """Yield all findings, in the order in which a newcomer meets their topics. A check that fails is a finding too."""
    for check in CHECKS:
        try:
            yield from check()
        except (OSError, TileflowError) as error:
            yield Finding(check.__name__.strip("_"), State.MISSING, f"{type(error).__name__}: {error}")


def _versions() -> Iterator[Finding]:
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    yield Finding("tileflow", State.OK, f"{importlib.metadata.version('tileflow')}, {system}")
    for name, purpose, hint in _PACKAGES:
        try:
            yield Finding(name, State.OK, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, State.MISSING, f"not installed: {purpose}", hint)


def _native() -> Iterator[Finding]:
    from tileflow.runtime import native

    if native.is_used():
        yield Finding("launches", State.OK, "the runtime's C extension is built")
        return
    hint = "python -P tileflow/runtime/build_native.py, or install the wheel where a C compiler is"
    yield Finding(
        "launches", State.NOTE, "without the runtime's C extension a call costs a few microseconds more", hint
    )


def _compiler() -> Iterator[Finding]:
    """Triton compiles a small C module for each device at its first launch; binaries built ahead of time need none."""
    found = next(
        (path for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and (path := shutil.which(name))), None
    )
    if found:
        yield Finding("C compiler", State.OK, found)
    else:
        yield Finding(
            "C compiler",
            State.NOTE,
            "none: what launches through Triton itself does not work",
            "install gcc or clang, or name one in CC",
        )


def _gpus() -> Iterator[Finding]:
    from tileflow_cluster.devices import driver_version, visible_gpus
    from tileflow_cluster.labels import labels_for

    gpus = visible_gpus()
    if not gpus:
        yield Finding(
            "GPUs",
            State.NOTE,
            "none seen: kernels compile and run as plain Python, times are modelled",
            "look at nvidia-smi or rocminfo, and at CUDA_VISIBLE_DEVICES",
        )
        return
    for gpu in gpus:
        driver = driver_version(gpu.target.vendor)
        yield Finding("GPU", State.OK, f"{gpu.name}, class {gpu.device_class}, driver {driver}, {gpu.uuid}")
    labels = ",".join(f"{name}={value}" for name, value in labels_for(gpus).items())
    yield Finding("Ray labels", State.OK, labels)


def _caches() -> Iterator[Finding]:
    from tileflow.build.compile import cache_folder
    from tileflow.runtime.user_tables import VARIABLE, user_folder

    yield _folder("cache", cache_folder(), "compiled kernels", "TILEFLOW_CACHE")
    tables = user_folder()
    if tables is None:
        yield Finding("tables", State.NOTE, "none of one's own: what kernel.tune finds is not kept", f"set {VARIABLE}")
    else:
        count = len(list(tables.glob("*.json"))) if tables.is_dir() else 0
        yield _folder("tables", tables, f"{count} tables of kernel.tune", VARIABLE)


def _folder(topic: str, path: Path, what: str, variable: str) -> Finding:
    """Check a folder that is written to, or the nearest existing parent that it would be made in."""
    there = next(p for p in (path, *path.parents) if p.is_dir())
    free = shutil.disk_usage(there).free
    text = f"{path}: {what}, {free / _GB:.0f} GB free"
    if not os.access(there, os.W_OK):
        return Finding(topic, State.MISSING, f"{path} is not writable", f"name another folder in {variable}")
    return Finding(topic, State.OK if free > _LEAST_DISK else State.NOTE, text)


def _machine() -> Iterator[Finding]:
    temporary = Path(tempfile.gettempdir())
    yield _folder("temporary", temporary, "Ray's session and the compiler's work", "TMPDIR")
    shared = Path("/dev/shm")
    if shared.is_dir():
        size = shutil.disk_usage(shared).total
        small = size < _LEAST_SHARED_MEMORY
        yield Finding(
            "shared memory",
            State.NOTE if small else State.OK,
            f"{size / _GB:.1f} GB",
            "in a container: --shm-size, a quarter of the memory or more" if small else "",
        )


def _cluster() -> Iterator[Finding]:
    address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "local"):
        yield Finding("Ray", State.OK, "RAY_ADDRESS is not set: a sweep starts a Ray of its own, on loopback")
        return
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not (host and port.isdigit()):
        yield Finding("Ray", State.NOTE, f"RAY_ADDRESS is {address!r}, which names no host and port to look at")
        return
    try:
        socket.create_connection((host, int(port)), timeout=_PROBE_S).close()
    except OSError as error:
        hint = "start the head (`ray start --head`), or unset RAY_ADDRESS for a Ray of this machine's own"
        yield Finding("Ray", State.MISSING, f"nothing answers at RAY_ADDRESS={address}: {error}", hint)
    else:
        yield Finding("Ray", State.OK, f"RAY_ADDRESS={address} answers")


def _environment() -> Iterator[Finding]:
    prefixes = ("TILEFLOW_", "TRITON_", "RAY_", "MLFLOW_", "CUDA_VISIBLE", "HIP_VISIBLE", "ROCR_VISIBLE")
    found = sorted(name for name in os.environ if name.startswith(prefixes))
    for name in found:
        hidden = any(word in name for word in ("TOKEN", "PASSWORD", "SECRET", "KEY"))
        yield Finding("environment", State.OK, f"{name}={'(set)' if hidden else masked(os.environ[name])}")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _versions,
    _native,
    _compiler,
    _gpus,
    _caches,
    _machine,
    _cluster,
    _environment,
)

_TUNE = 'pip install "tileflow[tune]"'
_PACKAGES = (
    ("torch", "nothing works", "pip install torch"),
    ("triton", "kernels cannot be compiled here; bundles are served", 'pip install "tileflow[compile]"'),
    ("ray", "no sweeps, no kernel.tune", _TUNE),
    ("mlflow", "no sweeps", _TUNE),
    ("optuna", "no sweeps with its strategies", _TUNE),
    ("scikit-learn", "no search: its cost model is a forest", _TUNE),
    ("pyarrow", "no trials.parquet", _TUNE),
)


def report() -> int:
    """Print all findings. Returns the exit code: 1 where something is missing."""
    missing = 0
    for finding in findings():
        print(finding, flush=True)
        missing += finding.state is State.MISSING
    print(f"{missing} missing" if missing else "nothing is missing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(report())
