"""What each of Ray's errors means for a sweep, decided in one table.

An error that a kernel's author must mend comes as a ``RayTaskError`` around it and ends the kernel's study. A class
whose workers do not start three times in a row ends its studies (:mod:`.worker_pool`). A config that kills two workers,
each while it is alone on it, fails its trial (:mod:`.trial_queue`). The rest is decided here. A cluster that no longer
answers raises no error: :mod:`.cluster_monitor` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

from ray import exceptions

from tileflow.errors import ClusterError
from tileflow.measure.failure import MESSAGE_CHARS


class ErrorAction(Enum):
    """What happens to a call, and to the worker that had it, when Ray answers with an error."""

    SUSPECT = (
        "the worker is gone, perhaps because of a config: all that it was busy with is tried again, each trial alone "
        "on its worker; a config that kills two workers so is blocklisted"
    )
    RETRY = "the node or Ray is to blame: tried again on another worker, as often as any loss; never the config's fault"
    REBUILD = "the machine code is gone, the worker is not: compiled again"
    RAISED = "the stage raised: its own error decides, and the worker goes on"
    SWEEP = "no worker can be reached any more: the sweep stops, and says so"


# Every class of Ray's has a row here or a place in FOREIGN, which a test holds against Ray's own list. A class of a
# later Ray is treated as its nearest base until then.
ERROR_ACTIONS: Mapping[type[exceptions.RayError], ErrorAction] = {
    exceptions.RayError: ErrorAction.RETRY,
    # The worker's process ended, or cannot be reached.
    exceptions.RayActorError: ErrorAction.SUSPECT,
    exceptions.ActorDiedError: ErrorAction.SUSPECT,
    exceptions.ActorUnavailableError: ErrorAction.SUSPECT,
    exceptions.WorkerCrashedError: ErrorAction.SUSPECT,
    # Its node ended it, or could not give it what it needs: memory, disk, an environment, a place.
    exceptions.OutOfMemoryError: ErrorAction.RETRY,
    exceptions.OutOfDiskError: ErrorAction.RETRY,
    exceptions.ObjectStoreFullError: ErrorAction.RETRY,
    exceptions.NodeDiedError: ErrorAction.RETRY,
    exceptions.RuntimeEnvSetupError: ErrorAction.RETRY,
    exceptions.ActorUnschedulableError: ErrorAction.RETRY,
    exceptions.TaskUnschedulableError: ErrorAction.RETRY,
    exceptions.ActorPlacementGroupRemoved: ErrorAction.RETRY,
    exceptions.TaskPlacementGroupRemoved: ErrorAction.RETRY,
    exceptions.TaskCancelledError: ErrorAction.RETRY,
    exceptions.PendingCallsLimitExceeded: ErrorAction.RETRY,
    # Ray itself, of one call.
    exceptions.RaySystemError: ErrorAction.RETRY,
    exceptions.RpcError: ErrorAction.RETRY,
    exceptions.GetTimeoutError: ErrorAction.RETRY,
    # What a device worker was to take is no longer there.
    exceptions.ObjectLostError: ErrorAction.REBUILD,
    exceptions.ObjectFetchTimedOutError: ErrorAction.REBUILD,
    exceptions.ObjectFreedError: ErrorAction.REBUILD,
    exceptions.ObjectReconstructionFailedError: ErrorAction.REBUILD,
    exceptions.OwnerDiedError: ErrorAction.REBUILD,
    exceptions.ReferenceCountingAssertionError: ErrorAction.REBUILD,
    exceptions.PlasmaObjectNotAvailable: ErrorAction.REBUILD,
    # The stage's own error, or an answer that does not pickle.
    exceptions.RayTaskError: ErrorAction.RAISED,
    exceptions.UnserializableException: ErrorAction.RAISED,
    exceptions.UserCodeException: ErrorAction.RAISED,
    # This process has lost its cluster.
    exceptions.LocalRayletDiedError: ErrorAction.SWEEP,
    exceptions.AuthenticationError: ErrorAction.SWEEP,
}

# What this evaluator never meets: other languages, compiled graphs, streams, named and asynchronous actors.
FOREIGN = (
    "ActorAlreadyExistsError", "ActorHandleNotFoundError", "AsyncioActorExit", "CrossLanguageError",
    "ObjectRefStreamEndOfStreamError", "OufOfBandObjectRefSerializationException", "RayChannelError",
    "RayChannelTimeoutError", "RayCgraphCapacityExceeded", "RayDirectTransportError",
    "StreamingGeneratorReplayInconsistentError",
)  # fmt: skip


def error_action(error: exceptions.RayError) -> ErrorAction:
    """Return the table's entry for ``error``'s class, or for its nearest base that has one."""
    return next(ERROR_ACTIONS[base] for base in type(error).__mro__ if base in ERROR_ACTIONS)


def told(error: Exception) -> str:
    """Return what an error of Ray's says, in a line for people.

    That of a worker is what the worker raised, without the traceback that Ray prints in colours; of an actor's death
    the ids and addresses that Ray sets in are left out.
    """
    cause = error.cause if isinstance(error, exceptions.RayTaskError) else None
    if isinstance(cause, Exception):
        return f"{type(cause).__name__}: {' '.join(str(cause).split())}"
    return " ".join(line.strip() for line in str(error).splitlines() if line and not line[0].isspace())


def lost_cluster(error: exceptions.RayError) -> ClusterError:
    """Return the error that ends the sweep."""
    return ClusterError(
        "the Ray cluster must answer",
        got=f"{type(error).__name__}: {str(error)[:MESSAGE_CHARS]}",
        hint="`tileflow sweep resume` goes on once it does",
    )


@contextmanager
def cluster_must_answer() -> Iterator[None]:
    """Turn an error of Ray's that belongs to no call, as of listing nodes or starting workers, into ClusterError."""
    try:
        yield
    except exceptions.RayError as error:
        raise lost_cluster(error) from error


@contextmanager
def ray_must_start(address: str | None) -> Iterator[None]:
    """Turn whatever ``ray.init`` raises on joining or starting a cluster into ClusterError."""
    try:
        yield
    except (exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ClusterError(
            "Ray must start or be joined",
            got=f"{type(error).__name__}: {str(error)[:MESSAGE_CHARS]}",
            where=f"address {address!r}",
            hint=_how_to_start(error, address),
        ) from error


def _how_to_start(error: Exception, address: str | None) -> str:
    """What to do about an error of ``ray.init``, which has no classes of its own for what this machine lacks."""
    if isinstance(error, UnicodeError):
        return "a path has characters that this locale does not encode: LC_ALL=C.UTF-8, or PYTHONUTF8=1"
    if isinstance(error, OSError) and "AF_UNIX" in str(error):
        return "its sockets' paths are limited: name a shorter folder, as RAY_TMPDIR=/tmp"
    if isinstance(error, OSError) and error.filename is not None:
        return (
            "it writes its token below HOME (not with RAY_AUTH_MODE=disabled) and its session below RAY_TMPDIR, TMPDIR "
            "or /tmp: name folders that this process may write to"
        )
    if address == "local":
        return "its logs are below RAY_TMPDIR, TMPDIR or /tmp, in ray/session_latest/logs"
    return "see `ray status`; are its version and its token (RAY_AUTH_MODE) the same here and there?"
