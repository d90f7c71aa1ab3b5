"""A machine without a GPU, on which calls take their whole path and compute nothing: for trying the scripts.

``cuda.bindings.driver`` is replaced by a stand-in whose every launch succeeds at once. Tensors are on the CPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

_OK = (0,)


class FakeCudaDriver(ModuleType):
    """The part of ``cuda.bindings.driver`` that a launch uses."""

    CUresult = IntEnum(
        "CUresult",
        {
            "CUDA_SUCCESS": 0,
            "CUDA_ERROR_INVALID_VALUE": 1,
            "CUDA_ERROR_INVALID_CONTEXT": 201,
            "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": 701,
        },
    )
    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14
    )
    CUlaunchAttributeID = SimpleNamespace(
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6,
        CU_LAUNCH_ATTRIBUTE_COOPERATIVE=2,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE=5,
    )
    CUclusterSchedulingPolicy = IntEnum("CUclusterSchedulingPolicy", {"CU_CLUSTER_SCHEDULING_POLICY_SPREAD": 1})
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    CUlaunchConfig = SimpleNamespace
    CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE=0)
    CUtensorMapL2promotion = SimpleNamespace(CU_TENSOR_MAP_L2_PROMOTION_L2_128B=2)
    CUtensorMapFloatOOBfill = SimpleNamespace(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE=0)
    CUtensorMapDataType = CUtensorMapSwizzle = cuuint32_t = cuuint64_t = CUstream = staticmethod(int)
    cuInit = cuCtxPushCurrent = cuCtxSetCurrent = staticmethod(lambda *args: _OK)
    cuModuleUnload = cuFuncSetAttribute = cuCtxSynchronize = staticmethod(lambda *args: _OK)
    cuLaunchKernel = cuLaunchKernelEx = staticmethod(lambda *args: _OK)
    cuDeviceGet = cuDevicePrimaryCtxRetain = cuModuleLoadData = cuModuleGetFunction = staticmethod(lambda *args: (0, 0))
    cuCtxPopCurrent = cuThreadExchangeStreamCaptureMode = staticmethod(lambda *args: (0, 0))
    CUstreamCaptureStatus = IntEnum("CUstreamCaptureStatus", {"CU_STREAM_CAPTURE_STATUS_ACTIVE": 1})
    cuStreamIsCapturing = staticmethod(lambda stream: (0, 0))
    cuDriverGetVersion = staticmethod(lambda: (0, 13000))
    cuGetErrorName = staticmethod(lambda status: (0, str(status)))

    @staticmethod
    def CUlaunchAttribute() -> SimpleNamespace:
        """Return an empty launch attribute."""
        return SimpleNamespace(id=None, value=SimpleNamespace(clusterDim=SimpleNamespace()))

    @staticmethod
    def cuTensorMapEncodeTiled(*args: Any) -> tuple[int, Any]:
        """Return success and a blank tensor map of 128 bytes."""
        encoded: Any = ctypes.create_string_buffer(128)
        encoded.getPtr = lambda: ctypes.addressof(encoded)
        return 0, encoded


@contextmanager
def without_gpu() -> Iterator[None]:
    """Send machine code that is loaded inside the block to the stand-in, and forget it afterwards."""
    from tileflow import runtime, serve
    from tileflow.runtime import launch

    name = "cuda.bindings.driver"
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(sys.modules, {name: FakeCudaDriver(name)}))
        stack.enter_context(mock.patch.object(launch, "current_stream_reader", lambda index: int))
        for asked in ("interprets", "runs_code"):  # whether tensors on the CPU are given to machine code
            stack.enter_context(mock.patch.object(serve, asked, lambda *device: True))
        stack.callback(runtime.clear)
        yield
