"""One product in a region: found whatever the author does behind it, run as a schedule, refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import joint_kernels as joint
from tile_testing.kernels.product_kernels import REFUSED, args_of, batched, normalised, residual, scaled

import examples.fp8_matmul
import examples.matmul
from examples.fp8_matmul import fp8_matmul
from examples.matmul import matmul, matmul_epilogue
from examples.matmul_layer_norm import matmul_layer_norm
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.explain import explain
from tileflow.schedule.chained import Refusal
from tileflow.schedule.evaluate_product import ProductProgram, program_tiles
from tileflow.schedule.execute import NASTY, at_random, execute
from tileflow.schedule.product import Shape, product
from tileflow.schedule.single import Single, find_single
from tileflow.schedule.structure import find_structure
from tileflow.target import target

H200 = target("nvidia-h200")


def run(kernel: Kernel, args: tuple[Any, ...], tensors: dict[str, torch.Tensor], ping_pong: bool,
        programs: int = 2, width: int = 128) -> None:  # fmt: skip
    """Every program of a call under blocks of 128 x 128 x 64, each under another interleaving. ``width``: columns of a
    block, of each product."""
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    lowered = kernel.lower(meta, H200)
    choices: dict[str, Choice] = {
        "block:tile_m": 64 if ping_pong else 128,
        "block:tile_n": width,
        "block:tile_k": 64,
    }
    known = {k.name for k in lowered.space.knobs}
    config = lowered.space.complete({n: c for n, c in choices.items() if n in known})
    (ir,) = lowered.specialised_regions(config)
    found = find_single(ir)
    assert isinstance(found, Single), found
    left = (64, 64)
    out = None if found.saved is None else (64, width)
    right = (width, 64) if found.right_transposed else (64, width)
    shape = Shape(left, right, 2, out, 4 if out else 0, found.left_transposed, found.right_transposed,
                  width * len(found.products), found.by_columns, products=len(found.products))  # fmt: skip
    schedule = product(shape, 2, 2, ping_pong)
    *batch, m, n = tensors["out"].shape
    outer = [("item", b, 1) for b in batch]
    columns = [("tile_n", n, width)] if found.columns.tile else []
    nasty = list(NASTY.values())
    for number in range(programs):
        tiles = program_tiles([*outer, ("tile_m", m, 64 if ping_pong else 128), *columns], number, programs)
        scalars = {s.path: 0.5 for s in ir.scalars}
        body = ProductProgram(ir, found, config, tensors, scalars, tiles, shape, ping_pong)
        choose = nasty[(3 * number + ping_pong) % len(nasty)] if number else at_random(number)
        execute(schedule, body, body.turns, choose, len(tiles))


def close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(got.float(), wanted.float(), atol=6e-2, rtol=2e-2)


@pytest.mark.parametrize(("layout", "ping_pong"), [("NN", False), ("NT", True), ("TN", True), ("TT", False)])
def test_products_of_odd_sizes_in_every_layout(layout: str, ping_pong: bool) -> None:
    """136 rows in tiles of 128 or 64, 264 columns in tiles of 128, 72 summed in turns of 64."""
    torch.manual_seed(0)
    x, y = (a / 4 for a in examples.matmul.inputs(136, 264, 72))
    args = tuple(a if kind == "N" else a.T.contiguous().T for a, kind in zip((x, y), layout, strict=True))
    out = torch.zeros(136, 264, dtype=torch.bfloat16)
    run(matmul, args, {"x": args[0], "y": args[1], "out": out}, ping_pong)
    close(out, x.float() @ y.float())


def test_the_authors_epilogue_sees_the_columns_of_its_piece() -> None:
    torch.manual_seed(0)
    x, y, epilogue = examples.matmul.epilogue_inputs(136, 264, 72)
    (bias,) = (c.cell_contents for c in epilogue.__closure__ or ())
    out = torch.zeros(136, 264, dtype=torch.bfloat16)
    run(matmul_epilogue, (x, y, epilogue), {"x": x, "y": y, "out": out, "epilogue.cell:bias": bias}, ping_pong=True)
    close(out, examples.matmul.epilogue_reference(x, y, epilogue))


def test_scales_of_rows_and_columns() -> None:
    torch.manual_seed(0)
    args = examples.fp8_matmul.inputs(136, 264, 128)
    x, y, x_scale, y_scale, dtype = args
    out = torch.zeros(136, 264, dtype=dtype)
    run(fp8_matmul, args, {"x": x, "y": y, "x_scale": x_scale, "y_scale": y_scale, "out": out}, ping_pong=False)
    wanted = examples.fp8_matmul.reference(*args)
    torch.testing.assert_close(out.float(), wanted.float(), atol=0.5, rtol=2e-2)


@pytest.mark.parametrize("kernel", [residual, scaled, normalised, batched], ids=lambda k: k.name)
def test_bodies_that_load_scale_and_look_at_whole_rows(kernel: Kernel) -> None:
    """A tile that is loaded in front of the loop, a number of the caller's, a row's largest value (which no piece has),
    batches that share an operand."""
    torch.manual_seed(0)
    args = args_of(kernel)
    out = torch.zeros(*kernel.reference(*args).shape, dtype=torch.bfloat16)
    tensors = {"x": args[0], "y": args[1], "out": out, **({"z": args[2]} if kernel is residual else {})}
    run(kernel, args, tensors, ping_pong=False)
    close(out, kernel.reference(*args))
    found = find_single(kernel.lower(args, H200).regions[0])
    assert isinstance(found, Single) and found.by_columns == (kernel is not normalised)


def test_a_piece_that_is_computed_twice_is_seen() -> None:
    """The comparison can fail: with the first piece's columns for all of them the bias is another."""
    torch.manual_seed(0)
    x, y, epilogue = examples.matmul.epilogue_inputs(136, 264, 72)
    (bias,) = (c.cell_contents for c in epilogue.__closure__ or ())
    out = torch.zeros(136, 264, dtype=torch.bfloat16)
    tensors = {"x": x, "y": y, "out": out, "epilogue.cell:bias": bias}
    with pytest.MonkeyPatch.context() as patch:
        compute = ProductProgram.compute_piece
        first: Callable[..., Any] = lambda self, part, registers, turn, group, piece: compute(  # noqa: E731
            self, part, {"sums_0": registers[f"sums_{piece}"]}, turn, group, 0
        )
        patch.setattr(ProductProgram, "compute_piece", first)
        run(matmul_epilogue, (x, y, epilogue), tensors, ping_pong=False)
    wanted = examples.matmul.epilogue_reference(x, y, epilogue)
    assert (out.float() - wanted.float()).abs().max() > 0.5


@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_what_has_no_such_schedule_is_refused_by_name(reason: str) -> None:
    kernel, args = REFUSED[reason]
    lowered = kernel.lower(args, H200)
    found = find_single(lowered.regions[0])
    assert isinstance(found, Refusal) and reason in str(found)
    assert "schedule" not in [k.name for k in lowered.space.knobs]
    assert str(found) in explain(lowered)


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("kernel", joint.SPELLINGS, ids=lambda k: k.name.split(":")[1])
def test_two_products_of_one_left_operand(kernel: Kernel, ping_pong: bool) -> None:
    """However the author writes it: which product comes first, whether rows and zeros are one value, what is loaded or
    looked at behind the loop."""
    torch.manual_seed(0)
    args = joint.args_of(kernel)
    wanted = kernel.reference(*args)
    out = torch.zeros(*wanted.shape, dtype=torch.bfloat16)
    names = ("x", "gate", "up", "z")[: len(args)]
    run(kernel, args, {**dict(zip(names, args, strict=True)), "out": out}, ping_pong, width=64)
    close(out, wanted)
    found = find_single(kernel.lower(args, H200).regions[0])
    assert isinstance(found, Single) and found.by_columns == (kernel is not joint.of_rows)
    assert len(found.products) == len(found.rights) == len(found.totals) == 2


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("left_turned", [False, True], ids=["left", "left turned"])
def test_two_products_in_every_layout(turned: bool, left_turned: bool) -> None:
    torch.manual_seed(0)
    x, gate, up = joint.args_of(joint.by_rows)
    wanted = joint.by_rows.reference(x, gate, up)
    x = x.T.contiguous().T if left_turned else x
    gate, up = (w.T.contiguous().T if turned else w for w in (gate, up))
    out = torch.zeros(*wanted.shape, dtype=torch.bfloat16)
    run(joint.by_rows, (x, gate, up), {"x": x, "gate": gate, "up": up, "out": out}, ping_pong=True, width=64)
    close(out, wanted)


def test_products_that_change_places_are_seen() -> None:
    """The comparison can fail: with the second right operand for the first one the gate is another."""
    torch.manual_seed(0)
    x, gate, up = joint.args_of(joint.once)
    out = torch.zeros(136, 264, dtype=torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        brought = ProductProgram.box_of_part
        patch.setattr(
            ProductProgram, "box_of_part", lambda self, buffer, turn, part: brought(self, buffer, turn, 1 - part)
        )
        run(joint.once, (x, gate, up), {"x": x, "gate": gate, "up": up, "out": out}, ping_pong=False, width=64)
    close(out, joint.once.reference(x, up, gate))
    assert (out.float() - joint.once.reference(x, gate, up)).abs().max() > 0.5


@pytest.mark.parametrize("reason", sorted(joint.REFUSED))
def test_two_products_that_have_no_such_schedule_are_refused_by_name(reason: str) -> None:
    kernel, args = joint.REFUSED[reason]
    lowered = kernel.lower(args, H200)
    found = find_structure(lowered.regions[0])
    assert isinstance(found, Refusal) and reason in str(found)
    assert "schedule" not in [k.name for k in lowered.space.knobs] and str(found) in explain(lowered)


def test_a_region_has_the_schedule_in_every_mode() -> None:
    """Zeros of another dimension of the same length are a broadcast in dynamic mode: table rows of one mode serve the
    other."""
    x, y = (torch.empty(size, 256, dtype=torch.bfloat16, device="meta") for size in (512, 512))
    w, b = (torch.empty(256, dtype=torch.bfloat16, device="meta") for _ in range(2))
    for mode in ("static", "dynamic"):
        found = find_single(matmul_layer_norm.lower((x, y[:256], w, b), H200, mode=mode).regions[0])
        assert isinstance(found, Single) and not found.by_columns
