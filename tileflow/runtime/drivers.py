"""The two vendors' drivers behind one record, and the current stream.

A loaded binary is launched by its own ``enqueue(stream, gx, gy, gz, *values) -> status``, native where it can be.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

from ..errors import LaunchError, OutOfResources, TableError
from ..lazy_dataclass import dataclass
from .abi import Binary, LaunchAbi, LaunchArg
from .binaries import MODULES, Module, ModuleCache
from .native import Captured, Way, enqueuer, stream_reader
from .packing import Enqueue, Launch, parameter_formats, python_enqueue
from .tensor_maps import Encoded, tensor_map_encoder

_OPT_IN_SHARED = 48 * 1024  # CUDA: dynamic shared memory must be asked for where a block has more, its own with it
_PORTABLE_CLUSTER = 8
_DEPENDENT_IN_GRAPHS = 12030  # CUDA 12.3, as a driver numbers it

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A binary in device memory.

    ``module``: its machine code, which stays there as long as this is held. ``enqueue`` launches it on a raw stream
    with the values of its parameters (``parameter_formats``) and returns a status, 0 when all is well. ``recover``
    mends what can be mended after another and says whether to try again; ``refused`` makes its error. ``tensor_map``
    gives, for a descriptor argument, the function from (pointer, *shape, *strides) to the encoded map, whose address is
    the parameter's value. ``tensor_enqueue`` gives, for formats with T and A, an enqueue on the current stream that
    takes tensors; None where there is no extension, or more than one device.
    """

    module: Module
    enqueue: Enqueue
    recover: Callable[[int], bool]
    refused: Callable[[int], LaunchError]
    tensor_map: Callable[[LaunchArg], Callable[..., Encoded]]
    tensor_enqueue: Callable[[str], Callable[..., int] | None] = lambda formats: None


def make_enqueue(driver: Any, binary: Binary, function: Any) -> Enqueue:
    """The enqueue of a binary's ``function``, as ``driver`` loaded it.

    ``driver``: ``cuda.bindings.driver`` for a cubin, HIP's library for an hsaco, or a stand-in for either. A stand-in
    is called from Python; the vendors' own from the C extension, where there is one.
    """
    match binary.format:
        case "cubin":
            return _cuda_enqueue(driver, binary.abi, function)
        case "hsaco":
            return _hip_enqueue(driver, binary.abi, function)
    raise TableError("a binary's format must be cubin or hsaco", got=repr(binary.format))


def current_stream_reader(index: int) -> Callable[[], int | None]:
    """A function that returns the current stream of device ``index``, raw, or None while another device is current.

    ``torch.cuda.current_stream().cuda_stream`` builds a Python object for 7 us; ``torch.accelerator``'s comes ready
    made and has an id that belongs to one handle for good (pool streams are never destroyed, an external stream's id
    is its handle), so the handle is asked for once an id. The extension asks for less than either.
    """
    import torch

    device = _only_device(index)
    native = None if device is None else stream_reader(device)
    if native is not None:
        return native
    current, current_device = torch.accelerator.current_stream, torch.accelerator.current_device_index
    several = torch.accelerator.device_count() > 1
    handles: dict[int, int] = {}

    def read() -> int | None:
        if several and current_device() != index:
            return None
        identity = current(index).stream_id
        handle = handles.get(identity)
        if handle is None:
            handle = handles[identity] = torch.cuda.current_stream(index).cuda_stream
        return handle

    return read


def _only_device(index: int) -> tuple[int, int] | None:
    """DLPack's type and index of device ``index`` where no other one can be current; None else, and for AMD's, whose
    streams DLPack's function in torch may not know."""
    import torch

    if index < 0:
        return 1, 0
    return (2, index) if torch.version.hip is None and torch.accelerator.device_count() == 1 else None


# ---- CUDA ---------------------------------------------------------------------------------------------------------


def cuda_load(binary: Binary, index: int, driver: Any = None) -> Loaded:
    """Load a cubin into the primary context of device ``index`` through ``cuda.bindings.driver``.

    Raises OutOfResources where the device has too little shared memory for it, LaunchError otherwise.
    """
    modules = MODULES if driver is None else ModuleCache()
    driver = driver or _cuda_bindings()
    where = f"{binary.abi.symbol} for {binary.target}"

    def checked(result: tuple[Any, ...], exhausted: tuple[Any, ...] = ()) -> Any:
        if result[0] != driver.CUresult.CUDA_SUCCESS:
            raise _cuda_error(driver, result[0], where, exhausted)
        return result[1] if len(result) > 1 else None

    checked(driver.cuInit(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(index))))

    def load() -> Module:
        handle = checked(driver.cuModuleLoadData(binary.code))
        return Module(handle, len(binary.code), partial(_cuda_free, driver, context, handle), modules.retire)

    with _cuda_context(driver, context, checked):
        module = modules.get_or_load(binary, index, load)
        function = checked(driver.cuModuleGetFunction(module.handle, binary.abi.symbol.encode()))
        attributes = driver.CUfunction_attribute
        invalid = (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)
        own = checked(driver.cuFuncGetAttribute(attributes.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function))
        if binary.abi.shared + own > _OPT_IN_SHARED:
            dynamic = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(driver.cuFuncSetAttribute(function, dynamic, binary.abi.shared), exhausted=invalid)
        if _cluster_blocks(binary.abi) > _PORTABLE_CLUSTER:
            large = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            checked(driver.cuFuncSetAttribute(function, large, 1), exhausted=invalid)

    def recover(status: int) -> bool:
        """A thread that has not touched CUDA yet has no context: give it the device's."""
        if status != driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
            return False
        checked(driver.cuCtxSetCurrent(context))
        return True

    return Loaded(
        module=module,
        enqueue=make_enqueue(driver, binary, function),
        recover=recover,
        refused=lambda status: _cuda_error(driver, status, where),
        tensor_map=lambda arg: tensor_map_encoder(driver, arg, where, recover),
        tensor_enqueue=partial(_cuda_tensor_enqueue, driver, binary.abi, function, index),
    )


@contextmanager
def _cuda_context(driver: Any, context: Any, checked: Callable[[tuple[Any, ...]], Any]) -> Iterator[None]:
    """The context is current inside, and what this thread does there ends no capture of another thread's graph."""
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    checked(driver.cuCtxPushCurrent(context))
    try:
        before = checked(driver.cuThreadExchangeStreamCaptureMode(relaxed))
        try:
            yield
        finally:
            checked(driver.cuThreadExchangeStreamCaptureMode(before))
    finally:
        checked(driver.cuCtxPopCurrent())


def _cuda_free(driver: Any, context: Any, handle: Any) -> bool:
    """Unload a module that nothing launches any more. False while the device cannot be waited for: a graph is being
    captured."""

    def checked(result: tuple[Any, ...]) -> Any:
        if result[0] != driver.CUresult.CUDA_SUCCESS:
            raise _cuda_error(driver, result[0], "freeing machine code")
        return result[1] if len(result) > 1 else None

    try:
        checked(driver.cuCtxPushCurrent(context))
        try:
            checked(driver.cuCtxSynchronize())
            checked(driver.cuModuleUnload(handle))
        finally:
            checked(driver.cuCtxPopCurrent())
    except LaunchError as error:
        _log.debug("machine code stays in device memory for now: %s", error)
        return False
    return True


def _cuda_bindings() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise LaunchError(
            "launching a cubin needs the package cuda-bindings", got=str(error), hint="torch's CUDA builds bring it"
        ) from error


def _cluster_blocks(abi: LaunchAbi) -> int:
    x, y, z = abi.cluster
    return x * y * z


def _cuda_error(driver: Any, status: Any, where: str, exhausted: tuple[Any, ...] = ()) -> LaunchError:
    try:
        name = driver.cuGetErrorName(driver.CUresult(status))[1]
    except ValueError:  # a status that is newer than the bindings
        name = f"CUresult {status}"
    text = name.decode() if isinstance(name, bytes) else str(name)
    if status in (driver.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, *exhausted):
        return OutOfResources(
            "the device must have the registers and the shared memory of this binary",
            got=text,
            where=where,
            hint="another config may fit",
        )
    return LaunchError("the CUDA driver must accept the launch", got=text, where=where)


_Attributes = tuple[tuple[str, tuple[int, ...]], ...]


def _launch_attributes(driver: Any, abi: LaunchAbi) -> _Attributes:
    """What a launch asks for besides its sizes: (the name of a CUlaunchAttributeID, the value's words)."""
    attributes: list[tuple[str, tuple[int, ...]]] = []
    if abi.cooperative:
        attributes.append(("COOPERATIVE", (1,)))
    if _cluster_blocks(abi) > 1:
        spread = driver.CUclusterSchedulingPolicy.CU_CLUSTER_SCHEDULING_POLICY_SPREAD
        attributes.append(("CLUSTER_DIMENSION", abi.cluster))
        attributes.append(("CLUSTER_SCHEDULING_POLICY_PREFERENCE", (int(spread),)))
    return tuple(attributes)


def _captured_attributes(driver: Any, abi: LaunchAbi) -> _Attributes:
    """The same of a launch that a graph captures: it depends on the launch before it, and may begin as that one ends.

    None where graphs capture no other launches. An eager launch does not ask for it: asking takes 0.4 us of the host's
    time (H200, 2026-11-30), which is as much as the device saves, and the device mostly waits for the host there.
    """
    if not abi.pdl or not _captures_dependent_launches(driver):
        return ()
    return (("PROGRAMMATIC_STREAM_SERIALIZATION", (1,)), *_launch_attributes(driver, abi))


def _captures_dependent_launches(driver: Any) -> bool:
    """A driver before CUDA 12.3 ends a capture that meets a dependent launch."""
    status, version = driver.cuDriverGetVersion()
    return bool(status == driver.CUresult.CUDA_SUCCESS and version >= _DEPENDENT_IN_GRAPHS)


def _cuda_enqueue(driver: Any, abi: LaunchAbi, function: Any) -> Enqueue:
    """Through ``cuLaunchKernel``, or ``cuLaunchKernelEx`` for clusters, cooperative grids and dependent launches."""
    formats = parameter_formats(abi)
    native = _cuda_native(driver, abi, function, formats)
    if native is not None:
        return native
    launch = _cuda_launch(driver, abi, function, _launch_attributes(driver, abi))
    attributes = _captured_attributes(driver, abi)
    if not attributes:
        return python_enqueue(launch, formats)
    captured, is_capturing = _cuda_launch(driver, abi, function, attributes), _capture_reader(driver)

    def either(stream: int, gx: int, gy: int, gz: int, params: int) -> int:
        return (captured if is_capturing(stream) else launch)(stream, gx, gy, gz, params)

    return python_enqueue(either, formats)


def _capture_reader(driver: Any) -> Callable[[int], bool]:
    """Whether a stream is captured; not where the driver says no status of it, as of the default stream while another
    one is captured: the launch itself tells what is wrong."""
    active = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    wrapped = lru_cache(maxsize=256)(driver.CUstream)

    def is_capturing(stream: int) -> bool:
        status, *found = driver.cuStreamIsCapturing(wrapped(stream))
        return bool(status == driver.CUresult.CUDA_SUCCESS and found[0] == active)

    return is_capturing


def _cuda_tensor_enqueue(driver: Any, abi: LaunchAbi, function: Any, index: int, formats: str) -> Enqueue | None:
    device = _only_device(index)
    return None if device is None else _cuda_native(driver, abi, function, formats, device)


def _cuda_native(
    driver: Any, abi: LaunchAbi, function: Any, formats: str, device: tuple[int, int] | None = None
) -> Enqueue | None:
    way, captured = _cuda_way(driver, _launch_attributes(driver, abi)), None
    attributes = _captured_attributes(driver, abi)
    if attributes:
        in_graphs, is_capturing = _cuda_way(driver, attributes), _cuda_address(driver, b"cuStreamIsCapturing")
        captured = Captured(in_graphs, is_capturing) if in_graphs and is_capturing else None
    if way is None or (attributes and captured is None):
        return None
    return enqueuer(way, int(function), abi.threads, abi.shared, formats, captured, device)


def _cuda_way(driver: Any, attributes: _Attributes) -> Way | None:
    """A launch with these attributes; None where a stand-in has no such function."""
    address = _cuda_address(driver, b"cuLaunchKernelEx" if attributes else b"cuLaunchKernel")
    if address is None:
        return None
    return Way(address, b"".join(_packed_attribute(driver, name, words) for name, words in attributes))


def _cuda_address(driver: Any, name: bytes) -> int | None:
    """The address of a driver's function; None where a stand-in has none."""
    lookup = getattr(driver, "cuGetProcAddress", None)
    if lookup is None:
        return None
    # of CUDA 12.0, and where stream 0 is what torch means by it
    status, address, *_ = lookup(name, 12000, driver.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_LEGACY_STREAM)
    if status == driver.CUresult.CUDA_SUCCESS and address:
        return int(address)
    _log.debug("kernels are launched from Python: cuGetProcAddress of %s gave %s", name.decode(), status)
    return None


def _packed_attribute(driver: Any, name: str, words: tuple[int, ...]) -> bytes:
    """A CUlaunchAttribute: its id, and a union of 64 bytes from byte 8 on."""
    identity = int(getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}"))
    return struct.pack("@i4x64s", identity, struct.pack(f"@{len(words)}I", *words))


def _cuda_launch(driver: Any, abi: LaunchAbi, function: Any, attributes: _Attributes) -> Launch:
    if attributes:
        return _cuda_launch_ex(driver, abi, function, attributes)
    launch_kernel, threads, shared = driver.cuLaunchKernel, abi.threads, abi.shared
    wrapped = lru_cache(maxsize=256)(driver.CUstream)

    def launch(stream: int, gx: int, gy: int, gz: int, params: int) -> int:
        status: int  # the bindings' enumeration is one
        (status,) = launch_kernel(function, gx, gy, gz, threads, 1, 1, shared, wrapped(stream), params, 0)
        return status

    return launch


def _cuda_launch_ex(driver: Any, abi: LaunchAbi, function: Any, wanted: _Attributes) -> Launch:
    attributes = [_cuda_attribute(driver, name, words) for name, words in wanted]

    def launch(stream: int, gx: int, gy: int, gz: int, params: int) -> int:
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = gx, gy, gz
        config.blockDimX, config.blockDimY, config.blockDimZ = abi.threads, 1, 1
        config.sharedMemBytes, config.hStream = abi.shared, driver.CUstream(stream)
        config.attrs, config.numAttrs = attributes, len(attributes)
        return int(driver.cuLaunchKernelEx(config, function, params, 0)[0])

    return launch


def _cuda_attribute(driver: Any, name: str, words: tuple[int, ...]) -> Any:
    made = driver.CUlaunchAttribute()
    made.id = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
    match name:
        case "PROGRAMMATIC_STREAM_SERIALIZATION":
            made.value.programmaticStreamSerializationAllowed = words[0]
        case "COOPERATIVE":
            made.value.cooperative = words[0]
        case "CLUSTER_DIMENSION":
            dims = made.value.clusterDim
            dims.x, dims.y, dims.z = words
        case "CLUSTER_SCHEDULING_POLICY_PREFERENCE":
            made.value.clusterSchedulingPolicyPreference = driver.CUclusterSchedulingPolicy(words[0])
    return made


# ---- HIP ----------------------------------------------------------------------------------------------------------

_HIP_OUT_OF_RESOURCES = 701  # hipErrorLaunchOutOfResources
_HIP_LIBRARY = "libamdhip64.so"


def hip_load(binary: Binary, index: int, library: Any = None) -> Loaded:
    """Load an hsaco through HIP's module API. Not run on hardware yet.

    Raises OutOfResources and LaunchError. Clusters and dependent launches are NVIDIA's and refused here.
    """
    abi = binary.abi
    where = f"{abi.symbol} for {binary.target}"
    if _cluster_blocks(binary.abi) > 1 or abi.pdl:
        raise LaunchError(
            "AMD devices have neither block clusters nor dependent launches", got=str(abi.cluster), where=where
        )
    hip = library or hip_library()

    def checked(status: int) -> None:
        if status:
            raise hip_error(hip, status, where)

    function, previous = ctypes.c_void_p(), ctypes.c_int()
    modules = MODULES if library is None else ModuleCache()

    def load() -> Module:
        handle = ctypes.c_void_p()
        checked(hip.hipModuleLoadData(ctypes.byref(handle), binary.code))
        return Module(handle, len(binary.code), partial(_hip_free, hip, index, handle), modules.retire)

    checked(hip.hipGetDevice(ctypes.byref(previous)))
    checked(hip.hipSetDevice(index))
    try:
        module = modules.get_or_load(binary, index, load)
        checked(hip.hipModuleGetFunction(ctypes.byref(function), module.handle, abi.symbol.encode()))
    finally:
        checked(hip.hipSetDevice(previous.value))

    return Loaded(
        module=module,
        enqueue=make_enqueue(hip, binary, function),
        recover=lambda status: False,
        refused=lambda status: hip_error(hip, status, where),
        tensor_map=lambda arg: _no_tensor_map(arg, where),
    )


def _hip_free(hip: Any, index: int, handle: Any) -> bool:
    """Unload a module that nothing launches any more. False where the device cannot be waited for."""
    previous = ctypes.c_int()
    if hip.hipGetDevice(ctypes.byref(previous)) or hip.hipSetDevice(index):
        return False
    try:
        return not (hip.hipDeviceSynchronize() or hip.hipModuleUnload(handle))
    finally:
        hip.hipSetDevice(previous.value)


def _hip_enqueue(hip: Any, abi: LaunchAbi, function: Any) -> Enqueue:
    """Through ``hipModuleLaunchKernel``, which takes what ``cuLaunchKernel`` takes, or its cooperative sister."""
    formats = parameter_formats(abi)
    threads, shared, cooperative = abi.threads, abi.shared, abi.cooperative
    if isinstance(hip, ctypes.CDLL) and not cooperative:
        address = ctypes.cast(hip.hipModuleLaunchKernel, ctypes.c_void_p).value
        native = enqueuer(Way(address), function.value, threads, shared, formats) if address else None
        if native is not None:
            return native
    launch_kernel = _cooperative_launch(hip, abi) if cooperative else hip.hipModuleLaunchKernel
    extra = () if cooperative else (0,)

    def launch(stream: int, gx: int, gy: int, gz: int, params: int) -> int:
        return int(launch_kernel(function, gx, gy, gz, threads, 1, 1, shared, stream, params, *extra))

    return python_enqueue(launch, formats)


def _cooperative_launch(hip: Any, abi: LaunchAbi) -> Any:
    try:
        return hip.hipModuleLaunchCooperativeKernel
    except AttributeError as error:
        raise LaunchError(
            "a cooperative grid needs hipModuleLaunchCooperativeKernel",
            got=str(error),
            where=abi.symbol,
            hint="ROCm 5.5 brought it",
        ) from error


def _no_tensor_map(arg: LaunchArg, where: str) -> Callable[..., Encoded]:
    raise LaunchError("AMD devices have no tensor maps", got=arg.type, where=where)


def hip_error(hip: Any, status: int, where: str) -> LaunchError:
    """What a status of HIP's means for a launch: out of resources, or refused."""
    name = hip.hipGetErrorName(status)
    text = name.decode() if isinstance(name, bytes) else str(name)
    if status == _HIP_OUT_OF_RESOURCES:
        return OutOfResources(
            "the device must have the registers and the LDS of this binary",
            got=text,
            where=where,
            hint="another config may fit",
        )
    return LaunchError("the HIP driver must accept the launch", got=text, where=where)


def hip_library(path: str = "") -> Any:
    """HIP's library, at ``path``; else the one that this process has loaded already, torch's own in its ROCm builds,
    since streams and memory of one copy mean nothing to another; else the system's. Raises LaunchError."""
    path = path or _loaded_library(_HIP_LIBRARY) or _HIP_LIBRARY
    try:
        hip = ctypes.CDLL(path)
    except OSError as error:
        raise LaunchError(
            f"launching an hsaco needs {_HIP_LIBRARY}", got=str(error), hint="torch's ROCm builds bring it"
        ) from error
    pointer, unsigned = ctypes.c_void_p, ctypes.c_uint
    hip.hipModuleLaunchKernel.argtypes = [pointer, *[unsigned] * 7, pointer, pointer, pointer]
    hip.hipModuleLoadData.argtypes = [pointer, ctypes.c_char_p]
    hip.hipModuleGetFunction.argtypes = [pointer, pointer, ctypes.c_char_p]
    hip.hipGetErrorName.argtypes = [ctypes.c_int]
    hip.hipGetErrorName.restype = ctypes.c_char_p
    if hasattr(hip, "hipModuleLaunchCooperativeKernel"):  # not in ROCm before 5.5
        hip.hipModuleLaunchCooperativeKernel.argtypes = [pointer, *[unsigned] * 7, pointer, pointer]
    return hip


def _loaded_library(name: str) -> str | None:
    """The path of a shared library that this process has in memory, whatever version its file's name ends in; None
    where there is none, or where the system does not tell."""
    try:
        with open("/proc/self/maps") as maps:
            paths = [line.split(maxsplit=5)[5].rstrip("\n") for line in maps if name in line]
    except OSError:
        return None
    return next((path for path in paths if path.rpartition("/")[2].startswith(name)), None)
