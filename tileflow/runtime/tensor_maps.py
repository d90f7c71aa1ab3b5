"""Tensor maps: what the copy engine of Hopper and later needs to know of a tensor, encoded once an address.

A map is 128 bytes that a launch hands over by value. Encoding one takes microseconds, so those of recent addresses are
kept: a model calls a kernel with the same weights and, through torch's allocator, mostly the same activations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import LaunchError
from .abi import LaunchArg

_KEPT = 256


Encoded = tuple[int, Any]  # the map's address, and what keeps it there


def tensor_map_encoder(driver: Any, arg: LaunchArg, where: str) -> Callable[..., Encoded]:
    """For a descriptor argument: (pointer, *shape, *strides) -> the encoded map, which a launch holds until it returns.

    ``driver``: ``cuda.bindings.driver``. Raises LaunchError where the driver refuses the sizes.
    """
    known: dict[tuple[int, ...], Encoded] = {}

    def lookup(*key: int) -> Encoded:
        found = known.get(key)
        if found is None:
            if len(known) >= _KEPT:
                known.pop(next(iter(known)))
            encoded = _encode(driver, arg, key, where)
            found = known[key] = int(encoded.getPtr()), encoded
        return found

    return lookup


def _encode(driver: Any, arg: LaunchArg, key: tuple[int, ...], where: str) -> Any:
    tensor_map = arg.tensor_map
    assert tensor_map is not None
    rank = len(tensor_map.shape)
    pointer, shape, strides = key[0], key[1 : 1 + rank], key[1 + rank :]
    # the driver counts dimensions from the fastest, and takes no stride of that one
    status, encoded = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType(tensor_map.element_type),
        rank,
        pointer,
        [driver.cuuint64_t(n) for n in reversed(shape)],
        [driver.cuuint64_t(s * tensor_map.element_bytes) for s in reversed(strides[:-1])],
        [driver.cuuint32_t(n) for n in reversed(tensor_map.box)],
        [driver.cuuint32_t(1)] * rank,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle(tensor_map.swizzle),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise LaunchError(
            "the driver must encode a tensor map", got=f"{status} for shape {shape}, strides {strides}", where=where,
            hint=f"choose access 'pointer' for {arg.path}",
        )  # fmt: skip
    return encoded
