"""Reading files that others wrote: regular ones, of limited length, inside the folder that they belong to; and places
for files of one's own, which are written in one step.

Nothing here waits: a FIFO, a device or a socket in a file's place is refused before it is read.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import SpecError, TableError

_CHUNK = 1 << 20
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)

_log = logging.getLogger("tileflow.runtime")
_without_locks: set[Path] = set()  # the folders of which that was said


def as_path(path: object, what: str) -> Path:
    """``path``, the place of ``what``. Raises SpecError for what is none, the empty text among them, which would be the
    folder that the program is in."""
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise SpecError(
            f"{what} is named by its path, a str or a pathlib.Path",
            got=f"{type(path).__name__} {path!r}"[:200],
            hint='name a file or a folder: "my_bundle"',
        )
    require_here(path, what)
    return Path(path)


def require_here(path: str | os.PathLike[str], where: str) -> None:
    """Raise SpecError for a relative path in a program whose own folder is gone, as a job's scratch folder may be.
    ``where``: what asked for it."""
    if os.path.isabs(path):
        return
    try:
        os.getcwd()
    except OSError as error:
        raise SpecError(
            "a relative path begins at the folder that the program is in, which must be there",
            got=f"{os.fspath(path)!r} in a folder that is gone",
            where=where,
            hint="write the whole path, or go to a folder that is there by os.chdir(...)",
        ) from error


def import_paths() -> tuple[str, ...]:
    """The entries of ``sys.path`` as another process must be given them: whole, without the folder that the program is
    in where that is gone."""
    found = []
    for path in sys.path:
        with suppress(OSError):
            found.append(path or os.getcwd())
    return tuple(found)


def real_path(path: str | os.PathLike[str]) -> Path:
    """Where links lead now; the path itself where it is none of a file: who reads it says so."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a NUL in its name
        return Path(path)


def folder_to_start_in() -> str:
    """The folder for a process that is started: the one that the program is in, or the root where that is gone, since
    torch's libraries do not load without one."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def read_file(path: str | os.PathLike[str], most: int, *, follow: bool = True) -> bytes:
    """The content of the regular file ``path``. ``follow``: also where it is a link to one.

    Raises OSError where it is missing, no regular file, or longer than ``most`` bytes.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except ValueError as error:  # a NUL in its name
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > most:
            raise _too_long(path, most)
        return _read(handle, most, path)
    finally:
        os.close(handle)


def read_inside(root: str | os.PathLike[str], *names: str, most: int) -> bytes:
    """The content of ``root/names...``, which lies inside ``root`` wherever its links lead.

    Raises TableError for a name that is a path and for a link that leads outside, OSError as :func:`read_file` does.
    """
    for name in names:
        if name != os.path.basename(name) or name in ("", ".", "..") or "\\" in name or "\0" in name:
            raise TableError("a bundle's file must be named without a path", got=repr(name[:200]), where=str(root))
    folder = Path(os.path.realpath(root, strict=True))
    file = Path(os.path.realpath(folder.joinpath(*names), strict=True))
    if not file.is_relative_to(folder):
        raise TableError("a bundle's file must lie inside the bundle", got=repr("/".join(names)), where=str(root))
    return read_file(file, most, follow=False)


def names_in(folder: str | os.PathLike[str], what: str) -> list[str]:
    """The names in ``folder``, in order. ``what``: the folder, for messages.

    Raises TableError where they cannot be read: a folder that may not be looked into is no empty one.
    """
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise _unreadable(folder, what, error) from error


def is_folder(path: str | os.PathLike[str], what: str) -> bool:
    """Whether ``path`` is a folder. Raises TableError where those above it do not let this process see that."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        raise _unreadable(path, what, error) from error


def _unreadable(path: str | os.PathLike[str], what: str, error: Exception) -> TableError:
    return TableError(
        f"{what} must be readable", got=str(error), where=str(path), hint="let this user read it and the folders above"
    )


def require_folder(path: str | os.PathLike[str], where: str = "") -> None:
    """Raise SpecError where ``path`` is neither a folder to write into nor a place for one. Nothing is made.

    ``where``: what asked for it, by which the caller knows it.
    """
    require_here(path, where or "a folder to write to")
    there = Path(os.path.abspath(path))
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise SpecError(
            "files must be written to a folder",
            got=f"{there}, which is none",
            where=where or str(path),
            hint="name a folder, or a path where nothing is yet",
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise SpecError(
            "files must be written to a folder that this process may change",
            got=str(there),
            where=where or str(path),
            hint="let this user write there, or name another",
        )


def write_atomically(path: Path, content: bytes) -> None:
    """All of ``content`` under ``path``, or the old file: a temporary file beside it, synced, then renamed. Raises
    OSError, which names a file. Whatever interrupts it, also a signal, no temporary file is left."""
    temporary = path.with_name(
        f".{path.name}.{os.urandom(4).hex()}"
    )  # named before it is there: any interrupt finds it
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # Of a full disk the system names no file, of a folder that is closed one that nobody knows.
        if isinstance(error, OSError) and error.filename in (None, str(temporary), temporary):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other writer, of whatever process, holds ``path``, and hold it: a lock file lies beside it. Where
    nothing can be locked, a message says so."""
    descriptor = _open_lock(path.with_name(f".{path.name}.lock"))
    try:
        if not lock(descriptor):
            say_without_locks(path)
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock the open file for its process alone. False where its file system has no locks, as some mounts of NFS and
    Lustre. Raises BlockingIOError where another process holds it and ``wait`` is False."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def say_without_locks(path: Path) -> None:
    """Say, once for each folder, that two processes which write there at once are not kept apart."""
    if path.parent not in _without_locks:
        _without_locks.add(path.parent)
        _log.warning("%s has no locks: let one process at a time write there", path.parent)


def _open_lock(path: Path) -> int:
    """A file to lock. Another user's in a folder that several write into may not be written, and be locked."""
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except PermissionError:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except ValueError as error:  # a NUL in its name
        raise OSError(errno.EINVAL, str(error), str(path)) from error


def _read(handle: int, most: int, path: str | os.PathLike[str]) -> bytes:
    """All of it, also of a file that says no size or grows meanwhile."""
    chunks, left = [], most + 1
    while left and (chunk := os.read(handle, min(left, _CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    if not left:
        raise _too_long(path, most)
    return b"".join(chunks)


def _too_long(path: str | os.PathLike[str], most: int) -> OSError:
    return OSError(errno.EFBIG, f"longer than {most} bytes", str(path))
