"""The two vendors' drivers behind one record, and the current stream.

Both drivers' launch calls take the same arguments in the same order, so the generated launcher calls them as they
are: ``enqueue(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra) -> status``.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import LaunchError, OutOfResources
from .abi import Binary, LaunchArg
from .tensor_maps import Encoded, tensor_map_encoder

_OPT_IN_SHARED = 48 * 1024  # CUDA: more dynamic shared memory than this must be asked for
_PORTABLE_CLUSTER = 8


@dataclass(frozen=True, slots=True)
class Loaded:
    """A function in device memory. ``success``: what ``enqueue`` returns when all is well; ``stream`` wraps a raw
    handle; ``recover`` mends what can be mended after a status and says whether to try again; ``refused`` makes the
    error of a status; ``tensor_map`` gives, for a descriptor argument, the function from (pointer, *shape, *strides) to
    the encoded map."""

    function: Any
    enqueue: Callable[..., Any]
    success: Any
    stream: Callable[[int], Any]
    recover: Callable[[Any], bool]
    refused: Callable[[Any], LaunchError]
    tensor_map: Callable[[LaunchArg], Callable[..., Encoded]]


def current_stream_reader(index: int, wrap: Callable[[int], Any]) -> Callable[[], Any]:
    """A function that returns the current stream of device ``index``, or None while another device is current.

    ``torch.cuda.current_stream().cuda_stream`` builds a Python object for 7 us; ``torch.accelerator``'s comes ready
    made and has an id that belongs to one handle for good (pool streams are never destroyed, an external stream's id
    is its handle), so the handle is asked for once an id.
    """
    import torch

    current, current_device = torch.accelerator.current_stream, torch.accelerator.current_device_index
    several = torch.accelerator.device_count() > 1
    handles: dict[int, Any] = {}

    def read() -> Any:
        if several and current_device() != index:
            return None
        identity = current(index).stream_id
        handle = handles.get(identity)
        if handle is None:
            handle = handles[identity] = wrap(torch.cuda.current_stream(index).cuda_stream)
        return handle

    return read


# ---- CUDA ---------------------------------------------------------------------------------------------------------


def cuda_load(binary: Binary, index: int, driver: Any = None) -> Loaded:
    """Load a cubin into the primary context of device ``index`` through ``cuda.bindings.driver``.

    Raises OutOfResources where the device has too little shared memory for it, LaunchError otherwise. A module stays
    loaded for the life of the process: a captured graph may hold its functions.
    """
    driver = driver or _cuda_bindings()
    where = f"{binary.abi.symbol} for {binary.target}"

    def checked(result: tuple[Any, ...], exhausted: tuple[Any, ...] = ()) -> Any:
        if result[0] != driver.CUresult.CUDA_SUCCESS:
            raise _cuda_error(driver, result[0], where, exhausted)
        return result[1] if len(result) > 1 else None

    checked(driver.cuInit(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(index))))
    checked(driver.cuCtxPushCurrent(context))
    try:
        module = checked(driver.cuModuleLoadData(binary.code))
        function = checked(driver.cuModuleGetFunction(module, binary.abi.symbol.encode()))
        attributes = driver.CUfunction_attribute
        invalid = (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)
        if binary.abi.shared > _OPT_IN_SHARED:
            dynamic = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(driver.cuFuncSetAttribute(function, dynamic, binary.abi.shared), exhausted=invalid)
        if _cluster_blocks(binary) > _PORTABLE_CLUSTER:
            large = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            checked(driver.cuFuncSetAttribute(function, large, 1), exhausted=invalid)
    finally:
        checked(driver.cuCtxPopCurrent())

    def recover(status: tuple[Any]) -> bool:
        """A thread that has not touched CUDA yet has no context: give it the device's."""
        if status[0] != driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
            return False
        checked(driver.cuCtxSetCurrent(context))
        return True

    return Loaded(
        function=function,
        enqueue=_cuda_enqueue(driver, binary),
        success=(driver.CUresult.CUDA_SUCCESS,),
        stream=driver.CUstream,
        recover=recover,
        refused=lambda status: _cuda_error(driver, status[0], where),
        tensor_map=lambda arg: tensor_map_encoder(driver, arg, where),
    )


def _cuda_bindings() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise LaunchError(
            "launching a cubin needs the package cuda-bindings", got=str(error), hint="torch's CUDA builds bring it"
        ) from error


def _cluster_blocks(binary: Binary) -> int:
    x, y, z = binary.abi.cluster
    return x * y * z


def _cuda_error(driver: Any, status: Any, where: str, exhausted: tuple[Any, ...] = ()) -> LaunchError:
    name = driver.cuGetErrorName(status)[1]
    text = name.decode() if isinstance(name, bytes) else str(name)
    if status in (driver.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, *exhausted):
        return OutOfResources(
            "the device must have the registers and the shared memory of this binary",
            got=text, where=where, hint="another config may fit",
        )  # fmt: skip
    return LaunchError("the CUDA driver must accept the launch", got=text, where=where)


def _cuda_enqueue(driver: Any, binary: Binary) -> Callable[..., Any]:
    """``cuLaunchKernel``, or the same call with the attributes of a cluster, cooperative grid or dependent launch."""
    abi = binary.abi
    ids = driver.CUlaunchAttributeID
    attributes: list[Any] = []

    def attribute(identity: Any) -> Any:
        made = driver.CUlaunchAttribute()
        made.id = identity
        attributes.append(made)
        return made.value

    if abi.pdl:
        pdl = attribute(ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        pdl.programmaticStreamSerializationAllowed = 1
    if abi.cooperative:
        attribute(ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1
    if _cluster_blocks(binary) > 1:
        dims = attribute(ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim
        dims.x, dims.y, dims.z = abi.cluster
        spread = attribute(ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
        spread.clusterSchedulingPolicyPreference = driver.CUclusterSchedulingPolicy.CU_CLUSTER_SCHEDULING_POLICY_SPREAD
    if not attributes:
        enqueue: Callable[..., Any] = driver.cuLaunchKernel
        return enqueue

    def enqueue_ex(
        function: Any, gx: int, gy: int, gz: int, bx: int, by: int, bz: int,
        shared: int, stream: Any, params: int, extra: int,
    ) -> Any:  # fmt: skip
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = gx, gy, gz
        config.blockDimX, config.blockDimY, config.blockDimZ = bx, by, bz
        config.sharedMemBytes, config.hStream = shared, stream
        config.attrs, config.numAttrs = attributes, len(attributes)
        return driver.cuLaunchKernelEx(config, function, params, extra)

    return enqueue_ex


# ---- HIP ----------------------------------------------------------------------------------------------------------

_HIP_OUT_OF_RESOURCES = 701  # hipErrorLaunchOutOfResources
_HIP_OUT_OF_MEMORY = 2


def hip_load(binary: Binary, index: int, library: Any = None) -> Loaded:
    """Load an hsaco through HIP's module API. Not run on hardware yet.

    Raises OutOfResources and LaunchError. Clusters and dependent launches are NVIDIA's and refused here.
    """
    abi = binary.abi
    where = f"{abi.symbol} for {binary.target}"
    if _cluster_blocks(binary) > 1 or abi.pdl:
        raise LaunchError("AMD devices have neither block clusters nor dependent launches", got=str(abi.cluster),
                          where=where)  # fmt: skip
    hip = library or _hip_library()

    def checked(status: int) -> None:
        if status:
            raise _hip_error(hip, status, where)

    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    previous = ctypes.c_int()
    checked(hip.hipGetDevice(ctypes.byref(previous)))
    checked(hip.hipSetDevice(index))
    try:
        checked(hip.hipModuleLoadData(ctypes.byref(module), binary.code))
        checked(hip.hipModuleGetFunction(ctypes.byref(function), module, abi.symbol.encode()))
    finally:
        checked(hip.hipSetDevice(previous.value))

    def cooperative(*args: Any) -> int:
        return int(hip.hipModuleLaunchCooperativeKernel(*args[:10]))

    return Loaded(
        function=function,
        enqueue=cooperative if abi.cooperative else hip.hipModuleLaunchKernel,
        success=0,
        stream=ctypes.c_void_p,
        recover=lambda status: False,
        refused=lambda status: _hip_error(hip, status, where),
        tensor_map=lambda arg: _no_tensor_map(arg, where),
    )


def _no_tensor_map(arg: LaunchArg, where: str) -> Callable[..., Encoded]:
    raise LaunchError("AMD devices have no tensor maps", got=arg.type, where=where)


def _hip_error(hip: Any, status: int, where: str) -> LaunchError:
    name = hip.hipGetErrorName(status)
    text = name.decode() if isinstance(name, bytes) else str(name)
    if status in (_HIP_OUT_OF_RESOURCES, _HIP_OUT_OF_MEMORY):
        return OutOfResources("the device must have the registers and the LDS of this binary", got=text, where=where,
                              hint="another config may fit")  # fmt: skip
    return LaunchError("the HIP driver must accept the launch", got=text, where=where)


def _hip_library() -> Any:
    try:
        hip = ctypes.CDLL("libamdhip64.so")
    except OSError as error:
        raise LaunchError("launching an hsaco needs libamdhip64.so", got=str(error),
                          hint="torch's ROCm builds bring it") from error  # fmt: skip
    pointer, unsigned = ctypes.c_void_p, ctypes.c_uint
    hip.hipModuleLaunchKernel.argtypes = [pointer, *[unsigned] * 7, pointer, pointer, pointer]
    hip.hipModuleLaunchCooperativeKernel.argtypes = [pointer, *[unsigned] * 7, pointer, pointer]
    hip.hipModuleLoadData.argtypes = [pointer, ctypes.c_char_p]
    hip.hipModuleGetFunction.argtypes = [pointer, pointer, ctypes.c_char_p]
    hip.hipGetErrorName.argtypes = [ctypes.c_int]
    hip.hipGetErrorName.restype = ctypes.c_char_p
    return hip
