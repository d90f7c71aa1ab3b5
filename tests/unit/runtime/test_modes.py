"""What a warm call costs while a mode of torch.overrides holds, as ``torch.set_default_device`` sets one.

Each attribute of a tensor that Python reads is then a call of the mode's Python function.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tile_testing.fakes.drivers import ONE
from tile_testing.fakes.native_drivers import Loading, Recorder
from torch.overrides import TorchFunctionMode

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.expr import Expr, all_of
from tileflow.kernels import layer, rms
from tileflow.runtime import Binary, LaunchAbi, LaunchArg, Resources, native
from tileflow.runtime.launch import cuda_launcher
from tileflow.runtime.tensor_fields import ADDRESS, DTYPE, ORDINAL, SHAPE, STRIDES, read_fields

ALL = ADDRESS | SHAPE | STRIDES | DTYPE | ORDINAL


@pytest.fixture(autouse=True)
def _native(extension: None) -> None:
    if native.metadata_reader() is None:
        pytest.skip("TILEFLOW_NATIVE=0, or torch does not offer its tensors to C")


class Counting(TorchFunctionMode):
    """Counts what passes through it, by name; what the author's own host code asks is left out."""

    def __init__(self, *authors: Callable[..., Any]) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.authors = {fn.__code__.co_name for fn in authors}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asker = sys._getframe(1)
        while asker.f_code.co_name.startswith("<") and asker.f_back is not None:  # a generator of host code
            asker = asker.f_back
        if asker.f_code.co_name not in self.authors:
            name = func.__name__
            self.found[func.__self__.__name__ if name == "__get__" else name] += 1
        return func(*args, **(kwargs or {}))


def serve(kernel: Any, args: tuple[Any, ...], **given: torch.Tensor) -> Recorder:
    """Let calls like this one launch a binary that looks at all that binaries do of their tensors: dtype, rank, sizes,
    strides, alignment."""
    known = [
        LaunchArg(n, "tensor", "*fp32", n, dtype="float32", rank=t.dim(), stored=n == "out") for n, t in given.items()
    ]
    guards = [Expr.sym(f"{n}.shape.{i}").eq(size) for n, t in given.items() for i, size in enumerate(t.shape)]
    guards += [Expr.sym(f"{n}.stride.{i}").eq(step) for n, t in given.items() for i, step in enumerate(t.stride())]
    guards += [Expr.sym(f"{n}.align").eq(1) for n in given]
    abi = LaunchAbi("kernel", tuple(known), ONE, 128, 0)
    binary = Binary(0, "nvidia-h200", "cubin", b"cubin", abi, all_of(guards), Resources(16, 0, 0, 128))
    recorder = Recorder("Q" * len(known))
    launcher = cuda_launcher(binary, "cpu", kernel.scope, driver=Loading(recorder))
    kernel.serve(args, kernel.bind(Config.of({}), {0: [launcher]}))
    return recorder


@pytest.fixture
def fresh_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tileflow.runtime.clear()
    yield
    tileflow.runtime.clear()


def unknown(x: Any) -> None:
    """What nothing is known of, so that no key settles what host code makes."""


@tileflow.kernel
def loose(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    unknown(x)
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] + y[tile, :]
    return out


X, Y, W, B = torch.randn(8, 32), torch.randn(8, 32), torch.randn(32), torch.randn(32)
PER_ROW = torch.empty(8)
# a tensor is asked whether it is lazily negated by each key, and by launches of what no key settles; whether it
# requires grad, where autograd records: DLPack says neither
CASES: dict[str, tuple[Any, tuple[Any, ...], dict[str, torch.Tensor], Any, dict[str, int]]] = {
    "all is looked at": (loose, (X, Y), {"out": X, "x": X, "y": Y}, loose, {"is_neg": 2 + 3}),
    "the key settles": (
        rms.rms_norm_forward, (X, W, 1e-6, 0.0), {"out": X, "x": X, "weight": W, "factors": PER_ROW},
        rms.rms_norm_forward, {"is_neg": 2},
    ),
    "rms_norm": (
        rms.rms_norm_forward, (X, W, 1e-6, 0.0), {"out": X, "x": X, "weight": W, "factors": PER_ROW},
        lambda x, w, eps, offset: rms.rms_norm(x, w, eps), {"is_neg": 2, "shape": 1},
    ),
    "layer_norm": (
        layer.layer_norm_train, (X, W, B, 1e-5),
        {"out": X, "x": X, "weight": W, "bias": B, "means": PER_ROW, "scales": PER_ROW},
        lambda *args: layer.layer_norm(*args), {"is_neg": 3, "shape": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("records", [False, True])
def test_a_warm_call_asks_torch_for_little(case: str, records: bool, fresh_caches: None) -> None:
    """Under a default device each attribute cost a microsecond or two: 75 of layer_norm's 90 calls were tileflow's."""
    kernel, args, given, call, allowed = CASES[case]
    with torch.set_grad_enabled(records):
        recorder = serve(kernel, args, **given)
        for _ in range(2):  # the first one finds out what the key settles
            call(*args)
        before = len(recorder.launches)
        with Counting(kernel.__wrapped__) as counting:
            call(*args)
        assert len(recorder.launches) == before + 1 and before, "through the launcher"
    asked = counting.found.pop("requires_grad", 0)
    tensors = sum(isinstance(value, torch.Tensor) for value in args)
    assert asked <= (tensors * (1 if call is kernel else 2) if records else 0)
    assert counting.found == allowed


def test_under_a_default_device_a_warm_call_launches_the_same(fresh_caches: None) -> None:
    kernel, args, given, call, _ = CASES["layer_norm"]
    with torch.no_grad():
        recorder = serve(kernel, args, **given)
        call(*args)
        with torch.device("cpu"):
            call(*args)
            first = call(X.clone(), *args[1:])
    (_, sizes, _, values, _), (_, again, _, others, _), _ = recorder.launches
    assert (sizes, [values[1], *values[2:4]]) == (again, [others[1], *others[2:4]])
    assert first.data_ptr() == recorder.launches[2][3][0]


# ---- what C reads, and what it hands back -------------------------------------------------------------------------


def dtypes() -> list[torch.dtype]:
    return sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)


@pytest.mark.filterwarnings("ignore")
def test_what_is_read_in_c_is_what_the_attributes_say() -> None:
    read = native.metadata_reader()
    assert read is not None
    made = [torch.empty(2, 3, dtype=dtype) for dtype in dtypes()]
    made += [torch.zeros(()), torch.zeros(0, 4), X.t()[1:], X[::2, 1::3], torch.nn.Parameter(W), X.expand(4, 8, 32)]
    for tensor in made:
        for fields in range(1, 2 * ORDINAL):
            asked = bytes([fields])
            assert read(asked, tensor) == read_fields(asked, tensor), (tensor.dtype, fields)
    both = bytes([ALL, ADDRESS | DTYPE])
    assert read(both, X, W) == read_fields(both, X, W)
    assert read(b"") == ()
    assert read(bytes([224]), X) == (), "bits that no field has"


class Own(torch.Tensor):
    """A tensor of a user's class."""


@pytest.mark.filterwarnings("ignore")
def test_what_c_does_not_read_is_asked_of_its_attributes() -> None:
    read, strided = native.metadata_reader(), native.strided_reader()
    assert read is not None and strided is not None
    asked = bytes([SHAPE])
    own = torch.zeros(3).as_subclass(Own)
    assert read(asked, own) == ((3,),) and strided(asked, own) is None
    sparse, nested = torch.eye(2).to_sparse(), torch.nested.nested_tensor([X, Y[:2]], layout=torch.strided)
    meta, quantised = torch.zeros(3, device="meta"), torch.quantize_per_tensor(W, 0.1, 0, torch.qint8)
    for odd in (sparse, nested, meta, quantised, None, 3, "x"):
        assert strided(asked, odd) is None
    assert read(asked, sparse) == ((2, 2),)
    assert strided(bytes([SHAPE, SHAPE]), X, sparse) is None
    with pytest.raises(AttributeError, match="data_ptr"):
        read(bytes([ADDRESS]), None)
    for wrong in ((), (3,), (asked,), (asked, X, X)):
        with pytest.raises(TypeError):
            read(*wrong)
