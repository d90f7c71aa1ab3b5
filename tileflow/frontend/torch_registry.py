"""The table: torch function -> handler. One row a name, for every spelling of it: ``torch.f``, ``Tensor.f``, ``F.f``.

Handlers take the tracer, then torch's own arguments. The families register their rows by :func:`register_torch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F

from .near_names import listed, near_names
from .torch_aliases import remedy

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)

TABLE: dict[Any, tuple[Handler, str]] = {}
METHODS: dict[str, Handler] = {}
FACTORIES: dict[Any, Handler] = {}
_NAMESPACES = (torch, torch.Tensor, F, torch.special, torch.linalg)


def register_torch(*names: str) -> Callable[[H], H]:
    """Register a handler for every torch function and method of these names."""

    def register(handler: H) -> H:
        for name in names:
            assert name not in METHODS, name  # two rows: which one counts would follow from the order of imports
            METHODS[name] = handler
            for namespace in _NAMESPACES:
                function = getattr(namespace, name, None)
                if function is not None:
                    TABLE[function] = (handler, name)
        return handler

    return register


def named(name: str, *values: Any) -> Any:
    """Several results under torch's names for them: ``values`` and ``indices``."""
    return getattr(torch.return_types, name)(values)


def spelled(name: str) -> tuple[str, str]:
    """torch's own name of ``torch.linalg.qr`` is ``linalg_qr``: the family, ``linalg.``, and the name in it."""
    for family in ("linalg", "special", "fft"):
        rest = name.removeprefix(f"{family}_")
        if rest != name and hasattr(getattr(torch, family), rest):
            return f"{family}.", rest
    return "", name


def nearest(name: str) -> str:
    """What to write for a function that the table lacks."""
    exists = any(hasattr(namespace, name) for namespace in _NAMESPACES)
    return remedy(name, METHODS) or listed(near_names(name, METHODS, exists))
