"""Loading the machine code of calls that are to come, before the first of them comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import CallError
from .abi import Binary
from .launch import Launcher, lazy_launcher
from .problem import Problem
from .serving import servers_of_rows

if TYPE_CHECKING:
    from .call_cache import CallCache


class Kernel(Protocol):
    """A kernel that is warmed up; ``tileflow.Kernel`` is one."""

    name: str
    scope: FunctionType
    cache: CallCache

    @property
    def semantic_hash(self) -> str:
        """The hash of the kernel's source, by which its rows are found in a table."""

    def describe(self, *args: Any, **kwargs: Any) -> Problem:
        """The problem of a call: which arguments it has, with their sizes, strides and dtypes."""


def launcher_maker(kernel: Kernel, device: Any) -> Callable[[Binary], Launcher]:
    """Makes a kernel's launchers on ``device``; the machine code of one is loaded when it launches first."""
    return lambda binary: lazy_launcher(binary, device, kernel.scope)


def warmup(kernel: Kernel, problems: Iterable[Problem | Sequence[Any]], device: Any = "cuda") -> int:
    """Load the machine code that calls of ``problems`` run, so that their first calls cost a lookup and a guard.

    A problem is a call's arguments, in a tuple or a list (meta tensors will do), or a :class:`Problem`. For each, the
    binaries of the first row that has some for it are loaded, and those of the bundle's default. Returns the number of
    binaries that are loaded now. Nothing is compiled, and nothing is launched: a call that no loaded row serves is left
    to ``on_miss``. Raises CallError where torch reaches no such GPU, OutOfResources and LaunchError as a launch does.
    """
    import torch

    from .describe import device_class

    live = device_class(device)
    place = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if place.index is None:
        place = torch.device(place.type, torch.accelerator.current_device_index())
    loaded: set[str] = set()
    for problem in problems:
        known = _described(kernel, problem)
        has_row = False
        rows = servers_of_rows(
            kernel.name, kernel.semantic_hash, known, live, launcher_maker(kernel, place), (place, kernel.cache.number)
        )
        for hit, server in rows:
            if server is None or (has_row and hit.step not in ("exact", "default")):
                continue
            has_row = True
            for launch in hit.row.launches:
                for launcher in server.launchers(launch.region):
                    launcher.load()  # type: ignore[attr-defined]
                loaded |= {v.sha256 for v in launch.variants if v.sha256 is not None}
    return len(loaded)


def _described(kernel: Kernel, problem: Problem | Sequence[Any]) -> Problem:
    if isinstance(problem, Problem):
        return problem
    if not isinstance(problem, (tuple, list)):
        raise CallError(
            "a problem to warm up is a call's arguments in a tuple, or a Problem",
            got=type(problem).__name__,
            where=kernel.name,
            hint="runtime.warmup(kernel, [(x, weight), (other_x, weight)])",
        )
    return kernel.describe(*problem)
