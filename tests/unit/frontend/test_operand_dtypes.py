"""Which dtypes torch's functions take, and what dtype a result has: compiled and as plain Python as torch has it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.target import target

H200 = target("nvidia-h200")
DTYPES = (torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.bool)
Function = Callable[..., Any]
FOUND: list[torch.dtype] = []


def noted(value: Any) -> Any:
    FOUND.append(value.dtype)
    return value


@tileflow.kernel
def of_one(out: torch.Tensor, a: torch.Tensor, f: Function) -> None:
    for i in tfl.grid(out.size(0)):
        out[i] = noted(f(a[(slice(None),) * a.ndim])).float().sum()


@tileflow.kernel
def of_two(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, f: Function) -> None:
    for i in tfl.grid(out.size(0)):
        out[i] = noted(f(a[(slice(None),) * a.ndim], b[(slice(None),) * b.ndim])).float().sum()


@tileflow.kernel
def of_three(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, f: Function) -> None:
    for i in tfl.grid(out.size(0)):
        out[i] = noted(f(a[(slice(None),) * a.ndim], b[(slice(None),) * b.ndim], c[(slice(None),) * c.ndim])).sum()


KERNELS = {1: of_one, 2: of_two, 3: of_three}
REFUSED = (RuntimeError, TypeError, ValueError)

ONE: tuple[Function, ...] = (
    torch.abs, torch.ceil, torch.frac, torch.round, torch.trunc, torch.relu, torch.positive, torch.nanmean,
    torch.linalg.vector_norm, torch.norm, torch.argmax, F.celu, F.elu, F.gelu, F.glu, F.hardshrink, F.hardsigmoid,
    F.hardswish, F.leaky_relu, F.logsigmoid, F.mish, F.selu, F.silu, F.softplus, F.softshrink, F.softsign,
    F.tanhshrink, torch.any, torch.all, lambda x: 1 - x, lambda x: x - 1, lambda x: 2**x,
    lambda x: F.normalize(x, dim=0), abs, lambda x: x.clamp(0, 5), lambda x: x % 3, lambda x: torch.fmod(x, 3),
    lambda x: x << 1 if not x.is_floating_point() else x, lambda x: torch.clamp_min(x, 1),
)  # fmt: skip
TWO: tuple[Function, ...] = (
    torch.sub, torch.hypot, torch.fmod, torch.remainder, torch.logaddexp, torch.logaddexp2, torch.heaviside, torch.dist,
    torch.inner, torch.dot, torch.isclose, torch.linalg.vecdot, torch.bitwise_left_shift, F.mse_loss, F.l1_loss,
    F.smooth_l1_loss, F.huber_loss, F.kl_div, F.binary_cross_entropy, F.binary_cross_entropy_with_logits,
    F.pairwise_distance, lambda a, b: torch.lerp(a, b, 0.5), lambda a, m: a.masked_fill(m, 1), lambda a, b: a - b,
)  # fmt: skip
THREE: tuple[Function, ...] = (torch.lerp, torch.addcdiv, torch.clamp)
NORMS: tuple[Function, ...] = (
    lambda x, weight: F.layer_norm(x, (8,), weight),
    lambda x, weight: F.rms_norm(x, (8,), weight),
    lambda x, weight: F.group_norm(x, 2, weight),
    lambda x, weight: F.linear(x, x, weight),
)


def answer(f: Function, args: tuple[torch.Tensor, ...]) -> torch.dtype | None:
    """The dtype of torch's result; None where torch refuses."""
    try:
        found: torch.dtype = f(*args).dtype
    except REFUSED:
        return None
    return found


def traced(f: Function, args: tuple[torch.Tensor, ...]) -> torch.dtype | None:
    FOUND.clear()
    try:
        KERNELS[len(args)].lower((torch.zeros(1), *args, f), H200)
    except TraceError:
        return None
    return FOUND[0]


@pytest.mark.filterwarnings("ignore:Mismatch dtype", "ignore:where received a uint8", "ignore:reduction.*mean")
@pytest.mark.parametrize("f", [*ONE, *TWO, *THREE, *NORMS], ids=lambda f: f.__name__)
def test_operands_are_refused_where_torch_refuses_them(f: Function) -> None:
    """Ints ran in functions of floats, mixed dtypes in functions of one, and some results had a wider dtype."""
    count = 1 if f in ONE else 3 if f in THREE else 2
    shapes = [(8, 8), (8,)] if f in NORMS else [(8,)] * count
    for dtypes in itertools.product(DTYPES, repeat=count):
        args = tuple(torch.ones(shape).to(dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
        assert traced(f, args) == answer(f, args), dtypes


ALIKE: dict[Function, tuple[str, str]] = {
    lambda a, b: torch.lerp(a, b, 0.5): ("torch.lerp takes operands of one dtype", ".to(x.dtype)"),
    lambda a, b: F.layer_norm(a, (a.size(0),), b): ("torch.layer_norm takes parameters of its input's", ".to(x.dtype)"),
    lambda a, b: F.silu(b): ("torch.silu takes floats", ".float()"),
    lambda a, b: F.logsigmoid(b): ("torch.logsigmoid takes floats", ".float()"),
    lambda a, b: torch.linalg.vecdot(a, b): ("torch.vecdot takes operands of one dtype", ".to(x.dtype)"),
    lambda a, b: a.masked_fill(b, 0): ("torch.masked_fill takes a mask of bools", "mask != 0"),
    lambda a, b: torch.addmm(b[:, None], a[:, None], a[None]): ("torch.addmm takes an accumulator", ".to(...)"),
}


@pytest.mark.parametrize("mode", ["static", "eager"])
@pytest.mark.parametrize("number", range(len(ALIKE)))
def test_both_executions_say_what_to_convert(number: int, mode: str) -> None:
    f = [*ALIKE][number]
    args = torch.zeros(1), torch.ones(8), torch.ones(8, dtype=torch.int32), f
    with pytest.raises(TraceError) as caught:
        if mode == "eager":
            of_two.run_eagerly(*args)
        else:
            of_two.lower(args, H200)
    constraint, hint = ALIKE[f]
    assert constraint in caught.value.constraint and hint in caught.value.hint and "int32" in caught.value.got
    assert caught.value.where is not None


def indexed(table: Any, places: Any) -> Any:
    return table[places]


@pytest.mark.parametrize("f", [indexed, lambda x, i: x.gather(0, i)])
def test_no_index_is_of_bfloat16(f: Function) -> None:
    """Of the floating dtypes, this one's name does not begin with the word."""
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        with pytest.raises(TraceError, match="a tile of indices holds ints"):
            of_two.lower((torch.zeros(1), torch.ones(8), torch.ones(8, dtype=dtype), f), H200)


@tileflow.kernel
def counted_by(out: torch.Tensor, n: torch.Tensor) -> None:
    for i in tfl.grid(out.size(0)):
        for _ in range(n[i]):
            out[i] += 1


@tileflow.kernel
def sliced_by(out: torch.Tensor, n: torch.Tensor) -> None:
    for i in tfl.grid(out.size(0)):
        out[n[i] : n[i] + 1] = 1.0


@pytest.mark.parametrize("kernel", [counted_by, sliced_by], ids=lambda k: k.name)
def test_no_bound_is_of_bfloat16(kernel: Any) -> None:
    with pytest.raises(TraceError):
        kernel.lower((torch.zeros(3), torch.ones(3, dtype=torch.bfloat16)), H200)


def halved(x: Any, n: int) -> Any:
    return x // n


@tileflow.kernel
def shared_out(x: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    none = parts.size(0) // 4
    for tile in tfl.tile(x.size(0)):
        out[tile] = halved(x[tile] % parts.size(0), none)
    return out


def test_a_size_of_0_divides_nothing() -> None:
    assert shared_out.lower((torch.ones(8, dtype=torch.int32), torch.ones(0)), H200).default


NUMBERS: dict[str, Function] = {
    "clamp": lambda x, n: x.clamp(3, n),
    "clamp_min": lambda x, n: torch.clamp_min(x, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 5, n),
    "where": lambda x, n: torch.where(x > 5, x, n),
    "hardtanh": lambda x, n: F.hardtanh(x, 0, n),
    "threshold": lambda x, n: F.threshold(x, 5, n),
    "pad": lambda x, n: F.pad(x, (1, 1), value=n),
    "full_like": lambda x, n: torch.full_like(x, n),
    "new_full": lambda x, n: x.new_full((4,), n),
    "full": lambda x, n: torch.full((4,), n, dtype=x.dtype),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_takes_an_elements_place_is_one_that_its_dtype_holds(name: str) -> None:
    """It was cut off: 300 as 44 in uint8, where torch refuses it."""
    f = NUMBERS[name]

    @tileflow.kernel
    def placed(out: torch.Tensor, x: torch.Tensor, n: tfl.constexpr) -> None:
        for i in tfl.grid(out.size(0)):
            out[i] = f(x[:], n).sum()

    for dtype, number, is_held in ((torch.uint8, 300, False), (torch.int8, 200, False), (torch.int8, 100, True)):
        args = torch.zeros(1), torch.ones(4, dtype=dtype), number
        if is_held:
            assert placed.lower(args, H200).default
            continue
        with pytest.raises(RuntimeError, match="without overflow"):
            f(*args[1:])
        with pytest.raises(TraceError, match=f"a number is one that {str(dtype).removeprefix('torch.')} holds"):
            placed.lower(args, H200)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", NUMBERS)
def test_so_is_an_int_of_the_call(name: str, mode: str) -> None:
    """It was cut off likewise. Launches of another int check theirs."""
    f = NUMBERS[name]

    @tileflow.kernel
    def placed(out: torch.Tensor, x: torch.Tensor, n: int) -> None:
        for i in tfl.grid(out.size(0)):
            out[i] = f(x[:], n).sum()

    x = torch.ones(4, dtype=torch.int8)
    with pytest.raises(TraceError, match="a number is one that int8 holds"):
        placed.lower((torch.zeros(1), x, 200), H200, mode=mode)
    lowered = placed.lower((torch.zeros(1), x, 100), H200, mode=mode)
    for source in lowered.emit(lowered.default):
        known = {symbol: lowered.regions[0].hints.get(symbol, 1) for symbol in source.guards.symbols()}
        assert "n" in known and not source.guards.evaluate(known | {"n": 200})


@pytest.mark.parametrize("name", ["masked_fill", "threshold", "pad", "full_like", "new_full", "full"])
def test_a_float_of_the_call_takes_no_ints_place(name: str) -> None:
    """No launch looks at one, so that 300.0 in int8 was 44; a constant one is looked at."""
    f = NUMBERS[name]

    def placed(out: torch.Tensor, x: torch.Tensor, n: float) -> None:
        for i in tfl.grid(out.size(0)):
            out[i] = f(x[:], n).sum()

    def by_constant(out: torch.Tensor, x: torch.Tensor, n: tfl.constexpr) -> None:
        for i in tfl.grid(out.size(0)):
            out[i] = f(x[:], n).sum()

    args = torch.zeros(1), torch.ones(4, dtype=torch.int8), 3.0
    with pytest.raises(TraceError, match="a number in the place of int8 is an int, or a constant") as caught:
        tileflow.kernel(placed).lower(args, H200)
    assert "int(value) in host code" in caught.value.hint
    tileflow.kernel(by_constant).lower(args, H200)
    tileflow.kernel(placed).lower((torch.zeros(1), torch.ones(4), 3.0), H200)
