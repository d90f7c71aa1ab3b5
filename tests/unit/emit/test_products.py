"""What becomes of products: accumulators, batches, precision, block sizes, dtypes that a device lacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tile_testing.traced import traced

import tileflow
import tileflow.language as tfl
from tileflow.api import load_kernel
from tileflow.build.compile import build, compile_source
from tileflow.errors import ConfigError, KernelError
from tileflow.ir.attributes import DotAttrs
from tileflow.ir.graph import Op
from tileflow.lowered import Lowered
from tileflow.runtime.keys import call_key
from tileflow.target import target

A, B = torch.empty(64, 128, device="meta"), torch.empty(128, 96, device="meta")


def lower(function: Callable[..., Any], *args: Any, device: str = "nvidia-h200") -> Lowered:
    return tileflow.kernel(function).lower(args or (A, B), target(device))


def dots(function: Callable[..., Any], *args: Any) -> list[Op]:
    (ir,) = lower(function, *args).regions
    return [op for op in ir.walk() if op.kind == "dot"]


# ---- accumulators -------------------------------------------------------------------------------


def augmented(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc += x[tile_m, tile_k] @ y[tile_k, tile_n]
        out[tile_m, tile_n] = acc
    return out


def rescaled(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            p = x[tile_m, tile_k]
            acc = acc * p.sum(1)[:, None] + p @ y[tile_k, tile_n]
        out[tile_m, tile_n] = acc
    return out


def two_products(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            a, b = x[tile_m, tile_k], y[tile_k, tile_n]
            acc = acc + a @ b + torch.exp(a) @ b
        out[tile_m, tile_n] = acc
    return out


def scaled_accumulator(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n], beta=0.5)
        out[tile_m, tile_n] = acc
    return out


@pytest.mark.parametrize("kernel", [augmented, rescaled, two_products, scaled_accumulator])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_are_accumulators(kernel: Callable[..., Any], dtype: torch.dtype) -> None:
    found = dots(kernel, A.to(dtype), B.to(dtype))
    assert len(found) == (2 if kernel is two_products else 1)
    assert all(len(op.inputs) == 3 and op.output.type.dtype == "float32" for op in found)


def outside_the_loop(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        product = x[tile_m, :] @ y[:, tile_n]
        acc = tfl.zeros([tile_m, tile_n])
        for _ in tfl.grid(9):
            acc = acc + product
        out[tile_m, tile_n] = acc
    return out


def read_twice(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        product = x[tile_m, :] @ y[:, tile_n]
        out[tile_m, tile_n] = (product + out[tile_m, tile_n]) * product
    return out


def in_half(x, y):
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        out[tile_m, tile_n] = x[tile_m, :] @ y[:, tile_n] + out[tile_m, tile_n]
    return out


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [(outside_the_loop, torch.float32), (read_twice, torch.float32), (in_half, torch.bfloat16)],
)
def test_other_sums_are_not(kernel: Callable[..., Any], dtype: torch.dtype) -> None:
    """A product that a loop would repeat, one that others read, one that torch rounds before it adds."""
    (found,) = dots(kernel, A[:, :32].to(dtype), B[:32].to(dtype))  # a longer inner dimension is a loop over blocks
    assert len(found.inputs) == 2


# ---- batches ------------------------------------------------------------------------------------


def batched(x, y):
    b, m, k = x.shape
    out = torch.empty(b, m, y.size(2))
    for tile_b, tile_m, tile_n in tfl.tile([b, m, y.size(2)], block_size=[1, None, None]):
        acc = tfl.zeros([tile_b, tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.baddbmm(acc, x[tile_b, tile_m, tile_k], y[tile_b, tile_k, tile_n])
        out[tile_b, tile_m, tile_n] = acc
    return out


def test_one_batch_is_a_matrix_from_the_load_on() -> None:
    x, y = torch.empty(4, 64, 128, device="meta"), torch.empty(4, 128, 96, device="meta")
    (ir,) = lower(batched, x, y).regions
    (product,) = (op for op in ir.walk() if op.kind == "dot")
    loads = {op.output for op in ir.walk() if op.kind == "load"}
    assert {len(v.dims) for v in product.values} == {2} and set(product.values[:2]) == loads


# ---- block sizes --------------------------------------------------------------------------------


def halves(x, y):
    out = torch.empty(x.size(0), y.size(1))
    block = tfl.register_block_size(y.size(0))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(y.size(0), block_size=block):
            both = torch.stack([y[tile_k, tile_n], -y[tile_k, tile_n]], 1).reshape(-1, tile_n)
            begin = tile_k.begin * 2
            acc = acc + x[tile_m, begin : begin + 2 * block] @ both
        out[tile_m, tile_n] = acc
    return out


@pytest.mark.parametrize(("dtype", "floor"), [(torch.bfloat16, 8), (torch.float8_e4m3fn, 16)])
def test_floors_of_blocks_count_what_is_joined(dtype: torch.dtype, floor: int) -> None:
    kernel = halves if dtype == torch.bfloat16 else halves_of_fp8
    lowered = lower(kernel, torch.empty(64, 256, dtype=dtype, device="meta"), B.to(dtype))
    assert min(lowered.space.knob("block:block").choices) == floor  # type: ignore[type-var]


def halves_of_fp8(x, y):
    out = torch.empty(x.size(0), y.size(1))
    block = tfl.register_block_size(y.size(0))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(y.size(0), block_size=block):
            both = torch.stack([y[tile_k, tile_n], y[tile_k, tile_n]], 1).reshape(-1, tile_n)
            begin = tile_k.begin * 2
            acc = tfl.dot(x[tile_m, begin : begin + 2 * block], both, acc=acc)
        out[tile_m, tile_n] = acc
    return out


# ---- precision ----------------------------------------------------------------------------------


@pytest.fixture
def precision() -> Iterator[Callable[[str], None]]:
    before = torch.get_float32_matmul_precision()
    yield torch.set_float32_matmul_precision
    torch.set_float32_matmul_precision(before)


def test_float32_follows_torch(precision: Callable[[str], None]) -> None:
    found = {}
    for name in ("highest", "high", "medium"):
        precision(name)
        found[name] = DotAttrs.of(dots(augmented)[0]).precision
    assert found == {"highest": "ieee", "high": "tf32", "medium": "tf32"}


def test_another_precision_is_another_call(precision: Callable[[str], None]) -> None:
    kernel = tileflow.kernel(augmented)
    precision("highest")
    key, problem, half = call_key((A, B)), kernel.describe(A, B).key, kernel.describe(A.half(), B.half()).key
    precision("high")
    assert call_key((A, B)) != key and kernel.describe(A, B).key != problem
    assert kernel.describe(A.half(), B.half()).key == half


@pytest.fixture
def newer_interface() -> Iterator[Callable[[str], None]]:
    """torch's newer interface for the precision: once it is used, torch's older question raises."""

    def choose(name: str) -> None:
        torch.backends.cuda.matmul.fp32_precision = name

    yield choose
    choose("none")
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("name", "expected"), [("tf32", "tf32"), ("ieee", "ieee")])
def test_float32_follows_torchs_newer_interface(
    newer_interface: Callable[[str], None], name: str, expected: str
) -> None:
    """14.7: every product was refused by torch's own RuntimeError."""
    newer_interface("tf32")
    with pytest.raises(RuntimeError, match="matmul precision"):
        torch.get_float32_matmul_precision()
    newer_interface(name)
    lowered = lower(augmented)
    plain = {n: c for n, c in lowered.default.to_dict().items() if not n.endswith(".precision")}
    (source,) = lowered.emit(lowered.space.repair(lowered.space.complete(plain)))
    assert DotAttrs.of(dots(augmented)[0]).precision == expected and f"input_precision='{expected}'" in source.text


def test_the_newer_interface_makes_another_call(newer_interface: Callable[[str], None]) -> None:
    kernel = tileflow.kernel(augmented)
    newer_interface("ieee")
    key, problem = call_key((A, B)), kernel.describe(A, B).key
    newer_interface("tf32")
    assert call_key((A, B)) != key and kernel.describe(A, B).key != problem


def test_amd_has_tf32_on_one_architecture(precision: Callable[[str], None]) -> None:
    precision("high")
    found = {}
    for device in ("amd-mi300x", "amd-mi350x"):
        lowered = lower(augmented, device=device)
        (source,) = lowered.emit(lowered.default)
        found[device] = "input_precision='tf32'" in source.text
    assert found == {"amd-mi300x": True, "amd-mi350x": False}


# ---- dtypes -------------------------------------------------------------------------------------


def converted(x):
    out = torch.empty(x.shape, dtype=torch.float32)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :].float()
    return out


@pytest.mark.parametrize(
    ("kernel", "dtype", "device", "reason"),
    [
        (converted, torch.float8_e4m3fn, "nvidia-a100", "needs sm_89"),
        (converted, torch.float8_e4m3fn, "nvidia-h200", ""),
        (converted, torch.float8_e4m3fnuz, "nvidia-h200", "is AMD's"),
        (converted, torch.float8_e4m3fnuz, "amd-mi300x", ""),
        (converted, torch.float8_e5m2, "nvidia-a100", ""),
        (augmented, torch.float64, "amd-mi300x", "no float64 products"),
        (augmented, torch.float64, "amd-mi350x", ""),
    ],
)
def test_what_a_device_lacks_is_excluded(kernel: Any, dtype: torch.dtype, device: str, reason: str) -> None:
    lowered = lower(kernel, *(x.to(dtype) for x in ((A,) if kernel is converted else (A, B))), device=device)
    if not reason:
        assert lowered.emit(lowered.default)
        return
    with pytest.raises(ConfigError, match=reason):
        lowered.emit(lowered.default)


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "left", "right", "message"),
    [
        ("a @ b", torch.float16, torch.float32, r"convert one: .to\(torch.float32\)"),
        ("a @ b", torch.float8_e5m2, torch.float8_e5m2, "tfl.dot"),
        ("torch.mm(a[None], b)", torch.float32, torch.float32, "2 dimensions"),
        ("torch.bmm(a, b)", torch.float32, torch.float32, "3 dimensions"),
        ("a @ b.T", torch.float32, torch.float32, "inner dimensions"),
    ],
)
def test_refused(expression: str, left: torch.dtype, right: torch.dtype, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        traced(expression, {"a": torch.ones(4, 8, dtype=left), "b": torch.ones(8, 16, dtype=right)})


def other_order(x):
    out = torch.empty(2, x.size(0))
    for tile in tfl.tile(x.size(1)):
        both = x[0, tile].repeat_interleave(2) + torch.cat([x[0, tile], x[1, tile]])
        out[0, tile] = both.reshape(-1, 2)[:, 0]
    return out


def two_tiles_merged(x):
    out = torch.empty(x.size(0), x.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)], block_size=[None, 256]):
        out[tile_m, tile_n] = x[tile_m, tile_n].flatten().sum()
    return out


def wrong_scale(x):
    out = torch.empty(x.size(0), x.size(0))
    for tile in tfl.tile(x.size(0)):
        a = x[tile, :].to(torch.uint8)
        out[tile, tile] = tfl.dot_scaled(a, a, "e4m3", a.T, None, "e4m3")
    return out


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (other_order, "one order"),
        (two_tiles_merged, "a loop that has whole ones only"),
        (wrong_scale, "a scale stands for 32 numbers"),
    ],
)
def test_refused_in_kernels(kernel: Callable[..., Any], message: str) -> None:
    with pytest.raises(KernelError, match=message) as error:
        lower(kernel, A)
    assert __file__ in str(error.value)


def test_nibbles_become_halves_without_shifts_of_bytes() -> None:
    """The casts of an unpacked operand go to the bytes; what is left of the shifts is dead."""
    it = load_kernel("examples.int4_matmul:int4_matmul")
    args = it.inputs(device="meta", m=64, n=64, k=128)
    region = it.lower(args, target("nvidia-h200")).regions[0]
    made = [op for op in region.walk() if op.kind == "nibbles"]
    assert len(made) == 1 and {v.type.dtype for v in made[0].outputs} == {"bfloat16"}
    assert not [
        op for op in region.walk() if op.kind == "cast" or getattr(op.attrs, "fn", "") in ("shift_left", "shift_right")
    ]


# ---- products in flight -------------------------------------------------------------------------


def scaled_left(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc += (x[tile_m, tile_k] * 2) @ y[tile_k, tile_n]
        out[tile_m, tile_n] = acc
    return out


HALVES = torch.empty(512, 512, dtype=torch.bfloat16, device="meta")


@pytest.mark.parametrize(
    "function, device, settled",
    [(scaled_left, "nvidia-h200", True), (augmented, "nvidia-h200", False), (rescaled, "nvidia-h200", False),
     (scaled_left, "nvidia-b200", False), (scaled_left, "amd-mi300x", False)],
)  # fmt: skip
def test_operands_in_registers_outlast_their_product(function: Callable[..., Any], device: str, settled: bool) -> None:
    """On Hopper, a product that reads registers while a loop goes on is waited for; the machine code says so."""
    it = lower(function, HALVES, HALVES, device=device)
    config = it.space.repair(it.default.with_({"num_stages": 3}))
    (source,) = it.emit(config)
    assert ("= settled(" in source.text) == settled
    if not settled:
        return
    waits = re.findall(r"wgmma\.wait_group\.sync\.aligned (\d+)", compile_source(source, it.target).assembly)
    assert waits and set(waits) == {"0"}


# ---- branches between products ------------------------------------------------------------------


def masked_chain(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m in tfl.tile(x.size(0)):
        acc = tfl.zeros([tile_m, y.size(1)])
        for tile_n in tfl.tile(tile_m.end):
            scores = tfl.dot(x[tile_m, :], x[tile_n, :].T)
            if tile_n.end > tile_m.begin:
                scores = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], scores, 0.0)
            acc = tfl.dot(scores.to(y.dtype), y[tile_n, :], acc=acc)
        out[tile_m, :] = acc
    return out


def scaled_chain(x, y):
    out = torch.empty(x.size(0), y.size(1))
    for tile_m in tfl.tile(x.size(0)):
        acc = tfl.zeros([tile_m, y.size(1)])
        for tile_n in tfl.tile(tile_m.end):
            scores = tfl.dot(x[tile_m, :], x[tile_n, :].T)
            if tile_n.end > tile_m.begin:
                scores = torch.exp(scores) / (1.0 + torch.tanh(scores))
            acc = tfl.dot(scores.to(y.dtype), y[tile_n, :], acc=acc)
        out[tile_m, :] = acc
    return out


@pytest.mark.parametrize(
    ("function", "device", "is_jump"),
    [
        pytest.param(masked_chain, "nvidia-h200", True, id="warp groups"),
        pytest.param(masked_chain, "nvidia-b200", True, id="tensor memory"),
        pytest.param(masked_chain, "nvidia-a100", False, id="single warps"),
        pytest.param(masked_chain, "amd-mi300x", False, id="amd"),
        pytest.param(scaled_chain, "nvidia-a100", True, id="too long to do in vain"),
    ],
)
def test_a_short_branch_between_products_of_single_warps_is_a_choice(
    function: Callable[..., Any], device: str, is_jump: bool
) -> None:
    x = torch.empty(128, 64, device="meta", dtype=torch.bfloat16)
    y = torch.empty(128, 64, device="meta", dtype=torch.bfloat16)
    it = lower(function, x, y, device=device)
    (source,) = it.emit(it.default)
    assert bool(re.search(r"^ +if ", source.text, re.MULTILINE)) == is_jump


def test_a_full_block_jumps_over_the_masks() -> None:
    """Of keys' and values' gradients at 64 columns: a turn has the same products and boxes with the branches."""
    from examples.attention import attention_backward

    device = target("nvidia-h200")
    args = attention_backward.inputs(batch=1, heads=1, m=4096, d=64, causal=True, device="meta")
    lowered = attention_backward.lower(args, device)
    assert lowered.default["loop:tile_m@1@1.full_blocks"] is True
    masked = lowered.default.with_({"loop:tile_m@1@1.full_blocks": False})
    branching, plain = (build(lowered.emit(config)[1], device).resources for config in (lowered.default, masked))
    assert branching.spills == plain.spills == 0
    same = ("wgmma", "async_copy", "load_shared", "store_shared")
    assert [dict(branching.instructions).get(k) for k in same] == [dict(plain.instructions).get(k) for k in same]


@tileflow.kernel
def all_pairs_of_rows(a, b):
    out = torch.empty(a.size(0), 2, 2, dtype=a.dtype, device=a.device)
    for t in tfl.tile(a.size(0)):
        x = torch.stack([a[t, :], b[t, :]], dim=1)
        out[t, :, :] = torch.bmm(x, x.transpose(1, 2))
    return out


@pytest.mark.parametrize(("block", "boxes"), [(1, 0), (8, 2)])
def test_a_tile_of_one_row_goes_by_pointers(block: int, boxes: int) -> None:
    """With one product a program its rows have no dimension of their own, and no box: an InternalError."""
    rows = torch.empty(4096, 128, dtype=torch.bfloat16, device="meta")
    lowered = all_pairs_of_rows.lower((rows, rows.clone()), target("nvidia-h200"))
    boxed = {f"load:{name}#0.access": "descriptor" for name in ("a", "b")}
    (source,) = lowered.emit(lowered.space.normalise(lowered.default.with_({"block:t": block} | boxed)))
    assert len(re.findall(r"(?m)^ *\w+ = .*_desc\w*\.load\(", source.text)) == boxes, source.text


# ---- short inner dimensions ---------------------------------------------------------------------


def normal_equations(x, flag):
    out = torch.empty(x.size(0), 2, 2)
    for i in tfl.grid(x.size(0)):
        total = tfl.zeros([2, 2])
        for k in tfl.tile(x.size(1)):
            row = torch.stack([x[i, k], flag[i, k].to(x.dtype)], 1)
            total += row.T @ row
        out[i, :, :] = total
    return out


@pytest.mark.parametrize(
    ("flag", "device", "inner"),
    [
        (torch.bool, "nvidia-h200", 32),
        (torch.int16, "nvidia-h200", 16),
        (torch.bool, "amd-mi300x", 16),
    ],
)
def test_joined_bytes_have_lanes_for_all_of_an_instruction(flag: torch.dtype, device: str, inner: int) -> None:
    x, other = torch.empty(64, 96, device="meta"), torch.empty(64, 96, dtype=flag, device="meta")
    lowered = lower(normal_equations, x, other, device=device)
    (source,) = lowered.emit(lowered.space.normalise(lowered.default.with_({"block:k": 16})))
    shapes = re.findall(r"= tl.reshape\(tl.join\(\w+, tl.zeros_like\(\w+\)\), \[\w+, (\d+)\]\)", source.code)
    assert shapes == (["32"] if inner == 32 else [])
