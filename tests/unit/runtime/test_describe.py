"""Describing calls, and the fast key in front: equal keys mean equal problems."""

from __future__ import annotations

import contextlib
import enum
import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError
from tileflow.runtime import build_native, native
from tileflow.runtime.ambient import READERS
from tileflow.runtime.describe import check_memory, describe, device_class
from tileflow.runtime.keys import MISS, Form, call_key
from tileflow.runtime.keys import form_of as form_by
from tileflow.runtime.problem import CallableSpec, Problem, ScalarSpec, TensorSpec


class Mode(enum.Enum):
    FAST = 1
    SAFE = 2


def kernel(x: Any, y: Any = None, *, eps: Any = 1e-5, act: Any = None) -> None:
    """Stands for a user's kernel."""


def code_hash(function: Callable[..., Any]) -> str:
    return function.__code__.co_code.hex()


def described(*args: Any, **kwargs: Any) -> Problem:
    return describe("m:kernel", inspect.signature(kernel), args, kwargs, code_hash)


def test_every_kind_of_argument_has_its_spec() -> None:
    bias = torch.zeros(8)

    def act(v: Any, gain: float = 2.0) -> Any:
        return v * gain + bias + math.pi

    x = torch.zeros(4, 8, dtype=torch.bfloat16)
    problem = described(x.t(), (3, [True, "mean"]), eps=torch.float16, act=act)
    specs = dict(problem.args)
    assert specs["x"] == TensorSpec("bfloat16", (8, 4), (1, 8))
    assert specs["y.item:0"] == ScalarSpec("int", 3)
    assert specs["y.item:1.item:0"] == ScalarSpec("bool", True)
    assert specs["y.item:1.item:1"] == ScalarSpec("str", "mean")
    assert specs["eps"] == ScalarSpec("dtype", "float16")
    cells = (("bias", TensorSpec("float32", (8,), (1,))), ("default:gain", ScalarSpec("float", 2.0)))
    assert specs["act"] == CallableSpec("act", code_hash(act), cells)
    assert Problem.from_json(problem.to_json()) == problem
    assert dict(described(x, Mode.FAST).args)["y"] == ScalarSpec("enum", "Mode.FAST")


def test_alignment_is_the_pointers_and_meta_starts_aligned() -> None:
    base = torch.zeros(64)
    assert [described(t).args[0][1].aligned for t in (base, base[1:], base[4:])] == [True, False, True]  # type: ignore[union-attr]
    meta = torch.empty(64, device="meta")
    assert [described(t) for t in (meta, meta[1:], meta[4:])] == [described(t) for t in (base, base[1:], base[4:])]


def test_defaults_are_part_of_a_problem_and_scalars_that_are_parameters_are_not_of_its_key() -> None:
    x = torch.zeros(4)
    assert described(x) == described(x, None, eps=1e-5)
    assert described(x, 3).key == described(x, 4).key
    assert described(x, True).key != described(x, False).key
    assert described(x, eps=float("inf")).key == described(x, eps=0.5).key
    problem = described(x, eps=float("inf"))
    assert Problem.from_json(problem.to_json()) == problem


def test_calls_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CallError, match=r"must be called as.* but got missing a required argument"):
        described()
    with pytest.raises(CallError, match=r"must be called as.* but got an unexpected keyword argument"):
        described(torch.zeros(1), nothing=1)
    with pytest.raises(CallError, match=r"y\.key:a of type object"):
        described(torch.zeros(1), {"a": object()})
    with pytest.raises(CallError, match=r"y\.item:1 of type object"):
        described(torch.zeros(1), (1, object()))


def test_a_recursive_helper_is_described_once() -> None:
    def power(v: Any, n: int) -> Any:
        return v if n == 0 else power(v, n - 1)

    assert dict(described(1, act=power).args)["act"] == CallableSpec("power", code_hash(power))
    hash(call_key((power,)))


def epilogue(bias: torch.Tensor, flag: bool) -> Callable[[Any], Any]:
    return lambda acc: acc + bias if flag else acc


BASE = torch.zeros(4096)


def view(m: int, n: int, offset: int, dtype: torch.dtype, turned: bool) -> torch.Tensor:
    flat = BASE.to(dtype)[offset : offset + m * n].view(m, n)
    return flat.t() if turned else flat


# no dimension of one element, whose stride is in the key and is no part of the Problem
tensors = st.builds(
    view, st.integers(2, 4), st.integers(2, 4), st.sampled_from([0, 1, 16]),
    st.sampled_from([torch.float32, torch.float16]), st.booleans(),
)  # fmt: skip
scalars = st.sampled_from(
    [None, True, False, 0, 1, 2, 1.0, 0.5, "a", "b", torch.float32, torch.int8, Mode.FAST, Mode.SAFE]
)
values = st.one_of(
    tensors,
    scalars,
    st.builds(epilogue, tensors, st.booleans()),
    st.tuples(scalars, scalars),
    st.lists(tensors, min_size=1, max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(values, min_size=1, max_size=2), st.lists(values, min_size=1, max_size=2), values, st.booleans())
def test_equal_keys_mean_equal_problems_and_the_other_way_round(
    one: list[Any], other: list[Any], eps: Any, same: bool
) -> None:
    if same:
        other = [*one[:-1], other[-1]]
    keys = [call_key(args, {"eps": eps}) for args in (one, other)]
    assert hash(keys[0]) == hash(call_key(one, {"eps": eps}))
    equal = described(*one, eps=eps).key == described(*other, eps=eps).key and len(one) == len(other)
    assert (keys[0] == keys[1]) == equal


def test_the_key_does_not_hold_on_to_tensors_and_sees_what_a_cell_holds_now() -> None:
    bias = torch.zeros(4)

    def act(v: Any) -> Any:
        return v + bias

    before = call_key((act,))
    bias = torch.ones(4)
    assert call_key((act,)) == before
    bias = torch.ones(5)
    assert call_key((act,)) != before


def test_only_a_gpu_has_a_device_class() -> None:
    with pytest.raises(CallError, match="asked of a GPU"):
        device_class("cpu")


# ---- forms --------------------------------------------------------------------------------------------------------


class Context:
    """What is remembered for a key."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counter = self
        self.calls = 0


def run(context: Context, *args: Any, **kwargs: Any) -> tuple[str, int]:
    return context.name, len(args) + len(kwargs)


FormOf = Callable[..., Form | None]


@pytest.fixture(scope="module", params=["native", "python"])
def form_of(request: pytest.FixtureRequest) -> FormOf:
    """Forms that read tensors by the C extension, and those that do in Python."""
    if request.param == "python":
        return form_by
    try:
        build_native.build()
    except build_native.CannotBuild as error:
        pytest.skip(str(error))
    native.forget()
    reader = native.tensors_key()
    if reader is None:
        pytest.skip("TILEFLOW_NATIVE=0, or torch does not offer its tensors to C")
    return partial(form_by, reader=reader)


def test_forms_tell_a_tensor_without_memory_from_one_on_a_cpu(form_of: FormOf) -> None:
    """torch has one ordinal for both: a call on the meta device ran the code of the one before it."""
    x = torch.zeros(3)
    form = form_of((x,), {}, run)
    assert form is not None
    form.held.replace(form.key((x,), {}), Context("on a CPU"))
    assert form.call((torch.ones(3),), {}) == ("on a CPU", 1)
    assert form.call((x.to("meta"),), {}) is MISS


@settings(max_examples=200, deadline=None)
@given(st.lists(values, min_size=1, max_size=2), st.lists(values, min_size=1, max_size=2), st.booleans(), st.booleans())
def test_forms_are_as_telling_as_keys_of_any_call(
    form_of: FormOf, one: list[Any], other: list[Any], kinds: bool, by_name: bool
) -> None:
    """Arguments in containers and in what functions close over, by position and by name."""
    other = [n if type(o) is type(n) else o for o, n in zip(one, other, strict=False)] if kinds else other

    def call(args: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tuple(args[:-1]), {"last": args[-1]}) if by_name else (tuple(args), {})

    form = form_of(*call(one), run)
    assert form is not None
    key = form.key(*call(one))
    assert key is not None and hash(key) == hash(form.key(*call(one)))
    form.held.replace(key, Context("one"))
    same = call_key(*call(one)) == call_key(*call(other))
    found = form.key(*call(other))
    assert (found == key) == same
    assert form.call(*call(one)) == ("one", len(one))
    assert form.call(*call(other)) == (("one", len(other)) if same else MISS)


def test_numbers_that_select_code_enter_a_form(form_of: FormOf) -> None:
    form = form_of((3, 4), {}, run, constants={"b"}, names=("a", "b"))
    assert form is not None
    assert form.key((3, 4), {}) == form.key((5, 4), {}) != form.key((3, 5), {})
    by_name = form_of((), {"b": 4, "a": 3}, run, constants={"b"}, names=("a", "b"))
    assert by_name is not None
    assert by_name.key((), {"a": 5, "b": 4}) == by_name.key((), {"b": 4, "a": 3}) != by_name.key((), {"b": 5, "a": 3})


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_form_sees_gradients_and_the_settings_that_matter(form_of: FormOf, name: str) -> None:
    x = torch.zeros(4)
    sees, blind = form_of((x,), {}, run, ambient=(name,)), form_of((x,), {}, run)
    assert sees is not None and blind is not None

    def keys() -> list[Any]:
        return [form.key((x,), {}) for form in (sees, blind)] + [call_key((x,), {}, (name,)), call_key((x,), {}, ())]

    before = keys()
    x.requires_grad_()
    assert all(one != other for one, other in zip(before, keys(), strict=True))
    with torch.no_grad():
        assert keys() == before
        with changed(name):
            assert [one == other for one, other in zip(before, keys(), strict=True)] == [False, True, False, True]


@contextlib.contextmanager
def changed(name: str) -> Iterator[None]:
    """Another value of one of torch's settings."""
    match name:
        case "default_dtype":
            torch.set_default_dtype(torch.bfloat16)
        case "deterministic":
            torch.use_deterministic_algorithms(True)
        case "float32_precision":
            torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", enabled=name == "autocast"):
            yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")


def test_what_memory_does_not_hold_is_in_the_key_and_refused(form_of: FormOf) -> None:
    """13.5: lazily negated and conjugated views computed with the wrong sign; forward-mode tangents were dropped."""
    z = torch.randn(4, dtype=torch.complex64)
    plain, negated = z.imag, z.conj().imag
    assert (plain.shape, plain.stride(), plain.dtype) == (negated.shape, negated.stride(), negated.dtype)
    assert call_key((plain,)) != call_key((negated,)) and call_key((z,)) != call_key((z.conj(),))
    form = form_of((plain,), {}, run)
    assert form is not None and form.key((plain,), {}) != form.key((negated,), {})
    sparse = torch.eye(2).to_sparse()
    for value, message in ((negated, "resolve_neg"), (z.conj(), "resolve_conj"), (sparse, "to_dense")):
        with pytest.raises(CallError, match=message):
            check_memory("m:k", {"x": (1, {"deep": value})})
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.zeros(4), torch.ones(4))
        assert form.key((dual,), {}) is None and form.call((dual,), {}) is MISS
        assert call_key((dual,)) != call_key((torch.zeros(4),))
        check_memory("m:k", {"x": torch.zeros(4)})
        with pytest.raises(CallError, match="forward-mode"):
            check_memory("m:k", {"x": dual})


@tileflow.kernel
def added(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.shape[0]):
        out[tile] = x[tile] + 1
    return out


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_tensors_without_a_size_or_with_a_mask_are_refused_in_words() -> None:
    """These were torch's own ValueError and a TypeError about dispatch."""
    lazy = torch.nn.LazyLinear(3).weight
    masked = torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))
    with pytest.raises(CallError, match="x with no size yet"):
        added(lazy)
    with pytest.raises(CallError, match=r"x with a mask[\s\S]*get_mask"):
        added(masked)
    with tileflow.interpret(), pytest.raises(CallError, match="x with no size yet"):
        added(lazy)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_refused_in_words(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    with pytest.raises(CallError, match="are strided"):
        added(nested)
    with pytest.raises(CallError, match="are strided"), tileflow.interpret():
        added(nested)


def test_a_call_on_the_meta_device_gives_shapes() -> None:
    """As torch's own operations do, without a compiler or an interpreter."""
    found = added(torch.empty(5, 3, device="meta"))
    assert found.device.type == "meta" and found.shape == (5, 3)


def test_tensors_of_a_function_transform_are_refused_in_words(form_of: FormOf) -> None:
    seen: list[Any] = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        form = form_of((torch.zeros(4),), {}, run)
        assert form is not None and form.key((x,), {}) is None and form.call((x,), {}) is MISS
        hash(call_key((x,)))
        with pytest.raises(CallError, match="have memory") as caught:
            check_memory("m:k", {"x": x})
        seen.append(caught.value)
        return x * 2

    torch.func.vmap(inside)(torch.zeros(3, 4))
    assert seen


@pytest.mark.parametrize("value", [object(), torch.zeros(2, dtype=torch.complex64)])
def test_other_kinds_have_no_form(form_of: FormOf, value: Any) -> None:
    assert form_of((torch.zeros(1), value), {}, run) is None


def test_a_call_without_arguments_has_a_form(form_of: FormOf) -> None:
    form = form_of((), {}, run)
    assert form is not None
    form.held.replace((), Context("none"))
    assert (form.call((), {}), form.call((1,), {})) == (("none", 0), MISS)


def test_a_form_counts_each_call_that_it_serves(form_of: FormOf) -> None:
    form, context = form_of((1,), {}, run), Context("a")
    assert form is not None
    form.held.replace(form.key((1,), {}), context)
    for _ in range(3):
        form.call((2,), {})
    form.call((2.0,), {})
    assert context.calls == 3


_DTYPES = sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype) and not d.is_complex}, key=str)


def _of_every_kind() -> Iterator[torch.Tensor]:
    """Tensors that a kernel would be built for differently, and some that only look so."""
    base = torch.zeros(256)
    for dtype in _DTYPES:
        with contextlib.suppress(RuntimeError):  # torch has names of dtypes without tensors of them
            yield torch.empty(4, dtype=dtype)
    for shape in ((), (0,), (0, 4), (4, 0), (1,), (1, 4), (4, 1), (1, 1), (2, 2), (4, 1, 1)):
        yield torch.zeros(shape)
    yield from (base[1:5], base[4:8], base[16:20], base[:4].expand(4, 4), base[:1].expand(4), base[:8:2])
    yield base.as_strided((1, 4), (7, 1))
    yield base.as_strided((1, 4), (4, 1))
    yield torch.zeros(4, dtype=torch.complex64).conj().imag
    yield torch.zeros(4, dtype=torch.complex64).imag
    yield torch.zeros(4, requires_grad=True)
    yield torch.nn.Parameter(torch.zeros(4), requires_grad=False)
    yield torch.nn.Parameter(torch.zeros(4))


def test_what_tells_tensors_apart_tells_their_keys_apart(form_of: FormOf) -> None:
    """All pairs; a dtype that DLPack has no code for has no form, and its key is nobody's."""
    kinds = list(_of_every_kind())
    forms = {type(value): form_of((value,), {}, run) for value in kinds[-2:] + kinds[:1]}
    read = [forms[type(value)].key((value,), {}) for value in kinds]  # type: ignore[union-attr]
    keys = [call_key((value,)) for value in kinds]
    known = [i for i, key in enumerate(read) if key is not None]
    assert {kinds[i].dtype for i in known} >= {
        torch.bool, torch.uint8, torch.int8, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
        torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.float64, torch.int64, torch.uint16,
    }  # fmt: skip
    for i in known:
        for j in known:
            assert (read[i] == read[j]) == (keys[i] == keys[j]), (kinds[i], kinds[j])
    for i in {*range(len(kinds))} - {*known}:
        assert form_of((kinds[i],), {}, run) is None


def test_where_one_tensors_metadata_ends_is_in_the_key(form_of: FormOf) -> None:
    a, b, s = torch.zeros(2, 2), torch.zeros(2), torch.zeros(())
    form = form_of((a, b), {}, run)
    assert form is not None
    pairs = [(a, b), (b, a), (a, s), (s, a), (b, b), (s, s), (b, s), (s, b)]
    assert len({form.key(pair, {}) for pair in pairs}) == len(pairs)
    assert form.key((a, None), {}) is form.key((a, a, a), {}) is form.key((a, 1), {}) is None


def test_arguments_reach_host_code_by_their_names(form_of: FormOf) -> None:
    def host(context: Context, a: Any, b: Any, c: Any = 0, *, d: Any = 0) -> tuple[Any, ...]:
        return a, b, c, d

    for args, kwargs in (
        ((1,), {"c": 3, "b": 2}),
        ((1, 2), {"d": 4}),
        ((), {"d": 4, "b": 2, "a": 1}),
        ((1, 2), {"c": 3}),
    ):
        form = form_of(args, kwargs, host, names=("a", "b", "c", "d"), positional=3)
        assert form is not None
        form.held.replace(form.key(args, kwargs), Context("one"))
        assert form.call(args, kwargs) == host(Context("one"), *args, **kwargs)
        assert form.call(args, {**kwargs, "e": 1}) is MISS
        assert form.call((*args, 1), {}) is MISS


@tileflow.kernel
def copied(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile]
    return out


@pytest.mark.parametrize("interprets", [True, False])
def test_proxies_of_symbolic_tracing_are_refused_in_words(interprets: bool) -> None:
    refused = pytest.raises(CallError, match=r"outside torch.fx.symbolic_trace(.|\n)*got x of type Proxy(.|\n)*fx.wrap")
    with refused, tileflow.interpret() if interprets else contextlib.nullcontext():
        torch.fx.symbolic_trace(lambda x: copied(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace")
@pytest.mark.parametrize("interprets", [False, True])
def test_a_first_call_inside_torch_jit_trace_is_refused(interprets: bool) -> None:
    """The program that was traced allocated the result, and nothing filled it."""
    refused = pytest.raises(CallError, match=r"outside torch.jit.trace(.|\n)*torch.export.export")
    with tileflow.interpret() if interprets else contextlib.nullcontext(), refused:
        torch.jit.trace(lambda x: copied(x), (torch.ones(3),), check_trace=False)
