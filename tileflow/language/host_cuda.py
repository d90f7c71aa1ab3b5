"""What torch says of a GPU while host code is run for one that is not there: ``torch.cuda``, ``torch.accelerator``,
``torch.version``, generators of random numbers, and streams that tensors are noted for.

What is known of a target is answered, what orders launches does nothing, and all else is refused by name.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from ..errors import TraceError
from ..lazy_dataclass import dataclass
from ..locks import Lock
from ..runtime.libraries import is_kernel_text
from ..target import ANY_TARGET, Target, target
from .places import place_around, place_of

KNOWN = "host code of a kernel asks a device for what is known of its class"
PASSED = "or pass it as an argument"


@dataclass(frozen=True, slots=True)
class Asked:
    """The GPU that host code is told of: its target, and which one it is of those that the process sees."""

    target: Target
    device: torch.device


_asked: ContextVar[Asked | None] = ContextVar("tileflow_host_cuda", default=None)


def told_of() -> Target | None:
    """The target that host code of this context is told of; None where none runs, or on a real GPU."""
    asked = _asked.get()
    return None if asked is None else asked.target


def any_target() -> Target | None:
    """What host code is told of whose target nobody knows yet; None where a driver answers."""
    return told_of() or (None if torch.cuda.is_available() else target(ANY_TARGET))


def _refused(what: str, known: str) -> TraceError:
    return TraceError(KNOWN, got=what, where=place_around(sys._getframe(1)), hint=f"{known}; {PASSED}")


def is_ours(module: str) -> bool:
    """Whether a module is tileflow's own, or Triton's; the host code of tileflow's kernels is as anyone's."""
    return module.startswith(("tileflow.", "triton.")) and not is_kernel_text(module)


def is_torchs(module: str) -> bool:
    """Whether a module is one of torch's."""
    return module.partition(".")[0] == "torch"


# ---- stand-ins -------------------------------------------------------------------------------------------------------


class _Properties(SimpleNamespace):
    """What ``torch.cuda.get_device_properties`` says of a target."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _refused(f"get_device_properties(...).{name}", f"one of {', '.join(sorted(vars(self)))}")


class _Ordering:
    """A stream, or an event: what it orders is not launched here, so that all that it does is nothing."""

    def __init__(self, kind: str, device: torch.device) -> None:
        self._kind, self.device = kind, device

    def query(self) -> bool:
        """All is done."""
        return True

    def record_event(self, event: Any = None) -> Any:
        """An event, the given one if there is one."""
        return event or _Ordering("Event", self.device)

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    record = wait = synchronize = wait_event = wait_stream = _nothing

    def __enter__(self) -> _Ordering:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _refused(f"torch.cuda.{self._kind}(...).{name}", "measure and hand on streams outside of the kernel")


class _SomeVersion:
    """A version of CUDA or HIP: there is one, and which is known on the device's machine only."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return True

    def _which(self, *args: Any) -> Any:
        raise _refused(
            f"which one torch.version.{self._name} is", "ask `is not None`, or for get_device_capability(...)"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = __iter__ = _which
    __str__ = __repr__ = __format__ = __float__ = __int__ = __getattr__ = __add__ = __radd__ = __len__ = _which
    __hash__ = None  # type: ignore[assignment]


# ---- answers ---------------------------------------------------------------------------------------------------------


def _capability(target: Target) -> tuple[int, int]:
    if target.vendor == "nvidia":
        return divmod(target.capability, 10)
    return int(target.arch[3:-2]), int(target.arch[-2], 16)  # gfx942: 9.4


def _properties(target: Target) -> _Properties:
    major, minor = _capability(target)
    found = _Properties(
        name=_name(target),
        major=major,
        minor=minor,
        multi_processor_count=target.sm_count,
        warp_size=target.warp_size,
        max_threads_per_multi_processor=target.max_threads_per_sm,
        regs_per_multiprocessor=target.regs_per_sm,
        shared_memory_per_block_optin=target.smem_per_block,
        shared_memory_per_multiprocessor=target.smem_per_sm,
        L2_cache_size=target.l2_bytes,
    )
    if target.vendor == "amd":
        found.gcnArchName = target.arch
    return found


def _name(target: Target) -> str:
    return target.display_names[0] if target.display_names else target.name


def _nothing(asked: Asked, *args: Any, **kwargs: Any) -> None:
    """What orders or measures launches, of which there are none here."""


def _inside(asked: Asked, *args: Any, **kwargs: Any) -> Any:
    """A context that changes nothing here."""
    return contextlib.nullcontext()


def _generator(asked: Asked, device: Any = "cpu") -> torch.Generator:
    """A generator for tensors that are said to be on the GPU: one of the CPU, where they really are. A GPU's has other
    numbers of the same seed."""
    is_gpu = isinstance(device, int) or torch.device(device).type == asked.device.type
    return torch.Generator() if is_gpu else torch.Generator(device)


def _ordering(kind: str) -> Callable[..., Any]:
    return lambda asked, *args, **kwargs: _Ordering(kind, asked.device)


def _has_bf16(asked: Asked, including_emulation: bool = True) -> bool:
    return asked.target.has_bfloat16 or including_emulation


_CUDA: dict[str, Callable[..., Any]] = {
    "is_available": lambda asked: True,
    "is_initialized": lambda asked: True,
    "init": _nothing,
    "device_count": lambda asked: asked.device.index + 1,
    "current_device": lambda asked: asked.device.index,
    "get_device_name": lambda asked, device=None: _name(asked.target),
    "get_device_capability": lambda asked, device=None: _capability(asked.target),
    "get_device_properties": lambda asked, device=None: _properties(asked.target),
    "is_bf16_supported": _has_bf16,
    "is_tf32_supported": lambda asked: asked.target.vendor == "nvidia" and asked.target.has_bfloat16,
    "is_current_stream_capturing": lambda asked: False,
    "set_device": _nothing,
    "synchronize": _nothing,
    "empty_cache": _nothing,
    "ipc_collect": _nothing,
    "reset_peak_memory_stats": _nothing,
    "set_stream": _nothing,
    "device": _inside,
    "device_of": _inside,
    "stream": _inside,
    "current_stream": _ordering("Stream"),
    "default_stream": _ordering("Stream"),
    "Stream": _ordering("Stream"),
    "Event": _ordering("Event"),
}
_ACCELERATOR: dict[str, Callable[..., Any]] = {
    "is_available": lambda asked: True,
    "device_count": lambda asked: asked.device.index + 1,
    "current_accelerator": lambda asked, check_available=False: torch.device(asked.device.type),
    "current_device_index": lambda asked: asked.device.index,
    "set_device_index": _nothing,
    "synchronize": _nothing,
    "current_stream": _ordering("Stream"),
    "set_stream": _nothing,
}
_RANGES: dict[str, Callable[..., Any]] = {
    "range": _inside,
    "range_push": lambda asked, msg: 0,
    "range_pop": lambda asked: 0,
    "mark": _nothing,
}
_ANSWERS: dict[ModuleType | type, dict[str, Callable[..., Any]]] = {
    torch: {"Generator": _generator},
    torch.Tensor: {"record_stream": _nothing},
    torch.cuda: _CUDA,
    torch.cuda.nvtx: _RANGES,
    torch.accelerator: _ACCELERATOR,
}
NAMES = ", ".join(name for name, answer in _CUDA.items() if answer is not _nothing)


def _asked_by(frame: Any) -> Asked | None:
    """The GPU that the code of a frame is told of; None of code that is told the truth."""
    module = frame.f_globals.get("__name__") or ""
    return None if is_torchs(module) or is_ours(module) else _asked.get()


def _answered(own: Any, answer: Callable[..., Any]) -> Any:
    """A function of torch's, which is ``own`` but for host code that runs for a GPU that is not there."""

    @functools.wraps(own, updated=())
    def answered(*args: Any, **kwargs: Any) -> Any:
        asked = _asked_by(sys._getframe(1))
        return own(*args, **kwargs) if asked is None else answer(asked, *args, **kwargs)

    return answered


def _answered_class(own: Any, answer: Callable[..., Any]) -> Any:
    """The same of a class, of which other threads go on to ask whether objects are of it."""

    class Answered(type(own)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            asked = _asked_by(sys._getframe(1))
            return own(*args, **kwargs) if asked is None else answer(asked, *args, **kwargs)

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, own)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, own)

    return Answered(own.__name__, (own,), {"__doc__": own.__doc__, "__module__": own.__module__})


class _Version(ModuleType):
    """``torch.version`` while some thread runs host code for a GPU that is not there."""

    @property
    def cuda(self) -> Any:
        """The version of CUDA; None on an AMD target."""
        return _version(self, "cuda", "nvidia", sys._getframe(1))

    @property
    def hip(self) -> Any:
        """The version of HIP; None on an NVIDIA target."""
        return _version(self, "hip", "amd", sys._getframe(1))


def _version(module: ModuleType, name: str, vendor: str, frame: Any) -> Any:
    own, asked = vars(module)[name], _asked_by(frame)
    if asked is None:
        return own
    return None if asked.target.vendor != vendor else own or _SomeVersion(name)


class _Answering:
    """torch's functions while some thread runs host code for a GPU that is not there. There they answer for its
    target, if anything but torch, Triton and tileflow asks, and are torch's own elsewhere."""

    def __init__(self) -> None:
        self._lock, self._open = Lock(), 0
        self._own: list[tuple[ModuleType | type, str, Any]] = []

    @contextlib.contextmanager
    def of(self, asked: Asked) -> Iterator[None]:
        """Inside, for host code of this context."""
        with self._lock:
            if not self._open:
                self._begin()
            self._open += 1
        token = _asked.set(asked)
        try:
            yield
        finally:
            _asked.reset(token)
            with self._lock:
                self._open -= 1
                if not self._open:
                    self._end()

    def _begin(self) -> None:
        self._own = [
            (module, name, getattr(module, name))
            for module, answers in _ANSWERS.items()
            for name in answers
            if hasattr(module, name)  # some are of later versions of torch
        ]
        for module, name, own in self._own:
            answered = _answered_class if isinstance(own, type) else _answered
            setattr(module, name, answered(own, _ANSWERS[module][name]))
        torch.version.__class__ = _Version

    def _end(self) -> None:
        torch.version.__class__ = ModuleType
        for module, name, own in self._own:
            setattr(module, name, own)
        del torch.Tensor.record_stream  # it is of the class below


answering = _Answering()


def driver_error(error: BaseException) -> TraceError | None:
    """What to say of an error of ``torch.cuda``'s own functions, which need the driver and a card; None of others."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = "" if frame is None else frame.tb_frame.f_globals.get("__name__") or ""
    if frame is None or not module.startswith(("torch.cuda", "torch.accelerator")):
        return None
    return TraceError(
        "host code of a kernel that is run where there is no GPU asks for what is known of the target",
        got=f"{frame.tb_frame.f_code.co_name} of {'.'.join(module.split('.')[:2])}: {error}",
        where=place_of(error),
        hint=f"torch.cuda.NAME(...), written out like this, of {NAMES}; {PASSED}",
    )
