"""Launchers against stand-ins for the two drivers: what is packed, what is refused, what is never launched."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from types import SimpleNamespace
from typing import Any, cast

import numpy
import pytest
import torch
from tile_testing.fakes.drivers import TENSOR, FakeCuda, launcher, make_binary

from tileflow.errors import CallError, LaunchError, OutOfResources, TableError
from tileflow.expr import Expr, all_of
from tileflow.runtime.abi import Binary, LaunchArg, TensorMap
from tileflow.runtime.drivers import current_stream_reader
from tileflow.runtime.key_invariants import KeyInvariants
from tileflow.runtime.launch import cuda_launcher, hip_launcher
from tileflow.runtime.paths import Path, Symbol


@pytest.mark.parametrize(
    ("given", "grid"),
    [
        ((7, None), (7, 5, 1)),
        ((2, 9), (7, 5, 1)),
        ((numpy.int64(7), None), (7, 5, 1)),
        (([7, 3], None), (7, 3, 5)),
        (((7, 3), None), (7, 3, 5)),
        (([2, 1], [9, 4]), (7, 3, 5)),
        (([7, numpy.int32(3)], None), (7, 3, 5)),
    ],
)
def test_a_launcher_of_a_key_reads_bounds_in_every_form_that_a_loop_takes(given: Any, grid: Any) -> None:
    axes = 2 if isinstance(given[0], (list, tuple)) else 1
    ends = [Expr.sym(f"end.{i}") - Expr.sym(f"begin.{i}") for i in range(axes)]
    extents = (*ends, *(Expr.of(5), Expr.of(1)))[:3]
    launch, driver = launcher(make_binary(TENSOR, grid=cast(Any, extents)), [ctypes.c_uint64])
    keyed = launch.specialize(KeyInvariants(), ("x",), 0)
    context: Any = SimpleNamespace(launch=None)  # what declines goes there
    assert keyed(context, torch.zeros(4), *given) is True
    assert driver.launches[0].grid == grid


def test_a_launcher_of_a_key_refuses_bounds_that_are_no_ints() -> None:
    binary = make_binary(TENSOR, grid=(Expr.sym("end.0"), Expr.of(1), Expr.of(1)))
    launch, driver = launcher(binary, [ctypes.c_uint64])
    with pytest.raises(CallError, match="bounds must be ints"):
        launch.specialize(KeyInvariants(), ("x",), 0)(None, torch.zeros(4), 2.5)
    assert not driver.launches


def test_arguments_are_packed_as_the_abi_says() -> None:
    n = Expr.sym("x.shape.1")
    args = (
        LaunchArg("flag", "int", "i1", value=Expr.sym("flag")),
        TENSOR,
        LaunchArg("small", "int", "i32", value=n - 10_000),
        LaunchArg("large", "int", "i64", value=n * (1 << 40)),
        LaunchArg("eps", "float", "fp32", "eps"),
        LaunchArg("scale", "float", "fp64", "scale"),
        LaunchArg("stride", "int", "u16", value=Expr.sym("x.stride.0")),
    )
    types = [ctypes.c_int8, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_double]
    binary = make_binary(
        *args, grid=(Expr.sym("end.1").cdiv(16), Expr.sym("begin.0"), Expr.of(2)), scratch=(("global", 0, 1),)
    )
    launch, driver = launcher(binary, [*types, ctypes.c_uint16, ctypes.c_void_p])
    x = torch.zeros(3, 70)
    assert launch({"x": x, "flag": True, "eps": 0.5, "scale": 1e300}, (4, 0), (9, 33)) is True
    (seen,) = driver.launches
    assert seen.values == [1, x.data_ptr(), -9930, 70 << 40, 0.5, 1e300, 70, None]
    assert (seen.function, seen.grid, seen.threads, seen.shared, seen.stream) == (
        "kernel",
        (3, 4, 2),
        128,
        0,
        ("stream", 0x57),
    )


def test_failing_guards_and_empty_grids_launch_nothing() -> None:
    aligned = Expr.sym("x.align").and_(Expr.sym("x.stride.0").eq(1))
    launch, driver = launcher(
        make_binary(TENSOR, guards=aligned, grid=(Expr.sym("end.0"), Expr.of(1), Expr.of(1))), [ctypes.c_uint64]
    )
    x = torch.zeros(64)
    assert launch.guards == aligned
    assert launch({"x": x[1:]}, (0,), (8,)) is False
    assert launch({"x": x[::2]}, (0,), (8,)) is False
    assert launch({"x": x}, (0,), (0,)) is True
    assert driver.launches == []
    assert launch({"x": x}, (0,), (8,)) is True
    assert len(driver.launches) == 1


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_guards_that_know_some_sizes_of_a_tensor(mode: Any) -> None:
    """A dynamic variant knows the sizes and strides of 1; no variant the stride of a dimension of one element."""
    known = (
        {"x.shape.0": 1, "x.stride.1": 1} if mode == "dynamic" else {"x.shape.0": 1, "x.shape.1": 6, "x.stride.1": 1}
    )
    guards = all_of(Expr.sym(symbol).eq(number) for symbol, number in known.items())
    launch, driver = launcher(dataclasses.replace(make_binary(TENSOR, guards=guards), mode=mode), [ctypes.c_uint64])
    x = torch.zeros(1, 6)
    assert launch({"x": x}, (0,), (1,)) is True
    assert launch({"x": x.t()}, (0,), (1,)) is False
    assert launch({"x": torch.zeros(1, 12)[:, ::2]}, (0,), (1,)) is False
    assert len(driver.launches) == 1


def test_tensor_maps_stand_among_the_parameters_and_are_encoded_once() -> None:
    tensor_map = TensorMap((Expr.sym("x.shape.0"), Expr.of(8)), (Expr.sym("x.stride.0"), Expr.of(1)), (4, 8), 4, 7, 1)
    box = LaunchArg("x_desc", "descriptor", "tensordesc<fp32[4, 8]>", "x", tensor_map=tensor_map)
    extra = LaunchArg("n", "int", "i32", value=Expr.sym("end.0"))
    one_map = [ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
    launch, driver = launcher(make_binary(box, extra, TENSOR), [*one_map, ctypes.c_int32, ctypes.c_uint64])
    x = torch.zeros(6, 8)
    for _ in range(2):
        assert launch({"x": x}, (0,), (5,)) is True
    assert launch({"x": x[1:]}, (0,), (5,)) is True
    pointer = x.data_ptr()
    assert [c[2:6] for c in driver.encoded] == [(pointer, [8, 6], [32], [8, 4]), (pointer + 32, [8, 5], [32], [8, 4])]
    # what stands where the map's 128 bytes begin is the fake's own number of the encoding
    assert [seen.values for seen in driver.launches] == [
        [0, 6, 8, 8, 1, 5, pointer], [0, 6, 8, 8, 1, 5, pointer], [1, 5, 8, 8, 1, 5, pointer + 32],
    ]  # fmt: skip


def test_a_map_of_a_copy_is_of_what_the_launch_copied() -> None:
    """Rows of seven numbers begin where the copy engine takes none; in the copy they have eight."""
    tensor_map = TensorMap(
        (Expr.sym("x.shape.1"), Expr.sym("x.shape.0")), (Expr.of(1), Expr.of(7)), (4, 8), 4, 7, 1, (1, 0)
    )
    box = LaunchArg("x_desc", "descriptor", "tensordesc<fp32[4, 8]>", "x", tensor_map=tensor_map)
    launch, driver = launcher(
        make_binary(box), [ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
    )
    x = torch.arange(42.0).reshape(6, 7)
    seen: list[torch.Tensor] = []
    encode = driver.cuTensorMapEncodeTiled

    def look(*args: Any) -> Any:
        memory = (ctypes.c_float * 56).from_address(args[2])
        seen.append(torch.frombuffer(memory, dtype=torch.float32).clone().reshape(7, 8))
        return encode(*args)

    driver.cuTensorMapEncodeTiled = look  # type: ignore[method-assign]
    assert launch({"x": x}, (0,), (5,)) is True
    (encoded,) = driver.encoded
    assert encoded[2] != x.data_ptr() and [*encoded[3:5]] == [[6, 7], [32]]
    assert torch.equal(seen[0][:, :6], x.T)
    assert driver.launches[0].values[1:] == [7, 6, 8, 1]


def test_boxes_of_one_tensor_are_of_one_copy() -> None:
    """As of a matrix that is multiplied by its own transpose."""
    boxes = [
        LaunchArg(
            f"x_desc_{side}", "descriptor", f"tensordesc<fp32[{side}, 8]>", "x",
            tensor_map=TensorMap(
                (Expr.sym("x.shape.0"), Expr.sym("x.shape.1")), (Expr.of(7), Expr.of(1)), (side, 8), 4, 7, 1, (0, 1)
            ),
        )
        for side in (4, 8)
    ]  # fmt: skip
    one_map = [ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
    launch, driver = launcher(make_binary(*boxes), [*one_map, *one_map])
    assert launch({"x": torch.zeros(6, 7)}, (0,), (5,)) is True
    assert len({encoded[2] for encoded in driver.encoded}) == 1 and len(driver.encoded) == 2


def test_target_fields_are_those_of_the_binary() -> None:
    grid = (Expr.sym("target.sm_count").min(Expr.sym("end.0")), Expr.of(1), Expr.of(1))
    launch, driver = launcher(make_binary(TENSOR, grid=grid), [ctypes.c_uint64])
    launch({"x": torch.zeros(1)}, (0,), (1000,))
    assert driver.launches[0].grid == (132, 1, 1)


def test_scratch_memory_is_allocated_for_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    keep = torch.zeros(1 << 12, dtype=torch.uint8)

    def empty(size: int, **kwargs: Any) -> torch.Tensor:
        asked.append(size)
        return keep

    monkeypatch.setattr(torch, "empty", empty)
    binary = make_binary(
        TENSOR,
        grid=(Expr.of(3), Expr.of(2), Expr.of(1)),
        scratch=(("global", 128, 8), ("profile", 0, 1)),
        cluster=(2, 1, 1),
    )
    launch, driver = launcher(binary, [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p])
    launch({"x": torch.zeros(1)}, (0,), (1,))
    assert asked == [128 * 2 * 6]
    assert driver.launches[0].values[1:] == [keep.data_ptr(), None]


def test_clusters_cooperative_grids_and_dependent_launches_carry_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCuda, "capturing", (0, 1))
    binary = make_binary(
        TENSOR, grid=(Expr.of(5), Expr.of(1), Expr.of(1)), cluster=(16, 1, 1), cooperative=True, pdl=True
    )
    launch, driver = launcher(binary, [ctypes.c_uint64])
    assert launch({"x": torch.zeros(1)}, (0,), (1,))
    (seen,) = driver.launches
    assert seen.grid == (80, 1, 1)
    assert [a.id for a in seen.attrs] == ["pdl", "cooperative", "cluster", "policy"]
    cluster = seen.attrs[2].value.clusterDim
    assert (cluster.x, cluster.y, cluster.z) == (16, 1, 1)
    assert ("non-portable", 1) in driver.attributes


@pytest.mark.parametrize(
    ("capturing", "version", "attributes"),
    [((0, 1), 13000, ["pdl"]), ((0, 0), 13000, []), ((906,), 13000, []), ((0, 1), 12020, [])],
    ids=["captured", "eager", "no status", "old driver"],
)
def test_launches_depend_on_the_one_before_in_graphs_alone(
    capturing: tuple[int, ...], version: int, attributes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeCuda, "capturing", capturing)
    monkeypatch.setattr(FakeCuda, "version", version)
    launch, driver = launcher(make_binary(TENSOR, pdl=True), [ctypes.c_uint64])
    assert launch({"x": torch.zeros(1)}, (0,), (1,))
    (seen,) = driver.launches
    assert [a.id for a in seen.attrs] == attributes


def test_large_shared_memory_is_asked_for_and_too_much_is_out_of_resources() -> None:
    _, driver = launcher(make_binary(TENSOR, shared=48 * 1024), [ctypes.c_uint64])
    assert driver.attributes == []
    _, driver = launcher(make_binary(TENSOR, shared=100_000), [ctypes.c_uint64])
    assert driver.attributes == [("shared", 100_000)]
    with pytest.raises(OutOfResources, match="error 1"):
        launcher(make_binary(TENSOR, shared=300_000), [ctypes.c_uint64])


def test_what_a_binary_declares_itself_counts_as_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 KiB beside boxes of 32: the launch was refused as an invalid value."""
    monkeypatch.setattr(FakeCuda, "own_shared", 32 * 1024)
    _, driver = launcher(make_binary(TENSOR, shared=16 * 1024), [ctypes.c_uint64])
    assert driver.attributes == []
    _, driver = launcher(make_binary(TENSOR, shared=24 * 1024), [ctypes.c_uint64])
    assert driver.attributes == [("shared", 24 * 1024)]


def test_driver_errors_are_ours() -> None:
    launch, _ = launcher(make_binary(TENSOR), [ctypes.c_uint64], statuses=[701])
    with pytest.raises(OutOfResources, match="kernel for nvidia-h200"):
        launch({"x": torch.zeros(1)}, (0,), (1,))
    launch, _ = launcher(make_binary(TENSOR), [ctypes.c_uint64], statuses=[700])
    with pytest.raises(LaunchError, match="error 700") as caught:
        launch({"x": torch.zeros(1)}, (0,), (1,))
    assert not isinstance(caught.value, OutOfResources)
    with pytest.raises(LaunchError, match="error 209"):
        launcher(dataclasses.replace(make_binary(TENSOR), code=b"for another arch"), [])


def test_a_thread_without_a_context_gets_the_devices_once() -> None:
    launch, driver = launcher(make_binary(TENSOR), [ctypes.c_uint64], statuses=[201])
    assert launch({"x": torch.zeros(1)}, (0,), (1,)) is True
    assert driver.contexts == 100
    assert len(driver.launches) == 1
    launch, driver = launcher(make_binary(TENSOR), [ctypes.c_uint64], statuses=[201, 201])
    with pytest.raises(LaunchError, match="error 201"):
        launch({"x": torch.zeros(1)}, (0,), (1,))


def test_tensors_elsewhere_are_refused_before_the_driver_sees_them() -> None:
    driver = FakeCuda([ctypes.c_uint64])
    launch = cuda_launcher(make_binary(TENSOR), 3, driver=driver, stream=lambda: 0x57)
    with pytest.raises(CallError, match="must be on device 3, but got cpu"):
        launch({"x": torch.zeros(1)}, (0,), (1,))
    assert driver.launches == []


def test_missing_and_unfitting_captures_name_the_launch() -> None:
    launch, _ = launcher(
        make_binary(TENSOR, LaunchArg("n", "int", "i32", value=Expr.sym("n"))), [ctypes.c_uint64, ctypes.c_int32]
    )
    for frame, text in (
        ({"n": 1}, "KeyError: 'x'"),
        ({"x": None, "n": 1}, "AttributeError"),
        ({"x": torch.zeros(1), "n": 1 << 31}, r"must fit \*fp32, i32"),
    ):
        with pytest.raises(CallError, match=text) as caught:
            launch(frame, (0,), (1,))
        assert "launch 0" in str(caught.value)


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1])
def test_an_int_of_more_than_64_bits_is_named(number: int) -> None:
    args = TENSOR, LaunchArg("n", "int", "i64", value=Expr.sym("sizes.item:0"))
    launch, _ = launcher(make_binary(*args), [ctypes.c_uint64, ctypes.c_int64])
    with pytest.raises(CallError, match=rf"but got sizes\.item:0 = {number}\n  at launch 0"):
        launch({"x": torch.zeros(1), "sizes": (number,)}, (0,), (1,))


SCALE = torch.ones(4)


def test_captures_are_read_again_at_each_launch() -> None:
    bias = torch.zeros(4)

    def host(x: torch.Tensor) -> Any:
        return bias, SCALE

    def epilogue(acc: Any, gain: float = 2.0, *, shift: int = 3) -> Any:
        return acc + bias

    paths = ["bias", "SCALE", "epilogue.cell:bias", "pair.item:1", "holder.attr:weight", "epilogue.global:SCALE"]
    args = [LaunchArg(p, "tensor", "*fp32", p) for p in paths]
    args.append(LaunchArg("gain", "float", "fp32", "epilogue.default:gain"))
    args.append(LaunchArg("shift", "int", "i32", value=Expr.sym("epilogue.default:shift") + 1))
    launch, driver = launcher(make_binary(*args), [ctypes.c_uint64] * 6 + [ctypes.c_float, ctypes.c_int32], scope=host)
    weight, item = torch.zeros(2), torch.zeros(3)
    frame = {"epilogue": epilogue, "pair": (None, item), "holder": SimpleNamespace(weight=weight)}
    launch(frame, (0,), (1,))
    tensors = [bias, SCALE, bias, item, weight, SCALE]
    assert driver.launches[0].values == [*(t.data_ptr() for t in tensors), 2.0, 4]
    bias = torch.zeros(8)
    launch(frame, (0,), (1,))
    assert driver.launches[1].values[0] == driver.launches[1].values[2] == bias.data_ptr()
    bias = torch.zeros(8, dtype=torch.float64)  # in no call's key: this binary's code is not for it
    assert launch(frame, (0,), (1,)) is False


def test_threads_never_share_a_buffer() -> None:
    launch, driver = launcher(
        make_binary(TENSOR, LaunchArg("n", "int", "i64", value=Expr.sym("n"))), [ctypes.c_uint64, ctypes.c_int64]
    )
    driver.pause = 0.002
    x = torch.zeros(1)

    def work(start: int) -> None:
        for n in range(start, start + 5):
            launch({"x": x, "n": n}, (0,), (1,))

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(s.values[1] for s in driver.launches) == sorted(100 * i + k for i in range(6) for k in range(5))


def test_a_streams_handle_is_asked_for_once_and_only_while_its_device_is_current(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = {"device": 1, "stream": 7}
    asked: list[int] = []

    def cuda_stream(index: int) -> SimpleNamespace:
        asked.append(state["stream"])
        return SimpleNamespace(cuda_stream=1000 + state["stream"])

    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: state["device"])
    monkeypatch.setattr(
        torch.accelerator,
        "current_stream",
        lambda index: SimpleNamespace(stream_id=state["stream"], device_index=index),
    )
    monkeypatch.setattr(torch.cuda, "current_stream", cuda_stream)
    read = current_stream_reader(1)
    assert [read(), read()] == [1007] * 2
    state["stream"] = 8
    assert read() == 1008
    state["device"] = 0
    assert read() is None
    assert asked == [7, 8]


def test_a_launch_for_another_device_makes_it_current(monkeypatch: pytest.MonkeyPatch) -> None:
    current = [0]

    class device:
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            current.append(self.index)

        def __exit__(self, *error: object) -> None:
            current.pop()

    monkeypatch.setattr(torch.cuda, "device", device)
    driver = FakeCuda([ctypes.c_uint64])
    launch = cuda_launcher(make_binary(TENSOR), -1, driver=driver, stream=lambda: 0x57 if current[-1] == -1 else None)
    assert launch({"x": torch.zeros(1)}, (0,), (1,)) is True
    assert len(driver.launches) == 1
    assert current == [0]


@pytest.mark.parametrize(
    "path",
    ["", "x.attr:__class__", "x.item:a", "x.cell", "x y", "import os", "x.attr:1a", "x.attr:class", "x.other:y", "1x"],
)
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(TableError, match="a path must be"):
        Path.parse(path)


def test_nothing_in_a_symbol_becomes_code() -> None:
    for name in ("__import__('os').getcwd()", "x.shape.0 + 1", "x)", "x\n"):
        with pytest.raises(TableError):
            Symbol.parse(name)
        with pytest.raises(TableError):
            launcher(make_binary(TENSOR, guards=Expr.sym(name)), [ctypes.c_uint64])


def test_unknown_argument_types_are_refused() -> None:
    with pytest.raises(TableError, match="argument d must have one of the types"):
        launcher(make_binary(LaunchArg("d", "int", "tensordesc", value=Expr.of(1))), [])


# ---- HIP ----------------------------------------------------------------------------------------------------------


def make_hsaco(*args: LaunchArg, **abi: Any) -> Binary:
    return dataclasses.replace(make_binary(*args, **abi), format="hsaco")


class FakeHip:
    """``libamdhip64.so`` as far as the launcher uses it."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.device = 5
        self.launches: list[tuple[Any, ...]] = []

    def hipGetDevice(self, out: Any) -> int:
        out._obj.value = self.device
        return 0

    def hipSetDevice(self, index: int) -> int:
        self.device = index
        return 0

    def hipModuleLoadData(self, out: Any, code: bytes) -> int:
        out._obj.value = 11
        return 0

    def hipModuleGetFunction(self, out: Any, module: Any, name: bytes) -> int:
        assert module.value == 11
        out._obj.value = 12
        return 0

    def hipGetErrorName(self, status: int) -> bytes:
        return f"hip {status}".encode()

    def hipModuleLaunchKernel(self, function: Any, *rest: Any) -> int:
        assert len(rest) == 10
        pointer = ctypes.c_void_p.from_address(rest[8]).value
        assert pointer is not None
        self.launches.append((function.value, rest[:3], rest[3], ctypes.c_uint64.from_address(pointer).value))
        return self.status

    def hipModuleLaunchCooperativeKernel(self, function: Any, *rest: Any) -> int:
        assert len(rest) == 9
        self.launches.append(("cooperative", rest[:3]))
        return self.status


def test_the_hip_twin_launches_the_same_way() -> None:
    binary = dataclasses.replace(make_binary(TENSOR, threads=256), format="hsaco", target="amd-mi300x")
    library = FakeHip()
    launch = hip_launcher(binary, "cpu", library=library, stream=lambda: 0)
    x = torch.zeros(1)
    assert launch({"x": x}, (0,), (1,)) is True
    assert library.launches == [(12, (1, 1, 1), 256, x.data_ptr())]
    assert library.device == 5, "the caller's device must be current again"
    library.status = 701
    with pytest.raises(OutOfResources, match="hip 701"):
        launch({"x": x}, (0,), (1,))


def test_hip_takes_cooperative_grids_and_no_clusters() -> None:
    library = FakeHip()
    launch = hip_launcher(make_hsaco(TENSOR, cooperative=True), "cpu", library=library, stream=lambda: 0)
    assert launch({"x": torch.zeros(1)}, (0,), (1,)) is True
    assert library.launches == [("cooperative", (1, 1, 1))]
    with pytest.raises(LaunchError, match="clusters"):
        hip_launcher(make_hsaco(TENSOR, cluster=(2, 1, 1)), "cpu", library=library, stream=lambda: 0)


# ---- what torch counts of stores ------------------------------------------------------------------------------------

STORED = LaunchArg("y", "tensor", "*fp32", "y", stored=True)
LOADED = LaunchArg("x", "tensor", "*fp32", "x", stored=False)


def loose(launch: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    launch({"x": x, "y": y}, (0,), (4,))


def keyed(launch: Any, x: torch.Tensor, y: torch.Tensor, *fresh: str) -> None:
    context: Any = SimpleNamespace(launch=None)
    launch.specialize(KeyInvariants(fresh=frozenset(fresh)), ("x", "y"), 0)(context, x, y, 4)


@pytest.mark.parametrize("run", [loose, keyed])
def test_a_store_is_a_write_that_autograd_sees(run: Any) -> None:
    """Autograd's saved tensors were overwritten unseen, and a backward pass gave wrong gradients."""
    launch, driver = launcher(make_binary(LOADED, STORED), [ctypes.c_uint64] * 2)
    x, y, weight = torch.ones(4), torch.ones(4), torch.ones(4, requires_grad=True)
    loss = (weight * y).sum()
    run(launch, x, y)
    assert (x._version, y._version) == (0, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        run(launch, x, torch.ones(4))
        run(launch, x, y)
    run(launch, x, y[1:])
    assert (len(driver.launches), y._version) == (4, 2)


def test_a_declined_launch_and_new_memory_count_no_write() -> None:
    guards = Expr.sym("y.shape.0").eq(8)
    launch, driver = launcher(make_binary(LOADED, STORED, guards=guards), [ctypes.c_uint64] * 2)
    y = torch.ones(4)
    loose(launch, y, y)
    assert (len(driver.launches), y._version) == (0, 0)
    launch, driver = launcher(make_binary(LOADED, STORED), [ctypes.c_uint64] * 2)
    keyed(launch, y, y, "y")
    assert (len(driver.launches), y._version) == (1, 0)
