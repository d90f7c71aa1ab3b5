"""Portable variants: their guards take every call of the kernel between them, and no call that they are not for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_testing.compiler_gallery import GALLERY, kernel, meta, problem

import tileflow
import tileflow.language as tfl
from examples.attention import attention
from tileflow.api import Kernel
from tileflow.build.interpret import symbol_reader
from tileflow.config import Config
from tileflow.emit.source import TritonSource
from tileflow.expr import Expr
from tileflow.portable import portable_config, portable_sources
from tileflow.runtime.dispatch import RuntimeContext
from tileflow.target import target

H200, MI300 = target("nvidia-h200"), target("amd-mi300x")
INT32_MAX = 2**31 - 1
SOME = (
    "examples.softmax:softmax", "examples.softmax:softmax_online", "examples.layer_norm:layer_norm",
    "examples.matmul:matmul", "examples.matmul:matmul_epilogue", "examples.attention:attention",
    "examples.cross_entropy:cross_entropy", "examples.rope:rope", "examples.vector_add:vector_add",
    "examples.split_k:split_k_matmul",
)  # fmt: skip


class Guarded(RuntimeContext):
    """Launches nothing: notes, for each launch, the variants whose guards hold. ``aligned``: of every pointer."""

    def __init__(self, subject: Kernel, config: Config, sources: tuple[TritonSource, ...], aligned: bool) -> None:
        super().__init__(config, {})
        self.subject, self.sources, self.aligned = subject, sources, aligned
        self.launches: list[tuple[dict[str, Any], list[TritonSource]]] = []

    def accepting(self, region: int, frame: dict[str, Any], begins: Any, ends: Any, given: Any = None) -> Any:
        bounds = {f"begin.{i}": v for i, v in enumerate(begins)} | {f"end.{i}": v for i, v in enumerate(ends)}
        captured = {**frame, **bounds}
        sources = [s for s in self.sources if s.region == region]
        self.launches.append((captured, [s for s in sources if s.guards.evaluate(self._values(s, captured))]))

    def _values(self, source: TritonSource, captured: Mapping[str, Any]) -> dict[str, int]:
        values = {}
        for name in source.guards.symbols():
            read = symbol_reader(name, self.subject.scope)
            values[name] = int(self.aligned) if name.endswith(".align") else read(captured)
        return values


@lru_cache
def variants(name: str, row: str = "example") -> tuple[Config, tuple[TritonSource, ...]]:
    lowered = kernel(name).lower(meta(name, GALLERY[name].rows(row)[0]), H200, "dynamic")
    return portable_config(lowered), portable_sources(lowered)


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """A meta tensor of the shape of ``x`` with other strides."""
    if layout == "contiguous" or not x.ndim:
        return x
    strides = list(x.stride())
    if layout == "transposed":
        strides = list(reversed(x.new_empty(x.shape[::-1]).stride()))
    elif layout == "strided":
        strides = [3 * s for s in strides]
    elif layout == "broadcast":
        strides[0] = 0
    elif layout == "odd":
        strides = [s if size != 1 else 7 for size, s in zip(x.shape, strides, strict=True)]
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device="meta")


LAYOUTS = ("contiguous", "transposed", "strided", "broadcast", "odd")
LEAST = {"v": 1}  # a label is one of so many
SIZES = st.one_of(st.integers(0, 5), st.sampled_from([16, 48, 4096]), st.integers(0, 9000), st.integers(60_000, 10**6))


@pytest.mark.parametrize("name", SOME)
@settings(max_examples=10)
@given(st.data())
def test_guards_take_every_call(name: str, data: st.DataObject) -> None:
    """Whatever the sizes, 0 and 1 among them, the strides and the alignment; and 32 bits only what fits them."""
    it, subject = GALLERY[name], kernel(name)
    names = it.sizes.split()
    sizes = [max(it.fit.get(n, int)(data.draw(SIZES, n)), LEAST.get(n, 0)) for n in names]
    layout, aligned = data.draw(st.sampled_from(LAYOUTS)), data.draw(st.booleans())
    args = subject.inputs(device="meta", **problem(name, tuple(sizes)))
    args = tuple(laid_out(a, layout) if isinstance(a, torch.Tensor) else a for a in args)
    config, sources = variants(name)
    context = Guarded(subject, config, sources, aligned)
    subject.host.run(context, *args)
    assert context.launches
    for captured, accepting in context.launches:
        assert accepting, f"{names} = {sizes}, {layout}, aligned {aligned}"
        for source in accepting:
            assert fits(source, captured, subject)


def fits(source: TritonSource, captured: Mapping[str, Any], subject: Kernel) -> bool:
    """Whether a variant with offsets of 32 bits has tensors and numbers that they reach."""
    ints = [a for a in source.args if a.value is not None]
    if wide(source):
        return True
    numbers = [a.value.evaluate({s: symbol_reader(s, subject.scope)(captured) for s in a.value.symbols()})
               for a in ints if a.value is not None]  # fmt: skip
    tensors = [symbol_reader(a.path, subject.scope)(captured) for a in source.args if a.kind == "tensor"]
    last = [sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) for t in tensors]
    return all(abs(n) <= INT32_MAX for n in (*numbers, *last))


def test_a_large_tensor_goes_to_64_bits() -> None:
    """One that ends within a block of 2**31 too: the loop's next begin would not fit 32 bits."""
    name = "examples.vector_add:vector_add"
    config, sources = variants(name)
    for n, first in ((INT32_MAX - 4095, 0), (INT32_MAX - 15, 2), (INT32_MAX + 1, 2), (INT32_MAX + 2, 3)):
        context = Guarded(kernel(name), config, sources, aligned=True)
        kernel(name).host.run(context, *meta(name, (n,)))
        assert context.launches[0][1][0] is sources[first]


def test_64_bit_offsets_do_not_cost_the_boxes() -> None:
    _, sources = variants("examples.matmul:matmul")
    boxes = [(wide(s), any(a.kind == "descriptor" for a in s.args)) for s in sources if s.language == "triton"]
    assert boxes == [(False, True), (False, False), (True, True), (True, False), (True, False)]


@pytest.mark.parametrize(
    ("name", "places"),
    [("examples.matmul:matmul", (0, 0, 0, 0)), ("examples.matmul:matmul_epilogue", (0, 1, 2, 2))],
)
def test_any_number_of_rows_keeps_vectors_and_boxes(name: str, places: tuple[int, ...]) -> None:
    """What a server sees: hidden sizes that are divisible, and as many tokens as there are. 777 rows cost a product its
    vectors before (a tenth of the speed on an H200), and rows of 1000 elements, which begin at 16 bytes, their boxes.
    What is read by boxes alone needs no variant for each, and rows of 1111 have boxes of copies."""
    config, sources = variants(name)

    def taken(m: int, n: int, k: int) -> TritonSource:
        context = Guarded(kernel(name), config, sources, aligned=True)
        kernel(name).host.run(context, *kernel(name).inputs(m=m, n=n, k=k, device="meta"))
        found: TritonSource = context.launches[0][1][0]
        assert {a.kind for a in found.args if a.path in ("x", "y")} == {"descriptor"}
        return found

    pipelined = [source for source in sources if source.language == "triton"]
    calls = ((4096, 4096, 4096), (1777, 4096, 4096), (1777, 4096, 1000), (1777, 5000, 4096))
    assert [pipelined.index(taken(*sizes)) for sizes in calls] == list(places)
    assert copies(taken(777, 1111, 4096)) and taken(256, 512, 4096).cluster == 4


def test_few_tiles_are_shared_beside_a_large_example() -> None:
    """A tile of 128 x 256 for each of four multiprocessors took four times as long as clusters: 169 us for
    300 x 300 x 30000 where eight blocks take 36."""
    config, sources = variants("examples.matmul:matmul")
    assert config["schedule"] == "pipelined"

    def first(m: int, n: int, k: int) -> tuple[str, int]:
        context = Guarded(kernel("examples.matmul:matmul"), config, sources, aligned=True)
        args = kernel("examples.matmul:matmul").inputs(m=m, n=n, k=k, device="meta")
        kernel("examples.matmul:matmul").host.run(context, *args)
        found: TritonSource = context.launches[0][1][0]
        return found.language, found.cluster

    sizes = ((304, 304, 30000), (128, 1024, 8192), (128, 4096, 4096), (640, 1280, 5120))
    assert [first(*of) for of in sizes] == [("gluon", blocks) for blocks in (8, 4, 2, 1)]
    assert first(2048, 2048, 1024) == ("triton", 1)


def test_attention_s_variants_have_boxes() -> None:
    """What its warp-specialised default leaves of the pipelined one had none."""
    args = attention.inputs(batch=4, heads=8, m=4096, d=128, device="meta")
    lowered = attention.lower(args, H200, mode="dynamic")
    assert lowered.default["schedule"] == "warp_specialised"
    first, *_ = portable_sources(lowered)
    assert {a.path for a in first.args if a.kind == "descriptor"} >= {"q", "k", "v"}


def copies(source: TritonSource) -> bool:
    return any(a.tensor_map is not None and len(a.tensor_map.copied) > 0 for a in source.args)


def wide(source: TritonSource) -> bool:
    return all(a.type == "i64" for a in source.args if a.kind == "int")


@pytest.mark.parametrize("name", ["examples.softmax:softmax", "examples.matmul:matmul", "examples.attention:attention"])
def test_the_last_variant_assumes_nothing(name: str) -> None:
    """No alignment, no divisibility, no descriptor, no size or stride of a tensor that is a constant."""
    _, sources = variants(name)
    last = sources[-1]
    assert all(a.kind != "descriptor" and not a.divisible_by_16 for a in last.args)
    assert {a.type for a in last.args if a.kind == "int"} == {"i64"}
    fixed = [g for g in conjuncts(last.guards) if g.op == "eq" and any(a.constant is not None for a in g.args)]
    assert not any("shape" in s or "stride" in s or "align" in s for g in fixed for s in g.symbols())


def conjuncts(e: Expr) -> list[Expr]:
    return [c for a in e.args for c in conjuncts(a)] if e.op == "and" else [e]


def test_long_reductions_are_looped() -> None:
    """The first variant holds a row in one piece and says how long it may be; those after it take any."""
    config, sources = variants("examples.softmax:softmax")
    bounded = [any(g.op == "le" and g.args[1] == Expr.of(4096) for g in conjuncts(s.guards)) for s in sources]
    assert bounded[:3] == [True, True, True] and not any(bounded[3:])
    assert config["reduce:max#0"] == 0 and all("REDUCE_MAX_0" in dict(s.constexprs) for s in sources[3:])


def test_the_knobs_of_host_code_are_the_same_in_all() -> None:
    """Host code allocates by them, whichever variant then runs (``weights`` of layer_norm_bwd)."""
    name = "examples.layer_norm:layer_norm_bwd"
    lowered = kernel(name).lower(meta(name, (4000, 2992)), H200, "dynamic")
    config = lowered.space.repair(lowered.default.with_({"block:block_m": 64}))
    sources = kernel(name).portable(*lowered.args, target=H200, config=config)
    assert len(sources) > 3 and {dict(s.constexprs)["BLOCK_BLOCK_M"] for s in sources} == {64}


def test_equal_variants_are_there_once() -> None:
    """With odd sizes, nothing is divisible by 16."""
    _, sources = variants("examples.vector_add:vector_add", "layout")
    assert len({s.hash for s in sources}) == len(sources) == 3


@pytest.mark.parametrize("device", [H200, MI300])
def test_sizes_of_1_in_the_example_are_open_in_the_last(device: tileflow.target.Target) -> None:
    name = "examples.matmul:matmul"
    sources = kernel(name).portable(*meta(name, (1, 64, 64)), target=device)
    context = Guarded(kernel(name), portable_config(kernel(name).lower(meta(name, (1, 64, 64)), device, "dynamic")),
                      sources, aligned=True)  # fmt: skip
    kernel(name).host.run(context, *meta(name, (37, 5, 11)))
    assert context.launches[0][1] == [sources[-1]]


def test_a_short_axis_beside_long_ones_keeps_its_32_bits() -> None:
    """Its number comes by way of the others' counts, which have 64; a box's offsets have 32."""
    _, sources = variants("examples.int4_matmul:int4_matmul")
    moved = [s.text for s in sources if wide(s) and any(a.kind == "descriptor" for a in s.args)]
    assert moved and all("part_begin = tl.cast(" in text and "tl.int32)" in text for text in moved)


def test_what_only_aligned_addresses_allow_is_not_asked_for() -> None:
    """A block of 128 by 256 sums, added by atomics, goes through 128 KiB of shared memory, where MI300 has 64."""
    name = "examples.split_k:split_k_matmul"
    sources = kernel(name).portable(*meta(name, GALLERY[name].rows("example")[0]), target=MI300)
    blocks = [dict(s.constexprs) for s in sources]
    assert all(int(b["BLOCK_TILE_M"]) * int(b["BLOCK_TILE_N"]) * 4 <= MI300.smem_per_block for b in blocks)


# ---- what is assumed of what host code makes ----------------------------------------------------------------------


@tileflow.kernel
def flagged(x: torch.Tensor) -> torch.Tensor:
    """Host code finds a condition by a size."""
    out = torch.empty_like(x)
    is_long = x.size(0) > 100
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2 if is_long else x[tile]
    return out


@pytest.mark.parametrize("mode", ["dynamic", "wide", "generic"])
def test_a_bool_of_host_code_is_guarded(mode: str) -> None:
    """The variant of a short vector must not serve a long one: at 1d0fe62 it did, with the wrong side of the branch."""
    lowered = flagged.lower((torch.empty(64, device="meta"),), H200, mode)
    sources = lowered.emit(lowered.default)
    for n, accepted in ((48, True), (4096, False)):
        context = Guarded(flagged, lowered.default, sources, aligned=True)
        flagged.host.run(context, torch.empty(n, device="meta"))
        assert bool(context.launches[0][1]) == accepted


@tileflow.kernel
def biased(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] + bias[:][None, :]
    return out


def test_a_broadcast_size_is_declined_and_never_wrong() -> None:
    """A bias of one element is broadcast by torch; a variant made of a call that does not broadcast reads it as it
    is."""

    def accepting(example: int, given: int) -> int:
        args = [(torch.empty(8, 48, device="meta"), torch.empty(n, device="meta")) for n in (example, given)]
        lowered = biased.lower(args[0], H200, "dynamic")
        context = Guarded(biased, lowered.default, portable_sources(lowered), aligned=True)
        biased.host.run(context, *args[1])
        return len(context.launches[0][1])

    assert accepting(48, 48) and not accepting(48, 1)
    assert accepting(1, 1) and not accepting(1, 48)


@tileflow.kernel
def summed(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile])
        for column in tfl.tile(x.size(1)):
            total += x[tile, column].sum(1)
        out[tile] = total
    return out


def test_a_loop_without_turns_runs_beside_a_config_that_flattens_it() -> None:
    """A flattened loop needs a turn: the config's own code declines the call, and another variant takes it."""
    lowered = summed.lower((torch.empty(40, 48, device="meta"),), H200, "dynamic")
    config = lowered.space.adapt({"persistent": 2, "flatten": True})
    assert config["flatten"] is True
    for columns, are_flat in ((48, True), (0, False)):
        context = Guarded(summed, config, portable_sources(lowered, config), aligned=True)
        summed.host.run(context, torch.empty(3, columns, device="meta"))
        ((_, accepting),) = context.launches
        assert accepting and ("flatten=True" in accepting[0].text) == are_flat


@tileflow.kernel
def local_of_nothing(x: torch.Tensor) -> torch.Tensor:
    m = x.size(0)
    local = torch.empty(m, 0, dtype=x.dtype, device=x.device)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(m):
        out[tile] = local[tile, :].sum(dim=1)
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic", "wide", "generic"])
def test_no_lane_of_a_dimension_without_elements_is_read(mode: str) -> None:
    """Finding 7b: 0 counted as a power of two, which fills its registers, so that a lane of nothing was loaded by the
    null pointer of an empty tensor."""
    lowered = local_of_nothing.lower((torch.empty(64, device="meta"),), H200, mode)
    for source in lowered.emit(lowered.default.with_({"block:tile": 64})):
        (load,) = [line for line in source.text.splitlines() if "tl.load(" in line]
        assert "mask=" in load, source.text


@tileflow.kernel
def swapped(x: torch.Tensor, lock: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.size(0)):
        x[tile] = tfl.atomic_cas(lock, [tile], 0, 1)
    return x


def test_a_masked_swap_needs_an_element() -> None:
    """``atomic_cas`` has no mask: where it leaves lanes out, they swap the first element for itself."""
    args = [tuple(torch.empty(n, dtype=torch.int32, device="meta") for n in (n, n)) for n in (67, 0)]
    lowered = swapped.lower(args[0], H200, "dynamic")
    sources = lowered.emit(lowered.default)
    assert sources and all(not s.guards.substitute({"lock.shape.0": 0}).constant for s in sources)
    empty = swapped.lower(args[1], H200)
    assert all("tl.atomic_cas" not in s.code for s in empty.emit(empty.default))


# ---- the ABI ------------------------------------------------------------------------------------------------------


@tileflow.kernel
def many(x: torch.Tensor, table: torch.Tensor, counts: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(1), dtype=torch.float16, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        out[tile_m, tile_n] = x[tile_m, tile_n] * table[tile_n].float() * scale[()]
        tfl.atomic_add(counts, [tile_m], 1)
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic", "generic"])
def test_what_a_binary_assumes_of_each_tensor(mode: str) -> None:
    """Finding 2 needs it: the dtype of what host code allocates is in no key."""
    args = (torch.empty(64, 128, device="meta"), torch.empty(128, dtype=torch.float8_e4m3fn, device="meta"),
            torch.empty(64, dtype=torch.int64, device="meta"), torch.empty((), device="meta"))  # fmt: skip
    lowered = many.lower(args, H200, mode)
    for source in lowered.emit(lowered.default):
        found = {a.path: (a.dtype, a.rank, a.stored) for a in source.args if a.path and a.kind != "float"}
        assert found == {
            "x": ("float32", 2, False), "table": ("float8_e4m3fn", 1, False), "counts": ("int64", 1, True),
            "scale": ("float32", 0, False), "out": ("float16", 2, True),
        }  # fmt: skip


def test_descriptors_say_it_too() -> None:
    lowered = kernel("examples.matmul:matmul").lower(meta("examples.matmul:matmul", (4096, 4096, 4096)), H200)
    (source,) = lowered.emit(lowered.default)
    found = {a.path: (a.kind, a.dtype, a.rank, a.stored) for a in source.args}
    assert found == {p: ("descriptor", "bfloat16", 2, p == "out") for p in ("x", "y", "out")}


# ---- 32 bits ------------------------------------------------------------------------------------------------------


@tileflow.kernel
def shifted(x: torch.Tensor, before: int, after: int) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=torch.int64, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile].long() + (before + after)
    return out


def test_a_sum_of_ints_must_fit_what_it_is_computed_in() -> None:
    """At 1d0fe62 only products were checked: two ints of 2**30 and more gave a negative sum."""
    lowered = shifted.lower((torch.empty(64, dtype=torch.int32, device="meta"), 3, 5), H200, "dynamic")
    sources = lowered.emit(lowered.default)

    def accepting(*ints: int) -> int:
        context = Guarded(shifted, lowered.default, sources, aligned=True)
        shifted.host.run(context, torch.empty(64, dtype=torch.int32, device="meta"), *ints)
        return len(context.launches[0][1])

    assert accepting(3, 2**30) and not accepting(2**30, 2**30) and not accepting(-(2**40), 1)
    assert prod(accepting(n, -n) for n in (1, 2**20)) > 0


def test_how_memory_lies_says_what_variants_rely_on() -> None:
    """Sizes that change nothing for vectors and boxes are one layout; a transposed view, an odd row and an odd start
    are others: each gets variants of its own."""

    def layouts(*tensors: torch.Tensor) -> str:
        x, y = tensors
        return kernel("examples.matmul:matmul").lower((x, y), H200).problem.layouts

    x, y = (torch.empty(64, 64, dtype=torch.bfloat16, device="meta") for _ in range(2))
    assert layouts(x, y) == layouts(torch.empty(777, 64, dtype=torch.bfloat16, device="meta"), y) == "v1,v1"
    assert layouts(x, y.t()) == "v1,1v" and layouts(x, y[:, :63]) == "v1,v1p"
    assert layouts(x, torch.empty(64, 63, dtype=torch.bfloat16, device="meta")) == "v1,s1p"


@pytest.mark.parametrize(("dtype", "block"), [(torch.bfloat16, (128, 64)), (torch.float32, (64, 64))])
def test_variants_that_assume_nothing_have_a_default_of_their_own(dtype: torch.dtype, block: tuple[int, int]) -> None:
    """The default for boxes spilled up to 632 bytes where each element has an address: variants by element have
    smaller blocks, and what host code asks for is the same in all."""
    x, w = (torch.empty(1000, 1000, dtype=dtype, device="meta") for _ in range(2))
    lowered = kernel("examples.matmul:matmul").lower((x, w.t()), H200, "dynamic")
    sources = [s for s in portable_sources(lowered) if s.language == "triton"]
    blocks = [tuple(dict(s.constexprs)[f"BLOCK_TILE_{axis}"] for axis in "MN") for s in sources]
    boxed = [any(a.kind == "descriptor" for a in s.args) for s in sources]
    assert boxed == [True, False, True, False, False]
    assert [b == block for b in blocks] == [not is_boxed for is_boxed in boxed]
    tuned = lowered.space.repair(lowered.default_pipelined.with_({"block:tile_n": 32}))
    assert {dict(s.constexprs)["BLOCK_TILE_N"] for s in portable_sources(lowered, tuned) if s.language == "triton"} == {
        32
    }


def test_a_bundle_s_default_row_has_the_defaults_of_a_call() -> None:
    """Its config is handed on as a row's is. Where that is the default nothing was tuned, and the variant by element
    kept the blocks of boxes, which spill there."""
    x, w = (torch.empty(1000, 1000, dtype=torch.bfloat16, device="meta") for _ in range(2))
    lowered = kernel("examples.matmul:matmul").lower((x, w.t()), H200, "dynamic")
    given, by_default = (portable_sources(lowered, config) for config in (lowered.default, None))
    assert [s.hash for s in given] == [s.hash for s in by_default]


@pytest.mark.parametrize("m", [4224, 64])
def test_a_process_that_compiles_for_itself_has_the_defaults_schedule(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variants for any shape were pipelined there until a GPU had run the warp-specialised ones."""
    from tileflow.api import Kernel
    from tileflow.serve import Call, _build_portable

    subject, built = kernel("examples.matmul:matmul"), []
    monkeypatch.setattr(Kernel, "launcher", lambda self, source, *rest: built.append(source))
    args = subject.inputs(m=m, n=4352, k=4096, device="meta")
    problem = subject.lower(args, target("nvidia-h200"), "dynamic").problem
    _build_portable(subject, Call(args, {}, problem, torch.device("cuda"), "nvidia-h200"))
    assert list(dict.fromkeys(source.language for source in built if not copies(source))) == ["gluon", "triton"]


def test_another_tile_that_cannot_be_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host code may refuse it: the example's own serves all calls, as it did before there was another."""
    import tileflow.portable
    from tileflow.errors import ConfigError

    x, w = (torch.empty(4096, 4096, device="meta") for _ in range(2))
    lowered = kernel("examples.matmul:matmul").lower((x, w), H200, "dynamic")
    both = portable_sources(lowered, lowered.default)

    def refuse(*args: object) -> None:
        raise ConfigError("host code must accept the config", got="64 columns")

    monkeypatch.setattr(tileflow.portable, "_asking_alike", refuse)
    (own,) = tileflow.portable._in_all_ways(lowered, lowered.default, ("all",))
    assert own.text in {source.text for source in both} and len({source.cluster for source in both}) == 4


def test_a_layout_that_lies_along_other_dimensions_has_variants_of_its_own() -> None:
    """Products of two transposed views came ninth, and went an element at a time: 0.3 to 0.6 times torch's speed."""
    from tileflow.serve import MOST_LAYOUTS, deserves_variants

    known = ["v1,v1", "1v,v1", "v1,1v", "s1p,s1p", "s1,s1", "b1,b1", "b1,s1", "s1,b1"]
    assert len(known) == MOST_LAYOUTS and deserves_variants("v1,s1", known[:-1])
    assert deserves_variants("1v,1v", known) and deserves_variants("1sp,1sp", known)
    assert not deserves_variants("v1,s1", known) and not deserves_variants("v1,v1", known)
    many = [f"{'s' * n}1{'s' * (9 - n)},v1" for n in range(2 * MOST_LAYOUTS)]
    assert deserves_variants("1,v1", many[:-1]) and not deserves_variants("1,v1", many)


def test_a_layout_beyond_the_most_takes_the_variants_that_lie_alike() -> None:
    """It took the first layout's, whatever that was: 274 us for a product that its own variants did in 121 (H100)."""
    from tileflow.serve import nearest_layout

    known = ["v1,v1", "1v,1v", "s1p,1sp", "1sp,s1p"]
    assert nearest_layout("s1p,1sp", ["v1,v1", "1b,1b", "1b,b1"]) == "v1,v1"  # one tensor lies alike in the first two
    assert nearest_layout("1sp,s1p", ["v1,1v", "1v,v1"]) == "1v,v1"
    assert nearest_layout("1s,s1pu", known) == "1sp,s1p"
