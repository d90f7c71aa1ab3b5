"""torch functions in device code that no traced argument announces."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..errors import TraceError
from ..language.rules import GLOBAL_HINT, REACHED, found_elsewhere
from .refusals import makes_a_tensor
from .torch_registry import FACTORIES
from .trace import Tracer
from .traced import tracers_of

_BY_INDEX = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)  # of tensors: what is traced has its own


class TraceMode(TorchFunctionMode):
    """Sees the torch functions that no traced argument announces: factories, and real tensors in device code."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.tracer.is_plain:
            return func(*args, **kwargs)
        if func in FACTORIES:
            return self.tracer.run(FACTORIES[func], func.__name__, args, kwargs)
        is_traced = any(True for _ in tracers_of(args, kwargs))
        if is_traced and func not in _BY_INDEX:
            return self.tracer.torch_call(func, args, kwargs)
        if any(isinstance(a, torch.Tensor) and a.ndim for a in args):
            raise TraceError(
                REACHED, got=found_elsewhere(func.__name__), where=self.tracer.location(), hint=GLOBAL_HINT
            )
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.ndim:
            raise self.tracer.placed(makes_a_tensor(func.__name__))
        return result
