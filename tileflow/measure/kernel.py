"""What measuring needs of a kernel. ``tileflow.api.Kernel`` is one, but api lies above this package."""

from __future__ import annotations

import linecache
import socket
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from ..build.serve import resolve
from ..config import Choice, Config
from ..errors import OtherFiles, SpecError
from ..runtime.launch import Launcher
from ..tolerances import Tolerances

# What this process had before it loaded a first kernel: its modules, and where it looked for more.
_before: tuple[frozenset[str], tuple[str, ...]] | None = None

SAME_FILES = "give workers the driver's files and packages: ray job submit --working-dir, or a shared file system"
API_LOADER = "tileflow.api:load_kernel"
_NEEDED = ("scope", "tolerances", "baseline", "has_reference", "inputs", "reference", "run_eagerly", "kind", "bind")


class MeasurableKernel(Protocol):
    """See ``docs/explanations/architecture.md``. ``scope``: the user's function or None, for captured cells and
    globals. ``tolerances``: what its author lets differ. ``baseline``: what results are held against where it is not
    the reference. ``run_eagerly``: its own text as plain Python."""

    @property
    def scope(self) -> Any:
        """The user's function, whose cells and globals a call captures; None where there is none."""

    @property
    def tolerances(self) -> Tolerances:
        """What the kernel's author lets differ from the reference."""

    @property
    def baseline(self) -> Callable[..., Any] | None:
        """What results are held against where it is not the reference; None where it is."""

    @property
    def has_reference(self) -> bool:
        """Whether its author wrote a reference or a baseline; else its own text as plain Python stands for one."""

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        """The arguments of a problem, by the author's own function."""

    def reference(self, *args: Any) -> Any:
        """What the kernel must return for ``args``."""

    def run_eagerly(self, *args: Any, config: Mapping[str, Choice] | None = None) -> Any:
        """The kernel's own text as plain Python over real tiles of the config's sizes."""

    def kind(self, *args: Any) -> MeasurableKernel:
        """The kernel whose host code and regions a call has; a derived backward has several."""

    def bind(self, config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> Callable[..., Any]:
        """A plain callable: the host function over launchers of its regions."""


def load(loader: str, reference: str, sys_path: Sequence[str], semantic_hash: str = "") -> MeasurableKernel:
    """The kernel that ``loader`` (``module:function``) makes of ``reference`` (``module:qualname``).

    The loader is found by name at run time, because api imports this package and not the other way round.
    ``sys_path`` goes in front of this process's own. ``semantic_hash``: of the kernel that is meant. Raises SpecError;
    OtherFiles where there is no such kernel on this host, or another version.
    """
    global _before
    _before = _before or (frozenset(sys.modules), tuple(sys.path))
    sys.path[:0] = [path for path in sys_path if path not in sys.path]
    try:
        kernel = resolve(loader)(reference)
    except SpecError as error:
        if loader != API_LOADER:
            raise  # it is no name of a module here
        place = f"{reference} on {socket.gethostname()}"
        raise OtherFiles(error.constraint, got=error.got, where=place, hint=f"{error.hint}; {SAME_FILES}") from error
    if semantic_hash and kernel.semantic_hash != semantic_hash:
        raise OtherFiles(
            "a worker must import the same version of a kernel as the driver",
            got=f"semantic_hash {kernel.semantic_hash[:12]} here, {semantic_hash[:12]} there",
            where=f"{reference} on {socket.gethostname()}",
            hint=SAME_FILES,
        )
    missing = [name for name in _NEEDED if not hasattr(kernel, name)]
    if missing:
        raise SpecError(
            f"a measured kernel must have {', '.join(_NEEDED)}",
            got=f"no {', '.join(missing)}",
            where=reference,
            hint="is it decorated with @tileflow.kernel?",
        )
    return cast(MeasurableKernel, kernel)


def unload_kernels() -> None:
    """Forget the modules that came with kernels, so that a later one's are read from their files again. What is
    installed stays: libraries do not bear to be imported twice."""
    global _before
    if _before is None:
        return
    (modules, paths), _before = _before, None
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    for name in [name for name in sys.modules if name not in modules]:
        file = getattr(sys.modules[name], "__file__", None)
        if file and not file.startswith(installed) and not name.partition(".")[0].startswith("tileflow"):
            del sys.modules[name]
    sys.path[:] = paths
    linecache.clearcache()
