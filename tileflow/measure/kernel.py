"""What measuring needs of a kernel. ``tileflow.api.Kernel`` is one, but api lies above this package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from ..build.serve import resolve
from ..config import Config
from ..errors import SpecError
from ..runtime.launch import Launcher

API_LOADER = "tileflow.api:load_kernel"


class MeasurableKernel(Protocol):
    """See ``docs/architecture.md``. ``scope``: the user's function or None, for captured cells and globals.
    ``strays``: the share of a result's elements that may be off."""

    @property
    def scope(self) -> Any: ...

    @property
    def strays(self) -> float: ...

    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]: ...

    def reference(self, *args: Any) -> Any: ...

    def kind(self, *args: Any) -> MeasurableKernel: ...

    def bind(self, config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> Callable[..., Any]: ...


def load(loader: str, reference: str, sys_path: Sequence[str]) -> MeasurableKernel:
    """The kernel that ``loader`` (``module:function``) makes of ``reference`` (``module:qualname``).

    The loader is found by name at run time, because api imports this package and not the other way round.
    ``sys_path`` goes in front of this process's own. Raises SpecError.
    """
    sys.path[:0] = [path for path in sys_path if path not in sys.path]
    kernel = resolve(loader)(reference)
    missing = [name for name in ("scope", "strays", "inputs", "reference", "kind", "bind") if not hasattr(kernel, name)]
    if missing:
        raise SpecError(
            "a measured kernel must have scope, strays, inputs, reference, kind and bind",
            got=f"no {', '.join(missing)}",
            where=reference, hint="is it decorated with @tileflow.kernel?",
        )  # fmt: skip
    return cast(MeasurableKernel, kernel)
