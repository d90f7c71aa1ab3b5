"""The table of Ray's errors: none is missing, and a class that it does not name has its base's row."""

from __future__ import annotations

import inspect

import pytest
from ray import exceptions
from tileflow_cluster.ray_errors import (
    ERROR_ACTIONS,
    FOREIGN,
    ErrorAction,
    cluster_must_answer,
    error_action,
    ray_must_start,
    told,
)

from tileflow.errors import BuildTimeout, ClusterError

RAYS = {
    name: found
    for name, found in vars(exceptions).items()
    if inspect.isclass(found) and issubclass(found, exceptions.RayError)
}


def test_every_error_of_ray_is_classified() -> None:
    """Finding 2 of issue 17: a class without a row had its base's, whatever Ray meant by it."""
    named = {error.__name__ for error in ERROR_ACTIONS} | set(FOREIGN)
    assert not RAYS.keys() - named, "a new class of Ray's: give it a row in ray_errors.ERROR_ACTIONS"
    assert not named - RAYS.keys(), "a class that Ray has no more"
    assert not set(FOREIGN) & {error.__name__ for error in ERROR_ACTIONS}


def test_every_error_that_ray_defines_is_a_ray_error() -> None:
    """The driver catches RayError: what is none of them would end it."""
    own = {
        name for name, found in vars(exceptions).items()
        if inspect.isclass(found) and issubclass(found, BaseException) and found.__module__ == exceptions.__name__
    }  # fmt: skip
    assert own == RAYS.keys()


def test_a_subclass_has_its_bases_fate_unless_it_is_named() -> None:
    assert error_action(exceptions.OwnerDiedError("id", None, "site")) is ErrorAction.REBUILD
    assert error_action(exceptions.ActorDiedError()) is ErrorAction.SUSPECT
    assert error_action(exceptions.OutOfMemoryError("short")) is ErrorAction.RETRY

    class New(exceptions.RayError):
        pass

    assert error_action(New()) is ErrorAction.RETRY


def test_a_stages_error_is_the_stages_whatever_it_raised() -> None:
    """Ray answers with a class that is both: RayTaskError, and the cause's."""
    raised = exceptions.RayTaskError("run", "traceback", MemoryError("host"))
    assert error_action(raised.as_instanceof_cause()) is ErrorAction.RAISED


def test_what_is_of_no_one_call_is_the_clusters() -> None:
    with pytest.raises(ClusterError, match=r"RaySystemError: .*no GCS"), cluster_must_answer():
        raise exceptions.RaySystemError("no GCS")


@pytest.mark.parametrize(
    ("error", "address", "step"),
    [
        (UnicodeEncodeError("utf-8", "\udcc3", 0, 1, "surrogates not allowed"), "local", "LC_ALL=C.UTF-8"),
        (OSError("AF_UNIX path length cannot exceed 107 bytes: /x"), "local", "RAY_TMPDIR=/tmp"),
        (PermissionError(13, "Permission denied", "/home/me/.ray"), "local", "below HOME"),
        (NotADirectoryError(20, "Not a directory", "/dev/null/ray"), None, "below RAY_TMPDIR, TMPDIR"),
        (RuntimeError("the raylet died"), "local", "session_latest/logs"),
        (ConnectionError("no GCS"), "host:6379", "RAY_AUTH_MODE"),
        (RuntimeError("version mismatch"), None, "its version"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_what_keeps_ray_from_starting_says_what_to_do(error: Exception, address: str | None, step: str) -> None:
    """All of them asked for the version and the token of a cluster, also where none was joined."""
    with pytest.raises(ClusterError) as raised, ray_must_start(address):
        raise error
    assert step in str(raised.value.hint) and ("status" in str(raised.value.hint)) == (
        step in ("RAY_AUTH_MODE", "its version")
    )


class _Died(exceptions.RayError):
    def __str__(self) -> str:
        return "The actor died.\n\tclass_name: CompileWorker\n\tpid: 7\nIts worker process has died."


def test_what_a_worker_raised_is_told_without_its_traceback() -> None:
    """A compile worker that was slow to start printed thirty lines of Ray's, in colours."""
    slow = BuildTimeout("a build ends", got="no end", where="here")
    raised = exceptions.RayTaskError("describe", "\x1b[36mray::CompileWorker\x1b[39m\n  File ...", slow)
    for error in (raised, raised.as_instanceof_cause()):
        assert told(error) == "BuildTimeout: a build ends, but got no end at here"
    assert told(_Died()) == "The actor died. Its worker process has died."
