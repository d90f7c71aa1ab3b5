"""Tensor maps: what the copy engine of Hopper and later needs to know of a tensor, encoded once an address.

A map is 128 bytes that a launch hands over by value. Encoding one takes microseconds, so those of recent addresses are
kept: a model calls a kernel with the same weights and, through torch's allocator, mostly the same activations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from ..errors import LaunchError
from .abi import LaunchArg
from .bounded import BoundedCache
from .metrics import register_gauge

MOST_MAPS = 65_536  # of this process, half a kilobyte each

Encoded = tuple[int, Any]  # the map's address, and what keeps it there

Form = tuple[int, int, int, int, tuple[int, ...]]  # of a map: rank, element type, element bytes, swizzle, box

_maps: BoundedCache[Encoded] = BoundedCache(MOST_MAPS)
_names: dict[Form, int] = {}  # a short name for each form: launchers come and go with bundles, forms are few
_numbers = count()


def tensor_map_encoder(
    driver: Any, arg: LaunchArg, where: str, recover: Callable[[int], bool] = lambda status: False
) -> Callable[..., Encoded]:
    """For a descriptor argument: (pointer, *shape, *strides) -> the encoded map, which a launch holds until it returns.

    ``driver``: ``cuda.bindings.driver``; ``recover``: mends what can be mended after a status, and says whether to try
    again. Raises LaunchError where the driver refuses the sizes.
    """
    tensor_map = arg.tensor_map
    assert tensor_map is not None
    form = (
        len(tensor_map.shape),
        tensor_map.element_type,
        tensor_map.element_bytes,
        tensor_map.swizzle,
        tensor_map.box,
    )
    name = _names.setdefault(form, next(_numbers))  # no two forms ever have one
    get, put = _maps.get, _maps.put

    def lookup(*key: int) -> Encoded:
        full = (name, *key)
        found = get(full)
        if found is None:
            encoded = _encode(driver, arg, key, where, recover)
            found = put(full, (int(encoded.getPtr()), encoded))
        return found

    return lookup


def _encode(driver: Any, arg: LaunchArg, key: tuple[int, ...], where: str, recover: Callable[[int], bool]) -> Any:
    tensor_map = arg.tensor_map
    assert tensor_map is not None
    rank = len(tensor_map.shape)
    pointer, shape, strides = key[0], key[1 : 1 + rank], key[1 + rank :]
    # the driver counts dimensions from the fastest, and takes no stride of that one
    encode = partial(
        driver.cuTensorMapEncodeTiled,
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
    status, encoded = encode()
    if status != driver.CUresult.CUDA_SUCCESS and recover(int(status)):
        status, encoded = encode()
    if status != driver.CUresult.CUDA_SUCCESS:
        raise LaunchError(
            "the driver must encode a tensor map",
            got=f"{status} for shape {shape}, strides {strides}",
            where=where,
            hint=f"choose access 'pointer' for {arg.path}",
        )
    return encoded


register_gauge("tileflow_tensor_maps", "Tensor maps that are kept.", lambda: len(_maps))
