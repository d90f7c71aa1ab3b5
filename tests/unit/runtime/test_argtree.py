"""One tree of arguments: every kind of container, shown to everything that walks a call's arguments (finding 6)."""

from __future__ import annotations

import threading
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError
from tileflow.frontend.effects import effects
from tileflow.frontend.meaning import code_hash
from tileflow.measure.inputs import Restorer, map_tensors
from tileflow.runtime.argtree import flatten, flatten_call, leaves_of, replace, tensors, unflatten, walk
from tileflow.runtime.describe import check_memory, describe
from tileflow.runtime.keys import call_key, form_of
from tileflow.runtime.paths import Path, read_path
from tileflow.runtime.problem import CallableSpec, Problem, TensorSpec
from tileflow.target import target

Tensor = torch.Tensor
H200 = target("nvidia-h200")


# ---- containers ---------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    y: Any
    factor: float


@dataclass(frozen=True)
class Frozen:
    y: Any
    factor: float = 1.5


@dataclass(slots=True)
class Slots:
    y: Any
    factor: float = 1.5


@dataclass(init=False)
class Made:
    """Its constructor takes another argument than its fields."""

    y: Any

    def __init__(self, given: Any, _more: int = 1) -> None:
        self.y = given


class Plain:
    """A user's object, of which nothing can be called but a method."""

    def __init__(self, y: Any) -> None:
        self.y, self.factor = y, 1.5

    def get(self) -> Any:
        return self.y


class Slotted:
    __slots__ = ("factor", "y")

    def __init__(self, y: Any) -> None:
        self.y, self.factor = y, 1.5


class Called(Plain):
    """An object that can be called, with a private number and something that no kernel takes."""

    lock = threading.Lock()

    def __init__(self, y: Any) -> None:
        super().__init__(y)
        self._times, self._lock = 2, Called.lock

    def __call__(self) -> Any:
        return self.y if self._times == 2 else None


class Buffered(torch.nn.Module):
    def __init__(self, y: Any) -> None:
        super().__init__()
        self.register_buffer("y", y)
        self.act = torch.nn.ReLU()

    def forward(self) -> Any:
        return self.y


def itself(y: Any) -> Any:
    return y


def after(skipped: float, y: Any) -> Any:
    return y


def closure(y: Any) -> Callable[[], Any]:
    return lambda: y


def default(held: Any) -> Callable[..., Any]:
    def get(y: Any = held) -> Any:
        return y

    return get


def keyword_default(held: Any) -> Callable[..., Any]:
    def get(*, y: Any = held) -> Any:
        return y

    return get


def recursive(y: Any) -> Callable[..., Any]:
    def get(depth: int = 2) -> Any:
        return y if depth == 0 else get(depth - 1)

    return get


@dataclass(frozen=True)
class Case:
    """``hold``: a container over a tensor; ``read``: the tensor of such a container, as device code reads it."""

    hold: Callable[[Any], Any]
    read: Callable[[Any], Any]


CASES = {
    "tuple": Case(lambda y: (1.5, y), lambda held: held[1]),
    "list": Case(lambda y: [y, 1.5], lambda held: held[0]),
    "named tuple": Case(lambda y: Pair(y, 1.5), lambda held: held.y),
    "dict": Case(lambda y: {"y": y, "factor": 1.5}, lambda held: held["y"]),
    "nested dict": Case(lambda y: {"in": {"y": y}}, lambda held: held["in"]["y"]),
    "frozen dataclass": Case(Frozen, lambda held: held.y),
    "dataclass with slots": Case(Slots, lambda held: held.y),
    "dataclass with its own constructor": Case(Made, lambda held: held.y),
    "partial": Case(lambda y: partial(after, 1.5, y), lambda held: held()),
    "partial by keyword": Case(lambda y: partial(itself, y=y), lambda held: held()),
    "partial of a partial": Case(lambda y: partial(partial(after, 1.5), y=y), lambda held: held()),
    "closure": Case(closure, lambda held: held()),
    "default": Case(default, lambda held: held()),
    "keyword default": Case(keyword_default, lambda held: held()),
    "recursive function": Case(recursive, lambda held: held()),
    "three deep": Case(lambda y: {"all": [Frozen(partial(itself, y=y))]}, lambda held: held["all"][0].y()),
    "object": Case(Plain, lambda held: held.y),
    "object with slots": Case(Slotted, lambda held: held.y),
    "object that can be called": Case(Called, lambda held: held()),
    "bound method": Case(lambda y: Plain(y).get, lambda held: held()),
    "module": Case(Buffered, lambda held: held()),
    "sequence of modules": Case(lambda y: torch.nn.Sequential(torch.nn.ReLU(), Buffered(y)), lambda held: held[1]()),
    "object in an object": Case(lambda y: Plain([Plain(y)]), lambda held: held.y[0].get()),
    "function in a tuple": Case(lambda y: (closure(y), 1.5), lambda held: held[0]()),
}  # fmt: skip

kinds = pytest.mark.parametrize("kind", CASES)


@tileflow.kernel
def reads(x: Tensor, held: Any, read: Callable[[Any], Any]) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + read(held)[tile]
    return out


@tileflow.kernel
def stores(x: Tensor, held: Any, read: Callable[[Any], Any]) -> None:
    for tile in tfl.tile(x.size(0)):
        read(held)[tile] = x[tile] * 2


def the_tensor(value: Any) -> Tensor:
    (found,) = tensors([value])
    return found


# ---- consumers ----------------------------------------------------------------------------------------------------


def test_keys_tell_containers_apart() -> None:
    y = torch.zeros(4)
    assert len({call_key((case.hold(y),)) for case in CASES.values()}) == len(CASES)


@kinds
def test_keys_see_the_tensor(kind: str) -> None:
    hold = CASES[kind].hold
    others = (torch.zeros(5), torch.zeros(4).half(), torch.zeros(4, requires_grad=True), torch.zeros(5)[1:])
    keys = {call_key((hold(y),)) for y in (torch.zeros(4), torch.ones(4), *others)}
    assert len(keys) == 1 + len(others)


@kinds
def test_forms_see_the_tensor_or_are_none(kind: str) -> None:
    hold, calls = CASES[kind].hold, []
    form = form_of((hold(torch.zeros(4)),), {}, calls.append)
    slow = {"default", "keyword default", "recursive function"}
    assert (form is None) == (kind in slow), "a form reads what takes a few looks"
    if form is None:
        return
    others = (torch.zeros(5), torch.zeros(4).half(), torch.zeros(4, requires_grad=True), torch.zeros(5)[1:])
    keys = {form.key((hold(y),), {}) for y in (torch.zeros(4), torch.ones(4), *others)}
    assert None not in keys and len(keys) == 1 + len(others)
    for other in set(CASES) - {kind}:
        assert form.key((CASES[other].hold(torch.zeros(4)),), {}) is None


def described(problem: Problem) -> list[Any]:
    """The specs of tensors, also inside callables."""

    def inner(specs: Any) -> Iterator[Any]:
        for _, spec in specs:
            if isinstance(spec, TensorSpec):
                yield spec
            if isinstance(spec, CallableSpec):
                yield from inner(spec.cells)

    return [*inner(problem.args)]


@kinds
def test_descriptions_see_the_tensor(kind: str) -> None:
    case = CASES[kind]
    (_, y) = described(reads.describe(torch.zeros(4), case.hold(torch.zeros(5, dtype=torch.int8)), case.read))
    assert (y.dtype, y.shape) == ("int8", (5,))
    assert reads.describe(torch.zeros(4), case.hold(torch.zeros(4)), case.read) == reads.describe(
        torch.ones(4), case.hold(torch.ones(4)), case.read
    )


@kinds
def test_flattening_and_rebuilding(kind: str) -> None:
    case, found = CASES[kind], list[Any]()
    y, other = torch.zeros(4), torch.ones(4)
    template = flatten(case.hold(y), "held", found)
    assert [leaf.type for leaf in leaves_of(template)].count("Tensor") == 1
    assert case.read(unflatten(template, found)) is y
    again = unflatten(template, [other if v is y else v for v in found])
    assert case.read(again) is other and type(again) is type(case.hold(y))
    assert flatten(case.hold(other), "held", []) == template
    assert hash(flatten(again, "held", [])) == hash(template)


@kinds
def test_replacing_and_walking(kind: str) -> None:
    case, y = CASES[kind], torch.zeros(4)
    held = case.hold(y)
    assert case.read(replace(held, lambda v: v + 1 if v is y else v)).tolist() == [1] * 4
    assert replace(held, lambda v: v) is held
    assert the_tensor(held) is y
    (steps,) = [steps for steps, leaf in walk(held, ()) if leaf is y]
    assert read_path(Path("held", steps), {"held": held}, None) is y


@kinds
def test_what_requires_grad_is_refused(kind: str) -> None:
    case, x = CASES[kind], torch.zeros(4)
    with pytest.raises(CallError, match="do not require grad"):
        reads(x, case.hold(torch.zeros(4, requires_grad=True)), case.read)


@kinds
def test_what_has_no_memory_of_its_own_is_refused(kind: str) -> None:
    case = CASES[kind]
    negated = torch.zeros(4, dtype=torch.complex64).conj().imag
    with pytest.raises(CallError, match=r"not lazily negated.*held\."):
        check_memory("reads", {"held": case.hold(negated)})
    check_memory("reads", {"held": case.hold(torch.zeros(4))})


@kinds
def test_lowering_sees_metadata_only_and_captures_the_tensor(kind: str) -> None:
    case, y = CASES[kind], torch.zeros(4, dtype=torch.float64)
    lowered = reads.lower((torch.zeros(4), case.hold(y), case.read), H200)
    assert [t.device.type for t in tensors(lowered.args)] == ["meta", "meta"]
    (region,) = lowered.regions
    (path,) = [t.path for t in region.tensors if t.dtype == "float64"]
    held = case.hold(y)
    assert read_path(Path.parse(path), {"held": held, "read": case.read}, None) is y


@kinds
def test_effects_find_what_is_stored_into(kind: str) -> None:
    case = CASES[kind]
    template, found = flatten_call(stores.host, (torch.zeros(4), case.hold(torch.zeros(4)), case.read), {})
    examples = [torch.empty_like(v, device="meta") if isinstance(v, Tensor) else v for v in found]
    stored = {found[i] is the_tensor(found[1:]) for i in effects(stores.host, template, examples).stored}
    assert stored == {True}
    template, found = flatten_call(reads.host, (torch.zeros(4), case.hold(torch.zeros(4)), case.read), {})
    examples = [torch.empty_like(v, device="meta") if isinstance(v, Tensor) else v for v in found]
    assert not effects(reads.host, template, examples).stored


@kinds
def test_the_eager_meaning(kind: str) -> None:
    case, x, y = CASES[kind], torch.randn(4), torch.randn(4)
    with tileflow.interpret():
        torch.testing.assert_close(reads(x, case.hold(y), case.read), x + y)
        stores(x, case.hold(y), case.read)
    torch.testing.assert_close(y, x * 2)


@kinds
def test_operators_in_compiled_functions(kind: str) -> None:
    case, x, y = CASES[kind], torch.randn(4), torch.randn(4)

    def fn(x: Tensor, held: Any) -> Tensor:
        return reads(x, held, case.read) * 2

    torch.compiler.reset()
    compiled = torch.compile(fn, fullgraph=True, backend="aot_eager")
    with tileflow.interpret():
        for y in (torch.randn(4), torch.randn(4)):
            torch.testing.assert_close(compiled(x, case.hold(y)), (x + y) * 2)


@kinds
def test_measured_arguments_are_copied_and_restored(kind: str) -> None:
    case, y = CASES[kind], torch.randn(4)
    held = case.hold(y)
    copied = map_tensors(torch.clone, held)
    assert case.read(copied) is not y and torch.equal(case.read(copied), y)
    restorer = Restorer((held,))
    before = y.clone()
    case.read(held).zero_()
    restorer.restore()
    assert torch.equal(y, before)


def test_a_size_is_a_container_of_numbers() -> None:
    size, found = torch.Size([4, 5]), list[Any]()
    template = flatten(size, "size", found)
    assert found == [4, 5] and unflatten(template, ["a", "b"]) == ("a", "b")
    assert call_key((size,)) == call_key((torch.Size([6, 7]),)) != call_key(((4, 5),))
    assert [*walk(size, ())] == [((("item", "0"),), 4), ((("item", "1"),), 5)]


# ---- endless nesting ----------------------------------------------------------------------------------------------


def holds_itself() -> Any:
    made: list[Any] = [torch.zeros(4)]
    made.append(made)
    return made


def dict_in_itself() -> Any:
    made: dict[str, Any] = {"y": torch.zeros(4)}
    made["made"] = made
    return made


def function_in_its_own_list() -> Any:
    held: list[Any] = []

    def get() -> Any:
        return held

    held.append(get)
    return get


def deep() -> Any:
    made: Any = torch.zeros(4)
    for _ in range(100):
        made = (made,)
    return made


def signature_of(args: Any) -> Problem:
    return describe("reads", reads.host.signature, args, {}, code_hash)


CONSUMERS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "call": lambda args: reads(*args),
    "cache": lambda args: reads.cache.run(args, {}),
    "form": lambda args: form_of(args, {}, print),
    "describe": signature_of,
    "flatten": lambda args: flatten_call(reads.host, args, {}),
    "walk": lambda args: [*walk(args, ())],
    "replace": lambda args: replace(args, lambda v: v),
    "tensors": lambda args: [*tensors(args)],
    "memory": lambda args: check_memory("reads", {"held": args[1]}),
    "lower": lambda args: reads.lower(args, H200),
    "operator": lambda args: reads._operators(*args),
    "eager": lambda args: reads.run_eagerly(*args),
    "measured": lambda args: map_tensors(torch.clone, args),
}


@pytest.mark.parametrize("make", [holds_itself, dict_in_itself, function_in_its_own_list, deep])
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_endless_nesting_is_refused(consumer: str, make: Callable[[], Any]) -> None:
    with pytest.raises(CallError, match="nest at most 64 deep"):
        CONSUMERS[consumer]((torch.zeros(4), make(), itself))


def scale_by(factor: int, offset: float) -> Callable[..., Any]:
    def then(v: Any, factor: int = factor, *, offset: float = offset) -> Any:
        return v * factor + offset

    return then


@tileflow.kernel
def maps(x: Tensor, then: Callable[[Any], Any]) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = then(x[tile])
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_numbers_in_defaults_are_guarded_or_read_at_each_launch(mode: str) -> None:
    """Keys know them by type alone: a warm call took the defaults of the function that came first."""
    functions = scale_by(2, 1.5), scale_by(3, 2.5)
    assert call_key((functions[0],)) == call_key((functions[1],))
    (region,) = maps.lower((torch.zeros(4), functions[0]), H200, mode).regions
    assert "then.default:factor" in {s for guard in region.guards for s in guard.symbols()}
    assert [s.path for s in region.scalars] == ["then.default:offset"]


# ---- containers whose constructors take something else -------------------------------------------------------------


class Doubled(NamedTuple("Doubled", [("y", Any), ("factor", float)])):
    def __new__(cls, y: Any) -> Any:
        return super().__new__(cls, y, 1.5)


class Two(tuple[Any, ...]):
    def __new__(cls, y: Any, factor: float) -> Any:
        return super().__new__(cls, (y, factor))


class TwoInAList(list[Any]):
    def __init__(self, y: Any, factor: float) -> None:
        super().__init__([y, factor])


class ByWords(dict[str, Any]):
    def __init__(self, **words: Any) -> None:
        super().__init__(**words)


class ItsOwnDictionary(dict[str, Any]):
    """Its items are its attributes, by a constructor that takes a dictionary."""

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        self.__dict__ = self


@dataclass
class Later:
    """It has an attribute that is no field, and a field without a value."""

    y: Any
    unset: int = field(init=False)

    def __post_init__(self) -> None:
        self.factor = 1.5


CONTAINERS: dict[str, Callable[[Tensor], Any]] = {
    "a named tuple": Doubled,
    "a tuple": lambda y: Two(y, 1.5),
    "a list": lambda y: TwoInAList(y, 1.5),
    "a dictionary": lambda y: ByWords(y=y, factor=1.5),
    "a default dictionary": lambda y: defaultdict(int, y=y, factor=1.5),
    "an ordered dictionary": lambda y: OrderedDict(factor=1.5, y=y),
    "a dictionary of its own": lambda y: ItsOwnDictionary(y=y, factor=1.5),
    "a record": Later,
    "a result of torch": lambda y: torch.max(y[None].expand(2, -1), 0),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_is_made_again_whatever_its_constructor_takes(name: str) -> None:
    """A call with one was a TypeError or an AttributeError of its class, once it was lowered."""
    given, y = CONTAINERS[name](torch.zeros(3)), torch.ones(3)
    made = replace(given, lambda leaf: y if isinstance(leaf, Tensor) else leaf)
    assert type(made) is type(given)
    assert [*map(type, leaves_of_one(made))] == [*map(type, leaves_of_one(given))]
    assert any(leaf is y for leaf in leaves_of_one(made))
    if isinstance(given, dict):
        assert [*made] == [*given] and getattr(made, "default_factory", None) is getattr(given, "default_factory", None)
    if hasattr(given, "factor"):
        assert made.factor == 1.5


def leaves_of_one(value: Any) -> list[Any]:
    return [leaf for _, leaf in walk(value, ())]


@tileflow.kernel
def by_get(x: Tensor, get: Any) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + get["y"][tile] * get["factor"]
    return out


@pytest.mark.parametrize("name", ["a dictionary", "a default dictionary", "an ordered dictionary"])
def test_such_a_dictionary_is_lowered(name: str) -> None:
    assert by_get.triton_source(torch.empty(3, device="meta"), CONTAINERS[name](torch.empty(3, device="meta")))


def test_a_container_that_no_kernel_takes_is_named_before_its_tensors_are_missed() -> None:
    """It said that there was no tensor."""
    for held in (UserDict(y=torch.ones(3)), deque([torch.ones(3)])):
        with pytest.raises(CallError, match=f"got get of type {type(held).__name__}"):
            by_get(None, held)
