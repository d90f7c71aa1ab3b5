"""Launching one region's binary: the Launcher protocol, and launchers generated from a binary's ABI.

A launch costs some microseconds in the driver, so what is ours around it is one Python function, generated for the
binary at hand: it reads the captured values by their paths, checks the guards and what the binary assumes of each
tensor, and enqueues. Nothing of Triton's launcher is used (it compiles C).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import TableError
from ..expr import Expr
from .abi import Binary, LaunchArg
from .aligned_copy import aligned_copy
from .copies import combine, copies_of
from .drivers import Loaded, cuda_load, current_stream_reader, hip_load
from .guards import explain_guards
from .key_invariants import KeyInvariants
from .launch_errors import argument_error, missing_error, tensor_error
from .launcher_text import LauncherWriter
from .loop_bounds import bounds
from .native import DECLINED, metadata_reader, pairs_test
from .overlap import RELATIONS, surely_fit
from .paths import READERS, Path, Symbol, digest_of, read_path, read_symbol

if TYPE_CHECKING:
    import torch

_MISSING = (KeyError, AttributeError, IndexError, ValueError, TypeError)
# a guard or a grid that cannot be computed: it divides by zero, or asks a captured value for what its kind does not
# have (a missing axis, arithmetic with None, the truth of a tensor)
_UNDEFINED = (ZeroDivisionError, OverflowError, IndexError, TypeError, ValueError, RuntimeError)
_UNPACKABLE = (OverflowError, TypeError, ValueError)


class Launcher(Protocol):
    """Launches one variant of one region.

    One of a binary has ``specialize`` too, which makes the launcher for further calls with the key of one that has
    launched: see :class:`tileflow.runtime.dispatch.KeyedContext`.
    """

    guards: Expr

    def __call__(self, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> bool:
        """Launch on the current stream with what ``frame`` (the host function's locals) holds now.

        False: the guards do not hold for what was captured, and nothing was launched. Raises LaunchError.
        """
        ...


def launcher_for(binary: Binary, device: torch.device | str | int, scope: FunctionType | None = None) -> Launcher:
    """A Launcher of ``binary`` on a live ``device``; ``scope``: the user's function, for captured cells and globals.

    Loads the machine code, so OutOfResources and LaunchError may come here already.
    """
    match binary.format:
        case "cubin":
            return cuda_launcher(binary, device, scope)
        case "hsaco":
            return hip_launcher(binary, device, scope)
    raise TableError("a binary's format must be cubin or hsaco", got=repr(binary.format))


def lazy_launcher(binary: Binary, device: torch.device | str | int, scope: FunctionType | None = None) -> Launcher:
    """A launcher as :func:`launcher_for` makes it, whose machine code is loaded when its guards first accept a call."""
    index = _index(device)
    load = cache(partial(cuda_load if binary.format == "cubin" else hip_load, binary, index))
    return _generate(binary, load, index, current_stream_reader(index), scope)


def cuda_launcher(
    binary: Binary,
    device: torch.device | str | int,
    scope: FunctionType | None = None,
    *,
    driver: Any = None,
    stream: Callable[[], Any] | None = None,
) -> Launcher:
    """A Launcher through ``cuda.bindings.driver`` (which torch's CUDA builds bring).

    ``driver``, ``stream``: stand-ins for that module and for the reader of the current stream.
    """
    index = _index(device)
    loaded = cuda_load(binary, index, driver)
    if stream is not None:
        loaded = replace(loaded, tensor_enqueue=lambda formats: None)  # which would read torch's
    return _generate(binary, loaded, index, stream or current_stream_reader(index), scope)


def hip_launcher(
    binary: Binary,
    device: torch.device | str | int,
    scope: FunctionType | None = None,
    *,
    library: Any = None,
    stream: Callable[[], Any] | None = None,
) -> Launcher:
    """The twin for AMD, through ``libamdhip64.so``'s module API. Tested against HIP's headers, its library on hosts
    without a card, and the metadata of code objects; it has not run on hardware yet.
    """
    index = _index(device)
    loaded = hip_load(binary, index, library)
    return _generate(binary, loaded, index, stream or current_stream_reader(index), scope)


def _index(device: torch.device | str | int) -> int:
    """The ordinal, as ``Tensor.get_device`` says it: -1 for the CPU."""
    if isinstance(device, int):
        return device
    import torch

    device = torch.device(device)
    if device.type == "cpu":
        return -1
    return torch.accelerator.current_device_index() if device.index is None else device.index


# ---- generating ---------------------------------------------------------------------------------------------------


_CHECKED = KeyInvariants()


def _generate(
    binary: Binary,
    loaded: Loaded | Callable[[], Loaded],
    index: int,
    stream: Callable[[], Any],
    scope: FunctionType | None,
    invariants: KeyInvariants = _CHECKED,
    names: tuple[str, ...] | None = None,
    region: int = 0,
) -> Launcher:
    """One function for one binary. It carries ``guards``, ``explain`` and ``specialize``, which make it a Launcher.

    ``loaded``: the machine code, or what loads it at the first launch. With ``names`` the function takes a
    KeyedContext, the values of these variables and then the arguments of ``tile``, and hands a call that it declines
    back to the context.
    """
    metadata = metadata_reader()
    writer = LauncherWriter(binary, scope, invariants, names, region, metadata is not None)
    formats = writer.tensor_formats() if isinstance(loaded, Loaded) else None
    of_tensors = loaded.tensor_enqueue(formats) if isinstance(loaded, Loaded) and formats is not None else None
    text = writer.source() if formats is None or of_tensors is None else writer.tensor_source()
    namespace: dict[str, Any] = writer.namespace | {
        **READERS,
        "digest_of": digest_of,
        **RELATIONS,
        "surely_fit": pairs_test() or surely_fit,
        "metadata": metadata,
        "device_index": index,
        "current_stream": stream,
        "missing": missing_error(binary),
        "unfit": tensor_error(f"launch {binary.region} ({binary.abi.symbol})", index),
        "unpackable": argument_error(binary),
        "on_device": _on_device,
        "scratch": _scratch,
        "aligned_copy": aligned_copy,
        "copies_of": copies_of,
        "combine": combine,
        "bounds": bounds,
        **_versions(),
        "MISSING": _MISSING,
        "UNPACKABLE": _UNPACKABLE,
        "UNDEFINED": _UNDEFINED,
        "DOUBTFUL": (*_MISSING, *_UNDEFINED),
        "DECLINED": DECLINED,
    }
    namespace |= (
        _driver(loaded, writer.maps) if isinstance(loaded, Loaded) else _loading(namespace, loaded, writer.maps)
    )
    if of_tensors is not None:
        namespace |= {"enqueue": of_tensors}
    exec(compile(text, f"<launcher of {binary.abi.symbol!r}>", "exec"), namespace)
    launch = namespace["launch"]
    launch.guards = binary.guards
    launch.explain = partial(_explain, binary, scope)
    launch.load = (lambda: loaded) if isinstance(loaded, Loaded) else loaded
    launch.specialize = cache(partial(_specialize, binary, loaded, index, stream, scope))
    return cast(Launcher, launch)


def _specialize(
    binary: Binary,
    loaded: Loaded | Callable[[], Loaded],
    index: int,
    stream: Callable[[], Any],
    scope: FunctionType | None,
    invariants: KeyInvariants,
    names: tuple[str, ...],
    region: int,
) -> Launcher:
    """The launcher for calls with a key that fixes some of it. It launches what has launched: the code is loaded."""
    now = loaded if isinstance(loaded, Loaded) else loaded()
    return _generate(binary, now, index, stream, scope, invariants, names, region)


def _driver(loaded: Loaded, maps: Mapping[int, LaunchArg]) -> dict[str, Any]:
    """What a launcher's text calls of the driver. ``module`` keeps the machine code in the device's memory."""
    names: dict[str, Any] = {
        "enqueue": loaded.enqueue,
        "recover": loaded.recover,
        "refused": loaded.refused,
        "module": loaded.module,
    }
    return names | {f"map{number}": loaded.tensor_map(arg) for number, arg in maps.items()}


def _loading(
    namespace: dict[str, Any], load: Callable[[], Loaded], maps: Mapping[int, LaunchArg]
) -> dict[str, Callable[..., Any]]:
    """The same before the machine code is there: the first call of any of them loads it and takes their places."""

    def first(name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            namespace.update(_driver(load(), maps))
            return namespace[name](*args)

        return call

    return {name: first(name) for name in ("enqueue", "recover", "refused", *(f"map{number}" for number in maps))}


def _scratch(size: int, device: torch.device) -> torch.Tensor:
    import torch

    return torch.empty(size, dtype=torch.uint8, device=device)


def _versions() -> dict[str, Callable[..., Any]]:
    """What a launcher's text calls of torch to count a write."""
    import torch

    return {
        "in_inference_mode": torch.is_inference_mode_enabled,
        "count_write": torch.autograd.graph.increment_version,
    }


def _on_device(index: int, launch: Callable[..., Any], *args: Any) -> Any:
    """Launch again with the arguments' device current."""
    import torch

    with torch.cuda.device(index):
        return launch(*args)


def _explain(
    binary: Binary, scope: FunctionType | None, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]
) -> str:
    """Why the binary declines what it would have to launch with: the first thing that does not hold."""
    for arg in binary.abi.args:
        if arg.dtype and (reason := other_kind(arg, read_path(Path.parse(arg.path), frame, scope))):
            return reason

    def read(name: str) -> int:
        return read_symbol(Symbol.parse(name), frame, scope, begins, ends)

    return explain_guards(binary.guards, read) or "nothing: it would accept the call now"


def other_kind(arg: LaunchArg, value: Any) -> str:
    """How the tensor that a launch captured is of another kind than its code assumes; empty where it is of that."""
    kind = str(value.dtype).removeprefix("torch.")
    if (kind, value.dim()) == (arg.dtype, arg.rank):
        return ""
    return f"{arg.path} of {arg.dtype} and rank {arg.rank} with {kind} and rank {value.dim()}"
