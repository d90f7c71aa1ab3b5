"""Both enqueues against stand-in drivers in C's calling convention: what the driver reads, what never gets there."""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tile_testing.fakes.drivers import TENSOR, make_binary
from tile_testing.fakes.native_drivers import TYPES, Loading, Recorder

from tileflow.errors import LaunchError
from tileflow.expr import TRUE, Expr
from tileflow.runtime import build_native, native
from tileflow.runtime.abi import Binary, LaunchAbi, LaunchArg, Resources, TensorMap
from tileflow.runtime.drivers import make_enqueue
from tileflow.runtime.key_invariants import KeyInvariants
from tileflow.runtime.launch import cuda_launcher
from tileflow.runtime.packing import Enqueue, parameter_formats, python_enqueue

Maker = Callable[[Recorder], Enqueue]


@pytest.fixture(params=["native", "python"])
def make(request: pytest.FixtureRequest) -> Maker:
    """Makes an enqueue of function 77, with 128 threads and 1000 bytes of shared memory."""
    if request.param == "native":
        request.getfixturevalue("extension")

        def bound(recorder: Recorder) -> Enqueue:
            made = native.enqueuer(native.Way(recorder.address), 77, 128, 1000, recorder.formats)
            assert made is not None
            return made

        return bound

    def in_python(recorder: Recorder) -> Enqueue:
        return python_enqueue(
            lambda stream, gx, gy, gz, params: recorder.callback(
                77, gx, gy, gz, 128, 1, 1, 1000, stream, ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p)), None
            ),
            recorder.formats,
        )

    return in_python


_U64, _U32 = (1 << 64) - 1, (1 << 32) - 1


def test_a_launch_is_what_was_bound_and_what_was_given(make: Maker) -> None:
    recorder = Recorder("QiN", status=-3)
    enqueue = make(recorder)
    assert enqueue(_U64, _U32, 1, 65535, 1 << 63, -1) == -3
    assert enqueue(0, 0, 0, 0, 0, 0) == -3
    assert recorder.launches == [
        (77, (_U32, 1, 65535, 128, 1, 1, 1000), _U64, [1 << 63, -1, 0], None),
        (77, (0, 0, 0, 128, 1, 1, 1000), None, [0, 0, 0], None),
    ]


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("Q", (0, 1, 1 << 63, _U64)), ("q", (-(1 << 63), -1, 0, (1 << 63) - 1)), ("I", (0, 1 << 31, _U32)),
        ("i", (-(1 << 31), -1, (1 << 31) - 1)), ("H", (0, 65535)), ("h", (-32768, -1, 32767)), ("B", (0, 255)),
        ("b", (-128, -1, 127, True)), ("d", (0.1, -1.0, 1e308, float("inf"), 3, 5e-324)),
        ("f", (0.1, -1.0, 1e300, -1e300, 3, 1e-45, True)), ("M", (128, _U64)),
    ],
)  # fmt: skip
def test_every_format_holds_its_extremes(make: Maker, code: str, values: tuple[float, ...]) -> None:
    recorder = Recorder(f"b{code}b")
    enqueue = make(recorder)
    for value in values:
        assert enqueue(1, 1, 1, 1, -7, value, 9) == 0
    expected = [TYPES[code](value).value if code in "fd" else value for value in values]
    assert [launch[3] for launch in recorder.launches] == [[-7, value, 9] for value in expected]


class Whole:
    """An integer that is no int."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        if self.value == 13:
            raise RuntimeError("no such number")
        return self.value


def test_what_has_an_index_is_an_integer(make: Maker) -> None:
    recorder = Recorder("QiIfd")
    assert make(recorder)(5, Whole(2), 1, 1, Whole(1 << 60), Whole(-9), Whole(8), Whole(2), Whole(3)) == 0  # type: ignore[arg-type]
    assert recorder.launches[0][1][0] == 2
    assert recorder.launches[0][3] == [1 << 60, -9, 8, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="no such number"):
        make(recorder)(0, 1, 1, 1, 1, Whole(13), 1, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="no such number"):
        make(recorder)(0, 1, 1, 1, Whole(13), 1, 1, 1, 1)  # type: ignore[arg-type]
    assert len(recorder.launches) == 1


@pytest.mark.parametrize(
    ("code", "value", "error"),
    [
        ("Q", -1, OverflowError), ("Q", 1 << 64, OverflowError), ("Q", None, TypeError), ("Q", 1.0, TypeError),
        ("Q", Whole(-1), OverflowError), ("q", 1 << 63, OverflowError), ("q", "1", TypeError),
        ("I", 1 << 32, OverflowError), ("I", -1, OverflowError), ("I", 1 << 80, OverflowError),
        ("i", 1 << 31, OverflowError), ("i", -(1 << 31) - 1, OverflowError), ("i", 0.5, TypeError),
        ("H", 65536, OverflowError), ("H", -1, OverflowError), ("h", 32768, OverflowError), ("h", None, TypeError),
        ("B", 256, OverflowError), ("B", -1, OverflowError), ("b", 128, OverflowError), ("b", -129, OverflowError),
        ("f", None, TypeError), ("f", 1j, TypeError), ("f", 10**400, OverflowError), ("d", "1.0", TypeError),
        ("d", 10**400, OverflowError), ("M", -1, OverflowError), ("M", None, TypeError),
        ("i", Whole(10**5000), OverflowError),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_place(make: Maker, code: str, value: Any, error: type[Exception]) -> None:
    recorder = Recorder(f"QN{code}")
    words = "does not fit" if error is OverflowError else "is not a number that"
    with pytest.raises(error, match=rf"^argument 5 {words} '{code}'"):
        make(recorder)(1, 1, 1, 1, 4096, value)
    assert recorder.launches == []


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize(("value", "error"), [(-1, OverflowError), (1 << 64, OverflowError), (None, TypeError)])
def test_streams_and_grids_are_checked(make: Maker, place: int, value: Any, error: type[Exception]) -> None:
    recorder = Recorder("")
    arguments = [1, 1, 1, 1]
    arguments[place] = value
    with pytest.raises(error, match=f"^argument {place} .* '{'QIII'[place]}'"):
        make(recorder)(*arguments)
    if place:
        arguments[place] = 1 << 32
        with pytest.raises(OverflowError):
            make(recorder)(*arguments)
    assert recorder.launches == []


def test_the_values_are_counted(make: Maker) -> None:
    recorder = Recorder("QNi")
    enqueue = make(recorder)
    for values in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError, match=f"^enqueue takes 6 arguments, but got {4 + len(values)}"):
            enqueue(0, 1, 1, 1, *values)
    assert recorder.launches == []
    assert enqueue(0, 1, 1, 1, 1, 2) == 0


def test_a_tensor_map_is_its_own_storage_wherever_it_stands(make: Maker) -> None:
    recorder = Recorder("bNMiqMNMd")
    enqueue = make(recorder)
    assert enqueue(0, 1, 1, 1, 5, 0x1000, 6, 7, 0x2000, 0x3000, 0.5) == 0
    assert enqueue(0, 1, 1, 1, 5, 0x4000, 6, 7, 0x5000, 0x6000, 0.5) == 0
    assert [launch[3] for launch in recorder.launches] == [
        [5, 0, 0x1000, 6, 7, 0x2000, 0, 0x3000, 0.5], [5, 0, 0x4000, 6, 7, 0x5000, 0, 0x6000, 0.5],
    ]  # fmt: skip


def test_threads_never_read_each_others_values(make: Maker, switch_often: None) -> None:
    recorder = Recorder("QiMqd", pause=True)
    enqueue = make(recorder)
    calls = 1000
    start = threading.Barrier(8)

    def work(thread: int) -> None:
        start.wait()
        for n in range(thread * calls, (thread + 1) * calls):
            enqueue(n, n, 1, 1, n, n, n, n, n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(launch[1][0] for launch in recorder.launches) == list(range(8 * calls))
    mixed = [launch for launch in recorder.launches if {launch[2] or 0, *launch[3]} != {launch[1][0]} and launch[1][0]]
    assert mixed == []


@pytest.fixture
def switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def _libc(name: str) -> int:
    address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    assert address is not None
    return address


def test_other_threads_run_while_the_driver_works(extension: None) -> None:
    sleep = native.enqueuer(
        native.Way(_libc("usleep")), 500_000, 1, 0, ""
    )  # its first argument is the function's handle
    assert sleep is not None
    started, returned = threading.Event(), []

    def work() -> None:
        started.set()
        returned.append(sleep(0, 1, 1, 1))

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(5)
    time.sleep(0.01)
    assert returned == [], "the interpreter's lock was held"
    thread.join()
    assert returned == [0]


def test_bindings_are_freed_and_errors_keep_no_references(extension: None) -> None:
    address, value = _libc("abs"), 1 << 40

    def cycle() -> None:
        for _ in range(200):
            enqueue = native.enqueuer(native.Way(address), 0, 1, 0, "Qi" * 50)
            assert enqueue is not None
            with pytest.raises(OverflowError):
                enqueue(0, 1, 1, 1, *[1, value] * 50)

    cycle()
    references = sys.getrefcount(value)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cycle()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert sys.getrefcount(value) == references
    assert grown < 100_000, "200 bindings of 100 parameters take 500 KB"


def test_what_cannot_be_bound_is_refused(extension: None) -> None:
    from tileflow.runtime import _native

    address = _libc("abs")
    once = (0, b"", 0)  # no other way into graphs
    for arguments, error in (
        ((0, 1, 0, b"", 0, b"", *once), ValueError), ((0, 1, 0, b"Qx", address, b"", *once), ValueError),
        ((0, 1, 0, b"Q\0", address, b"", *once), ValueError), ((0, 1, 0, b"Q" * 257, address, b"", *once), ValueError),
        ((0, 1, 0, b"", address, bytes(71), *once), ValueError),
        ((0, 1, 0, b"", address, bytes(72 * 65), *once), ValueError),
        ((0, 1, 0, b"", address, b"", address, bytes(71), address), ValueError),
        ((0, 1, 0, b"", address, b"", 0, b"", address), ValueError),
        ((-1, 1, 0, b"", address, b"", *once), OverflowError),
        ((0, 1 << 32, 0, b"", address, b"", *once), OverflowError),
        ((0, 1, 0, "", address, b"", *once), TypeError), ((0, 1, 0, b"", address, b""), TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            _native.bind(*arguments)  # type: ignore[arg-type]
    assert _native.bind(0, 1, 0, b"Q" * 256, address, b"", *once)(0, 1, 1, 1, *[_U64] * 256) == 0
    assert native.enqueuer(native.Way(address), 0, 1, 0, "Q" * 257) is None


# ---- through drivers.py -------------------------------------------------------------------------------------------


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("words", ctypes.c_uint * 16))


class Config(ctypes.Structure):
    _fields_ = (
        ("sizes", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )  # fmt: skip


class Cuda:
    """``cuda.bindings.driver`` as far as a native launch uses it; its numbers are those of cuda.h."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0)
    CUdriverProcAddress_flags = SimpleNamespace(CU_GET_PROC_ADDRESS_LEGACY_STREAM=1)
    CUclusterSchedulingPolicy = SimpleNamespace(CU_CLUSTER_SCHEDULING_POLICY_SPREAD=1)
    CUlaunchAttributeID = SimpleNamespace(
        CU_LAUNCH_ATTRIBUTE_COOPERATIVE=2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE=5,
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6,
    )  # fmt: skip

    def __init__(self, address: int | None, **others: int | None) -> None:
        self.address = address
        self.others = others
        self.asked: list[tuple[Any, ...]] = []

    def cuGetProcAddress(self, *args: Any) -> tuple[int, int | None, int]:
        self.asked.append(args)
        address = self.others.get(args[0].decode(), self.address)
        return (0, address, 0) if address else (500, 0, 1)

    def cuLaunchKernel(self, *args: Any) -> tuple[int]:
        return (41,)

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, 12030

    def CUlaunchAttribute(self) -> SimpleNamespace:
        return SimpleNamespace(id=None, value=SimpleNamespace())

    CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_ACTIVE=1)

    def cuStreamIsCapturing(self, stream: int) -> tuple[int, int]:
        return 0, 0

    CUstream = int


_ONE = (Expr.of(1), Expr.of(1), Expr.of(1))
_MAP = TensorMap((Expr.of(4), Expr.of(8)), (Expr.of(8), Expr.of(1)))
_ARGS = (
    LaunchArg("x", "tensor", "*fp32", "x"),
    LaunchArg("d", "descriptor", "tensordesc<fp32[4, 8]>", "d", tensor_map=_MAP),
    LaunchArg("n", "int", "i32", value=Expr.of(3)),
)


def _binary(**abi: Any) -> Binary:
    made = LaunchAbi("kernel", _ARGS, _ONE, 256, 4096, (("global", 64, 8), ("profile", 0, 1)), **abi)
    return Binary(0, "nvidia-h200", "cubin", b"", made, TRUE, Resources(16, 0, 0, 256))


def test_the_formats_of_a_binary() -> None:
    assert parameter_formats(_binary().abi) == "QMiiqqiQN"


def test_a_binary_is_launched_natively_at_the_drivers_address(extension: None) -> None:
    recorder = Recorder("QMiiqqiQN", status=5)
    driver = Cuda(recorder.address)
    assert make_enqueue(driver, _binary(), 99)(7, 2, 3, 4, 0x100, 0x200, 4, 8, 8, 1, 3, 0x300) == 5
    assert recorder.launches == [
        (99, (2, 3, 4, 256, 1, 1, 4096), 7, [0x100, 0x200, 4, 8, 8, 1, 3, 0x300, 0], None)
    ]  # fmt: skip
    assert driver.asked == [(b"cuLaunchKernel", 12000, 1)]


def test_a_driver_without_the_function_is_called_from_python(extension: None, caplog: Any) -> None:
    with caplog.at_level(logging.DEBUG, "tileflow"):
        assert make_enqueue(Cuda(None), _binary(), 99)(7, 2, 3, 4, 0x100, 0x200, 4, 8, 8, 1, 3, 0x300) == 41
    assert "cuGetProcAddress of cuLaunchKernel gave 500" in caplog.text


class LaunchEx:
    """cuLaunchKernelEx, which remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(Config), ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
        )
        self._function = kind(self._launch)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value

    def _launch(self, config: Any, function: int, params: Any, extra: int) -> int:
        it = config.contents
        attributes = [(a.id, a.pad, a.words[:4]) for a in it.attributes[: it.count]]
        self.seen.append((it.sizes[:], it.stream, attributes, function, params[1], extra))
        return 3


class IsCapturing:
    """cuStreamIsCapturing, of which ``says`` is the status and what it finds."""

    def __init__(self) -> None:
        self.says = 0, 0
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
        self._function = kind(self._read)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value

    def _read(self, stream: int, found: Any) -> int:
        assert stream == 7
        status, found[0] = self.says
        return status


_VALUES = 0x100, 0x200, 4, 8, 8, 1, 3, 0x300
_CLUSTER = [(2, b"", [1, 0, 0, 0]), (4, b"", [16, 2, 1, 0]), (5, b"", [1, 0, 0, 0])]
_DEPENDENT = 6, b"", [1, 0, 0, 0]


def test_native_launches_carry_attributes(extension: None) -> None:
    launch = LaunchEx()
    driver = Cuda(launch.address)
    enqueue = make_enqueue(driver, _binary(cluster=(16, 2, 1), cooperative=True), 99)
    assert enqueue(7, 32, 2, 1, *_VALUES) == 3
    assert launch.seen == [([32, 2, 1, 256, 1, 1, 4096], 7, _CLUSTER, 99, 0x200, None)]
    assert driver.asked == [(b"cuLaunchKernelEx", 12000, 1)]


@pytest.mark.parametrize("cluster", [(), _CLUSTER])
def test_native_launches_are_dependent_ones_while_their_stream_is_captured(cluster: Any, extension: None) -> None:
    abi: Any = {"cluster": (16, 2, 1), "cooperative": True} if cluster else {}
    plain, launch, capture = Recorder("QMiiqqiQN", status=5), LaunchEx(), IsCapturing()
    driver = Cuda(plain.address, cuLaunchKernelEx=launch.address, cuStreamIsCapturing=capture.address)
    enqueue = make_enqueue(driver, _binary(pdl=True, **abi), 99)
    for capture.says, is_captured in (((0, 0), False), ((0, 1), True), ((0, 2), False), ((906, 1), False)):
        plain.launches.clear()
        launch.seen.clear()
        status = enqueue(7, 32, 2, 1, *_VALUES)
        if is_captured or cluster:
            wanted = [_DEPENDENT, *cluster] if is_captured else cluster
            assert (status, launch.seen) == (3, [([32, 2, 1, 256, 1, 1, 4096], 7, wanted, 99, 0x200, None)])
        else:
            assert (status, len(plain.launches), launch.seen) == (5, 1, [])


def test_a_driver_that_says_nothing_of_captures_is_called_from_python(extension: None, caplog: Any) -> None:
    driver = Cuda(LaunchEx().address, cuStreamIsCapturing=None)
    with caplog.at_level(logging.DEBUG, "tileflow"):
        enqueue = make_enqueue(driver, _binary(pdl=True), 99)
    assert "cuGetProcAddress of cuStreamIsCapturing gave 500" in caplog.text
    assert enqueue(7, 2, 3, 4, *_VALUES) == 41


# ---- with and without the extension -------------------------------------------------------------------------------


@pytest.fixture
def forgotten() -> Iterator[None]:
    native.forget()
    yield
    native.forget()


def test_without_the_extension_python_launches_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: Any, forgotten: None
) -> None:
    monkeypatch.delenv("TILEFLOW_NATIVE", raising=False)
    monkeypatch.setitem(sys.modules, "tileflow.runtime._native", None)
    with caplog.at_level(logging.DEBUG, "tileflow"):
        assert [native.enqueuer(native.Way(1), 0, 1, 0, "") for _ in range(3)] == [None] * 3
    assert caplog.text.count("launched from Python") == 1
    assert "build_native" in caplog.text
    monkeypatch.setenv("TILEFLOW_NATIVE", "1")
    with pytest.raises(LaunchError, match="TILEFLOW_NATIVE=1"):
        native.enqueuer(native.Way(1), 0, 1, 0, "")


def test_the_environment_forbids_it_and_a_stale_build_is_not_used(
    monkeypatch: pytest.MonkeyPatch, forgotten: None
) -> None:
    monkeypatch.setitem(sys.modules, "tileflow.runtime._native", SimpleNamespace(VERSION=0))  # type: ignore[arg-type]
    monkeypatch.delenv("TILEFLOW_NATIVE", raising=False)
    assert native.enqueuer(native.Way(1), 0, 1, 0, "") is None
    made = SimpleNamespace(VERSION=native._VERSION, bind=lambda *args: args)
    monkeypatch.setitem(sys.modules, "tileflow.runtime._native", made)  # type: ignore[arg-type]
    native.forget()
    assert native.enqueuer(native.Way(1), 0, 2, 0, "Q") == (0, 2, 0, b"Q", 1, b"", 0, b"", 0)
    monkeypatch.setenv("TILEFLOW_NATIVE", "0")
    assert native.enqueuer(native.Way(1), 0, 1, 0, "") is None


def test_a_machine_without_a_compiler_or_headers_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.delenv("TILEFLOW_NATIVE", raising=False)
    monkeypatch.setattr(build_native, "BUILT", tmp_path / "_native.abi3.so")
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    assert build_native.main() == 0
    assert "no C compiler (no-such-compiler -m64)" in capsys.readouterr().err
    monkeypatch.setenv("TILEFLOW_NATIVE", "1")
    assert build_native.main() == 1
    monkeypatch.setenv("TILEFLOW_NATIVE", "0")
    assert build_native.build() is None
    monkeypatch.delenv("TILEFLOW_NATIVE")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(build_native.CannotBuild, match="refused"):
        build_native.build()
    monkeypatch.setattr(build_native.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(build_native.CannotBuild, match=r"no Python\.h"):
        build_native.build()
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_is_tagged_by_what_it_holds(extension: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hatchling")
    root = Path(build_native.__file__).parents[2]
    spec = importlib.util.spec_from_file_location("hatch_build", root / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    name = "tileflow/runtime/_native.abi3.so"

    def built(version: str, project: Path = root / "tileflow" / "runtime") -> dict[str, Any]:
        data: dict[str, Any] = {"force_include": {}}
        hook.DistributionHook(str(project), {}, None, None, str(project), "wheel").initialize(version, data)
        return data

    monkeypatch.delenv("TILEFLOW_NATIVE", raising=False)
    data = built("standard")
    assert data["force_include"][str(root / name)] == name
    assert data["tag"].startswith("cp311-abi3-")
    assert not data["pure_python"]
    assert built("editable") == {"force_include": {}}
    assert {*built("standard", root)} == {"force_include"}  # the compiler's wheel is pure Python
    monkeypatch.setenv("TILEFLOW_NATIVE", "0")
    assert {*built("standard")} == {"force_include"}
    assert str(root / name) not in built("standard")["force_include"]


# ---- tensors ------------------------------------------------------------------------------------------------------


def test_a_specialised_launch_hands_its_tensors_over_and_what_is_unusual_back(extension: None) -> None:
    """The current stream of the CPU is null. A misaligned output, a value without memory and a status that can be
    mended go to the context; another status is an error, and an empty grid launches nothing."""
    if native.tensors_key() is None:
        pytest.skip("TILEFLOW_NATIVE=0, or torch does not offer its tensors to C")
    recorder = Recorder("QQ")
    out = LaunchArg("out", "tensor", "*fp32", "out", stored=True)
    grid = (Expr.sym("end.0"), Expr.of(1), Expr.of(1))
    binary = make_binary(TENSOR, out, guards=Expr.sym("out.align").eq(1), grid=grid)
    launch: Any = cuda_launcher(binary, "cpu", driver=Loading(recorder))
    handed: list[tuple[Any, ...]] = []
    context = SimpleNamespace(launch=lambda *args: handed.append(args))
    warm = launch.specialize(KeyInvariants(frozenset({"x"}), frozenset({"out"})), ("out", "x"), 0)
    x, y = torch.zeros(8)[1:], torch.zeros(9)
    warm(context, y, x, 5)
    warm(context, y, x, 0)
    assert y._version == 1, "the store that was launched"
    assert [(made[1][:3], *made[2:4]) for made in recorder.launches] == [
        ((5, 1, 1), None, [x.data_ptr(), y.data_ptr()])
    ]  # fmt: skip
    assert handed == []
    for value in (y[1:], None, torch.eye(2).to_sparse()):
        warm(context, value, x, 5)
    warm(context, y, x, 1 << 32)
    assert len(recorder.launches) == 1 and [args[-3] for args in handed] == [5, 5, 5, 1 << 32]
    recorder.status = 201
    warm(context, y, x, 5)
    assert len(handed) == 5
    recorder.status = 700
    with pytest.raises(LaunchError, match="700"):
        warm(context, y, x, 5)
    assert len(handed) == 5


def test_an_enqueue_without_a_device_takes_no_tensors(extension: None) -> None:
    for code in "TA":
        assert native.enqueuer(native.Way(_libc("abs")), 0, 1, 0, code) is None
