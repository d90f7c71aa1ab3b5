"""Atomics: what is refused and where, what passes may not do to them, the traffic they count, what each target has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import ShapeError, TraceError
from tileflow.ir.graph import KernelIR
from tileflow.ir.kinds import OpKind
from tileflow.language import eager
from tileflow.language.atomics import DTYPES, SEMANTICS
from tileflow.lowered import Lowered
from tileflow.passes import specialise
from tileflow.passes.roll import rollable
from tileflow.passes.structural_choice import StructuralChoice
from tileflow.target import CATALOGUE, target

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def lower(function: Callable[..., Any], *args: Any, device: str = "nvidia-h200") -> Lowered:
    return tileflow.kernel(function).lower(args, target(device))


def rolled(function: Callable[..., Any], *args: Any) -> KernelIR:
    (ir,) = lower(function, *args).regions
    return specialise(ir, StructuralChoice(tuple(rollable(ir))))


def count(ir: KernelIR, kind: str) -> int:
    return sum(op.kind == kind for op in ir.walk())


# ---- errors -------------------------------------------------------------------------------------


def wrong_sem(x):
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(x, [tile], 1.0, sem="strong")
    return x


def wrong_place(x):
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(x[tile], [0], 1.0)
    return x


def new_dimension(x):
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(x, [tile, None], 1.0)
    return x


def too_many_values(x):
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(x, [tile], x[tile][:, None])
    return x


@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (wrong_sem, TraceError, "sem is one of relaxed"),
        (wrong_place, TraceError, "a tensor that reaches the kernel from outside"),
        (new_dimension, TraceError, "inserts no dimension"),
        (too_many_values, ShapeError, "must broadcast to the index"),
    ],
)
def test_mistakes(function: Callable[..., Any], error: type[TraceError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        lower(function, meta(64))
    where = caught.value.where
    assert getattr(where, "line", None) == function.__code__.co_firstlineno + 2


REFUSED = [
    (fn, dtype) for fn in DTYPES for dtype in ("int8", "float16", "bool", "float32", "int16")
    if dtype not in DTYPES[fn]
]  # fmt: skip


@pytest.mark.parametrize(("fn", "dtype"), REFUSED)
def test_dtypes_that_no_device_has_are_refused_in_both_executions(fn: str, dtype: str) -> None:
    function = getattr(tfl, f"atomic_{fn}")

    @tileflow.kernel
    def update(x):
        for tile in tfl.tile(x.size(0)):
            function(x, [tile], *((0,) * (2 if fn == "cas" else 1)))
        return x

    x = torch.zeros(5, dtype=getattr(torch, dtype))
    for run in (lambda: update.lower((x,), target("nvidia-h200")), lambda: update.run_eagerly(x)):
        with pytest.raises(TraceError, match=rf"atomic_{fn} updates a tensor of .*, but got {dtype}"):
            run()


# ---- passes -------------------------------------------------------------------------------------


def total_of_rows(x, out):
    for tile in tfl.tile(x.size(0)):
        total = x[tile, :].sum(1)
        tfl.atomic_add(out, [0], total.sum())
    return out


def test_a_rolled_reduction_updates_once() -> None:
    ir = rolled(total_of_rows, meta(40, 3000), meta(4))
    assert count(ir, "for") == 1 and count(ir, "atomic") == 1
    assert all(inner.kind != "atomic" for op in ir.walk() if op.kind == "for" for inner in op.regions[0].ops)


def scattered_rows(x, out):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        tfl.atomic_add(out, [slice(None)], (row / row.sum(1)[:, None]).sum(0))
    return out


def counted(x, out):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        before = tfl.atomic_add(out, [tile], row.sum(1))
        tfl.atomic_add(out, [tile], before)
    return out


def read_after(x, out):
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [0], x[tile, :].sum())
        out[tile] = out[tile] + 1
    return out


def test_what_would_move_an_update_is_not_rolled() -> None:
    """An update over the dimension itself."""
    (ir,) = lower(scattered_rows, meta(40, 3000), meta(3000)).regions
    assert rollable(ir) == {}


def test_an_update_comes_before_what_reads_it() -> None:
    """Behind the loop that it waits for."""
    ir = rolled(read_after, meta(40, 3000), meta(3000))
    accesses = (OpKind.FOR, OpKind.ATOMIC, OpKind.LOAD, OpKind.STORE)
    assert tuple(op.kind for op in ir.body.ops if op.kind in accesses) == accesses


def test_updates_of_one_tensor_keep_their_order() -> None:
    """The second one adds what the first one says was there."""
    ir = rolled(counted, meta(40, 3000), meta(3000))
    kinds = [op.kind for op in ir.body.ops if op.kind in ("for", "atomic")]
    assert kinds == ["for", "atomic", "atomic"]
    first, second = (op for op in ir.body.ops if op.kind == "atomic")
    assert first.output in second.inputs


def dead(x, out):
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_max(out, [tile], x[tile])
    return out


def test_an_update_whose_old_value_nobody_reads_stays_and_moves_its_tensor_twice() -> None:
    lowered = lower(dead, meta(1000), meta(1000))
    assert sum(count(ir, "atomic") for ir in lowered.regions) == 1
    assert lowered.traffic.bytes == 3 * 4 * 1000


# ---- eagerly ------------------------------------------------------------------------------------


@tileflow.kernel
def tickets(x, keys):
    out = torch.empty_like(x)
    count = torch.zeros(3, dtype=x.dtype)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.atomic_add(count, [keys[tile]], x[tile])
    return out


def test_lanes_of_one_element_see_each_other_eagerly() -> None:
    x, keys = torch.tensor([1, 2, 3, 4, 5]), torch.tensor([0, 2, 0, 0, 2])
    assert tickets.run_eagerly(x, keys, config={"block:tile": 4}).tolist() == [0, 0, 1, 4, 2]


def test_strided_arguments_are_updated_where_they_are() -> None:
    @tileflow.kernel
    def increment(x):
        for tile in tfl.tile(x.size(0)):
            tfl.atomic_add(x, [tile, slice(None)], 1)
        return x

    memory = torch.zeros(6, 8, dtype=torch.int32)
    increment.run_eagerly(memory.t()[::2, 1:4])
    assert memory.sum() == 12 and memory[1:4, ::2].eq(1).all()


# ---- what each target has -----------------------------------------------------------------------


def every_atomic(words, floats, halves, keys):
    """Each function on each dtype class, with tails, an explicit mask, duplicates, scalars and every ``sem``."""
    for tile in tfl.tile(keys.size(0)):
        key = keys[tile]
        keep = key != 0
        old = tfl.atomic_add(words, [key], 1, sem="relaxed")
        old = old + tfl.atomic_and(words, [tile], key, sem="acquire", extra_mask=keep)
        old = old | tfl.atomic_or(words, [tile], key, sem="release")
        old = old ^ tfl.atomic_xor(words, [tile], key, sem="acq_rel")
        old = old + tfl.atomic_xchg(words, [tile], key) + tfl.atomic_cas(words, [tile], key, 1, extra_mask=keep)
        old = tfl.atomic_min(words, [tile], old) + tfl.atomic_max(words, [tile], old)
        value = tfl.atomic_add(floats, [key], 1.0) + tfl.atomic_xchg(floats, [tile], 2.0, extra_mask=keep)
        value = value + tfl.atomic_min(floats, [tile], old) + tfl.atomic_max(floats, [tile], value)
        value = value + tfl.atomic_cas(floats, [tile], value, 0.0)
        tfl.atomic_add(halves, [tile], value)
        if tfl.atomic_cas(words, [0], 0, 1, sem="acquire") == 0:
            tfl.atomic_xchg(words, [0], 0, sem="release")
    return words


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtypes", [("int32", "float32", "bfloat16"), ("int64", "float64", "float16")])
def test_every_atomic_compiles(
    architecture: str, dtypes: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    from tileflow.build.compile import build

    monkeypatch.setenv("TILEFLOW_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    device = next(t for t in CATALOGUE.values() if t.arch == architecture)
    words, floats, halves = (meta(1000, dtype=getattr(torch, d)) for d in dtypes)
    lowered = lower(every_atomic, words, floats, halves, meta(1000, dtype=words.dtype), device=device.name)
    (source,) = lowered.emit(lowered.space.repair(lowered.default.with_({"block:tile": 128})))
    assert all(f"sem='{sem}'" in source.text for sem in SEMANTICS)
    assert build(source, device).code.startswith(b"\x7fELF")


def test_plain_python_asks_of_the_authors_tensors_alone_where_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of those that an atomic makes itself and hands to torch's own Python, as ``len(tensor)`` does: the search
    for them went through all of torch, some 30 ms each."""
    asked = list[str]()

    def asking(args: Any, what: str, frame: FrameType, *rest: Any) -> None:
        asked.append(frame.f_globals["__name__"])

    @tileflow.kernel
    def counted(index: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(5, dtype=torch.int32)
        for tile in tfl.tile(index.size(0)):
            tfl.atomic_add(out, [index[tile]], 1)
        return out

    monkeypatch.setattr(eager, "check_reached", asking)
    assert counted.run_eagerly(torch.arange(10) % 5).tolist() == [2] * 5
    assert set(asked) == {__name__}
