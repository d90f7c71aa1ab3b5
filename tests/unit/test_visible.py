"""What a compiler sees of a call on a GPU: Triton functions in its graph (finding: 154 us of host time for each call).

Tensors are fake, and so is Triton's driver: torch asks it only which target the functions are analysed for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow import programs, runtime, visible
from tileflow.config import Config
from tileflow.errors import BuildError
from tileflow.kernels.losses import cross_entropy_forward
from tileflow.library import Operators
from tileflow.operators import Operator
from tileflow.runtime import Entry, KernelId, Table, dump_table, observe
from tileflow.runtime.abi import Resources
from tileflow.runtime.argtree import Leaf, flatten_call
from tileflow.target import target

triton = pytest.importorskip("triton")
from functorch.compile import aot_module_simplified, make_boxed_func  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402

Tensor = torch.Tensor
LAUNCH = "triton_kernel_wrapper_functional"
SCALE = 2.0


@tileflow.kernel
def norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    m, _ = x.shape
    out, factor = torch.empty_like(x), torch.empty(m, dtype=torch.float32, device=x.device)
    for tile in tfl.tile(m):
        row = x[tile, :].float()
        scale = torch.rsqrt(torch.mean(row * row, dim=1) + eps)
        factor[tile] = scale
        out[tile, :] = row * scale[:, None] * weight[:]
    return out, factor


@tileflow.kernel
def accumulate(total: Tensor, x: Tensor, times: int) -> None:
    flat, other = total.view(-1), x.reshape(-1)
    for tile in tfl.tile(flat.size(0)):
        flat[tile] += other[tile] * times


@tileflow.kernel
def scaled(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * SCALE
    return out


@tileflow.kernel
def product(x: Tensor, y: Tensor) -> Tensor:
    (m, k), n = x.shape, y.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = tfl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def noisy(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + torch.rand_like(x[tile])
    return out


@tileflow.kernel
def by_sign(x: Tensor) -> Tensor:
    out = torch.zeros(2, dtype=torch.float32, device=x.device)
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [(x[tile] > 0).int()], x[tile].float())
    return out


class Driver:
    """Triton's, of a machine with a GPU."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = triton.runtime.driver._active
    triton.runtime.driver.set_active(Driver())
    monkeypatch.setattr(visible, "device_class", lambda device: "nvidia-h200")
    runtime.clear()
    observe.clear_counters()
    torch.compiler.reset()
    yield
    runtime.clear()
    triton.runtime.driver._active = before


class Traced:
    """The graphs that a backend which works as Inductor does is given, made functional and decomposed."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, fn: Callable[..., Any], *args: Any, dynamic: bool = False) -> torch.fx.GraphModule:
        """The graph of ``fn``: of shapes, tensors of bfloat16."""
        with FakeTensorMode():
            made = [torch.empty(a, device="cuda", dtype=torch.bfloat16) if type(a) is tuple else a for a in args]
            torch.compile(fn, fullgraph=True, backend=self._backend, dynamic=dynamic)(*made)
        return self.graphs[-1]

    def _backend(self, graph: torch.fx.GraphModule, example: Any) -> Any:
        return aot_module_simplified(graph, example, fw_compiler=self._keep)

    def _keep(self, graph: torch.fx.GraphModule, example: Any) -> Any:
        self.graphs.append(graph)
        return make_boxed_func(graph.forward)


@pytest.fixture
def traced() -> Traced:
    return Traced()


def launches(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if str(node.target) == LAUNCH]


def opaque(graph: torch.fx.GraphModule) -> list[str]:
    texts = [f"{node.target} {node.args}" for node in graph.graph.nodes if node.op == "call_function"]
    return [text for text in texts if "tileflow." in text]


def test_a_call_is_host_code_of_torchs_and_a_triton_function(traced: Traced) -> None:
    graph = traced(lambda x, w: norm(x * 2, w)[0].relu(), (128, 4096), (4096,))
    (launch,) = launches(graph)
    held = launch.kwargs["kwargs"]
    assert isinstance(held, dict) and {*held} == {"x_ptr", "weight_ptr", "out_ptr", "factor_ptr", "eps", "BLOCK_TILE"}
    assert held["eps"] == 1e-5 and launch.kwargs["grid"] == [(128 // held["BLOCK_TILE"], 1, 1)]
    assert launch.kwargs["tensors_to_clone"] == ["factor_ptr", "out_ptr"], "what is only read is not copied"
    assert not opaque(graph)


def test_sizes_stay_symbolic_and_need_no_graph_of_their_own(traced: Traced) -> None:
    """Divisibility by 16 is worth no further graph: the variant without it is taken."""
    graph = traced(lambda x, w: norm(x, w)[0], (128, 4096), (4096,), dynamic=True)
    (launch,) = launches(graph)
    held = launch.kwargs["kwargs"]
    assert isinstance(held, dict)
    assert str(held["end_0"].meta["val"]) == str(held["x_ptr"].meta["val"].shape[0])
    assert not isinstance(held["end_0"].meta["val"], int)


def test_what_is_stored_into_is_declared(traced: Traced) -> None:
    with pytest.raises(RuntimeError, match="not linked"):  # the graph runs, and copies into a fake tensor
        traced(lambda total, x: accumulate(total, x, 3), (128, 64), (128, 64))
    (launch,) = launches(traced.graphs[-1])
    assert launch.kwargs["tensors_to_clone"] == ["flat_ptr"]


def test_a_table_s_config_is_in_the_graph_and_in_the_operator_s_name(traced: Traced, tmp_path: Path) -> None:
    """Compilers keep graphs by such names on disk: those of two configs must differ (issue 13)."""
    x, w = torch.empty(128, 4096, device="meta", dtype=torch.bfloat16), torch.empty(4096, device="meta")
    w = w.to(torch.bfloat16)
    config = norm.lower((x, w), target("nvidia-h200")).default
    names, blocks = set(), []
    for _ in range(2):
        seen = visible.visible(norm, (x, w, 1e-5), torch.device("cuda", 0), False)
        names.add(seen.identity)
        blocks.append(dict(seen.sources[0].constexprs)["BLOCK_TILE"])
        runtime.load(table_of(norm, (x, w, 1e-5), config.with_({"block:tile": 2}), tmp_path))
    assert blocks == [config["block:tile"], 2] and len(names) == 2


def test_a_default_that_spills_gives_its_place_in_a_graph_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call outside a graph ran a neighbour that holds less, the graph the default: up to ten times as long."""
    x, w = (torch.empty(*shape, device="meta", dtype=torch.float16) for shape in ((128, 2048), (2048,)))
    default = norm.lower((x, w), target("nvidia-h200")).default

    def built(source: Any, device: Any) -> Any:
        warps = dict(source.options)["num_warps"]
        spills = 900 if warps == default["num_warps"] else 0
        return SimpleNamespace(resources=Resources(registers=80, spills=spills, shared=0, threads=warps * 32))

    monkeypatch.setattr("tileflow.build.compile.build", built)
    seen = visible.visible(norm, (x, w, 1e-5), torch.device("cuda", 0), False)
    assert seen.config != default and dict(seen.sources[0].options)["num_warps"] != default["num_warps"]


def test_a_default_that_has_no_build_stays_the_call_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(source: Any, device: Any) -> Any:
        raise BuildError("Triton must accept a generated source", got="nothing")

    monkeypatch.setattr("tileflow.build.compile.build", refused)
    x, w = (torch.empty(*shape, device="meta", dtype=torch.float16) for shape in ((64, 2048), (2048,)))
    with pytest.raises(visible.Hidden, match="must accept"):
        visible.visible(norm, (x, w, 1e-5), torch.device("cuda", 0), False)


def table_of(kernel: Any, args: tuple[Any, ...], config: Config, folder: Path) -> Path:
    row = Entry("nvidia-h200", kernel.describe(*args), config, origin="portfolio")
    path = folder / "table.json"
    dump_table(Table.of(KernelId.of(kernel.name, kernel.semantic_hash), [row]), path)
    return path


@pytest.mark.parametrize(
    ("fn", "shapes", "why"),
    [
        (product, ((4096, 4096), (4096, 4096)), "by a descriptor"),
        (scaled, ((4096,),), "SCALE in each call"),
        (noisy, ((4096,),), "random seed"),
        (by_sign, ((1 << 23,),), "copies of out"),
    ],
)
def test_what_a_compiler_cannot_be_shown_stays_opaque(
    fn: Any, shapes: tuple[Any, ...], why: str, traced: Traced, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tileflow.runtime"):
        try:
            traced(lambda *args: fn(*args), *shapes)
        except RuntimeError as error:
            assert "not linked" in str(error)
    assert opaque(traced.graphs[-1]) and not launches(traced.graphs[-1])
    assert any(why in record.getMessage() for record in caplog.records), caplog.text


def test_a_number_that_is_1_is_shown_too(traced: Traced) -> None:
    """Triton makes a constant of it, which has no methods; it was opaque while texts converted numbers by one."""
    with pytest.raises(RuntimeError, match="not linked"):  # as above
        traced(lambda total, x: accumulate(total, x, 1), (8, 64), (8, 64))
    assert launches(traced.graphs[-1]) and not opaque(traced.graphs[-1])


def test_a_policy_that_compiles_nothing_and_a_recording_keep_it_opaque(traced: Traced, tmp_path: Path) -> None:
    with tileflow.record(tmp_path / "calls"):
        assert opaque(traced(lambda x, w: norm(x, w)[0], (128, 4096), (4096,)))
    torch.compiler.reset()
    runtime.set_on_miss("error")
    try:
        assert opaque(traced(lambda x, w: norm(x, w)[0], (128, 4096), (4096,)))
    finally:
        runtime.set_on_miss("default")


@tileflow.kernel
def halved(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 0.5
    return out


def test_a_loaded_operator_shows_what_its_name_says_or_nothing(
    traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compilers keep what they made of it on disk, where a process with another table finds it."""
    x = torch.empty(4096, device="meta", dtype=torch.bfloat16)
    seen = visible.visible(halved, (x,), torch.device("cuda", 0), False)
    template, _ = flatten_call(halved.host, (x,), {})
    operator = Operator(halved, template, Leaf(0, "Tensor", "result"), frozenset(), shown=seen.identity)
    monkeypatch.setattr(programs, "load_kernel", lambda ref: halved)
    whole = {"version": 1, "operators": [programs._declaration(operator.name, operator)]}
    assert tileflow.load_operators({programs.FILE: json.dumps(whole)}) == (operator.name,)
    call = getattr(torch.ops.tileflow, operator.name)
    assert len(launches(traced(lambda x: call(x), (4096,)))) == 1
    config = seen.config.with_({"block:tile": int(seen.config["block:tile"]) // 4})
    runtime.load(table_of(halved, (x,), config, tmp_path))
    torch.compiler.reset()
    graph = traced(lambda x: call(x), (4096,))
    assert opaque(graph) and not launches(graph)


def test_tensors_on_a_cpu_have_no_place(traced: Traced) -> None:
    leaves = (torch.zeros(4, 8), torch.zeros(8))
    assert Operators(norm)._place(leaves) is None
    with tileflow.interpret(), FakeTensorMode():
        assert Operators(norm)._place((torch.empty(4, device="cuda"),)) is None


def test_torch_may_compile_a_launch_with_python_s_numbers() -> None:
    """Torch 2.11 does, to see what a launch stores into; where that fails, it takes every tensor to be stored into, and
    copies those that are read."""
    logits = torch.empty(8, 64, device="meta")
    lowered = cross_entropy_forward.lower(
        (logits, torch.empty(8, dtype=torch.int64, device="meta")), target("nvidia-h200")
    )
    (source,) = lowered.emit(lowered.default)
    assert "tl.cast(ignore_index, tl.int64)" in source.code and "ignore_index.to(" not in source.code
