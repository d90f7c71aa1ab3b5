"""The dtypes that torch gives on the CPU are those that it gives on meta tensors, wherever it gives any; and each dtype
that torch has is one of kernels, or is refused in words."""

from __future__ import annotations

import itertools

import pytest
import torch
from tile_testing.tiers import every_other

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.frontend.promotion import Kind, promote, result_by_torch
from tileflow.ir.ops import POINTWISE
from tileflow.ir.types import FLOAT_BITS, INT_BITS
from tileflow.target import target

KINDS: list[Kind] = [("int", False), ("float", False)]
KINDS += [(d, has_dims) for d in (*FLOAT_BITS, *INT_BITS) if "fnuz" not in d for has_dims in (True, False)]
CONDITION: Kind = ("bool", True)
REFUSED = (TypeError, RuntimeError, AttributeError)  # the last: a tuple, of torch.max of numbers alone


def answer(fn: str, kinds: tuple[Kind, ...], device: str) -> str:
    try:
        return result_by_torch(fn, kinds, device)
    except REFUSED:
        return ""


@pytest.mark.parametrize("fn", every_other(fn for fn, row in POINTWISE.items() if not row.boolean and fn != "fma"))
def test_the_cpu_answers_as_meta_tensors_do(fn: str) -> None:
    pairs = list(itertools.product(KINDS, repeat=2))
    calls: list[tuple[Kind, ...]] = [(CONDITION, *p) for p in pairs] if fn == "where" else [(k,) for k in KINDS] + pairs
    answered = 0
    for kinds in calls:
        here = answer(fn, kinds, "cpu")
        answered += bool(here)
        assert here in ("", answer(fn, kinds, "meta")), kinds
    assert answered


DTYPES = sorted({dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}, key=str)
PAIRS = torch.float4_e2m1fn_x2  # captured as the bytes that it is, and no dtype of tiles


@tileflow.kernel
def copied(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile]
    return out


@tileflow.kernel
def converted(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile].to(dtype).float()
    return out


@pytest.mark.filterwarnings("ignore:ComplexHalf", "ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_of_torch_is_lowered_or_refused_with_what_is_passed_instead(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    device = target("amd-mi300x" if "fnuz" in name else "nvidia-h100-sxm")
    tensor, others = torch.empty(64, dtype=dtype, device="meta"), torch.empty(64, device="meta")
    for kernel, args in ((copied, (tensor,)), (converted, (others, dtype))):
        if name in FLOAT_BITS or name in INT_BITS or (kernel is copied and dtype is PAIRS):
            assert kernel.lower(args, device).default
            continue
        with pytest.raises(TraceError, match=r"a dtype is torch\.float32, torch\.int8") as refused:
            kernel.lower(args, device)
        instead = "view_as_real" if dtype.is_complex else "int_repr" if name[0] == "q" else "x.view(torch.uint8)"
        assert refused.value.got == str(dtype) and instead in refused.value.hint


FEW: list[Kind] = [("int8", True), ("bool", True), ("uint8", True), ("bfloat16", True), ("float16", True)]
FEW += [("float32", True), ("bool", False), ("int64", False), ("float32", False), ("float64", False)]


def test_three_operands_meet_where_torch_has_them_meet() -> None:
    """The third of three counted for nothing."""
    made = {k: torch.zeros((0,) if k[1] else (), dtype=getattr(torch, k[0])) for k in FEW}
    for kinds in itertools.product(made, repeat=3):
        try:
            wanted = torch.addcmul(*(made[k] for k in kinds)).dtype
        except NotImplementedError:  # of bools alone
            continue
        assert promote(kinds) == str(wanted).removeprefix("torch."), kinds
    assert promote((("int", False), ("float", False), ("int8", True))) == "float32"
