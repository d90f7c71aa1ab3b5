"""A call in shared memory: what a worker makes of it is the call, and nothing that it does reaches the caller."""

from __future__ import annotations

import errno
import linecache
import math
import mmap
import os
from typing import Any

import pytest
import torch
from tileflow_cluster import shared_tensors
from tileflow_cluster.shared_call import SharedCall, is_importable, load

import tileflow
import tileflow.language as tfl
from examples.softmax import softmax
from tileflow.errors import CallError, SpecError

CPU = torch.device("cpu")


@tileflow.kernel
def copied(x: torch.Tensor, others: Any = None) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile]
    return out


def made(*args: Any, device: str = "cpu", seed: int = 0) -> tuple[Any, ...]:
    with SharedCall(copied, args, CPU) as shared:
        return load(shared.reference).inputs(device=device, seed=seed)


def test_a_call_without_room_is_refused_by_its_size_and_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a bare OSError, and the memory's file stayed open."""

    def full(descriptor: int, length: int) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr("tileflow_cluster.shared_call.os.ftruncate", full)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(CallError, match=r"(?s)\d+ bytes: File too large.*copied.*ulimit"):
        SharedCall(copied, (torch.ones(4),), CPU)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def spans(*args: Any) -> list[int | None]:
    """Where the values of each span are; None for those that are drawn."""
    packer = shared_tensors.Packer(args, CPU)
    return [span.place for span in packer.layout.spans]


ALIGN = shared_tensors.ALIGNMENT


def test_shapes_strides_dtypes_alignment_and_values_are_the_calls_own() -> None:
    base = torch.randn(40, 64)
    given = [base[:, ::2], base[3:], torch.arange(10)[1:], base.t()[5:], torch.ones(1).expand(7, 9)]
    given += [torch.tensor(3.5, dtype=torch.bfloat16), torch.empty(0, 4), torch.randn(6).to(torch.float8_e4m3fn)[1:]]
    x, others = made(torch.ones(4), given)
    for ours, theirs in zip(others, given, strict=True):
        assert (ours.shape, ours.stride(), ours.dtype) == (theirs.shape, theirs.stride(), theirs.dtype)
        assert not theirs.numel() or ours.data_ptr() % ALIGN == theirs.data_ptr() % ALIGN
        assert torch.equal(ours.float(), theirs.float())
    assert copied.describe(x, others).key == copied.describe(torch.ones(4), given).key


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_views_of_one_storage_stay_so(device: str) -> None:
    base = torch.randn(8, 64)
    x, others = made(base[0, 3:], (base[0, 7:], torch.randn(64), base.view(torch.int32)[1]), device=device)
    same = [other.untyped_storage()._cdata == x.untyped_storage()._cdata for other in others]
    assert same == [True, False, True]
    assert others[0].storage_offset() - x.storage_offset() == 4
    if device == "cpu":
        x[4] = 7.0
        assert others[0][0] == 7.0


def test_what_is_on_the_meta_device_describes_the_call() -> None:
    x = torch.randn(9)[1:]
    ours = made(x, {"k": torch.arange(4)}, device="meta")
    assert copied.describe(*ours).key == copied.describe(x, {"k": torch.arange(4)}).key
    assert "u" in copied.describe(*ours).key.split()[0]  # unaligned, as the call's


def test_integers_and_small_floats_are_there_by_value_and_large_floats_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_tensors, "BY_VALUE_BYTES", 1 << 12)
    offsets, small, large = torch.arange(5000), torch.randn(16), torch.randn(5000)
    assert [place is None for place in spans(offsets, small, large)] == [False, False, True]
    mixed = torch.randn(5000)
    assert None not in spans(mixed, mixed.view(torch.int32)), "bits that are integers to one argument are its own"
    _, (ours, ours_small, ours_large) = made(torch.ones(4), (offsets, small, large))
    assert torch.equal(ours, offsets) and torch.equal(ours_small, small)
    assert not torch.equal(ours_large, large)


def test_large_floats_are_by_value_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tensors, "BY_VALUE_BYTES", 1 << 12)
    x, large = torch.ones(4), torch.randn(5000)
    with SharedCall(copied, (x, {"w": [large]}), CPU, by_value=True) as shared:
        assert shared.drawn == ()
        assert torch.equal(load(shared.reference).inputs()[1]["w"][0], large)
    with SharedCall(copied, (x, {"w": [large]}), CPU) as shared:
        assert shared.drawn == ("others['w'][0]",)


def test_drawn_values_are_the_tensors_own_in_their_own_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tensors, "BY_VALUE_BYTES", 1 << 12)
    large = torch.rand(300, 200).to(torch.bfloat16)  # no negative one, which a normal distribution would have
    large[:, :50] = -math.inf
    large[:30, 50:] = 0.0
    windows = torch.rand(5000).unfold(0, 8, 1)
    _, (ours, again, over) = made(torch.ones(4), (large.t(), large, windows))
    assert ours.stride() == large.t().stride() and torch.equal(ours.t(), again)
    assert set(ours.flatten().tolist()) <= set(large.flatten().tolist())
    for special in (-math.inf, 0.0):
        share = (large == special).float().mean().item()
        assert (ours == special).float().mean().item() == pytest.approx(share, abs=0.01)
    assert over.min() >= 0 and over.max() <= 1 and over.unique().numel() > 100
    other = made(torch.ones(4), (large.t(), large, windows), seed=1)[1][1]
    assert not torch.equal(other, again), "a race's second check is of other values"
    assert torch.equal(made(torch.ones(4), (large.t(), large, windows))[1][1], again)


def test_nothing_that_a_worker_does_reaches_the_caller() -> None:
    x = torch.randn(64)
    before, random = x.clone(), torch.get_rng_state()
    with SharedCall(copied, (x,), CPU) as shared:
        call = load(shared.reference)
        call.inputs(device="cpu")[0].fill_(7.0)
        assert torch.equal(call.inputs(device="cpu")[0], before), "nor the next trial"
        with open(shared.reference.split("@")[1], "r+b") as file, pytest.raises(PermissionError):
            mmap.mmap(file.fileno(), 0)  # sealed: no shared map of it can be written to
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), random)


def test_the_kind_of_a_call_makes_the_calls_inputs_again() -> None:
    """What measures asks for the kind of the first inputs, and then for inputs of another seed."""
    x = torch.randn(5)
    with SharedCall(copied, (x,), CPU) as shared:
        call = load(shared.reference)
        first = call.inputs(device="cpu", seed=0)
        again = call.kind(*first).inputs(device="cpu", seed=1)
    assert torch.equal(again[0], x) and again[0].data_ptr() != x.data_ptr()


def test_a_call_is_gone_with_who_shared_it() -> None:
    with SharedCall(copied, (torch.ones(4),), CPU) as shared:
        reference = shared.reference
    with pytest.raises(SpecError, match="while its process lives"):
        load(reference)
    with SharedCall(copied, (torch.ones(4),), CPU), pytest.raises(SpecError, match="another file"):
        load(reference)  # under the same number


# ---- code -----------------------------------------------------------------------------------------------------------


def scaling(factor: float) -> tileflow.Kernel:
    bias = torch.arange(4.0)

    @tileflow.kernel
    def scaled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * factor + bias[0]
        return out

    return scaled


CELL = """
import torch, tileflow
import tileflow.language as tfl

def twice(value):
    return value + value

@tileflow.kernel
def doubled(x):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = twice(x[tile])
    return out
"""


def cell(text: str, name: str = "<ipython-input-1-c0ffee>") -> tileflow.Kernel:
    """A kernel as a notebook makes it: its lines are in linecache alone, its module is __main__."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), scope)
    return next(value for value in scope.values() if isinstance(value, tileflow.Kernel))


def test_a_closure_travels_by_value_with_the_tensors_that_it_holds() -> None:
    kernel, x = scaling(3.0), torch.randn(4)
    assert not is_importable(kernel)
    with SharedCall(kernel, (x,), CPU) as shared:
        call = load(shared.reference)
        assert call.semantic_hash == kernel.semantic_hash != scaling(2.0).semantic_hash
        assert call.kernel is not kernel
        torch.testing.assert_close(call.reference(*call.inputs(device="cpu")), kernel.run_eagerly(x))
        call.inputs(device="meta")
        (bias,) = [c.cell_contents for c in call.scope.__closure__ if isinstance(c.cell_contents, torch.Tensor)]
        assert bias.device.type == "meta", "a compile worker is not given data"


def test_a_notebooks_kernel_brings_its_text_where_there_is_none() -> None:
    kernel = cell(CELL)
    with SharedCall(kernel, (torch.randn(4),), CPU) as shared:
        del linecache.cache["<ipython-input-1-c0ffee>"]  # as in another process
        call = load(shared.reference)
        assert call.name == "__main__:doubled" and call.semantic_hash == kernel.semantic_hash
        assert "out" in call.triton_source(*call.inputs(device="meta"))[0].text


def test_a_kernel_of_a_module_travels_by_name() -> None:
    assert is_importable(softmax)
    with SharedCall(softmax, (torch.randn(4, 8),), CPU) as shared:
        assert load(shared.reference).kernel is softmax


def test_what_cannot_travel_is_named() -> None:
    lock = __import__("threading").Lock()

    @tileflow.kernel
    def locked(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        with lock:
            for tile in tfl.tile(x.size(0)):
                out[tile] = x[tile]
        return out

    with pytest.raises(CallError, match="lock"):
        SharedCall(locked, (torch.ones(4),), CPU)
    with pytest.raises(CallError, match="strided"):
        SharedCall(copied, (torch.eye(4).to_sparse(),), CPU)


def test_a_helion_kernels_settings_travel_too() -> None:
    from tileflow.compat import helion

    @helion.kernel(dot_precision="ieee", static_shapes=False)
    def halved(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in helion.language.tile(x.size(0)):
            out[tile] = x[tile] / 2
        return out

    with SharedCall(halved.__tileflow_kernel__, (torch.ones(4),), CPU) as shared:
        call = load(shared.reference)
        assert call.settings.precision == "ieee" and call.settings.mode == "dynamic"
