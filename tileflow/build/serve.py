"""The child's side of :mod:`.process`: a loop over requests.

Run as ``python -m tileflow.build.serve FD PARENT [MODULE ...]``.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any

from tileflow.build.process import Done, Failed, Progress
from tileflow.errors import InternalError, SpecError, TileflowError

_PR_SET_PDEATHSIG = 1
_parent: Connection[Any, Any] | None = None


def main(descriptor: int, parent: int, warm: list[str]) -> None:
    """Serve until the pipe ends. Always leaves by ``os._exit``: tearing down a broken device context may hang."""
    global _parent
    _die_with(parent)
    _parent = Connection(descriptor)
    for name in warm:
        importlib.import_module(name)
    report("ready")
    try:
        while True:
            function, args = _parent.recv()
            _parent.send(_serve(function, args))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)


def report(phase: str) -> None:
    """Tell the parent that ``phase`` of the running call begins; nothing outside a child."""
    if _parent is not None:
        _parent.send(Progress(phase))


def is_child() -> bool:
    """Whether this process serves a parent."""
    return _parent is not None


def forget_parent() -> None:
    """Close the pipe to the parent, which a fork inherits and does not own."""
    global _parent
    if _parent is not None:
        _parent.close()
        _parent = None


def take_handle() -> int:
    """The next of the open files that the running call was given; the caller closes it."""
    if _parent is None:
        raise InternalError("files are handed to a child alone", got="no parent")
    return recv_handle(_parent)


def resolve(reference: str) -> Any:
    """What ``module:qualname`` names. Raises SpecError."""
    module, _, qualname = reference.partition(":")
    try:
        value: Any = importlib.import_module(module)
        for name in qualname.split("."):
            value = getattr(value, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError("module:qualname must name something importable", got=reference, hint=str(error)) from error
    return value


def _serve(function: str, args: tuple[Any, ...]) -> Done | Failed:
    try:
        return _picklable(Done(resolve(function)(*args), _rss_bytes()))
    except TileflowError as error:
        return Failed(error, _rss_bytes())
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        wrapped = InternalError(
            f"{function} must not raise {type(error).__name__}", got=error, where=f"{last.filename}:{last.lineno}"
        )
        return Failed(_described(wrapped), _rss_bytes())


def _picklable(done: Done) -> Done:
    """Raises what pickling raises here, where it can still be answered, rather than halfway into the pipe."""
    pickle.dumps(done)
    return done


def _described(error: TileflowError) -> TileflowError:
    """``error`` with its ``got`` in words: an arbitrary exception need not survive pickling."""
    return InternalError(error.constraint, got=str(error.got), where=str(error.where))


def _die_with(parent: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(0)


def _rss_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    # As __main__ this module would have a twin: ``report`` must see the connection that ``main`` opened.
    from tileflow.build import serve

    serve.main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
