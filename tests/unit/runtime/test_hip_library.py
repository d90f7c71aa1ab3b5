"""AMD without its hardware: the distribution's own HIP runtime library and headers, and code objects for gfx942.

``scripts/hip_library FOLDER`` fetches them; TILEFLOW_TEST_HIP names the folder. What needs them skips without.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing import ROOT

from tileflow.api import Kernel, load_kernel
from tileflow.errors import BuildError, LaunchError, OutOfResources, TableError
from tileflow.expr import Expr
from tileflow.measure.failure import launch_failure
from tileflow.measure.types import Status
from tileflow.runtime import drivers, native
from tileflow.runtime.abi import Binary, LaunchArg, TensorMap
from tileflow.runtime.launch import Launcher, hip_launcher
from tileflow.runtime.packing import parameter_formats, parameter_sizes
from tileflow.target import target

HERE = ROOT / "tests" / "tile_testing" / "fakes"
DEVICE = target("amd-mi300x")
KERNELS = {
    "examples.softmax:softmax": {"m": 48, "n": 200, "dtype": "bfloat16"},
    "examples.rms_norm:rms_norm": {"m": 48, "n": 200, "dtype": "float16"},
    "examples.split_k:split_k_matmul": {"m": 32, "n": 32, "k": 64, "dtype": "bfloat16"},
}

pytest.importorskip("triton")


@cache
def kernel(name: str) -> Kernel:
    return load_kernel(name)


@cache
def binaries(name: str) -> tuple[Binary, ...]:
    """The dynamic variants of a gallery kernel's default, compiled for gfx942."""
    from tileflow.build.compile import build

    lowered = kernel(name).lower(kernel(name).inputs(device="meta", **KERNELS[name]), DEVICE, "dynamic")
    return tuple(build(source, DEVICE) for source in lowered.emit(lowered.default))


# ---- the metadata of code objects ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["examples.softmax:softmax", *(pytest.param(n, marks=pytest.mark.slow) for n in sorted(KERNELS)[:2])]
)
def test_the_metadata_of_every_variant_is_our_abi(name: str) -> None:
    from tileflow.build.code_object import check_code_object, read_metadata

    for binary in binaries(name):
        (found,) = read_metadata(binary.code)
        assert found.name == binary.abi.symbol and found.target == "amdgcn-amd-amdhsa--gfx942"
        assert (found.threads, found.warp_size) == (binary.abi.threads, DEVICE.warp_size)
        assert [p.size for p in found.parameters] == list(parameter_sizes(binary.abi))
        assert found.segment == found.parameters[-1].offset + 8, "it ends with the pointer to profile scratch"
        check_code_object(binary.code, binary.abi, DEVICE.arch, DEVICE.warp_size)


def test_the_reader_agrees_with_llvms(tmp_path: Path) -> None:
    readelf = shutil.which("llvm-readelf")
    if readelf is None:
        pytest.skip("llvm-readelf is not installed")
    from tileflow.build.code_object import read_metadata

    binary = binaries("examples.softmax:softmax")[0]
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(binary.code)
    text = subprocess.run([readelf, "--notes", str(path)], capture_output=True, text=True, check=True).stdout
    (found,) = read_metadata(binary.code)
    for key in ("offset", "size"):
        words = [int(line.split()[-1]) for line in text.splitlines() if f" .{key}: " in line.replace("- ", "  ")]
        assert words == [getattr(p, key) for p in found.parameters]
    assert f".kernarg_segment_size: {found.segment}\n" in text
    assert f".max_flat_workgroup_size: {found.threads}\n" in text


def narrowed(binary: Binary) -> Binary:
    """The same with an integer of 64 bits where the kernel reads 32."""
    args = tuple(replace(a, type="i64") if a.type == "i32" else a for a in binary.abi.args)
    return replace(binary, abi=replace(binary.abi, args=args))


def test_an_abi_that_differs_is_refused() -> None:
    """A launch by it would read wrong memory, and nobody would say so."""
    from tileflow.build.code_object import check_code_object

    binary = binaries("examples.softmax:softmax")[0]
    abi = binary.abi
    for wrong, words in (
        (narrowed(binary).abi, "parameters' sizes"),
        (replace(abi, args=abi.args[:-1]), "parameters' sizes"),
        (replace(abi, threads=2 * abi.threads), "threads"),
        (replace(abi, symbol="another"), "must hold the kernel"),
        (replace(abi, args=(replace(abi.args[0], kind="int", type="i64", path=""), *abi.args[1:])), "kinds"),
    ):
        with pytest.raises(BuildError, match=words):
            check_code_object(binary.code, wrong, DEVICE.arch, DEVICE.warp_size)
    for arch, warp_size, words in (("gfx950", 64, "architecture"), ("gfx942", 32, "warp size")):
        with pytest.raises(BuildError, match=words):
            check_code_object(binary.code, abi, arch, warp_size)
    for damaged in (b"", b"no code at all", binary.code[:200], binary.code.replace(b"AMDGPU\0", b"AMDGPX\0")):
        with pytest.raises(BuildError, match="metadata"):
            check_code_object(damaged, abi, DEVICE.arch, DEVICE.warp_size)


def test_a_descriptor_has_no_place_in_a_code_object() -> None:
    argument = LaunchArg("x", "descriptor", "tensordesc<bf16[64, 64]>", "x", tensor_map=TensorMap((), ()))
    abi = replace(binaries("examples.softmax:softmax")[0].abi, args=(argument,))
    with pytest.raises(TableError, match="only CUDA"):
        parameter_sizes(abi)


# ---- the vendor's headers -----------------------------------------------------------------------------------------


def hip_folders() -> tuple[Path, Path]:
    """(where its libraries are, where its headers are). Skips where there is no HIP."""
    roots = [Path(os.environ["TILEFLOW_TEST_HIP"]) / "usr"] if "TILEFLOW_TEST_HIP" in os.environ else []
    for root in (*roots, Path("/opt/rocm"), Path("/usr")):
        for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):
            if list((root / folder).glob("libamdhip64.so*")) and (root / "include/hip").exists():
                return root / folder, root / "include"
    pytest.skip("no HIP library and headers: scripts/hip_library FOLDER, TILEFLOW_TEST_HIP=FOLDER")


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``hip_standin.c``, which compiles only where the header's prototypes and enumerations are as it says."""
    _, headers = hip_folders()
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("hip") / "standin.so"
    command = [compiler, "-std=c11", "-shared", "-fPIC", "-Werror=incompatible-pointer-types", f"-I{headers}"]
    told = subprocess.run([*command, str(HERE / "hip_standin.c"), "-o", str(made)], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    library = drivers.hip_library(str(made))
    library.standin_segment.restype = ctypes.c_void_p
    library.standin_launched.restype = ctypes.POINTER(ctypes.c_uint)
    library.standin_stream.restype = ctypes.c_void_p
    return library


def lay_out(standin: Any, binary: Binary) -> int:
    """Let the stand-in copy parameters as the code object says; the size of the segment."""
    from tileflow.build.code_object import read_metadata

    (found,) = read_metadata(binary.code)
    columns = [[p.offset for p in found.parameters], [p.size for p in found.parameters]]
    standin.standin_layout(len(columns[0]), *((ctypes.c_int * len(column))(*column) for column in columns))
    return found.segment


@pytest.mark.parametrize("how", ["native", "python"])
def test_the_kernels_argument_segment_is_what_was_given(
    standin: Any, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gallery kernel's call, from its host code to the bytes that a card would read."""
    if how == "python":
        monkeypatch.setenv("TILEFLOW_NATIVE", "0")
    elif not native.is_used():
        pytest.skip("the extension is not built")
    m, n = 48, 200
    softmax = kernel("examples.softmax:softmax")
    x = torch.randn(m, 256, dtype=torch.bfloat16)[:, :n]
    by_region: dict[int, list[Launcher]] = {}
    wide = binaries("examples.softmax:softmax")[-1]  # which assumes least
    made = hip_launcher(wide, "cpu", softmax.scope, library=standin, stream=lambda: 0x3333333333333333)
    by_region.setdefault(wide.region, []).append(made)
    size = lay_out(standin, wide)
    out = softmax.bind(config_of(softmax), by_region)(x)
    assert [a.name for a in wide.abi.args] == ["out_ptr", "x_ptr", "end_0", "out_shape_1", "out_stride_0", "x_stride_0"]
    expected = struct.pack("<QQiiiiQQ", out.data_ptr(), x.data_ptr(), m, n, n, 256, 0, 0)
    assert ctypes.string_at(standin.standin_segment(), size) == expected
    grid = -(-m // 16)
    assert standin.standin_launched()[:8] == [grid, 1, 1, wide.abi.threads, 1, 1, wide.abi.shared, 1]
    assert standin.standin_stream() == 0x3333333333333333
    assert standin.standin_device() == 5, "the caller's device is current again"


def config_of(kernel: Kernel) -> Any:
    name = kernel.name
    return kernel.lower(kernel.inputs(device="meta", **KERNELS[name]), DEVICE, "dynamic").default


def test_each_format_has_its_bytes(standin: Any) -> None:
    """Narrow numbers lie where the metadata says, whatever follows them."""
    words = ("i1", "i64", "u8", "fp32", "i16", "fp64", "u32")
    values = (1, -(2**62), 200, 1.5, -300, 2.25, 2**32 - 1)
    args = tuple(
        LaunchArg(f"a{i}", "float", word, f"a{i}")
        if word.startswith("f")
        else LaunchArg(f"a{i}", "int", word, value=symbol(i))
        for i, word in enumerate(words)
    )
    base = binaries("examples.softmax:softmax")[0]
    binary = replace(base, abi=replace(base.abi, args=args, scratch=()))
    sizes = parameter_sizes(binary.abi)
    assert sizes == (1, 8, 1, 4, 2, 8, 4) and len(parameter_formats(binary.abi)) == len(sizes)
    offsets, at = [], 0
    for size in sizes:
        at = -(-at // size) * size
        offsets.append(at)
        at += size
    standin.standin_layout(7, (ctypes.c_int * 7)(*offsets), (ctypes.c_int * 7)(*sizes))
    enqueue = drivers.make_enqueue(standin, binary, ctypes.c_void_p(0x2222222222222222))
    assert enqueue(0, 1, 1, 1, *values) == 0
    expected = b"".join(
        bytes.ljust(struct.pack(f"<{code}", value), gap, b"\xaa")
        for code, value, gap in zip(
            "bqBfhdI", values, [b - a for a, b in zip(offsets, [*offsets[1:], at], strict=True)], strict=True
        )
    )
    assert ctypes.string_at(standin.standin_segment(), at) == expected


def symbol(index: int) -> Expr:
    return Expr.sym(f"x.shape.{index}")


def test_code_that_is_none_is_named(standin: Any) -> None:
    binary = replace(binaries("examples.softmax:softmax")[0], code=b"nothing")
    with pytest.raises(LaunchError, match="hipErrorInvalidImage"):
        hip_launcher(binary, "cpu", library=standin, stream=lambda: 0)


# ---- the vendor's library, on a host without a card ----------------------------------------------------------------


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    libraries, _ = hip_folders()
    library = min(libraries.glob("libamdhip64.so.*"), key=lambda path: len(path.name))
    code = tmp_path_factory.mktemp("code") / "kernel.hsaco"
    code.write_bytes(binaries("examples.softmax:softmax")[0].code)
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [sys.executable, str(HERE / "hip_probe.py"), str(library), str(code)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert told.returncode == 0, told.stderr
    return dict(json.loads(told.stdout)) | {"library": str(library)}


def test_the_library_that_is_loaded_already_is_the_one(said: dict[str, Any]) -> None:
    """torch's ROCm builds carry their own: a second copy would know none of its streams."""
    assert Path(said["path"]).resolve() == Path(said["library"]).resolve()


def test_a_host_without_a_card_is_an_error_in_words(said: dict[str, Any]) -> None:
    """Also with a library of before ROCm 5.5, which has no cooperative launch: loading it raised AttributeError."""
    assert "hipError" in said["load"] and "the HIP driver must accept" in said["load"]
    assert said["launch"] in (1, 98, 100, 101, 400), "no card, no launch"
    if not said["has_cooperative"]:
        assert "hipModuleLaunchCooperativeKernel" in said["cooperative"] and "ROCm 5.5" in said["cooperative"]


def test_the_librarys_names_are_the_ones_that_outcomes_go_by(said: dict[str, Any]) -> None:
    for status, name in said["names"].items():
        if status in ERRORS:
            assert name == ERRORS[status][0]


ERRORS = {
    "2": ("hipErrorOutOfMemory", Status.OOM),
    "100": ("hipErrorNoDevice", Status.DEVICE_LOST),
    "101": ("hipErrorInvalidDevice", Status.DEVICE_LOST),
    "98": ("hipErrorInvalidDeviceFunction", Status.OUT_OF_RESOURCES),
    "200": ("hipErrorInvalidImage", Status.OUT_OF_RESOURCES),
    "214": ("hipErrorECCNotCorrectable", Status.DEVICE_LOST),
    "700": ("hipErrorIllegalAddress", Status.ILLEGAL_ACCESS),
    "701": ("hipErrorLaunchOutOfResources", Status.OUT_OF_RESOURCES),
    "702": ("hipErrorLaunchTimeOut", Status.ILLEGAL_ACCESS),
    "710": ("hipErrorAssert", Status.ILLEGAL_ACCESS),
    "719": ("hipErrorLaunchFailure", Status.ILLEGAL_ACCESS),
}


@pytest.mark.parametrize("status", sorted(ERRORS))
def test_hips_errors_as_outcomes(status: str) -> None:
    """An illegal access was taken for a config that needs too much, and its process was used again."""
    name, outcome = ERRORS[status]

    class Named:
        def hipGetErrorName(self, status: int) -> bytes:
            return name.encode()

    error = drivers.hip_error(Named(), int(status), "a kernel")
    assert launch_failure(error).status is outcome
    assert isinstance(error, OutOfResources) == (status == "701")


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("CUDA_ERROR_ASSERT", Status.ILLEGAL_ACCESS),
        ("CUDA_ERROR_LAUNCH_TIMEOUT", Status.ILLEGAL_ACCESS),
        ("CUDA_ERROR_HARDWARE_STACK_ERROR", Status.ILLEGAL_ACCESS),
        ("CUDA_ERROR_INVALID_PC", Status.ILLEGAL_ACCESS),
        ("CUDA_ERROR_INVALID_ADDRESS_SPACE", Status.ILLEGAL_ACCESS),
        ("CUDA_ERROR_NO_DEVICE", Status.DEVICE_LOST),
        ("CUDA_ERROR_OUT_OF_MEMORY", Status.OOM),
    ],
)
def test_cudas_names_as_outcomes(name: str, outcome: Status) -> None:
    """The words were those of the runtime's messages, with spaces, which the driver's names have not."""
    assert launch_failure(LaunchError("the CUDA driver must accept the launch", got=name)).status is outcome
