"""Host code without a GPU asks about its device, and makes tensors, as it would in a call on one: where it is lowered,
and where it runs on a CPU."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from tile_testing import ROOT
from tile_testing.kernels import device_kernels

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.errors import TraceError
from tileflow.ir.attributes import PointwiseAttrs
from tileflow.ir.kinds import OpKind
from tileflow.language.host_device import HostDevice, host_code_on
from tileflow.runtime.argtree import tensors
from tileflow.runtime.to_meta import says_where
from tileflow.target import target

LIKES = [torch.empty_like, torch.zeros_like, torch.ones_like, torch.rand_like]
TENSORS = [
    torch.empty(3, 4, device="meta"),
    torch.empty(3, 0, device="meta"),
    torch.empty((), dtype=torch.int8, device="meta"),
    torch.empty(3, 4, device="meta").t(),
    torch.empty(6, 4, device="meta")[::2],
    torch.empty(3, 4),
]


@pytest.mark.parametrize("like", LIKES)
@pytest.mark.parametrize("options", [{}, {"dtype": torch.float16}, {"dtype": None}, {"device": "cpu"}])
def test_likes_are_torchs(like: Callable[..., Any], options: dict[str, Any]) -> None:
    for tensor in TENSORS:
        if like is torch.rand_like and not tensor.is_floating_point() and options.get("dtype") is None:
            continue
        expected = like(tensor, **options)
        with HostDevice(TENSORS):
            found = like(tensor, **options)
        facts = [(t.shape, t.stride(), t.dtype, t.device, t.requires_grad) for t in (found, expected)]
        assert facts[0] == facts[1]


def test_a_workers_first_kernel_does_not_load_sympy() -> None:
    """Neither lowering it nor running its host code for what it launches."""
    script = """
import sys
import torch
from tileflow.build.compile import build
from tileflow.target import target
from tileflow_cluster.pipeline import count_launches
from examples.rms_norm import rms_norm
x, weight = torch.empty(64, 64, device="meta"), torch.empty(64, device="meta")
lowered = rms_norm.lower((x, weight, 1e-6), target("nvidia-h200"))
lowered.space
print("sympy" in sys.modules)
binaries = tuple(build(source, lowered.target) for source in lowered.emit(lowered.default))
print(len(count_launches(rms_norm, lowered.default, binaries, lowered)), "sympy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "1", "False"]


CLASSES = ("nvidia-h200", "nvidia-a100", "amd-mi300x")


@pytest.mark.parametrize("where", ["meta", "cpu"])
@pytest.mark.parametrize(
    "kernel",
    [device_kernels.on_gpu_alone, device_kernels.made_on_gpu, device_kernels.calls_another],
    ids=lambda k: k.name,
)
def test_tensors_say_that_they_are_on_a_gpu(kernel: Kernel, where: str) -> None:
    lowered = kernel.lower((torch.empty(1000, device=where),), target("nvidia-h200"))
    assert lowered.emit(lowered.default) and kernel.repro(torch.empty(1000, device=where))


@pytest.mark.parametrize("name", CLASSES)
def test_a_block_may_be_the_share_of_a_multiprocessor(name: str) -> None:
    device = target(name)
    lowered = device_kernels.by_multiprocessors.lower((torch.empty(100_000, device="meta"),), device)
    (source,) = lowered.emit(lowered.default)
    share = -(-100_000 // device.sm_count)
    assert source.grid[0].evaluate(lowered.regions[0].hints) == -(-100_000 // share)


@pytest.mark.parametrize("name", CLASSES)
def test_the_target_says_which_code_is_lowered(name: str) -> None:
    lowered = device_kernels.by_architecture.lower((torch.empty(1000, device="meta"),), target(name))
    functions = {PointwiseAttrs.of(op).fn for op in lowered.regions[0].walk() if op.kind is OpKind.POINTWISE}
    assert functions == ({"exp"} if name == "nvidia-h200" else {"sin"})


class Calls(torch.nn.Module):
    """A model that calls a kernel, and nothing else."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, x: torch.Tensor) -> Any:
        return self.kernel(x)


def interpreted(kernel: Kernel, x: torch.Tensor) -> Any:
    with tileflow.interpret():
        return kernel(x)


def exported(kernel: Kernel, x: torch.Tensor) -> Any:
    return torch.export.export(Calls(kernel), (x,)).module()(x)


def compiled(kernel: Kernel, x: torch.Tensor) -> Any:
    torch.compiler.reset()
    return torch.compile(Calls(kernel), backend="aot_eager")(x)


WAYS: list[Callable[[Kernel, torch.Tensor], Any]] = [
    lambda kernel, x: kernel(x),
    interpreted,
    lambda kernel, x: kernel.reference(x),
    compiled,
    exported,
]
IDS = ["call", "interpret", "reference", "torch.compile", "torch.export"]


@pytest.mark.parametrize("way", WAYS, ids=IDS)
@pytest.mark.parametrize("name", device_kernels.MEANINGS)
def test_a_call_on_a_cpu_is_as_one_on_a_gpu(name: str, way: Callable[[Kernel, torch.Tensor], Any]) -> None:
    """``assert x.is_cuda`` ended it in the author's own words."""
    x = torch.randn(100)
    found = way(getattr(device_kernels, name), x)
    torch.testing.assert_close(found, device_kernels.MEANINGS[name](x))
    assert all(tensor.is_cpu and type(tensor) is torch.Tensor for tensor in tensors(found))


@tileflow.kernel
def with_noise(x: torch.Tensor) -> torch.Tensor:
    """As host code draws and hands on where there is a GPU."""
    generator = torch.Generator(device="cuda").manual_seed(3)
    noise = torch.rand(x.shape, generator=generator, device=x.device)
    assert isinstance(generator, torch.Generator) and torch.Generator(x.device).manual_seed(3).initial_seed() == 3
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + noise[tile]
    out.record_stream(torch.cuda.current_stream())
    return out


@pytest.mark.parametrize("way", WAYS[:3], ids=IDS[:3])
def test_generators_and_noted_streams_are_there_without_a_gpu(way: Callable[[Kernel, torch.Tensor], Any]) -> None:
    """torch's own needed a driver."""
    own, x = (torch.Generator, torch.Tensor.record_stream), torch.randn(100)
    assert torch.equal(way(with_noise, x), x + torch.rand(100, generator=torch.Generator().manual_seed(3)))
    with_noise.lower((x.to("meta"),), target("nvidia-h200"))
    assert (torch.Generator, torch.Tensor.record_stream) == own and "record_stream" not in vars(torch.Tensor)


@pytest.mark.parametrize("name", device_kernels.MEANINGS)
def test_a_call_without_data_is_as_one_on_a_gpu(name: str) -> None:
    x, kernel = torch.randn(100), getattr(device_kernels, name)
    found, expected = kernel(x.to("meta")), device_kernels.MEANINGS[name](x)
    with tileflow.interpret():
        again = kernel(x.to("meta"))
    for one, other, wanted in zip(tensors(found), tensors(again), tensors(expected), strict=True):
        assert one.is_meta and one.shape == other.shape == wanted.shape


def test_a_gradient_is_as_one_on_a_gpu() -> None:
    loss = tileflow.differentiable(device_kernels.sums_by_program)
    x = torch.randn(1000, requires_grad=True)
    found = loss(x)
    assert found.shape == (125,)  # of 8 rows each, by 132 multiprocessors
    found.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


NO_GPU = r"no GPU[\s\S]*get_device_properties"
REFUSED = [
    (device_kernels.by_an_imported_function, "get_device_capability(x.device) >= (8, 0)", NO_GPU),
    (device_kernels.by_free_memory, "mem_get_info", NO_GPU),
    (device_kernels.by_memory, "total_memory > 0", r"total_memory[\s\S]*multi_processor_count"),
    (device_kernels.by_version, "torch.version.cuda.split", r"torch.version.cuda[\s\S]*get_device_capability"),
    (device_kernels.by_duration, "begin.elapsed_time(end)", r"elapsed_time[\s\S]*outside of the kernel"),
]  # fmt: skip


@pytest.mark.skipif(torch.cuda.is_available(), reason="the driver answers")
@pytest.mark.parametrize("way", [*WAYS, lambda k, x: k.lower((x,), target("nvidia-h200"))], ids=[*IDS, "lower"])
@pytest.mark.parametrize(("kernel", "line", "words"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_only_a_driver_knows_is_refused_without_one(
    kernel: Kernel, line: str, words: str, way: Callable[[Kernel, torch.Tensor], Any]
) -> None:
    """It ended in an assertion of torch's, which a sweep takes for the author's: another config may satisfy that."""
    with pytest.raises(Exception, match=words) as caught:
        way(kernel, torch.empty(1000))
    assert line in str(caught.value)
    assert isinstance(caught.value, TraceError) or way is compiled


@pytest.mark.parametrize("name", ["amd-mi300x", "nvidia-h200"])
def test_the_vendor_is_the_targets(name: str) -> None:
    lowered = device_kernels.by_vendor.lower((torch.empty(1000, device="meta"),), target(name))
    functions = {PointwiseAttrs.of(op).fn for op in lowered.regions[0].walk() if op.kind is OpKind.POINTWISE}
    assert functions == ({"exp"} if name == "nvidia-h200" else {"sin"})


def test_a_call_on_the_second_gpu_is_lowered_for_it() -> None:
    """Host code was told of the first one."""
    x = says_where(torch.empty(1000, device="meta"), torch.device("cuda", 1))
    lowered = device_kernels.by_index.lower((x,), target("nvidia-h200"))
    functions = {PointwiseAttrs.of(op).fn for op in lowered.regions[0].walk() if op.kind is OpKind.POINTWISE}
    assert functions == {"sin"}


def asked_by(module: str, x: torch.Tensor) -> Any:
    """What code of a module is told."""
    return eval("x.device.type, torch.cuda.is_available()", {"__name__": module, "x": x, "torch": torch})


def asked_for_versions(module: str) -> Any:
    """The same of versions."""
    return eval("torch.version.cuda, torch.version.hip", {"__name__": module, "torch": torch})


def test_torch_answers_for_itself_elsewhere_and_afterwards() -> None:
    own = {name: getattr(torch.cuda, name) for name in ("is_available", "device", "get_device_properties", "Stream")}
    versions = torch.version.cuda, torch.version.hip
    x, found = torch.empty(4, device="meta"), list[bool]()
    with host_code_on(target("nvidia-h200"), [x]):
        assert torch.cuda.is_available() and torch.cuda.get_device_name() == "NVIDIA H200"
        thread = threading.Thread(target=lambda: found.append(torch.cuda.is_available()))
        thread.start()
        thread.join()
        assert x.is_cuda and torch.empty(3).is_cpu and torch.empty(3, device="cuda").is_cuda
        assert asked_by("tileflow.serve", x) == ("meta", own["is_available"]())
        assert asked_by("tileflow.kernels.rms", x) == asked_by("tileflow_benchmarks.suite", x) == ("cuda", True)
        with host_code_on(target("amd-mi300x"), [x]):
            assert torch.cuda.get_device_capability() == (9, 4)
            assert torch.cuda.get_device_properties(0).gcnArchName == "gfx942"
        assert torch.cuda.get_device_capability() == (9, 0)
        assert "device=" not in repr(torch.zeros(3)) and torch.version.cuda and torch.version.hip is None
        assert isinstance(None, torch.cuda.Stream) is False and issubclass(own["Stream"], torch.cuda.Stream)
        assert asked_for_versions("torch.utils") == asked_for_versions("tileflow.serve") == versions
    assert found == [own["is_available"]()] and x.is_meta
    assert {name: getattr(torch.cuda, name) for name in own} == own
    assert (torch.version.cuda, torch.version.hip) == versions and type(torch.version) is ModuleType
