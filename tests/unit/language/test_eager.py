"""The eager meaning: the user's own function as Python over real tiles."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.errors import CallError, ConfigError, Location, ShapeError, TileflowError, TraceError
from tileflow.target import target

SEEN: list[object] = []


def note(*what: object) -> None:
    SEEN.append(what)


@tileflow.kernel
def facts(x: torch.Tensor) -> torch.Tensor:
    """(begin, end, id, lanes) of the tiles that each element is in, rows then columns."""
    m, n = x.shape
    out = torch.empty(m, n, 8, dtype=torch.int32)
    for tile_m in tfl.tile(m):
        for tile_n in tfl.tile(n):
            for k, tile in ((0, tile_m), (4, tile_n)):
                out[tile_m, tile_n, k] = tile.begin
                out[tile_m, tile_n, k + 1] = tile.end
                out[tile_m, tile_n, k + 2] = tile.id
                out[tile_m, tile_n, k + 3] = torch.ones_like(tile.index).sum()
    return out


def expected(m: int, n: int, rows: int, columns: int) -> torch.Tensor:
    def one(i: int, size: int, block: int) -> list[int]:
        begin = i // block * block
        end = min(begin + block, size)
        return [begin, end, i // block, end - begin]

    found = [[one(i, m, rows) + one(j, n, columns) for j in range(n)] for i in range(m)]
    return torch.tensor(found, dtype=torch.int32)


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


def test_tiles_have_the_configs_sizes_and_real_ends() -> None:
    x = torch.empty(5, 10)
    assert torch.equal(facts.run_eagerly(x, config={"block:tile_m": 4, "block:tile_n": 8}), expected(5, 10, 4, 8))
    assert torch.equal(facts.run_eagerly(x, config={"block:tile_m": 1, "block:tile_n": 2}), expected(5, 10, 1, 2))


def test_without_a_config_a_block_is_of_a_default_size() -> None:
    assert torch.equal(facts.run_eagerly(torch.empty(5, 40)), expected(5, 40, 32, 32))


def test_interpret_is_a_context_and_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.empty(3, 4)
    with tileflow.interpret({"block:tile_m": 1, "block:tile_n": 4}):
        assert torch.equal(facts(x), expected(3, 4, 1, 4))
    monkeypatch.setitem(os.environ, "TILEFLOW_INTERPRET", "1")
    assert torch.equal(facts(x), expected(3, 4, 32, 32))
    monkeypatch.delitem(os.environ, "TILEFLOW_INTERPRET")


def test_values_can_be_looked_at() -> None:
    """What only a run as Python can do."""

    @tileflow.kernel
    def looked_at(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            values = x[tile] * 2
            SEEN.extend(values.tolist())
            out[tile] = values
        return out

    looked_at.run_eagerly(torch.arange(5.0))
    assert SEEN == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_scalars_of_tiles() -> None:
    @tileflow.kernel
    def scalars(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(2, x.size(0)):
            SEEN.append((tile.begin, tile.end, tile.count, tile.index.tolist(), (tile + 3).begin, (tile - 1).end))
        return x

    scalars.run_eagerly(torch.empty(7))
    assert SEEN == [(2, 7, 1, [2, 3, 4, 5, 6], 5, 6)]


def test_an_empty_loop_runs_no_iteration() -> None:
    assert facts.run_eagerly(torch.empty(0, 4)).shape == (0, 4, 8)


def test_host_knobs_are_answered_by_the_config() -> None:
    @tileflow.kernel
    def tuned(x: torch.Tensor) -> torch.Tensor:
        block = tfl.register_block_size(16)
        flavour = tfl.register_tunable("flavour", ["plain", "doubled"])
        for tile in tfl.tile(x.size(0), block_size=block):
            x[tile] = tile.begin * (2 if flavour == "doubled" else 1)
        return x

    x = tuned.run_eagerly(torch.ones(6), config={"block:block": 4, "tunable:flavour": "doubled"})
    assert x.tolist() == [0.0] * 4 + [8.0] * 2


def test_masked_lanes_may_lie_outside() -> None:
    @tileflow.kernel
    def shifted(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            inside = tile.index + 1 < x.size(0)
            value = tfl.load(x, [tile.index + 1], extra_mask=inside)
            tfl.store(out, [tile.index + 1], value, extra_mask=inside)
        return out

    x = torch.arange(5.0)
    out = shifted.run_eagerly(x, torch.full((5,), -1.0), config={"block:tile": 4})
    assert out.tolist() == [-1.0, 1.0, 2.0, 3.0, 4.0]


def test_tiles_are_values() -> None:
    """What is loaded is a copy, as a clone is, and ``+=`` changes neither it nor a tile's dtype."""

    @tileflow.kernel
    def values(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            a = x[tile]
            b = a.clone()
            b += 1.5
            n = tile.index
            n += 2.7
            out[tile] = a + 10 * b + 100 * n
        return out

    x = torch.zeros(5)
    assert values.run_eagerly(x, torch.empty(5), config={"block:tile": 2}).tolist() == [
        215.0 + 100 * i for i in range(5)
    ]
    assert x.tolist() == [0.0] * 5


def test_half_operands_accumulate_in_float32() -> None:
    @tileflow.kernel
    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0), y.size(1))
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            acc = torch.addmm(acc, x[tile_m, :], y[:, tile_n])
            out[tile_m, tile_n] = acc + tfl.dot(x[tile_m, :], y[:, tile_n])
        return out

    x, y = torch.randn(5, 300).bfloat16(), torch.randn(300, 7).bfloat16()
    torch.testing.assert_close(product.run_eagerly(x, y), 2 * (x.float() @ y.float()))


@pytest.mark.parametrize(
    "call", [lambda: list(tfl.tile(4)), lambda: tfl.zeros([4]), lambda: tfl.register_block_size(4)]
)
def test_outside_a_kernel_the_language_says_so(call: object) -> None:
    with pytest.raises(CallError, match=r"inside a @tileflow\.kernel function only"):
        call()  # type: ignore[operator]


def test_tensors_of_two_devices_are_refused() -> None:
    @tileflow.kernel
    def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile] = y[tile]
        return x

    with pytest.raises(CallError, match="on one device"):
        two.run_eagerly(torch.empty(3), torch.empty(3, device="meta"))


def test_what_looks_at_values_still_runs_under_a_config() -> None:
    """No compiler takes it."""

    @tileflow.kernel
    def sums(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0))
        for tile in tfl.tile(x.size(0)):
            SEEN.append(tile.block_size)
            for tile_k, _ in tfl.tile([x.size(0), 1]):
                SEEN.append(tile_k.block_size)
            out[tile] = torch.tensor(x[tile, :].sum(1).tolist())
        return out

    x = torch.randn(4, 8)
    torch.testing.assert_close(
        sums.run_eagerly(x, config={"block:tile": 2, "block:tile_k": 4, "num_warps": 4}),
        x.sum(1),
    )
    assert SEEN == [2, 4, 2, 4]
    with pytest.raises(ConfigError, match="only name knobs"):
        sums.run_eagerly(x, config={"block:tiel": 2})


def test_loops_of_one_name_are_counted_in_each_launch() -> None:
    """As tracing names them: the second of a launch, and those of the second launch."""

    @tileflow.kernel
    def loops(x: torch.Tensor) -> torch.Tensor:
        n = x.size(0)
        for tile in tfl.tile(n):
            for i in tfl.tile(n):
                note("first", tile.block_size, i.block_size)
            for i in tfl.tile(n):
                note("second", tile.block_size, i.block_size)
            x[tile] = 0
        for tile in tfl.tile(n):
            for i in tfl.tile(n):
                note("third", tile.block_size, i.block_size)
            x[tile] = 1
        return x

    x = torch.empty(3)
    loops.run_eagerly(x, config={"block:tile": 4, "block:i": 8, "block:i#1": 16, "block:tile@1": 32, "block:i@1": 64})
    assert SEEN == [("first", 4, 8), ("second", 4, 16), ("third", 32, 64)]
    names = {k.name for k in loops.lower((x,), target("nvidia-h200")).space.knobs}
    assert names >= {"block:tile", "block:tile@1"}


@tileflow.kernel
def longer(x: torch.Tensor, n: int, how: str) -> torch.Tensor:
    """What a loop up to ``n`` loads of a shorter ``x``."""
    out = x.new_zeros(n)
    for tile in tfl.tile(n, block_size=4):
        if how == "masked":
            out[tile] = tfl.load(x, [tile], extra_mask=tile.index < x.size(0))
        elif how == "shifted":
            out[tile] = x[tile + 1]
        elif how == "inner":
            for inner in tfl.tile(tile.begin, tile.end + 1):
                out[tile] += x[inner].sum()
        else:
            out[tile] = x[tile]
    return out


def test_a_loop_up_to_a_size_stays_inside_as_in_a_launch() -> None:
    """Plain Python loaded zeros where a launch is refused."""
    x = torch.arange(1.0, 7.0)
    with pytest.raises(ShapeError, match=r"must not run past the end.* but got a loop up to 8 in a dimension of 6"):
        longer.run_eagerly(x, 8, "plain")
    with pytest.raises(ShapeError, match="must not run past the end"):
        longer.lower((x, 8, "plain"), target("nvidia-h200"))
    assert longer.run_eagerly(x, 8, "masked").tolist() == [1, 2, 3, 4, 5, 6, 0, 0]
    assert longer.run_eagerly(x, 8, "shifted").tolist() == [2, 3, 4, 5, 6, 0, 0, 0]
    assert longer.run_eagerly(x, 8, "inner").tolist() == [15, 15, 15, 15, 11, 11, 11, 11]


@tileflow.kernel
def group_maxima(x: torch.Tensor) -> torch.Tensor:
    """A slice by block sizes, whose dimensions are said to be the tiles'."""
    m, n = x.size(0), x.size(1) // 2
    out = x.new_empty(m, n)
    for rows, tile in tfl.tile([m, n]):
        pairs = x[rows, 2 * tile.begin : 2 * tile.begin + 2 * tile.block_size].reshape(rows, tile, 2)
        out[rows, tile] = pairs.amax(-1)
    return out


@pytest.mark.parametrize("block", [1, 2, 8])
def test_a_slice_by_block_sizes_is_reshaped_to_a_shorter_tile(block: int) -> None:
    """Plain Python refused it where the tile is shorter than its block, which compiled code does not."""
    x = torch.randn(5, 6)
    got = group_maxima.run_eagerly(x, config={"block:tile": block, "block:rows": 4})
    assert torch.equal(got, x.reshape(5, 3, 2).amax(-1))


@tileflow.kernel
def chosen_by_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] if x[tile] > 0 else -x[tile]
    return out


@tileflow.kernel
def bounded_by(x: torch.Tensor, end: object) -> torch.Tensor:
    for tile in tfl.tile(end):  # type: ignore[call-overload]
        x[tile] = 0
    return x


@tileflow.kernel
def stored_all_by_all(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(y.shape)
    for tile in tfl.tile(y.size(0)):
        out[tile] = x[tile, y[tile]]
    return out


@pytest.mark.parametrize(
    ("call", "error", "got", "hint"),
    [
        (lambda: chosen_by_a_tile.run_eagerly(torch.ones(9)), TraceError, "(9,)", "torch.where(condition, a, b)"),
        (lambda: bounded_by.run_eagerly(torch.ones(9), [(0, 3), (2, 4)]), TraceError, "(0, 3)", "tfl.tile([0, 2], ["),
        (lambda: bounded_by.run_eagerly(torch.ones(9), torch.ones(9)), TraceError, "(9,)", "x.size(0)"),
        (lambda: bounded_by.run_eagerly(torch.ones(9), 4.5), TraceError, "4.5", "divide sizes by //"),
        (
            lambda: stored_all_by_all.run_eagerly(torch.ones(5, 5), torch.arange(5)),
            ShapeError,
            "(5, 5) for (5,)",
            "x[tile.index, y[tile]]",
        ),
    ],
)
def test_mistakes_are_named_as_in_a_compiled_kernel(
    call: Callable[[], object], error: type[TileflowError], got: str, hint: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert got in str(caught.value.got) and hint in caught.value.hint


def test_unsigned_ints_of_64_bits_say_what_to_write() -> None:
    @tileflow.kernel
    def doubled(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile] = x[tile] + x[tile]
        return x

    with pytest.raises(TraceError, match=r"(?s)no such operation of uint64 on a CPU.*x\.view\(torch\.int64\)"):
        doubled.run_eagerly(torch.ones(3, dtype=torch.uint64))


@tileflow.kernel
def compared(x: torch.Tensor) -> torch.Tensor:
    """Comparisons of scalars of the kernel wherever torch takes a tensor."""
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        inner = (i > 1) & (i < 4)
        y = torch.where(inner, x[i, :], 0.0) + torch.where(~inner, 1.0, 2.0) + (i >= 3).float()
        if i > 2 and i != 5:
            y = y + 100
        out[i, :] = torch.where((x[i, :] > 0) & (i > 2), y, -y) * (i == 4) + torch.logical_or(x[i, :] > 0, i > 2)
    return out


def test_a_comparison_of_a_scalar_of_the_kernel_is_a_condition_of_torchs() -> None:
    """torch.where took it for a bool of Python, which it refuses."""
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(3))
    i = torch.arange(6)[:, None]
    inner = (i > 1) & (i < 4)
    y = torch.where(inner, x, 0.0) + torch.where(~inner, 1.0, 2.0) + (i >= 3).float()
    y = torch.where((i > 2) & (i != 5), y + 100, y)
    wanted = torch.where((x > 0) & (i > 2), y, -y) * (i == 4) + torch.logical_or(x > 0, i > 2)
    assert torch.equal(compared.run_eagerly(x), wanted)


def test_a_comparison_of_a_scalar_of_the_kernel_is_a_bool_of_pythons_too() -> None:
    @tileflow.kernel
    def facts_of(x: torch.Tensor) -> torch.Tensor:
        for i in tfl.grid(x.size(0)):
            note(i > 1, not i > 1, {i: 7}[int(i)], f"{i > 1}", (i > 1) is None, ~(i > 1) == (i <= 1), [8, 9][i > 1])
            x[i] = 1.0
        return x

    facts_of.run_eagerly(torch.empty(3))
    wanted = [(b, not b, 7, str(b), False, True, 8 + b) for b in (False, False, True)]
    assert wanted == SEEN


def larger(a: torch.Tensor, b: float) -> torch.Tensor:
    return max(a, b)


def test_pythons_extrema_of_tiles_are_refused_with_torchs_outside_the_kernel() -> None:
    """There they ask whether one tile is the larger, as an if does; the kernel's own text has them per element."""

    @tileflow.kernel
    def floored(x: torch.Tensor) -> torch.Tensor:
        for t in tfl.tile(x.size(0)):
            x[t] = larger(x[t], 0.5)
        return x

    with pytest.raises(
        TraceError, match=r"max and min of tiles are torch.maximum, torch.minimum, torch.clamp"
    ) as caught:
        floored.run_eagerly(torch.rand(5))
    assert isinstance(caught.value.where, Location) and "max(a, b)" in caught.value.where.text


CALLS = 0


def test_a_kernel_that_assigns_to_names_of_its_module_does_so_there() -> None:
    @tileflow.kernel
    def counting(x: torch.Tensor) -> torch.Tensor:
        global CALLS
        CALLS = max(CALLS, 4) + 1
        for t in tfl.tile(x.size(0)):
            x[t] = 1.0
        return x

    counting.run_eagerly(torch.empty(3))
    assert CALLS == 5


@pytest.mark.parametrize("n", [0, 2, 6])
def test_a_reshape_of_no_elements_has_the_tiles_lanes(n: int) -> None:
    """As many as a whole block's none are, whose lanes no store took at a loop's end."""

    @tileflow.kernel
    def swapped(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, n = x.shape
        out, sums = torch.empty_like(x), torch.empty(b)
        for t in tfl.tile(b):
            pairs = x[t, :].reshape(t, n // 2, 2)
            back = pairs.flip(2).reshape(t, n)
            tfl.store(out, [t.index[:, None], tfl.arange(n)[None, :]], back, extra_mask=x[t, :] < 99)
            sums[t] = pairs.sum(2).sum(1)
        return out, sums

    x = torch.randn(5, n)
    out, sums = swapped.run_eagerly(x, config={"block:t": 4})
    assert torch.equal(out, x.view(5, -1, 2).flip(2).view(5, n) if n else x)
    torch.testing.assert_close(sums, x.sum(1))


def test_equal_elements_keep_their_order_as_plain_python_too() -> None:
    """As where the kernel is compiled: torch's own sorts promise no order, and have another for one long row."""

    @tileflow.kernel
    def orders(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b, n = x.shape
        out = [torch.empty(b, n, dtype=torch.int64) for _ in range(4)]
        best = torch.empty(b, 5, dtype=torch.int64)
        for t in tfl.tile(b):
            row = x[t, :]
            out[0][t, :] = torch.argsort(row, dim=1, descending=True)
            out[1][t, :] = row.sort(1)[1]
            out[2][t, :] = torch.sort(input=row, dim=1, descending=True).indices
            out[3][t, :] = row.argsort(-1)
            best[t, :] = torch.topk(row, 5, dim=1).indices
        return (*out, best)

    got = orders.run_eagerly(torch.zeros(1, 64))
    assert [list(range(64))] * 4 == [order[0].tolist() for order in got[:4]]
    assert got[4][0].tolist() == [0, 1, 2, 3, 4]


@tileflow.kernel
def full_of_numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    zeros, loaded, narrow = torch.empty_like(x), torch.empty_like(x), torch.empty(x.shape, dtype=torch.int8)
    for t in tfl.tile(x.size(0)):
        zeros[t] = tfl.full([t], -0.0)
        loaded[t] = tfl.full([t], x[1])
        narrow[t] = tfl.full([t], 7, torch.int8)
    return zeros, loaded, narrow


def test_a_tile_of_one_number_keeps_its_sign() -> None:
    """It was added to zeros, which made 0.0 of -0.0."""
    zeros, loaded, narrow = full_of_numbers.run_eagerly(torch.tensor([1.0, -2.0, 3.0]))
    assert zeros.signbit().all() and loaded.tolist() == [-2.0] * 3 and narrow.tolist() == [7] * 3


MADE: list[torch.Tensor] = []


@tileflow.kernel
def constants(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        MADE[:] = [torch.tensor([1.0, 2.0]), torch.as_tensor(3), torch.scalar_tensor(2.0), torch.eye(2)]
        MADE.extend([torch.linspace(0, 1, 3), torch.zeros(3), torch.arange(3), torch.full([2], 1.0)])
        out[t] = x[t]
    return out


def test_what_device_code_makes_is_on_the_kernels_device() -> None:
    """A kernel with a list of numbers compiled, and its own text, as the reference of a tuning, met two devices."""
    constants.run_eagerly(torch.empty(4, device="meta"))
    assert {made.device.type for made in MADE} == {"meta"}


@tileflow.kernel
def with_its_block(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 0 + tile.block_size
    return out


def test_a_config_is_taken_as_a_dictionary_and_as_a_row_has_it() -> None:
    """A row's was a TypeError, and what is none an AttributeError, in the first loop."""
    for config in ({"block:tile": 4}, Config.of({"block:tile": 4})):
        with tileflow.interpret(config):
            assert with_its_block(torch.zeros(8)).eq(4).all()
    for wrong in (3, "block:tile", [("block:tile", 4)], Config({"block:tile": 4})):
        with pytest.raises(ConfigError, match="a config is a dictionary of knobs"), tileflow.interpret(wrong):
            pass
        with pytest.raises(ConfigError, match="a config is a dictionary of knobs"):
            with_its_block.triton_source(torch.zeros(8, device="meta"), config=wrong)


def _parts(value):
    return divmod(value, 2.0), round(value, 1), divmod(7, 2), round(2.5), round(2.567, 2)


def test_functions_that_a_kernel_calls_have_divmod_and_round_of_tiles() -> None:
    """They were Python's own there, which take no tensors."""

    @tileflow.kernel
    def parts(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(3, x.size(0))
        for tile in tfl.tile(x.size(0)):
            (whole, rest), near, pair, even, hundredths = _parts(x[tile])
            out[0, tile], out[1, tile], out[2, tile] = whole, rest, near
            SEEN.append((pair, even, hundredths))
        return out

    own, x = (divmod, round), torch.tensor([-3.25, 0.5, 7.75])
    assert torch.equal(parts.run_eagerly(x), torch.stack([x // 2, x % 2, x.round(decimals=1)]))
    assert SEEN == [((3, 1), 2, 2.57)]
    assert (divmod, round) == own
