"""The optional C extension: the same keys and launches for less host time. Everything works without it.

``build_native.py`` compiles it. The environment's TILEFLOW_NATIVE forbids it (off) or makes its absence an error (on).
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from ..errors import LaunchError
from ..lazy_dataclass import dataclass
from .environment import NATIVE, switch
from .packing import Enqueue
from .tensor_fields import read_fields

_log = logging.getLogger(__name__)
_VERSION = 5  # of the extension's signatures; a stale build has another
DECLINED = -1  # an enqueue's status where a tensor is not as its format says: nothing was launched
_BUILD = "python -P tileflow/runtime/build_native.py builds it, TILEFLOW_NATIVE=0 does without"


@dataclass(frozen=True, slots=True)
class Way:
    """How the driver launches. ``address``: of cuLaunchKernel or hipModuleLaunchKernel, or of cuLaunchKernelEx where
    there are ``attributes`` (each a CUlaunchAttribute of 72 bytes)."""

    address: int
    attributes: bytes = b""


@dataclass(frozen=True, slots=True)
class Captured:
    """Another way for a stream that is captured into a graph, as ``is_capturing``, the address of cuStreamIsCapturing,
    says of it."""

    way: Way
    is_capturing: int


def enqueuer(
    way: Way,
    function: int,
    threads: int,
    shared: int,
    formats: str,
    captured: Captured | None = None,
    device: tuple[int, int] | None = None,
) -> Enqueue | None:
    """An enqueue that calls the driver's launch function; None where the extension cannot serve.

    ``formats``: as ``parameter_formats`` gives them. ``captured``: how a stream is launched on while it is captured,
    where that is another way. ``device``: DLPack's type and index of one whose current stream is launched on always:
    the enqueue takes no stream then, takes tensors where ``formats`` has T, or A for aligned ones, and gives
    :data:`DECLINED` where one is not as it must be. Raises LaunchError where TILEFLOW_NATIVE=1 and there is no
    extension.
    """
    module = _module(switch(NATIVE))
    if module is None or (device is not None and _exchange() is None):
        return None
    of_device = () if device is None else (_exchange(), *device)
    in_graphs = (0, b"", 0) if captured is None else (*_given(captured.way), captured.is_capturing)
    try:
        bound: Enqueue = module.bind(function, threads, shared, formats.encode(), *_given(way), *in_graphs, *of_device)
    except ValueError as error:  # more parameters than it takes
        _log.debug("a kernel is launched from Python: %s", error)
        return None
    return bound


def _given(way: Way) -> tuple[int, bytes]:
    return way.address, way.attributes


@cache
def tensors_key() -> Callable[..., bytes] | None:
    """A function that describes all tensors given to it by one key; None without the extension, or where torch does
    not offer its tensors to C.

    It raises RuntimeError for what is neither a ``torch.Tensor`` nor a Parameter, or has no memory, or has a dtype that
    DLPack does not know.
    """
    import torch

    module, exchange = _module(switch(NATIVE)), _exchange()
    if module is None or exchange is None:
        return None
    made: Callable[..., bytes] = module.tensor_reader(
        exchange, (torch.Tensor, torch.nn.Parameter), torch.is_grad_enabled
    )
    return made


# DLPack's code and bits of torch's dtypes. Not those of a byte that it does not tell from torch's integers of fewer
# bits, nor those of several numbers in an element.
_DTYPES = (
    (4, 16, "bfloat16"), (2, 16, "float16"), (2, 32, "float32"), (0, 32, "int32"), (0, 64, "int64"), (6, 8, "bool"),
    (2, 64, "float64"), (0, 16, "int16"), (1, 16, "uint16"), (1, 32, "uint32"), (1, 64, "uint64"),
    (10, 8, "float8_e4m3fn"), (11, 8, "float8_e4m3fnuz"), (12, 8, "float8_e5m2"), (13, 8, "float8_e5m2fnuz"),
    (14, 8, "float8_e8m0fnu"), (5, 64, "complex64"), (5, 128, "complex128"),
)  # fmt: skip


@cache
def metadata_reader() -> Callable[..., tuple[Any, ...]] | None:
    """A function that is :func:`.tensor_fields.read_fields`, and makes no call of torch's that a mode of
    torch.overrides would see; None as with :func:`tensors_key`."""
    return _metadata_reader(read_fields)


@cache
def strided_reader() -> Callable[..., tuple[Any, ...] | None] | None:
    """The same, which gives None where a tensor is of a class of its own, or not beyond doubt a strided one."""
    return _metadata_reader(lambda *_: None)


def _metadata_reader(otherwise: Callable[..., Any]) -> Callable[..., Any] | None:
    import torch

    module, exchange = _module(switch(NATIVE)), _exchange()
    if module is None or exchange is None:
        return None
    # an older torch has fewer dtypes
    known = tuple((code, bits, getattr(torch, name)) for code, bits, name in _DTYPES if hasattr(torch, name))
    made: Callable[..., Any] = module.metadata_reader(exchange, (torch.Tensor, torch.nn.Parameter), known, otherwise)
    return made


@cache
def pairs_test() -> Callable[..., bool] | None:
    """A function that tells whether :func:`tileflow.runtime.overlap.surely_fit` holds; None as with
    :func:`tensors_key`."""
    module, exchange = _module(switch(NATIVE)), _exchange()
    if module is None or exchange is None:
        return None
    made: Callable[..., bool] = module.pairs_tester(exchange)
    return made


def stream_reader(device: tuple[int, int]) -> Callable[[], int] | None:
    """A function that gives the device's current stream, raw; None as with :func:`tensors_key`. ``device``: DLPack's
    type and index."""
    module, exchange = _module(switch(NATIVE)), _exchange()
    if module is None or exchange is None:
        return None
    made: Callable[[], int] = module.stream_reader(exchange, *device)
    return made


@cache
def _exchange() -> Any:
    """The C functions that torch offers its tensors by, which DLPack standardises; None where there are none that the
    extension knows."""
    import torch

    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    module = _module(switch(NATIVE))
    if exchange is None or module is None:
        return None
    try:
        module.tensor_reader(exchange, (), torch.is_grad_enabled)
    except ValueError as error:
        _log.debug("tensors are read from Python, which costs more of the host's time: %s", error)
        return None
    return exchange


@cache
def _module(wanted: bool | None) -> ModuleType | None:
    """The extension, by what TILEFLOW_NATIVE holds. Its absence is said once."""
    if wanted is False:
        return None
    try:
        module = importlib.import_module("._native", __package__)
        if module.VERSION == _VERSION:
            return module
        reason = f"its version is {module.VERSION}, not {_VERSION}"
    except ImportError as error:
        reason = str(error)
    if wanted:
        raise LaunchError("TILEFLOW_NATIVE=1 asks for the C extension of launches", got=reason, hint=_BUILD)
    _log.debug("kernels are launched from Python, which costs more of the host's time: %s; %s", reason, _BUILD)
    return None


def is_used() -> bool:
    """Whether launches go through the extension. Raises LaunchError where TILEFLOW_NATIVE=1 and there is none."""
    return _module(switch(NATIVE)) is not None


def forget() -> None:
    """Look for the extension again."""
    for remembered in (_module, _exchange, tensors_key, metadata_reader, strided_reader, pairs_test):
        remembered.cache_clear()
