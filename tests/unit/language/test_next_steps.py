"""What a refusal says to write is written, and works: in plain Python and for the compiler."""

from __future__ import annotations

import linecache
import re
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import ConfigError, TileflowError, TraceError
from tileflow.target import target

Tensor = torch.Tensor
TARGET = target("nvidia-h200")


def kernel_of(name: str, lines: str) -> Any:
    """A kernel over rows of ``given`` whose tile loop holds these lines."""
    body = "".join(f"        {line}\n" for line in lines.splitlines())
    text = f"def {name}(given, out, at):\n    for t in tfl.tile(given.size(0)):\n{body}"
    file = f"<next step {name} {hash(lines)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"torch": torch, "tfl": tfl, "__name__": "next_steps"}
    exec(compile(text, file, "exec"), names)
    return tileflow.kernel(names[name])


def arguments() -> tuple[Tensor, Tensor, Tensor]:
    given = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    return given, torch.zeros(8, 16), torch.tensor([3, 0, 7, 5, 15, 2, 9, 11])


def hint_of(kernel: Any, way: str) -> str:
    """The last line of a refusal."""
    with pytest.raises(TraceError) as caught:
        kernel.run_eagerly(*arguments()) if way == "plain Python" else kernel.lower(arguments(), TARGET)
    return str(caught.value.hint)


def result(kernel: Any) -> Tensor:
    """What the kernel gives as plain Python, once the compiler has taken it, too."""
    given, out, at = arguments()
    lowered = kernel.lower((given, out, at), TARGET)
    assert lowered.emit(lowered.default)
    kernel.run_eagerly(given, out, at)
    return out


def assigned(index: str, value: str) -> Tensor:
    """What torch makes of the assignment."""
    given, _, at = arguments()
    held = given[:, 0] if value == "given[t, 0]" else float(value)
    names = {"x": given.clone(), "at": at, "rows": torch.arange(8), "value": held}
    exec(f"x[{index}] = value", names)
    return names["x"]


# an index of the tile x, how it is loaded, and the value
ASSIGNMENTS = {
    "a scalar's column": (":, index", "index = at[4]", "0.0", ":, at[4]"),
    "columns": (":, index", "index = at[:]", "0.0", ":, at"),
    "an element of each row": ("tfl.arange(x.size(0)), index", "index = at[t]", "0.0", "rows, at"),
    "a value for each row": ("tfl.arange(x.size(0)), index", "index = at[t]", "given[t, 0]", "rows, at"),
}


@pytest.mark.parametrize("way", ["plain Python", "compiler"])
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_an_assignment_into_a_tile_by_a_tile_of_ints(name: str, way: str) -> None:
    """The next step was ``torch.where(mask, value, x)``, which left the mask to the author."""
    index, load, value, of_torch = ASSIGNMENTS[name]
    before = f"x = given[t, :]\n{load}\nvalue = {value}\n"
    hint = hint_of(kernel_of("refused", f"{before}x[{index}] = value\nout[t, :] = x"), way)
    step = re.search(r"x = (torch\.where\((?!mask).*)", hint)
    assert step is not None, hint
    found = result(kernel_of("followed", f"{before}x = {step[1]}\nout[t, :] = x"))
    torch.testing.assert_close(found, assigned(of_torch, value))


@pytest.mark.parametrize("way", ["plain Python", "compiler"])
def test_an_assignment_of_several_values_into_a_row(way: str) -> None:
    before = "x = given[0, :] + t.begin * 0\nindex = at[:]\nvalue = given[1, 0:8]\n"
    hint = hint_of(kernel_of("refused", f"{before}x[index] = value\nout[t, :] = x[None, :]"), way)
    steps = re.search(r"(hit = .*), then (x = .*)", hint)
    assert steps is not None, hint
    found = result(kernel_of("followed", f"{before}{steps[1]}\n{steps[2]}\nout[t, :] = x[None, :].expand(t, 16)"))
    given, _, at = arguments()
    wanted = given[0].clone()
    wanted[at] = given[1, 0:8]
    torch.testing.assert_close(found, wanted.expand(8, 16))


@pytest.mark.parametrize("way", ["plain Python", "compiler"])
@pytest.mark.parametrize(
    "call", ["x.median()", "x.nanmedian()", "torch.quantile(x, 0.25)", "torch.quantile(x, q=0.25)"]
)
def test_a_median_of_a_whole_tile(call: str, way: str) -> None:
    """Plain Python gave the median of as many rows as a block has; the compiler advised a flattened tile, of which it
    takes no median either."""
    hint = hint_of(kernel_of("refused", f"x = given[t, :]\nout[t, 0] = {call}"), way)
    step = re.search(r"constant size: (.*\)); how many", hint)
    assert step is not None, hint
    row = step[1].replace("dim", "1").replace("q,", "0.25,")
    found = result(kernel_of("followed", f"x = given[t, :]\nout[t, 0] = {row}" + ("[0]" if "median" in call else "")))
    given = arguments()[0]
    wanted = given.median(1)[0] if "median" in call else given.quantile(0.25, 1)
    torch.testing.assert_close(found[:, 0], wanted)


@pytest.mark.parametrize("way", ["plain Python", "compiler"])
def test_elements_backwards(way: str) -> None:
    refused = kernel_of("refused", "x = given[t, :]\nout[t, :] = x[:, ::-1]")
    with pytest.raises(TileflowError, match=r"torch\.flip reverses a dimension"):
        refused.run_eagerly(*arguments()) if way == "plain Python" else refused.lower(arguments(), TARGET)
    followed = kernel_of("followed", "x = given[t, :]\nout[t, :] = torch.flip(x, [1])")
    torch.testing.assert_close(result(followed), arguments()[0].flip(1))


def no_config(function: Any, *args: Tensor) -> str:
    """What is said of a kernel that no config takes."""
    lowered = tileflow.kernel(function).lower(args, TARGET)
    with pytest.raises(ConfigError) as caught:
        lowered.emit(lowered.default)
    return str(caught.value)


def takes(function: Any, *args: Tensor) -> bool:
    lowered = tileflow.kernel(function).lower(args, TARGET)
    return bool(lowered.emit(lowered.default))


def sorted_with_places(x: Tensor, out: Tensor, places: Tensor) -> None:
    for t in tfl.tile(x.size(0)):
        out[t, :], places[t, :] = torch.sort(x[t, :], dim=1)


def sorted_alone(x: Tensor, out: Tensor, places: Tensor) -> None:
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.sort(x[t, :], dim=1)[0]


def largest(x: Tensor, out: Tensor, places: Tensor) -> None:
    for t in tfl.tile(x.size(0)):
        out[t, :64], places[t, :64] = torch.topk(x[t, :], 64, dim=1)


def sorted_before(x: Tensor, out: Tensor, places: Tensor) -> None:
    ordered, at = torch.sort(x, dim=1)
    for t, u in tfl.tile(x.shape):
        out[t, u], places[t, u] = ordered[t, u], at[t, u]


def test_a_row_that_is_too_long_to_be_sorted_with_its_places() -> None:
    """The next step was a loop over the row, which no sort takes."""
    args = [torch.empty(64, 32000, dtype=dtype, device="meta") for dtype in (torch.float32, torch.float32, torch.int64)]
    text = no_config(sorted_with_places, *args)
    assert "a loop" not in text and "torch.sort((" not in text
    for words, function in (
        ("torch.sort(x, dim)[0]", sorted_alone),
        ("torch.topk(x, k, dim)", largest),
        ("before the loop, in host code", sorted_before),
    ):
        assert words in text and takes(function, *args)


def gathered_product(x: Tensor, w: Tensor, at: Tensor, out: Tensor) -> None:
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.gather(x[t, :] @ w[:, :], 1, at[t, :])


def stored_product(x: Tensor, w: Tensor, at: Tensor, out: Tensor) -> None:
    product = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    for t, u in tfl.tile(product.shape):
        product[t, u] = x[t, :] @ w[:, u]
    for t, u in tfl.tile(out.shape):
        out[t, u] = product[t.index[:, None], at[t, u]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_places_of_a_product_with_long_rows(dtype: torch.dtype) -> None:
    """Of float32 the error named the product's own loop, which its author had not written."""
    shapes = {(64, 128): dtype, (128, 32000): dtype, (64, 16): torch.int64}
    args = [torch.empty(shape, dtype=own, device="meta") for shape, own in shapes.items()]
    args.append(torch.empty(64, 16, dtype=dtype, device="meta"))
    text = no_config(gathered_product, *args)
    assert "gathers out of all of it (store it into a tensor in a tile loop before this one, and index that)" in text
    assert "torch.gather(x[t, :] @ w[:, :]" in text and takes(stored_product, *args)
