"""Errors as outcomes."""

from __future__ import annotations

import math
import re
import sysconfig
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import (
    BuildTimeout,
    CallError,
    ClusterError,
    ConfigError,
    KernelError,
    LaunchError,
    OutOfResources,
    SlowProblem,
    SpecError,
)
from .check import Verdict
from .types import Outcome, Status

if TYPE_CHECKING:
    from .request import MeasureRequest

_PACKAGE, _PYTHON = f"{Path(__file__).parents[1]}/", f"{sysconfig.get_path('stdlib')}/"
MESSAGE_CHARS = 2000
# the error classes where a problem's own data does not fit, or is not made in time, whatever the config
NO_ROOM, NO_TIME = "NoRoomForTheProblem", "NoTimeForTheProblem"

# What CUDA and HIP say when the context is lost for good, and when the card is; drivers say it by the names of their
# enumerations, which are matched with spaces for underscores.
_STICKY = (
    "illegal memory access", "illegal address", "misaligned address", "illegal instruction",
    "unspecified launch failure", "launch failed", "launch timeout", "device-side assert", "cuda error assert",
    "invalid program counter", "invalid pc", "hardware stack error", "address space",
)  # fmt: skip
_LOST = (
    "uncorrectable ecc",
    "ecc uncorrectable",
    "device lost",
    "gpu is lost",
    "fallen off the bus",
    "no cuda-capable device",
    "cuda error no device",
    "devices unavailable",
)
_FULL = ("out of memory",)
_HIP_NAME = re.compile(r"\bhipError\w+")
_HIP_STICKY = frozenset(
    {
        "hipErrorIllegalAddress",
        "hipErrorLaunchFailure",
        "hipErrorLaunchTimeOut",
        "hipErrorAssert",
        "hipErrorPriorLaunchFailure",
        "hipErrorIllegalState",
        "hipErrorContextIsDestroyed",
    }
)
_HIP_LOST = frozenset({"hipErrorNoDevice", "hipErrorInvalidDevice", "hipErrorECCNotCorrectable"})
_HIP_FULL = frozenset({"hipErrorOutOfMemory", "hipErrorMemoryAllocation"})


def build_failure(error: Exception) -> Outcome:
    """The outcome of a config whose lowering, emission or build raised ``error``."""
    match error:
        case BuildTimeout():
            status = Status.COMPILE_TIMEOUT
        case OutOfResources() | ConfigError():
            status = Status.INVALID_STATIC
        case ClusterError() | SpecError():  # the host's fault, as a full disk or a variable that names no folder
            status = Status.WORKER_LOST
        case _:
            status = Status.COMPILE_ERROR
    return failed(status, error)


def launch_failure(error: Exception) -> Outcome:
    """The outcome of a config whose loading or running raised ``error``; the text tells a sticky error from others."""
    text = str(error).lower().replace("_", " ")
    names = set(_HIP_NAME.findall(str(error)))
    if names & _HIP_LOST or any(words in text for words in _LOST):
        return failed(Status.DEVICE_LOST, error)
    if names & _HIP_STICKY or any(words in text for words in _STICKY):
        return failed(Status.ILLEGAL_ACCESS, error)
    if names & _HIP_FULL or any(words in text for words in _FULL):
        return failed(Status.OOM, error)
    match error:
        case LaunchError():
            return failed(Status.OUT_OF_RESOURCES, error)
        case CallError() | KernelError() | ConfigError():
            return failed(Status.COMPILE_ERROR, error)
    return failed(Status.ILLEGAL_ACCESS if "cuda error" in text or "hip error" in text else Status.COMPILE_ERROR, error)


def authors_mistake(error: Exception, request: MeasureRequest) -> SpecError:
    """What making a request's inputs and reference raised, in words that name the author's line."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not _is_ours(frame.filename)] or frames
    return SpecError(
        "a kernel's inputs and reference must return for the arguments that it is tuned with",
        got=f"{type(error).__name__}: {error}",
        where=f"{request.kernel} {dict(request.problem)}, {theirs[-1].filename}:{theirs[-1].lineno}",
        hint="call its reference= or baseline= on them; a sweep by name makes them with inputs=",
    )


def slow_problem(request: MeasureRequest, seconds: float, got: str = "longer") -> SlowProblem:
    """What is told where a request's inputs and reference were not made in so many seconds."""
    return SlowProblem(
        f"a problem's inputs and its reference must be made in {seconds:.3g} s",
        got=got,
        where=f"{request.kernel} {dict(request.problem)}",
        hint="give the kernel a faster reference= or baseline=, or take smaller sizes",
    )


def _is_ours(file: str) -> bool:
    """Whether a frame's file is one of this package, of Python or of an installed one: a mistake shows there, and is
    not there."""
    return file.startswith((_PACKAGE, _PYTHON, "<frozen ")) or "/site-packages/" in file or "/dist-packages/" in file


def checked(verdict: Verdict) -> Outcome:
    """The outcome of a check, before its times."""
    error = verdict.max_err if math.isfinite(verdict.max_err) else None
    outcome = Outcome(Status.OK) if verdict.ok else failed(verdict.status, verdict.reason)
    return replace(outcome, max_err=error)


def no_time(error: str) -> Outcome:
    """The outcome where a problem's inputs and reference take longer than they may."""
    return replace(failed(Status.WORKER_LOST, error), error_class=NO_TIME)


def no_room(error: Exception | str) -> Outcome:
    """The outcome of a problem whose own data does not fit, whatever the config."""
    return replace(failed(Status.OOM, error), error_class=NO_ROOM)


def failed(status: Status, error: Exception | str) -> Outcome:
    """An outcome with the beginning of ``error``'s message, empty lines left out."""
    text = str(error).encode("utf-8", "backslashreplace").decode()  # half a surrogate pair goes into no file
    digest = "\n".join(line for line in text.splitlines() if line.strip())[:MESSAGE_CHARS]
    return Outcome(status, error_class="" if isinstance(error, str) else type(error).__name__, error_digest=digest)
