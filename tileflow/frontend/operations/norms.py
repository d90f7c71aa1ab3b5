"""Normalisations by channel: over a batch's statistics that are given, over each example, over groups of channels.

Channels are dimension 1, as torch's are. What is normalised over must be whole: a loop's tile has a part of it only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ShapeError, TraceError
from ...ir.types import Dim
from ..dimensions import show
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .along import taken
from .reductions import count, reduce
from .reshape import axis_of, reshape
from .slices import part, size_of
from .statistics import lanes
from .views import unsqueeze

_CHANNEL = 1


@register_torch("batch_norm")
def batch_norm(
    t: Tracer,
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
    *unused: Any,
) -> Any:
    """``x`` normalised by channel with running statistics. Raises TraceError in training or without them: a batch has
    more elements than one tile."""
    if training or running_mean is None or running_var is None:
        raise TraceError(
            "batch_norm in a tile loop takes the statistics that it normalises by",
            got="training=True" if training else "none",
            where=t.location(),
            hint="module.eval(), F.batch_norm(x, mean, var, training=False); a batch's own: two tile loops, the first "
            "for sums by channel",
        )
    _needs_channels(t, "batch_norm", x)
    wide = _wide(t, x)
    inverse = t.pointwise("rsqrt", _by_channel(t, running_var, wide) + eps)
    return _scaled(t, x, (wide - _by_channel(t, running_mean, wide)) * inverse, weight, bias)


@register_torch("instance_norm")
def instance_norm(
    t: Tracer,
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
    *unused: Any,
) -> Any:
    """Each example's channels normalised over the dimensions behind them, or by the running statistics if the input's
    are not used. Raises ShapeError below three dimensions."""
    if not use_input_stats:
        return batch_norm(t, x, running_mean, running_var, weight, bias, False, momentum, eps)
    if x.ndim < 3:
        raise ShapeError(
            "instance_norm takes examples, channels and what each channel is normalised over",
            got=show(x.value.dims),
            where=t.location(),
            hint="x[tile, :, :]",
        )
    return group_norm(t, x, x.shape[_CHANNEL], weight, bias, eps)


@register_torch("group_norm")
def group_norm(
    t: Tracer, x: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5, *unused: Any
) -> Any:
    """Groups of channels normalised, each example by itself, over the group's channels and all dimensions behind them,
    which must be whole."""
    _needs_channels(t, "group_norm", x)
    rest = tuple(range(_CHANNEL + 1, x.ndim))
    for axis in rest:
        _needs_whole(t, "group_norm", x, axis)
    channels = x.shape[_CHANNEL]
    groups = _Groups(t, x, channels, num_groups)
    wide = _wide(t, x)
    elements = groups.width * count(t, x, rest) if rest else groups.width

    def average(values: Any) -> Any:
        sums = reduce(t, "sum", values, rest, False) if rest else values
        found = groups.sums(sums) / elements
        for _ in rest:
            found = unsqueeze(t, found, -1)
        return found

    centred = wide - average(wide)
    return _scaled(t, x, centred * t.pointwise("rsqrt", average(centred * centred) + eps), weight, bias)


class _Groups:
    """Channels by groups of ``width`` that lie side by side; each channel a group of its own where that is 1."""

    def __init__(self, t: Tracer, x: TileValue, channels: Any, groups: Any) -> None:
        self.t = t
        self.width = 1
        if channels is groups or t.same_size(t.as_expr(channels, "channels"), t.as_expr(groups, "num_groups")):
            return
        size, number = size_of(t, x, _CHANNEL, "group_norm"), t.specialize(t.as_expr(groups, "num_groups"))
        if number < 1 or size % number:
            raise ShapeError(
                "group_norm's groups divide the channels", got=f"{size} channels in {number} groups", where=t.location()
            )
        self.size, self.width = size, size // number

    def sums(self, by_channel: TileValue) -> TileValue:
        """(examples, channels) summed over each group, for each channel."""
        t = self.t
        if self.width == 1:
            return by_channel
        if self.width == self.size:
            return reduce(t, "sum", by_channel, _CHANNEL, True)
        if not self.size & (self.size - 1):
            first, own = by_channel.value.dims
            apart = reshape(t, by_channel, t.size(first.extent), self.size // self.width, self.width)
            total = reduce(t, "sum", apart, 2, True)
            return reshape(t, t.expand(total, apart.value.dims), t.size(first.extent), t.size(own.extent))
        # registers hold a power of two of lanes, so that other widths are gathered
        total = part(t, by_channel, _CHANNEL, slice(0, None, self.width))
        for member in range(1, self.width):
            total = total + part(t, by_channel, _CHANNEL, slice(member, None, self.width))
        return taken(t, total, _CHANNEL, _numbers(t, by_channel) // self.width)


def _numbers(t: Tracer, by_channel: TileValue) -> TileValue:
    return lanes(t, by_channel, _CHANNEL)


def _wide(t: Tracer, x: TileValue) -> TileValue:
    """Statistics of half types are computed in float32, as torch does."""
    return t.cast(x, "float32") if x.value.type.dtype in ("float16", "bfloat16") else x


def _scaled(t: Tracer, x: TileValue, result: TileValue, weight: Any, bias: Any) -> TileValue:
    """``result`` scaled and shifted by channel, in the dtype of ``x``."""
    result = result if weight is None else result * _by_channel(t, weight, result)
    result = result if bias is None else result + _by_channel(t, bias, result)
    return t.cast(result, x.value.type.dtype)


def _by_channel(t: Tracer, values: Any, x: TileValue) -> Any:
    """A 1-D tile of the channels, against ``x``."""
    if values.ndim != 1:
        raise ShapeError(
            "what is given by channel has one dimension",
            got=f"{values.ndim}",
            where=t.location(),
            hint="load it as x's channels are: weight[:] or weight[tile_c]",
        )
    for _ in range(x.ndim - _CHANNEL - 1):
        values = unsqueeze(t, values, -1)
    return values


def _needs_channels(t: Tracer, what: str, x: TileValue) -> None:
    if x.ndim < 2:
        raise ShapeError(
            f"{what} takes examples and channels", got=show(x.value.dims), where=t.location(), hint="x[tile, :]"
        )


def _needs_whole(t: Tracer, what: str, x: TileValue, axis: int) -> None:
    dims: Sequence[Dim] = x.value.dims
    if dims[axis_of(t, axis, x.ndim)].tile is not None:
        raise ShapeError(
            f"{what} normalises over whole dimensions",
            got=show(tuple(dims)),
            where=t.location(),
            hint="x[tile, :, :]; over a loop, sum first and normalise in a second loop",
        )
