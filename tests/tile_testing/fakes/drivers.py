"""A stand-in for the CUDA driver, binaries for it, and a launcher over both."""

from __future__ import annotations

import ctypes
import time
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from tileflow.expr import TRUE, Expr
from tileflow.runtime.abi import Binary, LaunchAbi, LaunchArg, Resources
from tileflow.runtime.launch import cuda_launcher

TENSOR = LaunchArg("x", "tensor", "*fp32", "x")
ONE = (Expr.of(1), Expr.of(1), Expr.of(1))


def make_binary(*args: LaunchArg, guards: Expr = TRUE, grid: tuple[Expr, ...] = ONE, **abi: Any) -> Binary:
    x, y, z = grid
    launch_abi = LaunchAbi("kernel", args, (x, y, z), abi.pop("threads", 128), abi.pop("shared", 0), **abi)
    return Binary(0, "nvidia-h200", "cubin", b"cubin", launch_abi, guards, Resources(16, 0, 0, 128))


class FakeCuda:
    """``cuda.bindings.driver`` as far as the launcher uses it; remembers calls and reads what the driver would read."""

    CUresult = IntEnum(
        "CUresult",
        {"CUDA_SUCCESS": 0, "CUDA_ERROR_INVALID_VALUE": 1, "CUDA_ERROR_INVALID_CONTEXT": 201,
         "CUDA_ERROR_NO_BINARY_FOR_GPU": 209, "CUDA_ERROR_ILLEGAL_ADDRESS": 700,
         "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": 701},
    )  # fmt: skip
    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared",
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED="non-portable",
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES="own shared",
    )
    CUlaunchAttributeID = SimpleNamespace(
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION="pdl", CU_LAUNCH_ATTRIBUTE_COOPERATIVE="cooperative",
        CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION="cluster",
        CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE="policy",
    )  # fmt: skip
    CUclusterSchedulingPolicy = IntEnum("CUclusterSchedulingPolicy", {"CU_CLUSTER_SCHEDULING_POLICY_SPREAD": 1})
    CUlaunchConfig = SimpleNamespace
    version = 13000
    capturing: tuple[int, ...] = (0, 0)  # of a stream: a status, and whether it is captured
    own_shared = 0  # bytes that the loaded function declares itself
    CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE=0)
    CUtensorMapL2promotion = SimpleNamespace(CU_TENSOR_MAP_L2_PROMOTION_L2_128B=2)
    CUtensorMapFloatOOBfill = SimpleNamespace(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE=0)
    CUtensorMapDataType = CUtensorMapSwizzle = cuuint32_t = cuuint64_t = staticmethod(int)

    def __init__(self, types: list[Any], statuses: list[int] | None = None, limit: int = 227 * 1024) -> None:
        self.types = types
        self.statuses = statuses or []
        self.limit = limit
        self.launches: list[SimpleNamespace] = []
        self.attributes: list[tuple[Any, ...]] = []
        self.contexts = 0
        self.pause = 0.0
        self.encoded: list[Any] = []
        self.capture_mode = "global"
        self.unloaded: list[str] = []

    def cuTensorMapEncodeTiled(self, *args: Any) -> tuple[int, Any]:
        self.encoded.append(args)
        made = ctypes.create_string_buffer(128)
        made[0] = len(self.encoded) - 1
        made.getPtr = lambda: ctypes.addressof(made)  # type: ignore[attr-defined]
        return 0, made

    def CUstream(self, handle: int) -> tuple[str, int]:
        return "stream", handle

    def CUlaunchAttribute(self) -> SimpleNamespace:
        return SimpleNamespace(id=None, value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuInit(self, flags: int) -> tuple[int]:
        return (0,)

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, self.version

    CUstreamCaptureStatus = IntEnum("CUstreamCaptureStatus", {"CU_STREAM_CAPTURE_STATUS_ACTIVE": 1})

    def cuStreamIsCapturing(self, stream: tuple[str, int]) -> tuple[int, ...]:
        return self.capturing

    def cuDeviceGet(self, index: int) -> tuple[int, int]:
        return 0, index

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, str]:
        return 0, "primary"

    def cuCtxPushCurrent(self, context: str) -> tuple[int]:
        assert context == "primary"
        self.contexts += 1
        return (0,)

    def cuCtxPopCurrent(self) -> tuple[int, str]:
        self.contexts -= 1
        return 0, "primary"

    def cuCtxSetCurrent(self, context: str) -> tuple[int]:
        self.contexts += 100
        return (0,)

    def cuModuleLoadData(self, code: bytes) -> tuple[int, str]:
        assert self.capture_mode == "relaxed", "loading must not end another thread's capture"
        assert self.contexts == 1, "a module must be loaded with the device's context current"
        return (0, "module") if code == b"cubin" else (209, "")

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[int, str]:
        return 0, name.decode()

    def cuFuncSetAttribute(self, function: str, attribute: str, value: int) -> tuple[int]:
        self.attributes.append((attribute, value))
        return (1,) if attribute == "shared" and value > self.limit else (0,)

    def cuFuncGetAttribute(self, attribute: str, function: str) -> tuple[int, int]:
        assert attribute == "own shared"
        return 0, self.own_shared

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")

    def cuThreadExchangeStreamCaptureMode(self, mode: str) -> tuple[int, str]:
        before, self.capture_mode = self.capture_mode, mode
        return 0, before

    def cuCtxSynchronize(self) -> tuple[int]:
        return (0,)

    def cuModuleUnload(self, module: str) -> tuple[int]:
        self.unloaded.append(module)
        return (0,)

    def cuGetErrorName(self, status: int) -> tuple[int, bytes]:
        return 0, f"error {int(status)}".encode()

    def cuLaunchKernel(self, function: str, *rest: Any) -> tuple[int]:
        gx, gy, gz, bx, by, bz, shared, stream, params, extra = rest
        assert (by, bz, extra) == (1, 1, 0)
        return self._launch(function, (gx, gy, gz), bx, shared, stream, params, ())

    def cuLaunchKernelEx(self, config: SimpleNamespace, function: str, params: int, extra: int) -> tuple[int]:
        assert config.numAttrs == len(config.attrs)
        grid = config.gridDimX, config.gridDimY, config.gridDimZ
        return self._launch(
            function, grid, config.blockDimX, config.sharedMemBytes, config.hStream, params, config.attrs
        )

    def _launch(
        self, function: str, grid: tuple[int, ...], threads: int, shared: int, stream: Any, params: int, attrs: Any
    ) -> tuple[int]:
        time.sleep(self.pause)
        status = self.statuses.pop(0) if self.statuses else 0
        pointers = (ctypes.c_void_p * len(self.types)).from_address(params)
        values = [t.from_address(p).value for t, p in zip(self.types, pointers, strict=True)]
        if status == 0:
            self.launches.append(
                SimpleNamespace(function=function, grid=grid, threads=threads, shared=shared, stream=stream,
                                values=values, attrs=list(attrs))
            )  # fmt: skip
        return (status,)


def launcher(binary: Binary, types: list[Any], scope: Any = None, **fake: Any) -> tuple[Any, FakeCuda]:
    driver = FakeCuda(types, **fake)
    return cuda_launcher(binary, "cpu", scope, driver=driver, stream=lambda: 0x57), driver
