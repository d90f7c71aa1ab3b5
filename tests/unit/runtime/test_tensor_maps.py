"""Tensor maps: encoded once an address and form, whoever launches, and encoded again where a context was missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tileflow.errors import LaunchError
from tileflow.expr import Expr
from tileflow.runtime import tensor_maps
from tileflow.runtime.abi import LaunchArg, TensorMap
from tileflow.runtime.bounded import BoundedCache
from tileflow.runtime.tensor_maps import tensor_map_encoder

OK, NO_CONTEXT = 0, 201


class Driver:
    """Counts what is encoded; refuses as long as ``statuses`` holds a refusal."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=OK)
    CUtensorMapDataType = CUtensorMapSwizzle = cuuint64_t = cuuint32_t = int
    CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE=0)
    CUtensorMapL2promotion = SimpleNamespace(CU_TENSOR_MAP_L2_PROMOTION_L2_128B=2)
    CUtensorMapFloatOOBfill = SimpleNamespace(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE=0)

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.encoded = [*statuses], 0

    def cuTensorMapEncodeTiled(self, *args: Any) -> tuple[int, Any]:
        self.encoded += 1
        address = 4096 + self.encoded
        return (self.statuses.pop(0) if self.statuses else OK), SimpleNamespace(getPtr=lambda: address)


def argument(box: tuple[int, ...] = (64, 64), swizzle: int = 3) -> LaunchArg:
    dims = (Expr.of(128), Expr.of(128)), (Expr.of(128), Expr.of(1))
    return LaunchArg(
        "x", "descriptor", "tensordesc<bf16[64, 64]>", path="x", tensor_map=TensorMap(*dims, box, 2, 9, swizzle)
    )


CALL = (0x7000, 128, 128, 128, 1)


@pytest.fixture(autouse=True)
def no_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_maps, "_maps", BoundedCache(64))


def test_a_thread_without_a_context_gets_one_and_the_map_is_encoded_again() -> None:
    driver, recovered = Driver(NO_CONTEXT), []

    def recover(status: int) -> bool:
        recovered.append(status)
        return True

    address, _ = tensor_map_encoder(driver, argument(), "here", recover)(*CALL)
    assert recovered == [NO_CONTEXT] and driver.encoded == 2 and address == 4098


def test_what_cannot_be_recovered_names_the_status_and_the_way_out() -> None:
    driver = Driver(*[NO_CONTEXT] * 3)
    with pytest.raises(LaunchError, match=r"(?s)201 for shape .128, 128.*choose access 'pointer' for x") as caught:
        tensor_map_encoder(driver, argument(), "here")(*CALL)
    assert driver.encoded == 1 and "here" in str(caught.value)
    with pytest.raises(LaunchError):
        tensor_map_encoder(driver, argument(), "here", lambda status: True)(*CALL)


def test_launchers_of_one_form_share_their_maps() -> None:
    # a bundle that is loaded again makes launchers anew, whose maps filled the cache with copies
    driver = Driver()
    first, again = (tensor_map_encoder(driver, argument(), "here")(*CALL) for _ in range(2))
    assert first is again and driver.encoded == 1


def test_launchers_of_other_forms_do_not() -> None:
    driver = Driver()
    forms = argument(), argument(box=(128, 64)), argument(swizzle=0)
    assert len({tensor_map_encoder(driver, form, "here")(*CALL)[0] for form in forms}) == driver.encoded == 3
