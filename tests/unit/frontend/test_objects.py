"""Modules, methods and objects as arguments and outside of a kernel: what of them selects code, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import tileflow
import tileflow.language as tfl
from tileflow.errors import TileflowError, TraceError
from tileflow.frontend.meaning import code_hash, semantic_hash
from tileflow.runtime.keys import call_key, form_of
from tileflow.runtime.objects import open_object
from tileflow.target import target

Tensor = torch.Tensor
H200 = target("nvidia-h200")


class Scale(nn.Module):
    def __init__(self, factor: float = 2.0, mode: str = "plain", private: float = 0.5) -> None:
        super().__init__()
        self.factor, self.mode, self._private = factor, mode, private
        self.weight = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * self.factor * self._private

    def doubled(self, x: Tensor) -> Tensor:
        return self(x) * 2


class Locked:
    def __init__(self) -> None:
        self.lock, self.factor = threading.Lock(), 2.0

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.factor

    def counted(self, x: Tensor) -> Tensor:
        self.factor = 3.0
        return x

    def guarded(self, x: Tensor) -> Any:
        return x if self.lock else None


@tileflow.kernel
def mapped(x: Tensor, f: Any) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = f(x[tile, :])
    return out


def closing_over(f: Any) -> Any:
    @tileflow.kernel
    def applied(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = f(x[tile, :])
        return out

    return applied


X = torch.zeros(3, 4)


def hooked(module: nn.Module) -> nn.Module:
    module.register_forward_hook(lambda *args: None)
    return module


def with_weight(module: Any, weight: Tensor | None) -> Any:
    module.weight = None if weight is None else nn.Parameter(weight, requires_grad=False)
    return module


DIFFERENT: dict[str, Callable[[], Any]] = {
    "as it is": Scale,
    "another constant": lambda: Scale(mode="other"),
    "another private number": lambda: Scale(private=0.25),
    "a weight of another shape": lambda: with_weight(Scale(), torch.ones(1)),
    "a weight of another dtype": lambda: with_weight(Scale(), torch.ones(4).half()),
    "no weight": lambda: with_weight(Scale(), None),
    "not in training": lambda: Scale().eval(),
    "a hook": lambda: hooked(Scale()),
    "a sequence": lambda: nn.Sequential(Scale()),
    "its method": lambda: Scale().doubled,
    "its forward": lambda: Scale().forward,
    "traced": lambda: torch.fx.symbolic_trace(Scale()),
    "a library's": lambda: nn.LeakyReLU(0.5),
    "a library's with another number": lambda: nn.LeakyReLU(0.25),
    "another of the library's": lambda: nn.ELU(0.5),
}  # fmt: skip


def test_keys_and_problems_tell_objects_apart_by_what_selects_code() -> None:
    made = {name: make() for name, make in DIFFERENT.items()}
    assert len({call_key((f,)) for f in made.values()}) == len(made)
    assert len({mapped.describe(X, f).key for f in made.values()}) == len(made)
    for name, f in made.items():
        form = form_of((f,), {}, print)
        assert form is not None
        others = {other: form.key((g,), {}) for other, g in made.items()}
        # a form that knows another's kind gives another key
        assert [other for other, key in others.items() if key == form.key((f,), {})] == [name]


@pytest.mark.parametrize("name", sorted({*DIFFERENT} - {"traced"}))
def test_equal_objects_share_a_key_and_numbers_are_run_time_values(name: str) -> None:
    first, second = DIFFERENT[name](), DIFFERENT[name]()
    assert call_key((first,)) == call_key((second,))
    assert mapped.describe(X, first).key == mapped.describe(X, second).key
    assert call_key((Scale(2.0),)) == call_key((Scale(3.0),))


def test_a_table_tells_apart_classes_whose_methods_changed() -> None:
    def made(body: Callable[..., Any]) -> type:
        return type("Made", (nn.Module,), {"forward": body, "__module__": __name__, "helper": lambda self: 1})

    def doubles(self: Any, x: Tensor) -> Tensor:
        return x * 2

    def trebles(self: Any, x: Tensor) -> Tensor:
        return x * 3

    assert code_hash(made(doubles)) == code_hash(made(doubles)) != code_hash(made(trebles))


def test_what_a_closure_holds_in_a_module_is_in_the_kernels_hash() -> None:
    """The order of a sequence, and which weights there are, were in no hash."""
    a, b = nn.ReLU(), nn.Tanh()
    modules = [nn.Sequential(a, b), nn.Sequential(b, a), nn.Sequential(a), nn.Linear(4, 4), nn.Linear(4, 4, False)]
    assert len({semantic_hash(closing_over(m).scope) for m in modules}) == len(modules)
    assert semantic_hash(closing_over(nn.Linear(4, 4)).scope) == semantic_hash(closing_over(nn.Linear(4, 4)).scope)


def test_scalars_and_tensors_of_a_module_are_read_at_each_launch() -> None:
    (region,) = mapped.lower((X, nn.Sequential(Scale(), nn.ReLU())), H200).regions
    assert "f.attr:0.attr:weight" in [t.path for t in region.tensors]
    assert "f.attr:0.attr:factor" in [s.path for s in region.scalars]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "hooks": (lambda: hooked(Scale()), r"no hooks.*Scale with forward_hooks"),
    "inner hooks": (lambda: nn.Sequential(hooked(nn.ReLU())), r"no hooks.*ReLU with forward_hooks"),
    "a write": (lambda: Locked().counted, r"changes no attribute.*f\.attr:__self__\.factor"),
    "a lock": (lambda: Locked().guarded, r"attributes of an object.*\.lock of type lock"),
    "training": (lambda: nn.BatchNorm1d(4).requires_grad_(False), "num_batches_tracked.add_.*module.eval"),
    "a batch's own statistics": (
        lambda: nn.BatchNorm1d(4, affine=False, track_running_stats=False),
        "takes the statistics",
    ),
    "dropout": (lambda: nn.Dropout(), "draws from a seed"),
    "what it lacks": (lambda: nn.Conv1d(4, 4, 1).requires_grad_(False), "conv1d"),
    "a gradient": (lambda: nn.Linear(4, 4), "do not require grad"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_object_cannot_do_is_refused_by_name(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(TileflowError, match=f"(?s){said}"):
        mapped.lower((X, make()), H200)


def test_what_no_kernel_reads_of_an_object_does_not_matter() -> None:
    assert mapped.lower((X, Locked()), H200).regions
    locked = Locked()
    assert call_key((locked,)) == call_key((locked,)) != call_key((Locked(),))


@pytest.mark.parametrize("outside", [False, True])
def test_a_private_number_is_a_constant_of_the_kernel(outside: bool) -> None:
    def source(private: float) -> str:
        f = Scale(private=private)
        lowered = closing_over(f).lower((X,), H200) if outside else mapped.lower((X, f), H200)
        return "".join(s.text for s in lowered.emit(lowered.default))

    assert "0.375" in source(0.375) and "0.375" not in source(0.625)


def test_copies_of_an_object_have_what_no_kernel_takes() -> None:
    locked = Locked()
    shell, parts = open_object(locked, lambda value: False)
    copy = shell.make(parts)
    assert type(copy) is Locked and copy.lock is locked.lock and copy is not locked


def test_an_object_that_host_code_makes_keeps_its_private_numbers_to_itself() -> None:
    @tileflow.kernel
    def makes(x: Tensor) -> Tensor:
        f = Scale()
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = f(x[tile, :])
        return out

    with pytest.raises(TraceError, match=r"public attributes.*_private"):
        makes.lower((X,), H200)


class Held:
    def __init__(self, scale: float) -> None:
        self.scale = scale


COMMON = Held(2.0)


def is_common(held: Held) -> bool:
    return held is COMMON


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda a, b: a is b, "but got a and b"),
        (lambda a, b: a is not b, "but got a and b"),
        (lambda a, b: a == b, "but got a and b"),
        (lambda a, b: b in (a,), "but got a and b"),
        (lambda a, b: is_common(a), "but got a and a Held"),
        (lambda a, b: {COMMON: 1}.get(a, 0), "but got the object a"),
    ],
    ids=["is", "is not", "equals", "in a tuple", "a helper's global", "in a dictionary"],
)
def test_whether_objects_are_one_is_refused(answer: Any, says: str) -> None:
    """It was False: what stands for the one object is none of what stands for the other."""

    @tileflow.kernel
    def asked(x: torch.Tensor, a: Held, b: Held) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = 1.0 if answer(a, b) else 0.0

    with pytest.raises(TraceError, match=f"(asked in host code|are of constants), {says}"):
        asked.lower((torch.empty(8, device="meta"), COMMON, COMMON), target("nvidia-h200"))


def test_whether_tensors_are_one_is_refused() -> None:
    @tileflow.kernel
    def asked(x: torch.Tensor, y: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = 1.0 if x is y else 0.0

    x = torch.empty(8, device="meta")
    with pytest.raises(TraceError, match="whether two objects are one is asked in host code, but got x and y"):
        asked.lower((x, x), target("nvidia-h200"))


class Pair:
    """Made in device code, where Python itself runs what it adds up by."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __add__(self, other: Pair) -> Any:
        if other.value.sum() > 0:
            return self.value + other.value
        return self.value


def test_a_condition_in_an_operator_of_what_device_code_makes_says_who_runs_it() -> None:
    @tileflow.kernel
    def added(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = Pair(x[tile]) + Pair(x[tile])

    with pytest.raises(TraceError, match="Python runs __add__ of an object that device code makes: call a method of"):
        added.lower((torch.empty(8, device="meta"),), target("nvidia-h200"))
