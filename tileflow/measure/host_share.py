"""What one measuring process has made, for the others of its host: references that the card has no room for.

A value lies in an anonymous file (``memfd``) of the process that made it, from which the others map it for reading;
it is gone with that process. A small file in a folder of the user's own says where, and is locked while the value is
being made, so that a host makes each one once. Where host memory is short, the value stays with its process.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from ..errors import ClusterError
from ..runtime.files import lock
from .inputs import leaves, tensors

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
MOST_SHARE = 0.25  # of the memory that is free
_PREFIX = "tileflow-"

_offered: dict[str, int] = {}  # this process's files, by what they hold


def shared(name: str, make: Callable[[], T]) -> T:
    """What a process of this host has made under ``name``, which lives yet; else ``make()``, for the others too.

    Waits while another process makes it. The tensors of what another one made are views of its memory: not for
    writing. ``make`` gives what pickles.
    """
    with (_folder() / hashlib.sha256(name.encode()).hexdigest()).open("a+b") as place:
        lock(place.fileno())  # without locks, processes that come at once each make it
        found = _read(place)
        if found is not None:
            value: T = found[0]
            return value
        value = make()
        _offer(name, value, place)
        return value


def withdraw() -> None:
    """Free what this process offers. Those who have mapped it keep it."""
    while _offered:
        os.close(_offered.popitem()[1])


def digest(values: Any) -> str:
    """A digest of nested arguments, by the shapes, types and bits of their tensors."""
    import torch

    found = hashlib.sha256()
    for path, leaf in leaves(values, ""):
        found.update(f"{path} ".encode())
        if isinstance(leaf, torch.Tensor):
            found.update(f"{leaf.dtype} {tuple(leaf.shape)} {leaf.stride()} ".encode())
            found.update(_bytes(leaf))
        elif isinstance(leaf, int | float | bool | str | None):
            found.update(repr(leaf).encode())
    return found.hexdigest()


def _bytes(tensor: torch.Tensor) -> Any:
    import torch

    return tensor.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy().data


def _folder() -> Path:
    """The folder of the user's own. Raises ClusterError where somebody else has made it."""
    folder = Path(tempfile.gettempdir()) / f"{_PREFIX}references-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ClusterError(
            "the folder that says where a host's references are must be the user's own",
            got=f"{folder}, mode {found.st_mode:o}, of user {found.st_uid}",
            hint="remove it, or give the process a temporary folder of its own (TMPDIR)",
        )
    return folder


def _read(place: IO[bytes]) -> tuple[Any] | None:
    """What the file at ``place`` says is there; None where it says nothing, or its process has ended."""
    import torch

    place.seek(0)
    match place.read().decode().split():
        case [path, token]:
            pass
        case _:
            return None
    with suppress(OSError):  # the process has ended, or has closed the file
        if token in os.readlink(path):
            return (torch.load(path, mmap=True, weights_only=False, map_location="cpu"),)
    return None


def _offer(name: str, value: Any, place: IO[bytes]) -> None:
    import torch

    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors(value))
    if size > MOST_SHARE * free_bytes():
        return
    token = secrets.token_hex(16)
    if name in _offered:
        os.close(_offered.pop(name))
    file = _offered[name] = os.memfd_create(f"{_PREFIX}{token}", os.MFD_CLOEXEC)
    with open(file, "wb", closefd=False) as stream:
        torch.save(value, stream)
    place.truncate(0)
    place.write(f"/proc/{os.getpid()}/fd/{file} {token}".encode())


def free_bytes() -> int:
    """Memory of this host that a process can have."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10
