"""What the norms of a model compute, by the kernels: alone, and of a sum that goes on beside its norm."""

from __future__ import annotations

from typing import Any

import torch

from ..kernels import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from ..runtime.ambient import autocast_dtype
from .forms import Norm
from .forwards import are_local, is_plain, only_argument, original, patch_of


def normed(self: torch.nn.Module, form: Norm, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The forward of a norm, which takes one tensor, by a name of each family's own."""
    norm: Any = self
    hidden_states: torch.Tensor = only_argument(self, args, kwargs)
    dtype = hidden_states.dtype
    if not _fits(norm, form, hidden_states, dtype):
        found: torch.Tensor = original(self).own(self, hidden_states)
        return found
    result = _result_dtype(norm, form, hidden_states.device, dtype)
    x = hidden_states if result == dtype else hidden_states.to(torch.promote_types(result, dtype))
    if form.centres:
        out = layer_norm(x, norm.weight, _bias(norm), _epsilon(norm))
    else:
        out = rms_norm(x, norm.weight, _epsilon(norm), offset=form.offset)
    return out if out.dtype == result else out.to(result)


def sum_and_normed(norm: Any, attended: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of both tensors, and the norm of it: by one kernel where one has both, in the dtype of the sum."""
    form, dtype = form_of_norm(norm), torch.promote_types(attended.dtype, residual.dtype)
    is_one = form is not None and is_plain(norm) and _fits(norm, form, attended, dtype)
    if form is None or not is_one or _result_dtype(norm, form, attended.device, dtype) != dtype:
        summed = residual + attended
        return summed, norm(summed)
    if form.centres:
        out, summed = add_layer_norm(attended, residual, norm.weight, _bias(norm), _epsilon(norm))
    else:
        out, summed = add_rms_norm(attended, residual, norm.weight, _epsilon(norm), offset=form.offset)
    return summed, out


def form_of_norm(module: torch.nn.Module) -> Norm | None:
    """The form that a module was replaced by; None where it has not, or not any more."""
    patch = patch_of(module)
    return patch.settings[0] if patch is not None and patch.function is normed else None


def _fits(norm: Any, form: Norm, x: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether the kernel serves a tensor as ``x``, of ``dtype``. A weight may broadcast, say one for each head; a norm
    may have none."""
    weight = getattr(norm, "weight", None)
    if weight is None or weight.shape != x.shape[-1:] or not are_local(x, weight):
        return False
    if not form.is_torch_s:
        return True
    is_one_dtype = dtype == weight.dtype or autocast_dtype(x.device) is not None
    return is_one_dtype and dtype != torch.float64  # which torch's computes in float64


def _result_dtype(norm: Any, form: Norm, device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Of what the library makes of a tensor of ``dtype``. Under autocast layer norms have float32, but on a CPU."""
    own: torch.dtype = norm.weight.dtype
    if form.is_torch_s:
        is_widened = autocast_dtype(device) is not None and device.type != "cpu"
        return torch.float32 if is_widened else dtype
    if form.result == "weight" and own in (torch.float16, torch.bfloat16):
        return own
    return {
        "promoted": torch.promote_types(dtype, own),
        "input": dtype,
        "weight": torch.promote_types(torch.promote_types(dtype, torch.float32), own),
    }[form.result]


def _bias(norm: Any) -> torch.Tensor | None:
    """A norm's bias; a family's that centres has none."""
    return getattr(norm, "bias", None)


def _epsilon(norm: Any) -> float:
    return float(norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps)
