"""One call of a kernel as a Python script that needs torch and Triton only: the generated text, random tensors of the
call's shapes, the launches in their order. For reports of what goes wrong in a generated kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch

from .build.compat import block_shape
from .build.interpret import path_reader, symbol_reader
from .config import Config
from .emit.dtypes import triton_dtype
from .emit.source import TritonSource
from .expr import Expr
from .frontend.capture import identifier
from .language.host_device import host_code_on
from .lowered import Lowered
from .runtime.abi import LaunchArg
from .runtime.dispatch import bind
from .runtime.paths import Path
from .space.clusters import without_clusters

_HEAD = '''\
"""{kernel} on {target} under
{config}

Runs on a GPU; on the CPU with TRITON_INTERPRET=1.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

INTERPRETED = triton.knobs.runtime.interpret
DEVICE = "cpu" if INTERPRETED else "cuda"


def _memory(count, dtype):
    """Random numbers; ints are 0 or 1, so that they are indices inside any dimension."""
    if dtype.is_floating_point:
        return torch.randn(count, device=DEVICE).to(dtype)
    return torch.randint(0, 2, (count,), device=DEVICE).to(dtype)


def _launch(function, grid, arguments, constants, options):
    function[grid](**arguments, **constants, **({{}} if INTERPRETED else options))


torch.manual_seed(0)
'''
_GLUON_BOX = '''\
assert not INTERPRETED, "Triton's interpreter has no Gluon"


def _box(tensor, block, dtype):
    """A descriptor whose boxes lie in shared memory as Gluon's default has them."""
    from triton.experimental.gluon import language
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as Box

    layout = language.NVMMASharedLayout.get_default_for(block, getattr(language, dtype))
    return Box.from_tensor(tensor, block, layout)
'''
_ALIGNED_COPY = '''\
def _aligned_copy(tensor, order):
    """The tensor's numbers, its dimensions in this order, in rows that begin at multiples of 16 bytes."""
    turned = tensor.permute(order)
    *outer, inner = turned.shape
    unit = max(16 // turned.element_size(), 1)
    return turned.new_empty(*outer, -(-inner // unit) * unit)[..., :inner].copy_(turned)
'''
_COPIES = '''\
def _copies(tensor, count, how, dtype):
    """Rows that programs combine into in the tensor's place, each with its elements at its own strides."""
    room = (32 + sum(size * stride for size, stride in zip(tensor.shape, tensor.stride()))) // 32 * 32
    none = {"add": 0, "min": float("inf"), "max": float("-inf")}[how]
    if how != "add" and not tensor.dtype.is_floating_point:
        none = torch.iinfo(tensor.dtype).max if how == "min" else torch.iinfo(tensor.dtype).min
    return tensor.new_full((count, room), none, dtype=dtype)


def _combine(tensor, copies, how):
    """The rows into the tensor."""
    each = copies.as_strided((len(copies), *tensor.shape), (copies.shape[1], *tensor.stride()))
    if how == "add":
        tensor += each.sum(0, dtype=each.dtype)
    else:
        tensor.copy_(torch.minimum(tensor, each.amin(0)) if how == "min" else torch.maximum(tensor, each.amax(0)))
'''
_TAIL = """

if not INTERPRETED:
    torch.cuda.synchronize()
for name, tensor in [{tensors}]:
    print(name, tuple(tensor.shape), tensor.dtype, "mean", tensor.double().mean().item())
"""


def script(lowered: Lowered, config: Config, scope: FunctionType) -> str:
    """The script of the call that ``lowered`` is of, without clusters, of which Triton's launcher knows nothing.
    ``scope``: the user's function, for what it closes over.

    Raises ConfigError where the config is not one of the space, LaunchError where no variant accepts the call.
    """
    config = without_clusters(lowered.space, config)
    recording = _Recording(scope, dict(lowered.target.symbols()))
    launchers: dict[int, list[_Recorder]] = {}
    for source in lowered.emit(config):
        launchers.setdefault(source.region, []).append(_Recorder(recording, source))
    with host_code_on(lowered.target, lowered.args):
        bind(lowered.host.run, config, launchers)(*lowered.args)
    settings = "\n".join(f"    {name} = {value!r}" for name, value in config.items)
    head = _HEAD.format(kernel=lowered.problem.kernel, target=lowered.target.name, config=settings)
    shown = ", ".join(f'("{name}", {name})' for name in recording.tensors)
    return head + "".join(recording.parts) + _TAIL.format(tensors=shown)


def _with_ones(source: TritonSource, names: Sequence[str]) -> str:
    """The source's text, in which Triton takes the named arguments, ints that are 1, as it takes other ints. It would
    put a Python number for them, which has none of a tile's methods."""
    jit = "@triton.jit" if source.language == "triton" else "@gluon.jit"
    head = f"{jit}\ndef {source.name}("
    assert source.text.count(head) == 1
    if not names:
        return source.text
    return source.text.replace(head, f"{jit}(do_not_specialize={list(names)!r}){head.removeprefix(jit)}")


@dataclass
class _Recording:
    """The script as far as it has been written. ``tensors``: the names of the tensors in it, with the tensors."""

    scope: FunctionType
    constants: Mapping[str, int]
    parts: list[str] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    _memory: list[tuple[torch.UntypedStorage, str, torch.dtype]] = field(default_factory=list)
    _text: str = ""

    def define(self, text: str) -> None:
        """``text`` defines the next kernel: once, unless another came between."""
        if text != self._text:
            self.parts.append(f"\n\n{text.rstrip()}\n\n\n")
            self._text = text

    def tensor(self, value: torch.Tensor, wanted: str) -> str:
        """The name of a tensor, made by the script when it is first met; views of one memory stay that."""
        for name, known in self.tensors.items():
            if known is value:
                return name
        name, number = wanted, 1
        while name in self.tensors:
            name, number = f"{wanted}_{number}", number + 1
        self.tensors[name] = value
        base, dtype = self._base(value.untyped_storage(), name, value.dtype)
        base = base if dtype is value.dtype else f"{base}.view({value.dtype})"
        layout = f"{tuple(value.shape)}, {tuple(value.stride())}, {value.storage_offset()}"
        self.parts.append(f"{name} = torch.as_strided({base}, {layout})\n")
        return name

    def _base(self, storage: torch.UntypedStorage, name: str, dtype: torch.dtype) -> tuple[str, torch.dtype]:
        for known, base, of in self._memory:
            if known is storage:
                return base, of
        base = f"{name}_memory"
        self._memory.append((storage, base, dtype))
        self.parts.append(f"{base} = _memory({storage.nbytes() // dtype.itemsize}, {dtype})\n")
        return base, dtype


class _Recorder:
    """A Launcher that writes its launch down."""

    def __init__(self, recording: _Recording, source: TritonSource) -> None:
        self.guards = source.guards
        self._recording, self._source = recording, source
        ints = [arg.value for arg in source.args if arg.value is not None]
        maps = [arg.tensor_map for arg in source.args if arg.tensor_map is not None]
        sides = [e for m in maps for e in (*m.shape, *m.strides)]
        symbols = frozenset[str]().union(*(e.symbols() for e in (source.guards, *source.grid, *ints, *sides)))
        self._symbols = {n: symbol_reader(n, recording.scope) for n in symbols if n not in recording.constants}

    def __call__(self, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> bool:
        bounds = {f"begin.{i}": v for i, v in enumerate(begins)} | {f"end.{i}": v for i, v in enumerate(ends)}
        captured = {**frame, **bounds}
        values = {**self._recording.constants, **{name: read(captured) for name, read in self._symbols.items()}}
        if not self.guards.holds(values):
            return False
        source = self._source
        ones = [a.name for a in source.args if isinstance(a.value, Expr) and a.value.evaluate(values) == 1]
        text = _with_ones(source, ones)
        if any(arg.tensor_map is not None and arg.tensor_map.copied for arg in source.args):
            text = f"{_ALIGNED_COPY}\n\n{text}"
        if any(arg.copies is not None for arg in source.args):
            text = f"{_COPIES}\n\n{text}"
        if source.language != "triton":
            text = f"{_GLUON_BOX}\n\n{text}"
        self._recording.define(text)
        names = {arg.name: self._argument(arg, captured, values) for arg in source.args}
        copied = {arg.name: arg.copies for arg in source.args if arg.copies is not None}
        passed = {name: f"{name}_copies" if name in copied else text for name, text in names.items()}
        grid = tuple(extent.evaluate(values) for extent in source.grid)
        if min(grid) > 0:
            text = ", ".join(f'"{name}": {value}' for name, value in passed.items())
            launch = (
                f"_launch({source.name}, {grid}, {{{text}}}, {dict(source.constexprs)!r}, {dict(source.options)!r})"
            )
            self._recording.parts += [
                *(
                    f'{passed[n]} = _copies({names[n]}, {c.count}, "{c.how}", torch.{c.dtype})\n'
                    for n, c in copied.items()
                ),
                f"{launch}\n",
                *(f'_combine({names[n]}, {passed[n]}, "{c.how}")\n' for n, c in copied.items()),
            ]
        return True

    def _argument(self, arg: LaunchArg, captured: Mapping[str, Any], values: Mapping[str, int]) -> str:
        """The Python text of one argument."""
        if isinstance(arg.value, Expr):
            return str(arg.value.evaluate(values))
        value = path_reader(Path.parse(arg.path), self._recording.scope)(captured)
        if not isinstance(value, torch.Tensor):
            return f'float("{value!r}")'
        name = self._recording.tensor(value, identifier(arg.path))
        if arg.tensor_map is None:
            return name
        shape, strides = (tuple(e.evaluate(values) for e in s) for s in (arg.tensor_map.shape, arg.tensor_map.strides))
        if arg.tensor_map.copied:
            name = f"_aligned_copy({name}, {arg.tensor_map.copied})"
        elif (shape, strides) != (tuple(value.shape), value.stride()):  # dimensions in another order
            name = f"{name}.as_strided({shape}, {strides})"
        box = f"{name}, {block_shape(arg.type)}"
        if self._source.language == "triton":
            return f"TensorDescriptor.from_tensor({box})"
        dtype = triton_dtype(str(value.dtype).removeprefix("torch.")).removeprefix("tl.")
        return f'_box({box}, "{dtype}")'
