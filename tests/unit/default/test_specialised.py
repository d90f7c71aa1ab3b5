"""Where the default config is warp-specialised, and how many parts an inner dimension has by default."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.kernels.computed_kernels import activated, int4_scaled, looked_up, meta_of

import examples.fp8_matmul
import examples.int4_matmul
import examples.matmul
import examples.mixed_matmul
import examples.split_k
import tileflow
import tileflow.language as tfl
from examples.fp8_matmul import fp8_matmul
from examples.grouped_matmul import grouped_matmul, grouped_matmul_flat
from examples.int4_matmul import int4_matmul
from examples.matmul import matmul, matmul_epilogue
from examples.mixed_matmul import mixed_matmul
from examples.split_k import split_k_matmul
from tileflow.api import Kernel
from tileflow.build.compile import build
from tileflow.kernels.gated import gated_linear
from tileflow.lowered import Lowered
from tileflow.portable import portable_sources
from tileflow.target import target

H200 = target("nvidia-h200")
# rows and columns of a tile, whether groups have tiles of their own
SHARED, DEALT = (128, 256, False), (128, 128, True)
BESIDE, BESIDE_DEALT = (128, 128, False), (128, 64, True)  # of two products
Tile = tuple[int, int, bool] | None


def tile_of(lowered: Lowered, rows: str, columns: str) -> Tile:
    """The tile of the default's warp-specialised product; None where it is pipelined."""
    config = lowered.default
    assert not lowered.space.violations(config)
    if config["schedule"] == "pipelined":
        return None
    assert lowered.emit(config)
    m, n = config[rows], config[columns]
    assert isinstance(m, int) and isinstance(n, int)
    return m, n, bool(config["ping_pong"])


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((4096, 4096, 4096), None),  # 3.9 waves of 128 x 256: as good as it gets
        ((8192, 8192, 8192), None),  # 15.5 waves: 1.04 to 0.94 of the speed
        ((64, 8192, 8192), None),
        ((1000, 1000, 1000), None),  # no two tiles for each multiprocessor
        ((4224, 4352, 4096), DEALT),  # 4.25 waves, which are 5: by halves 8.5, which are 4.5 of the large ones
        ((1024, 12288, 1024), DEALT),  # as much work, and an epilogue beside products that are short
        ((1024, 12288, 4096), None),
    ],
    ids=str,
)
def test_products(sizes: tuple[int, int, int], expected: Tile, mode: str) -> None:
    lowered = matmul.lower(examples.matmul.inputs(*sizes, device="meta"), H200, mode=mode)
    assert tile_of(lowered, "block:tile_m", "block:tile_n") == expected


@pytest.mark.parametrize("epilogue", ["leaky_relu", "bias_gelu"])
def test_an_epilogue_that_computes_is_pipelined(epilogue: str) -> None:
    """That of two groups had 0.7 of the speed with a GELU at these sizes, by which a plain product gains."""
    args = examples.matmul.epilogue_inputs(8192, 4096, 1024, epilogue, device="meta")
    assert tile_of(matmul_epilogue.lower(args, H200), "block:tile_m", "block:tile_n") is None
    plain = matmul.lower(examples.matmul.inputs(8192, 4096, 1024, device="meta"), H200)
    assert tile_of(plain, "block:tile_m", "block:tile_n") == DEALT


def test_eight_bits() -> None:
    few, many = (4096, 4096, 4096), (8192, 8192, 8192)
    for sizes, expected in ((few, DEALT), ((4224, 4352, 4096), DEALT), ((1024, 1024, 4096), None), (many, None)):
        lowered = fp8_matmul.lower(examples.fp8_matmul.inputs(*sizes, device="meta"), H200)
        assert tile_of(lowered, "block:tile_m", "block:tile_n") == expected


# m, n, k, and the tile of the fastest way that was timed: rows of weights, rows of x, groups, parts, and blocks of a
# cluster
PACKED = [
    ((1, 8192, 7168), None), ((32, 8192, 7168), None), ((40, 14336, 4096), (128, 64, 2, 1, 1)),
    ((64, 1024, 8192), (64, 64, 1, 8, 1)), ((64, 4096, 4096), (64, 64, 1, 1, 2)),
    ((64, 8192, 7168), (128, 64, 2, 1, 2)), ((64, 8192, 28672), (256, 64, 2, 4, 1)),
    ((64, 28672, 8192), (256, 64, 2, 1, 1)), ((96, 4096, 4096), (128, 64, 2, 1, 2)),
    ((96, 28672, 8192), (128, 128, 2, 1, 1)), ((128, 5120, 5120), (128, 128, 2, 1, 2)),
    ((128, 14336, 4096), (128, 128, 2, 1, 1)), ((160, 8192, 7168), (128, 256, 2, 2, 1)),
    ((192, 4096, 4096), (128, 128, 2, 1, 2)), ((200, 4096, 14336), (128, 256, 2, 4, 1)),
    ((256, 4096, 4096), (128, 128, 2, 1, 2)), ((256, 8192, 7168), (64, 256, 1, 1, 1)),
    ((256, 28672, 8192), (128, 256, 2, 1, 1)), ((384, 5120, 5120), (128, 128, 2, 1, 1)),
    ((512, 4096, 4096), (64, 256, 1, 1, 1)), ((512, 14336, 4096), (128, 256, 2, 1, 1)),
    ((768, 8192, 7168), (64, 256, 1, 1, 1)), ((1024, 5120, 5120), (64, 256, 1, 1, 1)),
    ((4096, 8192, 7168), (128, 256, 2, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(("sizes", "expected"), PACKED, ids=str)
def test_packed_weights(sizes: tuple[int, int, int], expected: tuple[int, ...] | None, mode: str) -> None:
    """Weights are the product's rows once it is transposed. Pipelined blocks took 50 us beside 128 rows (8192 x 7168),
    75 beside 256; these 32 and 46 (H200, 2026-11-30)."""
    lowered = int4_matmul.lower(examples.int4_matmul.inputs(*sizes, device="meta"), H200, mode=mode)
    config = lowered.default
    assert not lowered.space.violations(config)
    names = "block:tile_n", "block:tile_m", "consumers", "tunable:split_k", "loop:tile_k.ctas"
    found = None if config["schedule"] == "pipelined" else tuple(config[name] for name in names)
    assert found == expected


def test_variants_of_packed_weights_serve_calls_of_many_tiles() -> None:
    """Of a cluster's two blocks all run at once for few tiles alone; more have one block each, of the same schedule."""

    def of(m: int) -> Lowered:
        args = examples.int4_matmul.inputs(m, 4096, 4096, device="meta")
        return int4_matmul.lower(args, H200, mode="dynamic")

    example = of(64)
    assert example.default["loop:tile_k.ctas"] == 2
    found = [s for s in portable_sources(example, example.default) if s.region == 0 and s.language == "gluon"]
    assert [source.cluster for source in found] == [2, 1]
    for m, taken in ((64, [True, True]), (128, [False, True]), (2048, [False, True])):
        region, *_ = of(m).specialised_regions(example.default)  # as host code launches it with one part
        assert [bool(source.guards.evaluate(region.hints)) for source in found] == taken


def test_boxes_of_wide_numbers_have_short_turns() -> None:
    """Of int16 two stages of 256 x 128 fit, and 208 us were taken for 118."""
    for sizes, rows, turn in (((64, 28672, 8192), 128, 128), ((512, 4096, 4096), 64, 64)):
        lowered = mixed_matmul.lower(examples.mixed_matmul.inputs(*sizes, device="meta"), H200)
        assert lowered.default["schedule"] == "warp_specialised"
        assert (lowered.default["block:tile_n"], lowered.default["block:tile_k"]) == (rows, turn)


@pytest.mark.parametrize("kernel", [int4_scaled, looked_up], ids=["groups", "table"])
def test_turns_whose_length_is_the_authors(kernel: Kernel) -> None:
    """Weights with a scale for each group: 4096 x 4096 took 258 us pipelined and 189 so, with a table 855 and 229."""
    for m, expected in ((4096, SHARED), (1024, SHARED), (64, None)):
        lowered = kernel.lower(meta_of(kernel, m=m, n=4096, k=4096), H200)
        assert tile_of(lowered, "block:tile_n", "block:tile_m") == expected


def test_computed_left_operands() -> None:
    for sizes, expected in (((4096, 4096, 4096), SHARED), ((256, 256, 192), None)):
        lowered = activated.lower(meta_of(activated, **dict(zip("mnk", sizes, strict=True))), H200)
        assert tile_of(lowered, "block:tile_m", "block:tile_n") == expected


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("kernel", [grouped_matmul, grouped_matmul_flat], ids=["by group", "flat"])
def test_ragged_groups(kernel: Kernel, mode: str) -> None:
    """Of 1024 rows a group and more groups of consumers have tiles of their own, unless sums are long; walking over a
    group's rows was not measured so."""
    is_flat = kernel is grouped_matmul_flat
    rows, many = ("block:block_m", DEALT) if is_flat else ("block:tile_m", SHARED)
    for groups, m, n, k, expected in (
        (8, 16384, 14336, 4096, many), (16, 16384, 4096, 7168, many), (2, 8192, 4096, 14336, SHARED),
        (8, 4096, 14336, 4096, SHARED), (64, 24576, 2816, 2048, SHARED), (8, 512, 512, 512, None),
    ):  # fmt: skip
        lowered = kernel.lower(kernel.inputs(groups=groups, m=m, n=n, k=k, device="meta"), H200, mode=mode)
        found = tile_of(lowered, rows, "block:tile_n")
        if not is_flat and groups == 2:  # 32 programs
            assert found is None
        else:
            assert found == expected
            assert expected is None or lowered.default["group"] == 8


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ((64, 8192, 8192), 1),  # 128 tiles of 64 x 64 for 132 multiprocessors
        ((64, 4096, 8192), 2),
        ((64, 64, 65536), 32),  # as many as the author allows
        ((64, 64, 2048), 4),  # none shorter than 512
        ((4224, 4352, 4096), 1),
        ((64, 64, 300), 1),
    ],
    ids=str,
)
def test_parts_of_an_inner_dimension(sizes: tuple[int, int, int], parts: int) -> None:
    """The author's first choice of four had 0.77, 0.31 and 0.56 of cuBLAS's speed at the first, third and fifth."""
    lowered = split_k_matmul.lower(examples.split_k.inputs(*sizes, device="meta"), H200)
    assert lowered.default["tunable:split_k"] == parts
    # a loop whose bounds a program finds had 0.9 of a plain product's speed where it was pipelined
    alone = sizes == (64, 8192, 8192)
    assert not alone or tile_of(lowered, "block:tile_m", "block:tile_n") == (64, 64, True)
    assert not alone or lowered.default["consumers"] == 1


@pytest.mark.parametrize("device", ["nvidia-a100", "amd-mi300x"])
def test_other_architectures_are_pipelined(device: str) -> None:
    calls: tuple[tuple[Kernel, Any], ...] = (
        (matmul, examples.matmul.inputs(4224, 4352, 4096, device="meta")),
        (int4_matmul, examples.int4_matmul.inputs(4096, 8192, 7168, device="meta")),
        (grouped_matmul, grouped_matmul.inputs(groups=8, m=16384, n=14336, k=512, device="meta")),
    )
    for kernel, args in calls:
        assert "schedule" not in [k.name for k in kernel.lower(args, target(device)).space.knobs]


def _linear(x: torch.Tensor, w: torch.Tensor, tile_m: Any, tile_n: Any) -> Any:
    acc = tfl.zeros([tile_m, tile_n])
    for tile_k in tfl.tile(x.size(1)):
        acc = torch.addmm(acc, x[tile_m, tile_k], w[tile_n, tile_k].t())
    return acc


@tileflow.kernel
def fused(x: torch.Tensor, w: torch.Tensor, other: torch.Tensor, epilogue: Any) -> torch.Tensor:
    m, n = x.size(0), w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        out[tile_m, tile_n] = epilogue(_linear(x, w, tile_m, tile_n), other, tile_m, tile_n)
    return out


@tileflow.kernel
def batched_residual(x: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    batch, m, k = x.shape
    n = y.size(-1)
    out = torch.empty(batch, m, n, dtype=x.dtype, device=x.device)
    for b, tile_m, tile_n in tfl.tile([batch, m, n], block_size=[1, None, None]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[b.begin, tile_m, tile_k], y[b.begin, tile_k, tile_n])
        out[b.begin, tile_m, tile_n] = acc + other[b.begin, tile_m, tile_n]
    return out


def residual(acc: Any, other: torch.Tensor, tile_m: Any, tile_n: Any) -> Any:
    return acc + other[tile_m, tile_n]


def gate(acc: Any, other: torch.Tensor, tile_m: Any, tile_n: Any) -> Any:
    return F.silu(other[tile_m, tile_n].float()) * acc


def bias(acc: Any, other: torch.Tensor, tile_m: Any, tile_n: Any) -> Any:
    return acc + other[0, tile_n]


@tileflow.kernel
def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, epilogue: Any) -> torch.Tensor:
    m, n = x.size(0), gate.size(0)
    out = torch.empty(m, n, dtype=torch.bfloat16, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            a = torch.addmm(a, x[tile_m, tile_k], gate[tile_n, tile_k].t())
            b = torch.addmm(b, x[tile_m, tile_k], up[tile_n, tile_k].t())
        out[tile_m, tile_n] = epilogue(a, b)
    return out


@tileflow.kernel
def kept(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, ...]:
    m, n = x.size(0), gate.size(0)
    out, first, second = (torch.empty(m, n, dtype=torch.bfloat16, device=x.device) for _ in range(3))
    for tile_m, tile_n in tfl.tile([m, n]):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            a = torch.addmm(a, x[tile_m, tile_k], gate[tile_n, tile_k].t())
            b = torch.addmm(b, x[tile_m, tile_k], up[tile_n, tile_k].t())
        first[tile_m, tile_n], second[tile_m, tile_n] = a, b
        out[tile_m, tile_n] = F.silu(a) * b
    return out, first, second


def swish(a: Any, b: Any) -> Any:
    return F.silu(a) * b


def swish_of_rows(a: Any, b: Any) -> Any:
    return F.silu(a) * b - (a * b).amax(-1, keepdim=True)


def _meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("epilogue", "expected"), [(residual, SHARED), (gate, SHARED), (bias, None)])
def test_an_epilogue_that_loads_a_matrix(epilogue: Any, expected: Tile, dtype: torch.dtype) -> None:
    """Their default had no room in shared memory, and a fallback ran at 0.7 of the speed of torch's product and
    addition."""
    for m, n, k, tile in ((4096, 4096, 4096, expected), (512, 512, 4096, None)):
        lowered = fused.lower((_meta(m, k), _meta(n, k), _meta(m, n, dtype=dtype), epilogue), H200)
        assert tile_of(lowered, "block:tile_m", "block:tile_n") == tile
        assert build(*lowered.emit(lowered.default), H200).resources.spills == 0


@pytest.mark.parametrize("sizes", [(16, 65536, 1024), (65536, 64, 1024)], ids=str)
@pytest.mark.parametrize("kernel", [fused, gated_linear], ids=["a residual", "a gate"])
def test_few_rows_or_columns_do_not_fill_a_shared_tile(kernel: Kernel, sizes: tuple[int, int, int]) -> None:
    """Tiles there are enough of, but seven eighths of each would be padding."""
    m, n, k = sizes
    others = (_meta(m, n), residual) if kernel is fused else (_meta(n, k), "silu")
    lowered = kernel.lower((_meta(m, k), _meta(n, k), *others), H200)
    assert tile_of(lowered, "block:tile_m", "block:tile_n") is None


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    ("sizes", "silu", "gelu"),
    [
        ((4096, 14336, 4096), BESIDE, BESIDE),
        ((8192, 5632, 2048), BESIDE, BESIDE),
        ((512, 14336, 4096), BESIDE_DEALT, BESIDE),  # 4 waves of 128 x 128, by halves 7: 0.88 of the work
        ((1000, 11008, 4096), BESIDE_DEALT, BESIDE),  # 6 and 11
        ((64, 14336, 4096), None, None),
        ((256, 4096, 1024), None, None),  # no tile for each multiprocessor
    ],
    ids=str,
)
def test_two_products_of_one_left_operand(sizes: tuple[int, int, int], silu: Tile, gelu: Tile, mode: str) -> None:
    """A tanh keeps groups that have tiles of their own from each other's products: 0.87 times the speed."""
    for activation, expected in (("silu", silu), ("gelu", gelu)):
        args = gated_linear.inputs(**dict(zip("mnk", sizes, strict=True)), device="meta", activation=activation)
        lowered = gated_linear.lower(args, H200, mode=mode)
        assert tile_of(lowered, "block:tile_m", "block:tile_n") == expected


def test_two_products_of_eight_bits() -> None:
    """Their turns are as many bytes; the result is of another dtype."""
    x, w = (_meta(size, 4096, dtype=torch.float8_e4m3fn) for size in (4096, 14336))
    lowered = gated.lower((x, w, w, swish), H200)
    assert tile_of(lowered, "block:tile_m", "block:tile_n") == BESIDE
    assert lowered.default["block:tile_k"] == 128


@pytest.mark.parametrize("epilogue", ["swish_and_both", "swish_of_rows"])
def test_two_products_that_are_stored_or_looked_at_as_rows_are_pipelined(epilogue: str) -> None:
    x, w = _meta(4096, 4096), _meta(14336, 4096)
    if epilogue == "swish_and_both":
        lowered = kept.lower((x, w, w), H200)
    else:
        lowered = gated.lower((_meta(65536, 4096), _meta(128, 4096), _meta(128, 4096), swish_of_rows), H200)
    assert tile_of(lowered, "block:tile_m", "block:tile_n") is None


@pytest.mark.parametrize("device", ["nvidia-h200", "nvidia-b200"])
def test_a_pipelined_one_fits_shared_memory(device: str) -> None:
    """It walks over tiles only where the loaded matrix has room beside three stages."""
    args = (_meta(8, 2048, 1024), _meta(8, 1024, 2048), _meta(8, 2048, 2048))
    lowered = batched_residual.lower(args, target(device))
    assert lowered.default.get("schedule", "pipelined") == "pipelined" and not lowered.default["persistent"]
    build(*lowered.emit(lowered.default), lowered.target)
