"""What kernels read besides their arguments, and calls from bundles while it changes (14.3).

``tests/interpreter/test_outside.py`` runs kernels through such changes.
"""

from __future__ import annotations

import enum
import types
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.fakes.served import Driver, binary, load, row

import tileflow
import tileflow.language as tfl
from tileflow.api import load_kernel
from tileflow.errors import MissError, VariantError
from tileflow.expr import Expr, all_of
from tileflow.frontend.meaning import semantic_hash
from tileflow.frontend.split import split
from tileflow.runtime.call_cache import MOST_PASSED
from tileflow.runtime.dispatch import RuntimeContext
from tileflow.runtime.key_invariants import KeyInvariants
from tileflow.runtime.outside import DeviceReads, read_outside
from tileflow.runtime.paths import Symbol, digest_of, read_symbol
from tileflow.target import target

FLAG, WORD, COUNT = True, "add", 3
NAMES = [torch.sin]
activation = torch.nn.LeakyReLU(0.25)
tools = types.ModuleType("tools")
tools.SCALE = 2.0  # type: ignore[attr-defined]


class Options:
    """Read by device code."""

    level = 3

    def apply(self, x: Any) -> Any:
        return x + self.level


class Mode(enum.Enum):
    """Selects code."""

    A = 1
    B = 2


options, mode = Options(), Mode.A


def helper(x: Any) -> Any:
    return x * tools.SCALE


@tileflow.kernel
def reads(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.shape[0]):
        value = helper(x[tile]) if FLAG else F.relu(x[tile])
        value = activation(value) + 1 if WORD == "add" and mode is Mode.A else NAMES[0](value)
        out[tile] = options.apply(value) * COUNT
    return out


@tileflow.kernel
def reads_nothing(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.shape[0]):
        out[tile] = torch.relu(x[tile])
    return out


def times_five(x: Any) -> Any:
    return x * 5


CHANGES: dict[str, tuple[Any, str, Any]] = {
    "a bool": (globals(), "FLAG", False),
    "a string": (globals(), "WORD", "mul"),
    "an enum": (globals(), "mode", Mode.B),
    "a function": (globals(), "helper", times_five),
    "a lambda": (globals(), "helper", lambda x: x),
    "the code of a function": (helper, "__code__", times_five.__code__),
    "a module": (globals(), "tools", types.SimpleNamespace(SCALE=9.0)),
    "a library": (globals(), "F", types.SimpleNamespace(relu=times_five)),
    "a constant of a module": (tools, "SCALE", 3.0),
    "an entry of a list": (NAMES, "0", torch.cos),
    "an attribute of torch's object": (activation, "negative_slope", 0.5),
    "an attribute of a class": (Options, "level", 4),
    "a method": (Options, "apply", times_five),
}


class Change:
    """One of :data:`CHANGES`, made and taken back."""

    def __init__(self, name: str) -> None:
        self.owner, self.name, self.value = CHANGES[name]

    def swap(self) -> None:
        value = self.value
        if isinstance(self.owner, list):
            self.value, self.owner[int(self.name)] = self.owner[int(self.name)], value
        elif isinstance(self.owner, dict):
            self.value, self.owner[self.name] = self.owner[self.name], value
        else:
            held = vars(self.owner) if isinstance(self.owner, type) else None
            self.value = held[self.name] if held is not None else getattr(self.owner, self.name)
            setattr(self.owner, self.name, value)

    def __enter__(self) -> None:
        self.swap()

    def __exit__(self, *_: Any) -> None:
        self.swap()


@pytest.mark.parametrize("name", CHANGES)
def test_a_row_serves_what_it_was_made_for_and_nothing_else(driver: Driver, tmp_path: Path, name: str) -> None:
    """A row of a bundle went on serving after what the kernel reads had changed."""
    made, x = binary("row"), torch.zeros(4)
    load(tmp_path / "b", reads, [row(reads, (x,), [made])], [made], on_miss="error")
    reads(x)
    reads(x)
    served = list(driver.launched)
    assert len(served) == 2
    with Change(name):
        for _ in range(2):
            with pytest.raises(MissError):
                reads(x)
    assert driver.launched == served
    reads(x)
    assert len(driver.launched) == 3


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_another_kernel_to_a_table(name: str) -> None:
    """Classes, methods and a library's objects counted by their names alone: their rows outlived them."""
    before = semantic_hash(reads.scope)
    with Change(name):
        assert semantic_hash(reads.scope) != before
        assert reads.semantic_hash == semantic_hash(reads.scope)
    assert reads.semantic_hash == before


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_set_back_finds_what_was_remembered(
    driver: Driver, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    made, x = binary("row"), torch.zeros(4)
    load(tmp_path / "b", reads, [row(reads, (x,), [made])], [made], on_miss="error")
    reads(x)
    number = reads.cache.number
    with Change(name):
        reads.cache.refresh()
        assert reads.cache.number != number
        assert len(reads.cache) == 0
    monkeypatch.setattr(reads, "plan", lambda args, kwargs: pytest.fail("planned again"))
    reads(x)
    assert reads.cache.number == number


def test_numbers_that_a_launch_reads_again_change_no_state() -> None:
    global COUNT
    reads.cache.refresh()
    number = reads.cache.number
    for count in (4, 5, 3):
        COUNT = count
        assert not reads.cache.refresh()
    equal = "".join(["a", "dd"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "WORD", equal)
        reads.cache.refresh()
        assert reads.cache.number == number


@pytest.mark.parametrize("name", ["vector_add:vector_add", "softmax:softmax", "matmul:matmul", "layer_norm:layer_norm"])
def test_kernels_that_read_nothing_ask_nothing(name: str) -> None:
    """A warm call of theirs costs what it did."""
    kernel = load_kernel(f"examples.{name}")
    assert read_outside(kernel.scope, kernel.host.reads).unchanged is None


def test_a_form_asks_only_where_something_can_change(driver: Driver, tmp_path: Path) -> None:
    x = torch.zeros(4)
    for kernel in (reads, reads_nothing):
        made = binary(kernel.__name__)
        load(tmp_path / kernel.__name__, kernel, [row(kernel, (x,), [made])], [made], on_miss="error")
        kernel(x)
        assert [form.watch(lambda: True) for form in kernel.cache.forms] == [kernel is reads]


def test_what_holds_itself_is_read_once() -> None:
    def recursive(x: Any) -> Any:
        return recursive(x) if NAMES else table

    table: list[Any] = [recursive]
    table.append(table)
    outside = read_outside(recursive, DeviceReads(frozenset({"recursive", "table"})))
    assert outside.holds()
    table[1] = None
    assert not outside.holds()


def test_functions_that_calls_pass_are_followed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    @tileflow.kernel
    def applied(x: torch.Tensor, f: Any) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.shape[0]):
            out[tile] = f(x[tile])
        return out

    cache, text = applied.cache, "def f(x): return x + NUMBER + {}"
    monkeypatch.setattr(applied, "plan", lambda args, kwargs: iter(()))
    for number in range(MOST_PASSED + 2):
        scope: dict[str, Any] = {"NUMBER": 1, "__name__": __name__}
        exec(text.format(number), scope)
        cache.watch((torch.zeros(1), scope["f"]), {})
    assert len(cache._passed) == 2
    assert cache._outside is not None
    assert cache._outside.holds()
    scope["NUMBER"] = 2
    assert not cache._outside.holds()


# ---- constants that host code makes ---------------------------------------------------------------------------------


def chooses(x: Any, n: int, word: str) -> Any:
    out, small = torch.empty_like(x), x.numel() < 9
    given, many = word == "add", n > 3
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + 1 if many and small and given else x[tile]
    return out


def test_only_what_an_int_decides_is_looked_at_again() -> None:
    (region,) = split(chooses).regions
    checked = [name for name in ("small", "given", "many") if not region.invariants.decides(Expr.sym(name).eq(1))]
    assert checked == ["many"]


def test_a_digest_tells_constants_apart_and_is_the_same_in_every_process() -> None:
    constants = [None, "", "None", "a", torch.float32, torch.float16, Mode.A, Mode.B, torch.sin, helper, times_five, F]
    assert len({digest_of(value) for value in constants}) == len(constants)
    assert (digest_of("add"), digest_of(torch.float32)) == (zlib.crc32(b"'add'"), zlib.crc32(b"torch.float32"))
    symbol = Symbol.parse("f.digest")
    assert read_symbol(symbol, {"f": helper}, None, (), ()) == digest_of(helper)
    condition = Expr.sym("f.digest").eq(1)
    assert KeyInvariants(frozenset({"f"})).decides(condition)
    assert not KeyInvariants().decides(condition)


class Declines:
    """A launcher that has no words for it."""

    guards = all_of([Expr.sym(f"x.shape.{axis}").eq(axis) for axis in range(8)] + [Expr.sym("n").eq(4)])

    def __call__(self, *_: Any) -> bool:
        return False


def test_a_message_names_the_guard_that_failed_alone() -> None:
    """It showed all guards of the variant, a page of them, where the launcher does not say itself why it declines."""
    x = torch.empty([*range(8)])
    context = RuntimeContext(tileflow.Config.of({}), {0: [Declines()]})
    with pytest.raises(VariantError) as caught:
        context.launch(0, {"x": x, "n": 5}, 8)
    assert "(4 == n) with n = 5" in str(caught.value)
    assert "x.shape" not in str(caught.value)


@tileflow.kernel
def sum_of_parts(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, device=x.device)
    parts = x.split(4)
    for tile in tfl.tile(4):
        total = tfl.zeros([tile])
        for part in parts:
            total = total + part[tile]
        out[tile] = total
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic", "wide", "generic", "generic_ones"])
def test_a_variant_declines_a_list_of_another_length_than_it_was_traced_for(mode: str) -> None:
    # its loop is written out, and a longer list was cut short in silence
    lowered = sum_of_parts.lower((torch.empty(8, device="meta"),), target("nvidia-h200"), mode)
    guards = [source.guards for source in lowered.emit(lowered.default)]
    part = torch.zeros(4)

    def accepts(*parts: torch.Tensor) -> bool:
        frame = {"parts": parts, "out": torch.zeros(4)}
        symbols = {s for each in guards for s in each.symbols()}
        values = {s: read_symbol(Symbol.parse(s), frame, sum_of_parts.scope, (0,), (4,)) for s in symbols}
        return any(each.evaluate(values) for each in guards)

    assert accepts(part, part)
    assert not accepts(part, part, part)


@tileflow.kernel
def row_sums(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    columns = range(x.size(1))
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile])
        for column in columns:
            total = total + x[tile, column]
        out[tile] = total
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic", "wide", "generic", "generic_ones"])
def test_a_variant_declines_another_range_than_it_was_traced_for(mode: str) -> None:
    # bundles' sources for any size had 12 loads for rows of 20
    lowered = row_sums.lower((torch.empty(8, 12, device="meta"),), target("nvidia-h200"), mode)
    guards = [source.guards for source in lowered.emit(lowered.default)]

    def accepts(columns: range) -> bool:
        frame = {"x": torch.zeros(8, 12), "out": torch.zeros(8), "columns": columns}
        values = {s: read_symbol(Symbol.parse(s), frame, None, (0,), (8,)) for g in guards for s in g.symbols()}
        return all(guard.evaluate(values) for guard in guards)

    assert accepts(range(12))
    assert not accepts(range(20)) and not accepts(range(1, 12)) and not accepts(range(0, 12, 2))


@tileflow.kernel
def has_three(x: torch.Tensor, k: int) -> torch.Tensor:
    out = torch.empty_like(x)
    odd = {k, k + 2}
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + (10 if 3 in odd else 20)
    return out


def test_a_set_of_traced_ints_is_that_of_a_launch() -> None:
    """No variant took a launch: ints of a trace were spelled by their class."""
    lowered = has_three.lower((torch.empty(8, device="meta"), 1), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)

    def accepts(odd: set[int]) -> bool:
        frame = {"x": torch.zeros(8), "out": torch.zeros(8), "odd": odd, "k": 1}
        symbols = source.guards.symbols()
        return bool(source.guards.evaluate({s: read_symbol(Symbol.parse(s), frame, None, (0,), (8,)) for s in symbols}))

    assert accepts({1, 3}) and not accepts({2, 4})
