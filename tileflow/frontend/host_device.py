"""The device of host code that runs on metadata: what its tensors, and torch, say of it.

A kernel is lowered from tensors on the meta device, as a rule where there is no GPU at all: a worker compiles for each
class of a cluster. Its host code asks as it would in a call: ``assert x.is_cuda``, ``torch.empty(n, device="cuda")``,
``torch.cuda.get_device_properties(x.device).multi_processor_count``. Here tensors answer that they are on the first
GPU, what is made there has no data either, and torch answers for the target.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..errors import TraceError
from ..locks import Lock
from ..runtime import elsewhere
from ..runtime.argtree import tensors
from ..target import Target

DEVICE = torch.device("cuda", 0)  # of AMD's GPUs too
_GETTERS: dict[Any, Any] = {
    getattr(torch.Tensor, name).__get__: answer
    for name, answer in (("device", DEVICE), ("is_cuda", True), ("is_cpu", False), ("is_meta", False))
} | {torch.Tensor.get_device: DEVICE.index}
_LIKES: dict[Any, Callable[..., torch.Tensor]] = {
    torch.empty_like: torch.empty,
    torch.zeros_like: torch.zeros,
    torch.ones_like: torch.ones,
}
_MOVES = (torch.Tensor.to, torch.Tensor.cuda)


class HostDevice(TorchFunctionMode):
    """Answers of tensors while host code runs. ``where``: the type of the device that they are really on, which says
    that it is a GPU; a tensor elsewhere, as one of the CPU that host code makes, says where it is. What traces or runs
    a launch, or serves a kernel that host code calls, is told the truth.

    ``zeros_like`` and its like of contiguous tensors are made directly: torch computes what they return in Python, by a
    module that imports SymPy: 0.3 s of a process's first kernel.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__()
        found = {tensor.device.type for tensor in tensors(values)}
        self.where = "meta" if "meta" in found or not found else "cpu" if found == {"cpu"} else ""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not elsewhere.really_on.get() or _is_ours(sys._getframe(1).f_globals.get("__name__") or ""):
            made = self._made_directly(func, args, kwargs)
            return func(*args, **kwargs) if made is None else made
        if func in _GETTERS:
            return _GETTERS[func] if args[0].device.type == self.where else func(*args, **kwargs)
        if func in _MOVES:
            args = tuple(map(self._really, args if func is not torch.Tensor.cuda else (args[0], DEVICE)))
            func = torch.Tensor.to
        if "device" in kwargs:
            kwargs = {**kwargs, "device": self._really(kwargs["device"])}
        made = self._made_directly(func, args, kwargs)
        return func(*args, **kwargs) if made is None else made

    def _really(self, device: Any) -> Any:
        """What stands for a GPU here; anything else as it is."""
        is_gpu = isinstance(device, str) and device.partition(":")[0] == "cuda"
        is_gpu = is_gpu or (isinstance(device, torch.device) and device.type == "cuda")
        is_gpu = is_gpu or (isinstance(device, int) and not isinstance(device, bool))
        return self.where if is_gpu else device

    def _made_directly(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
        make = _LIKES.get(func)
        if make is None or len(args) != 1 or not kwargs.keys() <= {"dtype"} or type(args[0]) is not torch.Tensor:
            return None
        (like,) = args
        if like.device.type != "meta" or not like.is_contiguous():
            return None
        return make(like.shape, dtype=kwargs.get("dtype") or like.dtype, device="meta")


@contextlib.contextmanager
def _really_on(where: str) -> Iterator[None]:
    token = elsewhere.really_on.set(where)
    try:
        yield
    finally:
        elsewhere.really_on.reset(token)


def truthful() -> contextlib.AbstractContextManager[None]:
    """While a kernel is served that host code calls: tensors say where they are."""
    return _really_on("")


def _is_ours(module: str) -> bool:
    """Whether a module is tileflow's own, or Triton's; the host code of tileflow's kernels is as anyone's."""
    return module.startswith(("tileflow.", "triton.")) and not module.startswith("tileflow.kernels.")


# ---- torch.cuda ------------------------------------------------------------------------------------------------------


class _Properties(SimpleNamespace):
    """What ``torch.cuda.get_device_properties`` says of a target."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TraceError(
            "host code of a kernel asks a device for what is known of its class",
            got=f"get_device_properties(...).{name}",
            hint=f"one of {', '.join(sorted(vars(self)))}; or pass it as an argument",
        )


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


_ANSWERS: dict[str, Callable[..., Any]] = {
    "is_available": lambda target: True,
    "device_count": lambda target: 1,
    "current_device": lambda target: DEVICE.index,
    "get_device_name": lambda target, device=None: _name(target),
    "get_device_capability": lambda target, device=None: _capability(target),
    "get_device_properties": lambda target, device=None: _properties(target),
    "set_device": lambda target, device: None,
    "synchronize": lambda target, device=None: None,
    "device": lambda target, device: contextlib.nullcontext(),
}


class _Answering:
    """``torch.cuda``'s functions while some thread lowers. Where it does they answer for its target, if anything but
    torch, Triton and tileflow asks, and are torch's own elsewhere."""

    def __init__(self) -> None:
        self._lock, self._open = Lock(), 0
        self._own: dict[str, Any] = {}

    @contextlib.contextmanager
    def of(self, target: Target) -> Iterator[None]:
        with self._lock:
            if not self._open:
                self._own = {name: getattr(torch.cuda, name) for name in _ANSWERS}
                for name, own in self._own.items():
                    setattr(torch.cuda, name, _answered(name, own))
            self._open += 1
        token = _lowered_for.set(target)
        try:
            yield
        finally:
            _lowered_for.reset(token)
            with self._lock:
                self._open -= 1
                if not self._open:
                    for name, own in self._own.items():
                        setattr(torch.cuda, name, own)


_lowered_for: ContextVar[Target | None] = ContextVar("tileflow_lowered_for", default=None)


def _answered(name: str, own: Any) -> Any:
    """The function ``name`` of ``torch.cuda``, which is ``own`` but for host code that is lowered."""

    @functools.wraps(own, updated=())
    def answered(*args: Any, **kwargs: Any) -> Any:
        target, asked_by = _lowered_for.get(), sys._getframe(1).f_globals.get("__name__") or ""
        if target is None or asked_by.partition(".")[0] == "torch" or _is_ours(asked_by):
            return own(*args, **kwargs)
        return _ANSWERS[name](target, *args, **kwargs)

    return answered


def driver_error(error: BaseException) -> TraceError | None:
    """What to say of an error of ``torch.cuda``'s own functions, which need the driver and a card; None of others."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None or not (frame.tb_frame.f_globals.get("__name__") or "").startswith("torch.cuda"):
        return None
    return TraceError(
        "host code of a kernel that is lowered where there is no GPU asks for what is known of the target",
        got=f"{frame.tb_frame.f_code.co_name} of torch.cuda: {error}",
        hint=f"torch.cuda.NAME(...), written out like this, of {', '.join(_ANSWERS)}; or pass it as an argument",
    )


_answering = _Answering()


@contextlib.contextmanager
def host_code_on(target: Target | None, values: Iterable[Any]) -> Iterator[None]:
    """While host code runs on ``values`` as it would on a device of a target; None: on one that nothing is known of but
    that it is a GPU."""
    on_device, answers = HostDevice(values), contextlib.nullcontext() if target is None else _answering.of(target)
    with elsewhere.opened(), _really_on(on_device.where), on_device, answers:
        yield


def as_on(target: Target, call: Callable[..., Any]) -> Callable[..., Any]:
    """``call`` of a kernel's host code, which is run on a CPU as it was lowered for a target."""

    @functools.wraps(call)
    def run(*args: Any, **kwargs: Any) -> Any:
        with host_code_on(target, (*args, *kwargs.values())):
            return call(*args, **kwargs)

    return run
