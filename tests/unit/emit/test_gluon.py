"""Gluon text of schedules: what it says, that it compiles without a GPU, and that it takes what was computed."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.gluon_text import advice
from tile_testing.kernels.schedule_kernels import inputs, kept_inputs, of_kept_keys, windowed
from tile_testing.ways import shortest_turns

from examples.attention import attention, attention_backward, attention_backward_fused, attention_scored
from examples.matmul import matmul
from tileflow.build import compat
from tileflow.build.compile import build, compile_source
from tileflow.config import Choice, Config
from tileflow.emit.gluon.functions import free_names
from tileflow.emit.gluon.gradients import GradientsKernel
from tileflow.emit.gluon.kernel import GluonKernel
from tileflow.emit.gluon.product_kernel import ProductKernel
from tileflow.emit.source import TritonSource
from tileflow.errors import ConfigError, LaunchError
from tileflow.kernels import flash
from tileflow.lowered import Lowered
from tileflow.runtime.abi import LaunchAbi
from tileflow.schedule.memory import buffer_bytes, shared_bytes
from tileflow.schedule.types import Arrive, Await, Copy, Multiply, Repeat, Save, Schedule, Step, Wait, steps_of
from tileflow.target import target

H200 = target("nvidia-h200")


def specialised(lowered: Lowered, **choices: Choice) -> Config:
    named = {n.replace("block_", "block:", 1): c for n, c in choices.items()}
    return lowered.space.complete({"schedule": "warp_specialised", **named})


@functools.cache
def example(d: int = 64, causal: bool = True, mode: str = "static") -> Lowered:
    args = attention.inputs(batch=2, heads=4, m=1000, d=d, causal=causal, with_lse=True, device="meta")
    return attention.lower(args, H200, mode=mode)


def written(lowered: Lowered, keys: int = 64, stages: int = 2) -> TritonSource:
    config = specialised(lowered, block_tile_m=128, block_block_n=keys, num_stages=stages)
    return lowered.emit(config)[0]


def schedule_of(lowered: Lowered, keys: int = 64, stages: int = 2) -> Schedule:
    config = specialised(lowered, block_tile_m=128, block_block_n=keys, num_stages=stages)
    (ir,) = lowered.specialised_regions(config)
    kernel = GluonKernel(ir, config, H200, "all")
    kernel.run()
    return kernel.specialised


def role(text: str, name: str) -> str:
    """A function of the text."""
    start = text.index(f"def {name}(")
    return text[start : text.find("@gluon.jit", start)]


def under(config: Config, lowered: Lowered) -> tuple[Schedule, str]:
    """The schedule of a config and the text that is written from it."""
    (ir,) = lowered.specialised_regions(config)
    kind = ProductKernel if lowered.problem.kernel.endswith(":matmul") else GluonKernel
    kernel = kind(ir, config, H200, "all")
    text = kernel.run().text
    return kernel.specialised, text


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("kind", ["one tile", "walking", "walking, causal", "product"])
def test_each_wait_is_for_the_round_that_was_executed(kind: str, ping_pong: bool) -> None:
    """The hardware is told parities: each text must give that of the round which the executor waits for. A first turn
    whose head start was left out was a deadlock on an H200, with a schedule that is right."""
    if kind == "product":
        lowered = matmul.lower(matmul.inputs(m=4096, n=4096, k=256, device="meta"), H200)
        config = specialised(lowered, block_tile_m=128, block_tile_n=128, block_tile_k=64, num_stages=3, consumers=2,
                             ping_pong=ping_pong)  # fmt: skip
    else:
        args = attention.inputs(batch=2, heads=4, m=1024, d=64, causal="causal" in kind, device="meta")
        lowered = attention.lower(args, H200)
        config = specialised(lowered, block_tile_m=128, block_block_n=128, num_stages=3, ping_pong=ping_pong,
                             persistent=int("walking" in kind))  # fmt: skip
    schedule, text = under(config, lowered)
    each = 256 // 64 if kind == "product" else 1024 // 128
    tiles = 1 if kind == "one tile" else 5
    lengths = tuple(range(each, each - tiles, -1)) if "causal" in kind else (each,) * tiles
    groups, compared = schedule.consumer.groups, 0
    for name in ("consumer", "producer"):
        waits = [s for s in steps_of(getattr(schedule, name).program) if isinstance(s, Wait)]
        parities = re.findall(r"mbarrier\.wait\([^,]*(?:\[[^]]*\])?[^,]*, (.*)\)  #", role(text, name))
        assert len(parities) == len(waits)
        for wait, parity in zip(waits, parities, strict=True):
            barrier = schedule.barrier(wait.barrier)
            stages = schedule.stages if barrier.per == "stage" else 1
            for tile, turn, who in itertools.product(range(tiles), range(each), range(groups)):
                if turn >= lengths[tile]:
                    continue
                start = sum(lengths[:tile])
                at = {"tile": tile, "start": start, "turn": start + turn, "who": who, "turns": lengths[tile],
                      "STAGES": schedule.stages, "GROUPS": groups}  # fmt: skip
                wanted = wait.round.at(stages, start + turn, lengths, who, groups) & 1
                assert eval(parity, at) == wanted, (wait, parity, at)
                compared += 1
    assert compared > 100


@pytest.mark.parametrize("name", ["consumer", "producer"])
def test_the_text_has_each_step_of_the_schedule_that_was_executed(name: str) -> None:
    """Both come from one list of steps, and none is written twice or left out."""
    schedule, text = schedule_of(example()), role(written(example()).text, name)
    steps: list[Step] = list(steps_of(getattr(schedule, name).program))

    def count(*kinds: type) -> int:
        return sum(isinstance(s, kinds) for s in steps)

    assert text.count("mbarrier.wait(") == count(Wait)
    assert text.count("mbarrier.arrive(") == count(Arrive)
    assert text.count("mbarrier.expect(") == text.count("async_copy_global_to_shared(") == count(Copy)
    assert text.count(" warpgroup_mma(") == count(Multiply)
    assert text.count("warpgroup_mma_wait(") == count(Await)
    assert text.count("async_copy_shared_to_global(") == count(Save)


def test_exponentials_stand_between_a_barrier_and_the_wait_for_the_product() -> None:
    """Else the assembler moves them behind the wait, and nothing overlaps."""
    turn = role(written(example()).text, "consumer").partition("for turn in")[2]
    order = ["warpgroup_mma_wait(1", "weigh(", "value_full", "warpgroup_mma_wait(0, [sums_under_way, weights])"]
    places = [turn.index(words) for words in order]
    assert places == sorted(places)


def test_the_authors_lines_are_comments() -> None:
    text = role(written(example()).text, "weigh")
    assert "# new_peak = torch.maximum(peak, torch.amax(scores, dim=1) * scale)" in text
    assert not re.search(r"^ *# [^\n]*\n *# ", text.partition("\n    #")[2].partition("\n")[2], re.MULTILINE)


def test_each_line_knows_the_users_line() -> None:
    source = written(example())
    lines = source.text.splitlines()
    assert len(source.lines) == len(lines)
    at = [n for text, n in zip(lines, source.lines, strict=True) if "tl.exp2(" in text]
    author = Path(flash.__file__).read_text().splitlines()
    assert len(at) == 2 and all("torch.exp2(" in author[n - 1] for n in at)


def test_sources_of_triton_keep_their_hash() -> None:
    """A new field of sources that only Gluon's have set."""
    lowered = example()
    source = lowered.emit(lowered.default)[0]
    assert source.language == "triton"
    assert written(lowered).language == "gluon" and written(lowered).hash != source.hash


def test_what_a_function_takes_is_what_it_reads_before_it_sets_it() -> None:
    body = "    a = b + 1\n    for t in range(0, n):\n        c = f(a, c)\n    d = d\n    return c\n"
    assert free_names(body) == ("b", "n", "f", "c", "d")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_keys_past_the_end_of_a_loop_are_zero_or_the_config_is_refused(mode: str) -> None:
    """A causal loop ends inside the tensor: with blocks of 128 rows the turns are whole; a window that begins in the
    middle of a block would have keys of other queries' past its end."""
    assert written(example(mode=mode), keys=128).language == "gluon"
    lowered = windowed.lower(inputs(2, 512, 512, 64, device="meta"), H200)
    assert lowered.emit(specialised(lowered, block_tile_m=128, block_tile_n=64))[0].language == "gluon"
    with pytest.raises(ConfigError, match="whole blocks of keys"):
        lowered.emit(specialised(lowered, block_tile_m=64, block_tile_n=128))


@pytest.mark.parametrize(("rows", "registers"), [(64, 128), (128, 168)])
def test_registers_are_dealt_out_from_what_the_programs_of_a_multiprocessor_have(rows: int, registers: int) -> None:
    """Two programs of one group, or one of two: 65536 registers, in steps of 8."""
    config = specialised(example(), block_tile_m=rows, block_block_n=64, num_stages=2)
    assert dict(example().emit(config)[0].options) == {"maxnreg": registers, "num_warps": 4}


def test_the_interpreter_refuses_gluon(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow.build.interpret import interpreter_launcher

    monkeypatch.setattr(compat, "interpreting", lambda: True)
    with pytest.raises(LaunchError, match="Triton's own functions"):
        interpreter_launcher(written(example()))


def test_attention_compiles_ahead_of_time() -> None:
    """For Hopper, on a machine without a GPU: no spills, copies by the copy engine, asynchronous products, registers
    dealt out anew, and as much shared memory as was computed before. Bundles carry its ABI like any other."""
    source, schedule = written(example(), stages=3), schedule_of(example(), stages=3)
    binary, assembly = build(source, H200), compile_source(source, H200).assembly
    assert binary.resources.spills == 0 and binary.resources.registers == 168
    assert binary.abi.threads == schedule.warps * 32 == 384
    assert buffer_bytes(schedule) <= binary.resources.shared <= shared_bytes(schedule) <= H200.smem_per_block
    instructions = dict(binary.resources.instructions)
    assert instructions["wgmma"] > 0 and "cp.async.bulk.tensor" in assembly
    assert {f"setmaxnreg.{word}" for word in ("inc.sync.aligned.u32 \t240", "dec.sync.aligned.u32 \t24")} <= set(
        re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 \t\d+", assembly)
    )
    assert LaunchAbi.from_json(binary.abi.to_json()) == binary.abi
    maps = [a.tensor_map for a in binary.abi.args if a.tensor_map is not None]
    assert sorted(m.box for m in maps) == [(1, 1, 1, 64, 64)] * 2 + [(1, 1, 64, 64)] * 2 and all(
        m.swizzle == 3 for m in maps
    )


def test_a_score_that_loads_compiles_by_pointers() -> None:
    """What the author's body loads beside keys and values goes by pointers, in the layout of the scores."""
    args = attention_scored.inputs(batch=1, heads=2, m=200, n=300, d=64, device="meta")
    lowered = attention_scored.lower(args, H200)
    source = lowered.emit(specialised(lowered, block_tile_m=128, block_tile_n=64))[0]
    assert "tl.load(" in role(source.text, "weigh") and "gl.set_auto_layout" in source.text
    assert build(source, H200).resources.spills == 0


@pytest.mark.parametrize(
    ("rows", "keys", "d", "is_ahead"),
    [(64, 128, 64, True), (128, 128, 64, True), (128, 128, 128, True), (192, 64, 64, False)],
)
def test_what_turns_load_for_their_keys_is_on_its_way_before_these_are_there(
    rows: int, keys: int, d: int, is_ahead: bool
) -> None:
    """The scores' product, and the wait for it, hide how long that takes. Three groups have no registers for it, and
    beside the sums of a wide head lanes keep a part of it each."""
    args = tuple(a.to("meta") for a in kept_inputs(2, 384, 300, d))
    lowered = of_kept_keys.lower(args, H200)
    source = lowered.emit(specialised(lowered, block_tile_m=rows, block_tile_n=keys))[0]
    consumer = role(source.text, "consumer")
    loads = role(source.text, "ahead" if is_ahead else "weigh").count("tl.load(")
    assert loads == 2 and consumer.count("= ahead(") == (2 if is_ahead else 0)
    assert role(source.text, "weigh").count("gl.convert_layout(") == (2 if d > 64 else 0)
    if is_ahead:
        first, later = (part.index("mbarrier.wait(key_full") for part in consumer.split("= ahead(")[1:])
        assert first < later and "warpgroup_mma(" not in consumer.split("= ahead(")[1][:first]
    assert build(source, H200).resources.spills <= (16 if d > 64 else 0)  # 8 where nothing is ahead, of 512 keys


def test_programs_that_walk_along_a_triangle_go_to_and_fro() -> None:
    """Each tile of the grid is one program's, also where the last row of tiles is not full, and the longest program
    has little more to do than the mean. Dealt out in turn it had 1.13 times as much."""
    args = attention.inputs(batch=4, heads=32, m=4096, d=128, causal=True, device="meta")
    lowered = attention.lower(args, H200)
    source = lowered.emit(specialised(lowered, block_tile_m=128, block_block_n=128, num_stages=2, persistent=1))[0]
    text, programs = source.text, H200.sm_count
    count = 4 * 32 * 4096 // 128
    said = {name: re.findall(rf"^ +{name} = (.*)$", text, re.MULTILINE)[-1] for name in ("rows", "tiles", "pid")}

    class Language:
        int32 = None

        def __init__(self, program: int) -> None:
            self.program_id, self.num_programs = (lambda _: program), (lambda _: programs)
            self.cast = lambda value, _: int(value)

    dealt: list[list[int]] = []
    for program in range(programs):
        names: dict[str, Any] = {"tl": Language(program), "tile_m_count": 4096 // 128}
        for name in ("rows", "tiles"):
            names[name] = eval(said[name], names)
        dealt.append([eval(said["pid"], {**names, "tile": tile}) for tile in range(names["tiles"])])
    assert sorted(pid for own in dealt for pid in own) == list(range(count))
    work = [sum(32 - pid % 32 for pid in own) for own in dealt]
    assert max(work) <= 1.04 * sum(work) / programs


# ---- loops of gradients ------------------------------------------------------------------------------------------


@functools.cache
def gradients_of(d: int = 64, causal: bool = True, mode: str = "static") -> Lowered:
    args = attention_backward.inputs(batch=2, heads=4, m=1000, d=d, causal=causal, device="meta")
    return attention_backward.lower(args, H200, mode=mode)


def gradient_config(lowered: Lowered, launch: int, turn: int = 64) -> Config:
    """The default, and the launch of that number (1: keys and values, 2: queries) warp-specialised."""
    tile, block = {1: ("block:tile_n@1", "block:block_m"), 2: ("block:tile_m@2", "block:block_n")}[launch]
    choices: dict[str, Choice] = {f"schedule@{launch}": "warp_specialised", tile: 128, block: turn}
    return lowered.space.normalise(lowered.default.with_({**choices, f"num_stages@{launch}": 2}))


def gradient_source(lowered: Lowered, launch: int, turn: int = 64) -> TritonSource:
    return next(s for s in lowered.emit(gradient_config(lowered, launch, turn)) if s.region == launch)


@pytest.mark.parametrize("launch", [1, 2])
def test_gradients_text_has_each_step_of_the_schedule_that_was_executed(launch: int) -> None:
    lowered, config = gradients_of(), gradient_config(gradients_of(), launch)
    kernel = GradientsKernel(lowered.specialised_regions(config)[launch], config, H200, "all")
    text = kernel.run().text
    for name in ("consumer", "producer"):
        steps, lines = list(steps_of(getattr(kernel.specialised, name).program)), role(text, name)
        counts = {Wait: "mbarrier.wait(", Arrive: "mbarrier.arrive(", Copy: "async_copy_global_to_shared(",
                  Multiply: " warpgroup_mma(", Await: "warpgroup_mma_wait(",
                  Save: "async_copy_shared_to_global("}  # fmt: skip
        # turns that take the diagonal's branch are a loop of their own
        twice = [s for loop in steps if isinstance(loop, Repeat) for s in steps_of(loop.steps)]
        twice = twice if "branching" in lines else []
        for kind, words in counts.items():
            assert lines.count(words) == sum(isinstance(s, kind) for s in (*steps, *twice)), (name, words)


def test_a_sum_is_issued_before_the_next_score_is_awaited() -> None:
    """What follows from the second score is computed beside the first sum's product."""
    turn = role(gradient_source(gradients_of(), 1).text, "consumer").partition("for turn in")[2]
    order = ["scores_1_under_way =", "warpgroup_mma_wait(1, [scores_0_under_way])", "part_0(",
             "sums_0_under_way =", "warpgroup_mma_wait(1, [scores_1_under_way])", "part_1(", "sums_1_under_way =",
             "warpgroup_mma_wait(0, [sums_0_under_way, sums_1_under_way])"]  # fmt: skip
    places = [turn.index(words) for words in order]
    assert places == sorted(places)


def test_gradients_compile_ahead_of_time() -> None:
    """No spills, products that are not serialised (C7512: a wait after each instruction), the shared memory that was
    computed before."""
    for launch, results in ((1, 2), (2, 1)):
        source = gradient_source(gradients_of(), launch)
        binary, assembly = build(source, H200), compile_source(source, H200).assembly
        assert binary.resources.spills == 0 and binary.abi.threads == 384
        assert "serialized" not in advice(assembly)
        maps = [a.tensor_map for a in binary.abi.args if a.tensor_map is not None]
        vectors = 2 if launch == 1 else 0  # two numbers for each row of a block
        boxes = sorted(m.box for m in maps)
        assert boxes == [(1, 1, 1, 64)] * vectors + [(1, 1, 1, 64, 64)] * (4 + results)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 80, 128])
def test_the_default_of_the_queries_gradient_compiles_ahead_of_time(d: int, causal: bool) -> None:
    """Without more than a number or two spilled, and without products that are serialised."""
    args = attention_backward.inputs(batch=4, heads=32, m=4096, d=d, causal=causal, device="meta")
    lowered = attention_backward.lower(args, H200)
    (source,) = (s for s in lowered.emit(lowered.default) if s.region == 2)
    assert source.language == "gluon"
    assert build(source, H200).resources.spills <= 8
    assert "serialized" not in advice(compile_source(source, H200).assembly)


@functools.cache
def fused(d: int, causal: bool, m: int = 4096, mode: str = "static") -> Lowered:
    args = attention_backward_fused.inputs(batch=4, heads=32, m=m, d=d, causal=causal, device="meta")
    return attention_backward_fused.lower(args, H200, mode=mode)


def fused_launch(lowered: Lowered) -> TritonSource:
    """The launch of all gradients under the default config."""
    assert lowered.default["schedule@1"] == "warp_specialised"
    return next(s for s in lowered.emit(lowered.default) if s.region == 1)


def test_the_text_of_what_a_turn_adds_to_memory() -> None:
    text = fused_launch(fused(128, causal=True)).text
    first, later = role(text, "consumer").split("for turn in range(")[1:]
    assert first.startswith("0, branching):") and later.startswith("branching, turns):")
    assert "part_0_later(" in later and "part_0_later(" not in first and text.count("def part_1(") == 1
    order = ["shared.index((turn % STAGES) * GROUPS + who).store(shared_operand)", "fence_async_shared()",
             "mbarrier.arrive(shared_full", "mbarrier.wait(shared_full", "held_0.index(0)", "no_added, use_acc=False",
             "held_0.index(1)", "added_under_way, is_async=True", "sums_1_under_way =", "tma.store_wait(1)",
             "leaving.index((turn % STAGES) * GROUPS + who)", "add_to_global(sum_q_desc_1x1x1x64x64"]  # fmt: skip
    for turn in (first, later):
        places = [turn.index(words, turn.index("shared.index(")) for words in order]
        assert places == sorted(places)
    assert "held_0.index(1).reshape([64, 128]).slice(who * 64, 64, 1)" in later  # by columns
    by_rows = fused_launch(fused(64, causal=False)).text
    assert ".slice(who * 64, 64, 1).permute((1, 0))" in by_rows and "branching" not in by_rows


@pytest.mark.parametrize(("d", "causal", "m", "spills"), [
    (128, False, 4096, 0), (64, False, 4096, 0), (128, True, 4096, 32), (64, True, 4096, 64), (128, True, 4000, 128),
])  # fmt: skip
def test_all_gradients_in_one_launch_compile_ahead_of_time(d: int, causal: bool, m: int, spills: int) -> None:
    """Few numbers are spilled (bytes a thread), and none where no lane is masked. Products are not serialised, but for
    causal heads of 64 columns by the ptxas of Triton 3.7 (by that of 3.6 they are not either)."""
    source = fused_launch(fused(d, causal, m))
    binary, assembly = build(source, H200), compile_source(source, H200).assembly
    assert binary.resources.spills <= spills and binary.abi.threads == 384
    assert (causal and d == 64) or "serialized" not in advice(assembly)
    assert "cp.reduce.async.bulk.tensor" in assembly
    assert binary.resources.shared <= H200.smem_per_block


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_all_gradients_in_one_launch_take_what_was_computed_before(mode: str) -> None:
    lowered = fused(128, causal=True, mode=mode)
    config = lowered.default
    kernel = GradientsKernel(lowered.specialised_regions(config)[1], config, H200, "all")
    source = kernel.run()
    shared = build(source, H200).resources.shared
    assert buffer_bytes(kernel.specialised) <= shared <= shared_bytes(kernel.specialised)


# ---- turns without masks -----------------------------------------------------------------------------------------

# rows of 1024: the author's `if` alone; of 1000 and open ones: the loop's end too
SIZES = {"whole blocks": (1024, "static"), "a partial one": (1000, "static"), "any": (1000, "dynamic")}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("launch", ["forward", "keys and values", "queries"])
def test_a_turn_above_no_diagonal_and_before_the_end_has_no_masks(launch: str, sizes: str) -> None:
    """Of a causal loop: 64 numbers a thread, of which none is compared or selected, by a branch of the machine code.
    The masks of the loop's end were 130 comparisons and 208 selections in each turn."""
    m, mode = SIZES[sizes]
    if launch == "forward":
        args = attention.inputs(batch=2, heads=4, m=m, d=64, causal=True, device="meta")
        source = written(attention.lower(args, H200, mode=mode), keys=128)
    else:
        args = attention_backward.inputs(batch=2, heads=4, m=m, d=64, causal=True, device="meta")
        lowered = attention_backward.lower(args, H200, mode=mode)
        source = gradient_source(lowered, *{"keys and values": (1, 64), "queries": (2, 128)}[launch])
    compiled = build(source, H200)
    turns = shortest_turns(compiled.code)
    if launch == "keys and values":  # turns at the diagonal are a loop of their own
        assert len(turns) == 4
        turns = sorted(turns, key=lambda turn: turn["FSEL"])[:2]
    assert len(turns) == 2 and compiled.resources.spills == 0  # of two consumer groups
    for turn in turns:
        exponentials = 32 if launch == "keys and values" else 64
        assert turn["MUFU"] >= exponentials  # all of a turn's, or this would be another way
        assert turn["FSEL"] + turn["SEL"] <= 8 and turn["ISETP"] <= 8, turn
    assert "serialized" not in advice(compile_source(source, H200).assembly)


def test_selections_are_counted() -> None:
    """The check of the test above can fail: the same turns with the loop's end masked in each."""
    source = written(example(causal=False, mode="dynamic"), keys=128)
    text = re.sub(r"if tile_n_begin \+ BLOCK_BLOCK_N <= \w+:", "if turns < 0:", source.text)
    assert text != source.text
    for turn in shortest_turns(build(replace(source, text=text), H200).code):
        assert turn["FSEL"] + turn["SEL"] >= 64


def test_advice_says_where_products_are_serialised() -> None:
    """The check of the test above can fail: registers that are read while a product writes them."""
    assembly = compile_source(gradient_source(gradients_of(), 2), H200).assembly
    broken = re.sub(r"\twgmma\.wait_group\.sync\.aligned \d;", "", assembly)
    assert broken != assembly and "serialized" in advice(broken)
