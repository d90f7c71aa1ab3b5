"""The text of rows over clusters: run on a CPU, a thread for each block, beside torch."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.fakes import ptx_blocks
from tile_testing.fakes.cluster_emulation import bound, run
from tile_testing.kernels.cluster_kernels import dropped_sums, extremes, in_a_loop, in_place, norm_gradient, places
from tileflow_benchmarks.clusters.soft_labels import inputs, reference, soft_cross_entropy

from examples.layer_norm import layer_norm
from examples.rms_norm import rms_norm
from examples.softmax import softmax, softmax_bwd
from tileflow.api import Kernel
from tileflow.config import Choice, Config
from tileflow.emit import kernel
from tileflow.emit.cluster_boxes import LEAST_BOX, REGISTERS, next_box
from tileflow.emit.exchanges import exchange_text
from tileflow.emit.source import TritonSource
from tileflow.errors import ConfigError
from tileflow.language.random import UNIT, philox
from tileflow.lowered import Lowered
from tileflow.passes.divide_row import divide_row
from tileflow.target import target

H200 = target("nvidia-h200")
M = 3


def lowered_of(kernel: Kernel, args: tuple[Any, ...]) -> Lowered:
    return kernel.lower(tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), H200)


def config_of(lowered: Lowered, ctas: int) -> Config:
    """One row a program, in one piece."""
    choices: dict[str, Choice] = {k.name: 0 for k in lowered.space.knobs if k.role == "reduction"}
    choices |= {k.name: 1 for k in lowered.space.knobs if k.role == "block"}
    return lowered.space.complete({**choices, "ctas": ctas, "num_warps": 16})


def clustered(kernel: Kernel, args: tuple[Any, ...], ctas: int) -> TritonSource:
    lowered = lowered_of(kernel, args)
    (source,) = lowered.emit(config_of(lowered, ctas))
    return source


def rows(n: int, ctas: int) -> torch.Tensor:
    """Rows: plain; of a peak in one part and none elsewhere; of a part that is all minus infinity."""
    x = torch.randn(M, n, generator=torch.Generator().manual_seed(n))
    x[1, n // 2] = 200.0
    x[2, : n // ctas] = -torch.inf
    return x


def softmaxed(x: torch.Tensor, ctas: int) -> torch.Tensor:
    out = torch.full_like(x, -1.0)
    waits = run(clustered(softmax, (x,), ctas), {"x_ptr": x, "out_ptr": out}, M)
    assert waits == [3] * (M * ctas)  # where it begins, the maximum, the sum: in every block alike
    return out


@pytest.mark.parametrize("n", [32768, 20000, 16640])
@pytest.mark.parametrize("ctas", [2, 4, 8])
def test_softmax(n: int, ctas: int) -> None:
    """16640 of 32768: the last parts are empty."""
    x = rows(n, ctas)
    torch.testing.assert_close(softmaxed(x, ctas), torch.softmax(x, 1))


def test_a_nan_of_one_part_is_the_whole_row() -> None:
    x = rows(20000, 4)
    x[0, 19999] = torch.nan
    got = softmaxed(x, 4)
    assert bool(got[0].isnan().all()) and not bool(got[1:].isnan().any())


@pytest.mark.parametrize("n", [16384, 20000])
def test_norms(n: int) -> None:
    x = torch.randn(M, n)
    weight, bias, out = torch.randn(n), torch.randn(n), torch.empty_like(x)
    names = {"x_ptr": x, "weight_ptr": weight, "out_ptr": out, "eps": 1e-5}
    run(clustered(layer_norm, (x, weight, bias, 1e-5), 4), {**names, "bias_ptr": bias}, M)
    torch.testing.assert_close(out, F.layer_norm(x, (n,), weight, bias), rtol=1e-4, atol=1e-4)
    run(clustered(rms_norm, (x, weight, 1e-5), 8), names, M)
    torch.testing.assert_close(out, F.rms_norm(x, (n,), weight, 1e-5), rtol=1e-4, atol=1e-4)


def test_a_backward_pass() -> None:
    n = 20000
    grad, out, found = torch.randn(M, n), torch.softmax(torch.randn(M, n), 1), torch.empty(M, n)
    run(clustered(softmax_bwd, (grad, out), 2), {"grad_ptr": grad, "out_ptr": out, "grad_x_ptr": found}, M)
    torch.testing.assert_close(found, out * (grad - (out * grad).sum(1, keepdim=True)))


def test_three_reductions_and_a_number_beside_the_row() -> None:
    logits, wanted = (100 * t for t in inputs(M, 20000))
    wanted /= 100
    loss, grad = torch.empty(M), torch.empty_like(logits)
    source = clustered(soft_cross_entropy, (logits, wanted), 8)
    run(source, {"logits_ptr": logits, "wanted_ptr": wanted, "loss_ptr": loss, "grad_ptr": grad}, M)
    torch.testing.assert_close((loss, grad), reference(logits, wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_numbers_of_rows_by_dtype(dtype: torch.dtype) -> None:
    x = torch.where(torch.rand(M, 20000) < 1e-3, 2, 1).to(dtype)
    x[:, 1:] = torch.where(torch.arange(1, 20000) < 30, x[:, 1:], 1)
    x[0, 19000] = -3
    out = {name: torch.empty(M, dtype=dtype) for name in ("high_ptr", "low_ptr", "product_ptr")}
    source = clustered(extremes, (x,), 4)
    expected = {"high_ptr": x.amax(1), "low_ptr": x.amin(1), "product_ptr": x.prod(1).to(dtype)}
    run(source, {"x_ptr": x, **out}, M)
    for name, values in expected.items():
        torch.testing.assert_close(out[name], values)


@pytest.mark.parametrize(("n", "mode"), [(16384, "static"), (16388, "dynamic"), (20001, "static")])
def test_every_knob_keeps_the_values(n: int, mode: str) -> None:
    """Sampled configs: by pointers and by boxes, which begin where the block's part does."""
    x, weight, bias = rows(n, 2).nan_to_num(neginf=0.0), torch.randn(n), torch.randn(n)
    args = (x.to("meta"), weight.to("meta"), bias.to("meta"), 1e-5)
    lowered, expected = layer_norm.lower(args, H200, mode=mode), F.layer_norm(x, (n,), weight, bias)
    sizes, rng = lowered.regions[0].hints, random.Random(n)
    sampled = (lowered.space.sample(rng) for _ in range(2000))
    seen = set()
    for config in itertools.islice((c for c in sampled if c["ctas"] != 1), 8):
        seen |= {choice for name, choice in config.items if name.endswith(".access")}
        for source in lowered.emit(config):
            out = torch.full_like(x, -9.0)
            given = {"x": x, "weight": weight, "bias": bias, "out": out, "eps": 1e-5}
            run(source, bound(source, given, sizes), M)
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    assert seen == ({"pointer", "descriptor"} if n % 4 == 0 else set())


@pytest.mark.parametrize(("n", "ctas"), [(8192, 2), (8192, 8), (12000, 4)])
def test_turns_exchange_two_numbers_at_once(n: int, ctas: int) -> None:
    """Five rows of two programs: each turn waits once, and a row is handed on in parts."""
    grad, x = torch.randn(5, n), torch.randn(5, n)
    lowered = lowered_of(norm_gradient, (grad, x))
    config = lowered.space.complete({"block:block": 4, "block:tile": 1, "ctas": ctas, "num_warps": 8})
    (source,) = lowered.emit(config)
    out, sums = torch.full_like(x, -1.0), torch.full((2, n), -1.0)
    given = {"grad": grad, "x": x, "out": out, "sums": sums}
    waits = run(source, bound(source, given, {**lowered.regions[0].hints, "block:block": 4}), 2)
    assert waits == [1 + 4] * ctas + [1 + 1] * ctas
    product = grad * x
    wanted = grad - grad.mean(1, keepdim=True) - x * product.mean(1, keepdim=True)
    torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(sums, torch.stack([product[:4].sum(0), product[4]]), rtol=1e-4, atol=1e-5)


def test_rows_in_place() -> None:
    x = torch.randn(M, 20000)
    wanted = torch.softmax(x, 1)
    lowered = lowered_of(in_place, (x,))
    config = lowered.space.complete({"block:tile": 1, "ctas": 4, "num_warps": 8})
    (source,) = lowered.emit(config)
    run(source, bound(source, {"x": x}, lowered.regions[0].hints), M)
    torch.testing.assert_close(x, wanted)


def test_rows_of_loops_in_one_another() -> None:
    x = torch.randn(2, 3, 9000)
    lowered = lowered_of(in_a_loop, (x,))
    config = lowered.space.complete({"block:tile_b": 1, "block:tile_m": 1, "ctas": 4, "reduce:max#0": 0})
    (source,) = lowered.emit(config)
    out = torch.full_like(x, -1.0)
    waits = run(source, bound(source, {"x": x, "out": out}, lowered.regions[0].hints), 2)
    assert waits == [1 + 2 * 3] * (2 * 4)
    torch.testing.assert_close(out, torch.softmax(x, 2))


@pytest.mark.parametrize("n", [20000, 20001])
def test_random_numbers_are_those_of_their_places(n: int) -> None:
    """Four to a counter where rows begin at whole counters, which 20001 do not."""
    x, out, seed = torch.rand(M, n), torch.empty(M), 1234
    run(clustered(dropped_sums, (x, seed), 4), {"x_ptr": x, "out_ptr": out, "seed": seed}, M)
    place = torch.arange(M * n)
    words = torch.stack(torch.broadcast_tensors(*philox((place // 4, 0, 0, 0), seed)))
    weight = UNIT * (words.gather(0, place[None] % 4) >> 8).view(M, n)
    torch.testing.assert_close(out, (x * weight).sum(1))


@pytest.mark.parametrize("dtypes", [("float32",), ("int64",), ("float32", "int32", "float32")], ids="-".join)
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_exchanges_share_two_boxes(parts: int, dtypes: tuple[str, ...]) -> None:
    """The assembly texts, one after the other, by threads in any order between barriers: none writes what another one
    may still read."""
    text, size, count = exchange_text(parts, dtypes, LEAST_BOX), REGISTERS[dtypes[0]][2], len(dtypes)
    wanted = [10 * i + p for i in range(count) for p in range(parts)]
    for seed in range(5):
        mine = {p: [10 * i + p for i in range(count)] for p in range(parts)}
        own = {(p, t): [-1] * parts * count + mine[p] for p in range(parts) for t in range(parts + 1)}
        ptx_blocks.run([text] * 3, LEAST_BOX, own, size, random.Random(seed))
        assert all(registers == [*wanted, *mine[p]] for (p, _), registers in own.items())
    broken = text.replace(next_box(LEAST_BOX), "")
    with pytest.raises(AssertionError, match="meet"):
        ptx_blocks.run([broken] * 2, LEAST_BOX, own, size, random.Random(0))


def planted(change: Callable[[str], str]) -> torch.Tensor:
    """Softmax by a text with a mistake."""
    x, out = rows(20000, 4), torch.full((M, 20000), -1.0)
    source = clustered(softmax, (x,), 4)
    text = change(source.text)
    assert text != source.text
    object.__setattr__(source, "text", text)
    run(source, {"x_ptr": x, "out_ptr": out}, M)
    return out


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t.replace("n0 + n1 + n2 + n3", "n0 + n2 + n3"), id="a part is not summed"),
        pytest.param(lambda t: t.replace("cta * 8192", "0"), id="all parts are the first"),
        pytest.param(lambda t: re.sub(r"_max_of_cluster\((v\d+)\)", r"\1", t), id="no maximum"),
    ],
)
def test_the_emulation_finds_mistakes(change: Callable[[str], str]) -> None:
    assert not torch.equal(planted(change).nan_to_num(), planted(lambda t: t + "\n").nan_to_num())


def test_a_launch_that_cannot_exchange_is_not_emitted() -> None:
    lowered = places.lower((torch.empty(M, 32768, device="meta"),), H200)
    (ir,) = lowered.regions
    with pytest.raises(ConfigError, match="not argmax"):
        divide_row(ir, 4)


def test_lanes_are_numbered_in_one_place() -> None:
    """Elsewhere they would be those of the first part in each block."""
    texts = {path.name: path.read_text() for path in Path(kernel.__file__).parent.glob("*.py")}
    assert [name for name, text in texts.items() if "tl.arange(" in text] == ["kernel.py"]


def test_another_cluster_is_another_binary() -> None:
    x = (torch.empty(M, 32768),)
    sources = [clustered(softmax, x, ctas) for ctas in (1, 2, 4, 8)]
    assert [s.cluster for s in sources] == [1, 2, 4, 8] and len({s.hash for s in sources}) == 4
    assert all(s.grid == sources[0].grid for s in sources)  # counted in programs
    assert "cluster" not in sources[0].code
