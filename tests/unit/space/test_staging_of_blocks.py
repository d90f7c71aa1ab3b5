"""Shared memory of blocks that are no single pipelined loop, as the space reckons and as the compiler takes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.build import compile as build_module
from tileflow.build.compile import build
from tileflow.config import Choice
from tileflow.errors import ConfigError
from tileflow.lowered import Lowered
from tileflow.passes.roll import rollable
from tileflow.space.extents import Extents
from tileflow.space.knobs import SCHEDULE
from tileflow.space.staging import stagings
from tileflow.target import target

H200 = target("nvidia-h200")
BARRIERS = 256  # bytes, of the copy engine's, and of single numbers, beside the tiles
BF16 = torch.bfloat16


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        build_module.generated_functions.cache_clear()
        yield


def meta(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


@tileflow.kernel
def pages(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    t, g, d = q.shape
    out = torch.empty_like(q)
    for it in tfl.grid(t):
        acc = tfl.zeros([g, d])
        for j in range(table.size(1)):
            page = table[it, j]
            acc += (q[it, :, :] @ k[page, :, :].T).to(k.dtype) @ v[page, :, :]
        out[it, :, :] = acc
    return out


@tileflow.kernel
def chunks(c: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        out[i, :, :] = (c[i, :, :] @ b[i, :, :].T).to(x.dtype) @ x[i, :, :]
    return out


@tileflow.kernel
def taps(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    n = w.size(2)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn])
        for tk in tfl.tile(k):
            for s in range(4):
                acc += x[tm, tk] @ w[s, tk, tn]
        out[tm, tn] = acc
    return out


@tileflow.kernel
def added(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    n = y.size(1)
    out = torch.empty(m, n, dtype=z.dtype, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn])
        for tk in tfl.tile(k):
            acc += x[tm, tk] @ y[tk, tn]
        out[tm, tn] = acc * z[tm, tn]
    return out


@tileflow.kernel
def stored_each_turn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    b, m = x.shape[:2]
    out, seen = torch.empty_like(x), x.new_empty(b)
    for i in tfl.grid(b):
        seen[i] = 1.0  # what is stored beside the loop, which is no axis of the grid then
        for tm in tfl.tile(m):
            out[i, tm, :] = torch.relu(x[i, tm, :] @ w[i, :, :])
    return out


@tileflow.kernel
def ordered(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tm in tfl.tile(x.size(0)):
        out[tm, :] = torch.sort(x[tm, :], -1).values
    return out


@tileflow.kernel
def recurrent(x: torch.Tensor, wx: torch.Tensor, wh: torch.Tensor) -> torch.Tensor:
    b, t, n = x.shape
    out = torch.empty_like(x)
    for tb in tfl.tile(b):
        h = tfl.zeros([tb, n], dtype=x.dtype)
        for s in range(t):
            h = torch.tanh(x[tb, s, :] @ wx[:, :] + h @ wh[:, :])
            out[tb, s, :] = h
    return out


@tileflow.kernel
def projected(g: torch.Tensor, p: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    m, n = g.shape
    for tn in tfl.tile(n):
        low = tfl.zeros([p.size(1), tn])
        for tm in tfl.tile(m):
            low = tfl.dot(p[tm, :].T, g[tm, tn], acc=low)
        for tm in tfl.tile(m):
            w[tm, tn] -= p[tm, :] @ low.to(p.dtype)
    return w


@tileflow.kernel
def adapted(x: torch.Tensor, w: torch.Tensor, down: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    (m, k), n = x.shape, w.size(0)
    out = torch.empty(m, n, dtype=torch.float16, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn], dtype=torch.int32 if x.dtype == torch.int8 else torch.float32)
        for tk in tfl.tile(k):
            acc = tfl.dot(x[tm, tk], w[tn, tk].T, acc=acc)
        out[tm, tn] = tfl.dot(down[tm, :], up[tn, :].T, acc=acc.float())
    return out


@tileflow.kernel
def layered(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A range of products that is written out in a loop over rows."""
    batch, rows, _ = x.shape
    out = x.new_empty(batch, rows, w.size(2))
    for b in tfl.grid(batch):
        for t in tfl.tile(rows):
            total = tfl.zeros([t, w.size(2)])
            for i in range(8):
                total = total + x[b, t, :] @ w[i, :, :]
            out[b, t, :] = total
    return out


def reckoned(it: Lowered, choices: dict[str, Choice]) -> tuple[int, int]:
    """Bytes that the space reckons with for the launch, and that its binary takes."""
    plain = {k.name: k.default for k in it.space.knobs if SCHEDULE.matches(k.name)}
    config = it.space.normalise(it.default.with_({**plain, **choices}))
    knobs = {k.name: k for k in it.space.knobs}
    values = {name: knobs[name].encode(choice) for name, choice in config.items}
    (ir,) = it.regions
    found = stagings(ir, Extents(ir, rollable(ir)), knobs, H200)
    (source,) = it.emit(config)
    return max((s.size + s.stored).evaluate(values) for s in found), build(source, H200).abi.shared


NUMBERS = meta(256, 64, dtype=torch.int32)
WIDE = (pages, meta(256, 16, 512), meta(4096, 64, 512), meta(4096, 64, 512), NUMBERS)
PAGES = (pages, meta(256, 16, 128), meta(4096, 64, 128), meta(4096, 64, 128), NUMBERS)
CHUNKS = (chunks, *(meta(512, 64, 64),) * 3)
TAPS = (taps, meta(4096, 512), meta(4, 512, 512))
ADDED = (added, meta(4096, 512), meta(512, 4096), meta(4096, 4096, dtype=torch.float32))
STORED = (stored_each_turn, meta(256, 512, 64), meta(256, 64, 64))
PROJECTED = (projected, meta(4096, 8192), meta(4096, 128), meta(4096, 8192))
BY_EIGHT: dict[str, Choice] = {"block:tm": 64, "block:tm#1": 128, "block:tn": 128, "num_warps": 8, "num_stages": 4}
BY_THREADS: dict[str, Choice] = {
    **{f"{access}#0.access": "pointer" for access in ("load:x", "load:y", "load:z", "store:out")},
    "block:tm": 256,
    "block:tn": 64,
    "block:tk": 32,
    "num_warps": 16,
    "num_stages": 3,
    "store:out#0.subtile": 1,
}
HALF, BYTES = torch.float16, torch.int8
ADAPTED = (adapted, *(meta(4096, n, dtype=HALF) for n in (4096, 4096, 64, 64)))
PRECISE = (adapted, *(meta(4096, 4096, dtype=BYTES) for _ in "xw"), *(meta(4096, 24, dtype=torch.float32),) * 2)
FLAT: dict[str, Choice] = {
    **{f"load:{name}#0.access": "pointer" for name in ("down", "up")},
    **{f"{access}#0.access": "descriptor" for access in ("load:x", "load:w", "store:out")},
    "block:tm": 128,
    "block:tn": 256,
    "num_warps": 8,
    "num_stages": 2,
    "persistent": 1,
    "flatten": True,
}
BY_HAND: dict[str, Choice] = {"product:dot#1.precision": "ieee"}
BOX: dict[str, Choice] = {"store:out#0.access": "descriptor"}


@pytest.mark.parametrize(
    ("call", "choices", "least"),
    [
        # values wait while a loop of its own multiplies queries and keys
        pytest.param(WIDE, {}, 0.9, id="a loop inside"),
        # the page's number is loaded ahead as well, half of the turns
        pytest.param(PAGES, {}, 0.9, id="loads in a chain"),
        pytest.param(CHUNKS, {"persistent": 2}, 0.9, id="a persistent program"),
        pytest.param(CHUNKS, {}, 0.5, id="no loop"),
        pytest.param(TAPS, {"num_stages": 1}, 0.4, id="one stage"),
        pytest.param(ADDED, {**BY_THREADS, "persistent": 1, "flatten": True}, 0.7, id="one pipeline over tiles"),
        # what a product outside of the loop takes is beside the next tile's operands
        pytest.param(ADAPTED, {**FLAT, "block:tk": 64}, 0.95, id="operands beside one pipeline"),
        # sums of the matrix units go to threads' multiply-adds all at once
        pytest.param(PRECISE, {**FLAT, **BY_HAND, "block:tm": 64, "block:tk": 64}, 0.95, id="sums that are handed on"),
        # each turn converts what the loop before left, which is done once, and stays there beside the turn's store
        pytest.param(PROJECTED, BY_EIGHT, 0.9, id="an operand made once"),
        pytest.param(STORED, {**BOX, "persistent": 0}, 0.7, id="boxes in a loop"),
    ],
)
def test_the_estimate_is_what_the_compiler_takes(
    call: tuple[Any, ...], choices: dict[str, Choice], least: float
) -> None:
    kernel, *args = call
    estimate, real = reckoned(kernel.lower(tuple(args), H200), choices)
    assert least * estimate <= real <= estimate + BARRIERS


def test_operands_from_before_a_loop_that_is_one_pipeline_with_the_tiles_compile() -> None:
    """By the copy engine, for warp groups, Triton's pass failed: the default did not compile."""
    it = stored_each_turn.lower((meta(256, 512, 64), meta(256, 64, 64)), H200)
    by_box = {"load:w#0.access": "descriptor", "flatten": True, "persistent": 1}
    assert not it.space.is_valid(it.default.with_(by_box))
    assert it.space.is_valid(it.default.with_({**by_box, "load:w#0.access": "pointer"}))
    assert build(it.emit(it.default)[0], H200).abi.shared <= H200.smem_per_block


def test_a_row_that_is_too_long_to_sort_is_refused_before_it_is_compiled() -> None:
    """The threads exchange a key of 4 bytes an element."""
    assert ordered.lower((meta(64, 32768, dtype=torch.float32),), H200).default
    with pytest.raises(ConfigError, match=r"sorted, of 4 bytes an element, fits the 232448 bytes"):
        ordered.lower((meta(64, 65536, dtype=torch.float32),), H200).default  # noqa: B018


def test_weights_that_no_config_holds_are_refused_with_their_bytes_and_what_keeps_them_whole() -> None:
    """A state in registers is no loop's to cut: the weights that it is multiplied by are there as a whole."""
    it = recurrent.lower((meta(64, 32, 512), meta(512, 512), meta(512, 512)), H200)
    with pytest.raises(ConfigError) as refused:
        it.default  # noqa: B018
    text = str(refused.value)
    assert re.search(r"operands of products fit .* \((\d+) are needed, 232448 are there\)", text)
    assert "since this line carries, from turn to turn, all of it" in text and "for s in range(t):" in text
    assert "give a dimension that the kernel takes whole a loop" in text


def test_rows_that_a_warp_holds_are_sorted_in_any_number() -> None:
    """No shared memory is taken for them; 512 rows of 64 would be 262144 bytes of it."""
    lowered = ordered.lower((meta(65536, 64, dtype=torch.float32),), H200)
    config = lowered.space.normalise(lowered.default.with_({"block:tm": 512, "num_warps": 16, "num_stages": 1}))
    assert lowered.space.is_valid(config)
    (source,) = lowered.emit(lowered.space.normalise(config.with_({"block:tm": 128})))
    assert build(source, H200).abi.shared == 0


def test_what_warps_exchange_of_a_products_rows_is_beside_its_operands() -> None:
    """The default needed 66560 of 65536 bytes: operands, and 1024 for sums of 64 rows by four warps."""
    card, one = target("amd-mi300x"), ALL["supervised_contrast"]
    lowered = one.kernel.lower(one.arguments("large", "meta"), card)
    ahead = lowered.default.with_({"num_stages": 2, "block:ti": 64, "block:tj": 256, "num_warps": 4})
    assert lowered.default["num_stages"] == 1 and not lowered.space.is_valid(ahead)
    (source,) = lowered.emit(lowered.default)
    assert build(source, card).abi.shared <= card.smem_per_block


@pytest.mark.parametrize(("call", "own", "block"), [(ADAPTED, {}, 64), (PRECISE, BY_HAND, 128)])
def test_a_product_behind_a_loop_is_no_part_of_its_pipeline_where_both_do_not_fit(
    call: tuple[Any, ...], own: dict[str, Choice], block: int
) -> None:
    """The default of ints with a part in full precision needed 344088 of 232448 bytes."""
    kernel, *args = call
    it = kernel.lower(tuple(args), H200)
    plain = {k.name: k.default for k in it.space.knobs if SCHEDULE.matches(k.name)}
    wanted = it.space.normalise(it.default.with_({**plain, **FLAT, **own, "block:tk": block, "num_stages": 3}))
    assert not it.space.is_valid(wanted)
    mended = it.space.repair(wanted)
    assert mended["flatten"] is False
    assert build(it.emit(mended)[0], H200).abi.shared <= H200.smem_per_block


@pytest.mark.parametrize("name", ["nvidia-h200", "nvidia-a100"])
def test_products_of_a_written_out_range_wait_one_after_another(name: str) -> None:
    """Of eight matrices of 128 x 256 before the loop over rows, 524288 bytes, no config held any."""
    card = target(name)
    it = layered.lower((meta(64, 2048, 128), meta(8, 128, 256)), card)
    binary = build(it.emit(it.default)[0], card)
    assert binary.abi.shared <= card.smem_per_block and it.default["block:t"] >= 32


def test_operands_of_a_chain_of_products_in_blocks_of_columns_do_not_wait_together() -> None:
    """All nine were read first, the last one in front: 147456 bytes in place of 32768."""
    one = ALL["compress_key_blocks"]
    it = one.kernel.lower(one.arguments("large", "meta"), H200)
    estimate, real = reckoned(it, {"block:t": 64, "reduce:dot#8": 64, "num_stages": 1, "num_warps": 4})
    assert real <= estimate + BARRIERS
