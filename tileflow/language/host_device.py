"""The device of host code that runs where there is no GPU: what its tensors, and torch, say of it.

A kernel is lowered from tensors on the meta device, as a rule where there is no GPU at all: a worker compiles for each
class of a cluster. On a CPU a kernel runs as plain Python, or by Triton's interpreter. Its host code asks as it would
in a call on a GPU: ``assert x.is_cuda``, ``torch.empty(n, device="cuda")``,
``torch.cuda.get_device_properties(x.device).multi_processor_count``. Here tensors answer that they are on one, what is
made there is made where they really are, and torch answers for the target (:mod:`.host_cuda`).
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..runtime import elsewhere
from ..runtime.argtree import tensors
from ..target import Target
from .host_cuda import Asked, answering, driver_error, is_ours, is_torchs

DEVICE = torch.device("cuda", 0)  # of AMD's GPUs too
_GETTERS: dict[Any, Callable[[torch.device], Any]] = {
    torch.Tensor.device.__get__: lambda device: device,
    torch.Tensor.is_cuda.__get__: lambda device: True,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: lambda device: False,  # type: ignore[attr-defined]
    torch.Tensor.is_meta.__get__: lambda device: False,  # type: ignore[attr-defined]
    torch.Tensor.get_device: lambda device: device.index,
}
_LIKES: dict[Any, Callable[..., torch.Tensor]] = {
    torch.empty_like: torch.empty,
    torch.zeros_like: torch.zeros,
    torch.ones_like: torch.ones,
}
_MOVES = (torch.Tensor.to, torch.Tensor.cuda)


ASKING = frozenset(_GETTERS)  # the getters of tensors that ask for the device
MOVING = frozenset(_MOVES)


class HostDevice(TorchFunctionMode):
    """Answers of tensors while host code runs. ``where``: the type of the device that they are really on, which says
    that it is a GPU; a tensor elsewhere, as one of the CPU that host code makes, says where it is. What traces or runs
    a launch, serves a kernel that host code calls, or prints a tensor, is told the truth. ``device``: the GPU that is
    said.

    ``zeros_like`` and its like of contiguous tensors are made directly: torch computes what they return in Python, by a
    module that imports SymPy: 0.3 s of a process's first kernel.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__()
        given = [*tensors(values)]
        found = {tensor.device.type for tensor in given}
        self.where = "meta" if "meta" in found or not found else "cpu" if found == {"cpu"} else ""
        self.device = next((tensor.tileflow_device for tensor in given if hasattr(tensor, "tileflow_device")), DEVICE)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs, asker = kwargs or {}, sys._getframe(1).f_globals.get("__name__") or ""
        if speaks_to(asker):
            if func in _GETTERS:
                return self.told(func, args, asker)
            func, args, kwargs = self.moved(func, args, kwargs)
        made = self._made_directly(func, args, kwargs)
        return func(*args, **kwargs) if made is None else made

    def told(self, func: Any, args: Sequence[Any], asker: str) -> Any:
        """What a module ``asker`` is told by a getter of tensors that asks for the device."""
        is_told = args[0].device.type == self.where and not is_torchs(asker)
        return _GETTERS[func](self.device) if is_told else func(*args)

    def moved(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """A call whose devices are those that tensors are really on."""
        if func in _MOVES:
            args = tuple(map(self._really, args if func is not torch.Tensor.cuda else (args[0], self.device)))
            func = torch.Tensor.to
        return func, args, {**kwargs, "device": self._really(kwargs["device"])} if "device" in kwargs else {**kwargs}

    def _really(self, device: Any) -> Any:
        """What stands for a GPU here; anything else as it is."""
        return self.where if _is_gpu(device) else device

    def _made_directly(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
        make = _LIKES.get(func)
        if make is None or len(args) != 1 or not kwargs.keys() <= {"dtype"} or type(args[0]) is not torch.Tensor:
            return None
        (like,) = args
        if like.device.type != "meta" or not like.is_contiguous():
            return None
        return make(like.shape, dtype=kwargs.get("dtype") or like.dtype, device="meta")


# In a context whose own mode asks in place of one more: each call of torch's goes through all that there are.
_ASKED_BY: ContextVar[bool] = ContextVar("tileflow_host_device_asked_by_a_mode", default=False)
_HOST: ContextVar[HostDevice | None] = ContextVar("tileflow_host_device", default=None)


def speaks_to(asker: str) -> bool:
    """Whether a module is told of a GPU that is not there."""
    return bool(elsewhere.really_on.get()) and not is_ours(asker)


def host_device() -> HostDevice | None:
    """What a mode that asks in this one's place, inside :func:`asked_by_own_mode`, asks; None on a GPU."""
    return _HOST.get()


@contextlib.contextmanager
def asked_by_own_mode() -> Iterator[None]:
    """While the context's own mode asks :func:`host_device`."""
    token = _ASKED_BY.set(True)
    try:
        yield
    finally:
        _ASKED_BY.reset(token)


@contextlib.contextmanager
def _asked(mode: HostDevice) -> Iterator[None]:
    token = _HOST.set(mode)
    try:
        with contextlib.nullcontext() if _ASKED_BY.get() else mode:
            yield
    finally:
        _HOST.reset(token)


class _FakeMoves(TorchFunctionMode):
    """Moves of fake tensors to a GPU that is not there. torch moves none that it knows the numbers of, as those of
    ``torch.tensor([1.0])``: another one without numbers takes its place."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _MOVES or is_ours(sys._getframe(1).f_globals.get("__name__") or ""):
            return func(*args, **kwargs)
        tensor, *given = args if func is not torch.Tensor.cuda else (args[0], DEVICE)
        if not any(map(_is_gpu, (*given, *kwargs.values()))):
            return func(*args, **kwargs)
        here = [tensor.device if _is_gpu(value) else value for value in given]
        named = {name: tensor.device if _is_gpu(value) else value for name, value in kwargs.items()}
        moved: torch.Tensor = torch.Tensor.to(tensor, *here, **named)  # type: ignore[arg-type]
        return on_device(moved, DEVICE)


def _is_gpu(device: Any) -> bool:
    """Whether an argument of torch's names a GPU."""
    if isinstance(device, int):
        return not isinstance(device, bool)
    named = isinstance(device, (str, torch.device))
    return named and str(device).partition(":")[0] == "cuda"


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A fake tensor, or one like it on another device."""
    if tensor.device.type == device.type:
        return tensor
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)


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


def behind(frame: FrameType) -> FrameType:
    """The frame that asked torch, or torch's own Python in it: where a mode of this module asks in its place, the frame
    in which that was asked."""
    found, own = frame, str(frame.f_globals.get("__name__", ""))
    while frame.f_back is not None and (own == __name__ or is_torchs(own)):
        frame = frame.f_back
        found = frame if own == __name__ else found
        own = str(frame.f_globals.get("__name__", ""))
    return found


@contextlib.contextmanager
def host_code_on(target: Target | None, values: Iterable[Any]) -> Iterator[None]:
    """While host code runs on ``values`` as it would on a device of a target; None: on one that nothing is known of but
    that it is a GPU. Values on a GPU are what they say, and torch answers for it.

    Raises TraceError for what only a driver knows.
    """
    mode = HostDevice(values)
    with _refusing():
        if not mode.where:
            yield
            return
        answers = contextlib.nullcontext() if target is None else answering.of(Asked(target, mode.device))
        with elsewhere.opened(), _really_on(mode.where), _asked(mode), answers:
            yield


@contextlib.contextmanager
def torch_on(target: Target) -> Iterator[None]:
    """While host code runs on tensors that say themselves that they are on a GPU, of which this machine has none: torch
    answers for a target. Raises as :func:`host_code_on`."""
    with _refusing(), _FakeMoves(), answering.of(Asked(target, DEVICE)):
        yield


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Raises TraceError for an error of torch's about a driver and a card that this machine has not."""
    try:
        yield
    except Exception as error:
        refused = None if torch.cuda.is_available() else driver_error(error)
        if refused is None:
            raise
        raise refused from error


def as_on(target: Target | None, call: Callable[..., Any]) -> Callable[..., Any]:
    """``call`` of a kernel's host code, which is run where there is no GPU as it would be on a target."""

    @functools.wraps(call)
    def run(*args: Any, **kwargs: Any) -> Any:
        with host_code_on(target, (*args, *kwargs.values())):
            return call(*args, **kwargs)

    return run
