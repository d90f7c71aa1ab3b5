"""torch's settings that a call depends on besides its arguments: what host code or a product may see of them.

A key holds the settings that the kernel's text can see, by their names. What a key does not hold, each launch checks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import torch

from .key_invariants import AUTOCAST, DEFAULT_DTYPE, DETERMINISTIC, FLOAT32_PRECISION

# where device code that draws by torch's generator finds its seed: an attribute of the host function's context
TORCH_SEED = "__tileflow__.attr:seed"
_SEEDS = 1 << 62

_IEEE = ("ieee", "none")
_CASTING = ("cuda", "cpu")
_GIVEN: ContextVar[str | None] = ContextVar("tileflow_float32_precision", default=None)


@contextmanager
def with_float32_precision(precision: str) -> Iterator[None]:
    """Inside, products take float32 operands as ``precision`` says, one of torch's words, whatever torch is set to."""
    token = _GIVEN.set(precision)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def float32_precision() -> str:
    """How a product may take float32 operands: ``highest`` (as they are), ``high`` or ``medium`` (rounded).

    torch has two interfaces for it and its older one raises once the newer one was used, so that both are asked. Ask
    here alone: torch's own question fails in such a process.
    """
    given = _GIVEN.get()
    if given is not None:
        return given
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest" if torch.backends.cuda.matmul.fp32_precision in _IEEE else "high"


def draw_seed() -> int:
    """A seed out of torch's generator of the CPU, which ``torch.manual_seed`` sets: another one each time."""
    return int(torch.randint(_SEEDS, (), device="cpu"))


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """What products of the device are cast to now; None outside of autocast, and for devices that have none (meta)."""
    kind = device.type
    is_on = _has_autocast(kind) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if is_on else None


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Inside, torch casts nothing on the device. Devices that have no autocast need nothing."""
    return torch.autocast(device.type, enabled=False) if _has_autocast(device.type) else nullcontext()


def _has_autocast(kind: str) -> bool:
    """Whether torch casts on devices of a kind at all; torch 2.11 cannot trace its own question."""
    return kind in _CASTING or torch.amp.is_autocast_available(kind)


def _autocast() -> Hashable:
    return tuple(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None for kind in _CASTING)


READERS: Mapping[str, Callable[[], Hashable]] = {
    DEFAULT_DTYPE: torch.get_default_dtype,
    AUTOCAST: _autocast,
    DETERMINISTIC: torch.are_deterministic_algorithms_enabled,
    FLOAT32_PRECISION: float32_precision,
}
