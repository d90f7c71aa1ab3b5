"""The host's cost of a warm call of a two-input kernel, beside torch.add and beside its unavoidable parts.

Those parts are the launch, the allocation of the result, and the query of the current stream.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from tileflow import runtime
from tileflow.api import load_kernel
from tileflow.errors import TableError
from tileflow.runtime import Binary, Entry, load_bundle
from tileflow.runtime.drivers import cuda_load
from tileflow.runtime.observe import served
from tileflow.runtime.packing import parameter_formats, python_enqueue

from .rounds import Batch, above, interleaved, interval, ratio

ADD, ADD_SIZE = "examples.vector_add:vector_add", 4096  # too small to keep the device busy
SHAPES = 64
MOST_ABOVE_US, MOST_RATIO = 1.5, 1.4
FLOOR, NATIVE_FLOOR, ADDED, ADDED_SHAPES = "floor", "floor, native launch", "torch.add", "torch.add, 64 shapes"
OURS = ("static row", "dynamic default", "keywords", "64 shapes", "second kind of argument")

Pair = tuple[torch.Tensor, torch.Tensor]


def measure(bundle: Path, device: str, calls: int, rounds: int) -> dict[str, Any]:
    """Time everything, from a bundle that is loaded.

    Returns JSON: contender -> median and interval, what ours takes above the floor, its ratio to torch.add, and the
    steps that served.
    """
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    found = interleaved(contenders(bundle, device), synchronize, calls=calls, rounds=rounds)
    native_floor = found.get(NATIVE_FLOOR, found[FLOOR])
    ours = {}
    for name in OURS:
        added = found[ADDED_SHAPES if name == "64 shapes" else ADDED]
        ours[name] = {
            "us": asdict(interval(found[name])),
            "above_floor_us": asdict(above(found[name], found[FLOOR])),
            "above_native_floor_us": asdict(above(found[name], native_floor)),
            "of_torch_add": asdict(ratio(found[name], added)),
        }
    others = {name: asdict(interval(times)) for name, times in found.items() if name not in OURS}
    return {
        "others": others,
        "ours": ours,
        "steps": runtime.stats(),
        "calls": calls,
        "rounds": rounds,
        "has_native": NATIVE_FLOOR in found,
    }


def contenders(bundle: Path, device: str) -> dict[str, Batch]:
    """Return the contenders' batches. Each has a loop of its own, so that none pays for another's argument passing."""
    add, other = load_kernel(ADD), ADD_SIZE + 16
    x, y = _pair(ADD_SIZE, device)
    u, v = _pair(other, device)
    # a tensor subclass is another kind of argument and otherwise equal
    subclass: Any = torch.nn.Parameter
    p, q = (subclass(t, requires_grad=False) for t in (u, v))
    pairs = [_pair(1024 + 16 * n, device) for n in range(SHAPES)]
    counter = served("a counter", "that counts nothing else")
    found: dict[str, Batch] = {
        **_floors(bundle, device, x, y),
        ADDED: _positional(torch.add, x, y),
        ADDED_SHAPES: _cycling(torch.add, pairs),
        "static row": _positional(add, x, y),
        "dynamic default": _positional(add, u, v),
        "keywords": _by_keywords(add, u, v),
        "64 shapes": _cycling(add, pairs),
        "second kind of argument": _positional(add, p, q),
        "a counter's increment": lambda n: _counting(counter, n),
        "an empty loop": lambda n: _repeated(n),
    }
    for batch in found.values():
        batch(2)
    return found


def _floors(bundle: Path, device: str, x: torch.Tensor, y: torch.Tensor) -> dict[str, Batch]:
    """Return the parts of a call and their sum. The launch is of the same machine code that the static row has."""
    (_, binary), index = static_row(bundle), x.get_device()
    out = torch.empty_like(x)
    if device == "cuda":
        current: Any = torch.accelerator.current_stream
        stream, handle = (lambda: current(index).stream_id), torch.cuda.current_stream(index).cuda_stream
    else:
        stream, handle = (lambda: 0), 0
    loaded = cuda_load(binary, index)
    grid = [int(g.constant or 1) for g in binary.abi.grid]
    pointers = {"x": x.data_ptr(), "y": y.data_ptr(), "out": out.data_ptr()}
    values = [pointers[arg.path] for arg in binary.abi.args if arg.kind == "tensor"]
    launch, packed = _prebuilt(binary, loaded, handle, grid, values)
    empty = torch.empty_like
    parts: dict[str, Batch] = {
        "allocation": _alone(lambda: empty(x)),
        "stream": _alone(stream),
        "launch through cuda.bindings": _alone(launch),
        FLOOR: _summed(empty, x, stream, launch, (packed, out)),
    }
    if not isinstance(loaded.enqueue, FunctionType):
        natively = partial(loaded.enqueue, handle, *grid, *values)
        parts["launch through the C extension"] = _alone(natively)
        parts[NATIVE_FLOOR] = _summed(empty, x, stream, natively, (packed, out))
    return parts


def static_row(bundle: Path) -> tuple[Entry, Binary]:
    """Return the row for calls of ADD_SIZE elements and its machine code. Raises TableError where there is none."""
    loaded = load_bundle(bundle)
    for table in loaded.tables:
        for entry in table.entries if table.kernel.ref == ADD else ():
            if set(entry.problem.sizes.values()) == {ADD_SIZE}:
                return entry, loaded.binary(entry.launches[0].region, entry.launches[0].variants[0])
    raise TableError(
        "the bundle must have a row for a small call",
        got=f"none of {ADD} with n={ADD_SIZE}",
        where=str(bundle),
        hint="build it by `python -m tileflow_benchmarks.production build`",
    )


def _prebuilt(
    binary: Binary, loaded: Any, stream: int, grid: list[int], values: list[int]
) -> tuple[Callable[[], Any], Any]:
    """Return a launch through ``cuda.bindings`` with arguments made in advance, and the objects that keep them
    alive."""
    driver: Any = importlib.import_module("cuda.bindings.driver")
    (_, function) = driver.cuModuleGetFunction(loaded.module.handle, binary.abi.symbol.encode())
    addresses: list[int] = []

    def remember(stream: int, gx: int, gy: int, gz: int, address: int) -> int:
        addresses.append(address)
        return 0

    pack = python_enqueue(remember, parameter_formats(binary.abi))
    pack(stream, *grid, *values)
    gx, gy, gz = grid
    abi, handle, (address,) = binary.abi, driver.CUstream(stream), addresses
    launch = partial(driver.cuLaunchKernel, function, gx, gy, gz, abi.threads, 1, 1, abi.shared, handle, address, 0)
    return launch, pack


def _pair(size: int, device: str) -> Pair:
    return torch.randn(size, device=device), torch.randn(size, device=device)


def _positional(function: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> Batch:
    def batch(n: int) -> None:
        for _ in range(n):
            function(x, y)

    return batch


def _by_keywords(function: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> Batch:
    def batch(n: int) -> None:
        for _ in range(n):
            function(x=x, y=y)

    return batch


def _cycling(function: Callable[..., Any], pairs: list[Pair]) -> Batch:
    def batch(n: int) -> None:
        for x, y in islice(cycle(pairs), n):
            function(x, y)

    return batch


def _alone(function: Callable[[], Any]) -> Batch:
    def batch(n: int) -> None:
        for _ in range(n):
            function()

    return batch


def _summed(
    empty: Any, x: torch.Tensor, stream: Callable[[], Any], launch: Callable[[], Any], kept: tuple[Any, ...]
) -> Batch:
    """Return a batch of calls that allocate, query the stream and launch. ``kept``: what the arguments point to."""

    def batch(n: int) -> None:
        for _ in range(n):
            empty(x)
            stream()
            launch()
        assert kept

    return batch


def _counting(counter: Any, n: int) -> None:
    for _ in range(n):
        counter.calls += 1


def _repeated(n: int) -> None:
    for _ in range(n):
        pass
