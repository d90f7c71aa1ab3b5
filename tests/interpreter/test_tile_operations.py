"""Operations on whole tiles against torch: slices, sorted and reversed elements, products by letters, statistics.

Each kernel holds many expressions over ``a`` and ``b``, tiles of the rows of (13, columns) tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.runs.interpreted import Call, close, load_module

from tileflow.errors import TileflowError

SLICES = (
    "a[:, 8:]", "a[:, :a.size(1) // 2]", "a[..., 0::2]", "a[:, 1::4]", "a[:, 3:9]", "a[:, -5:]", "a[:, 3:9, None]",
    "a[:, 1:15:3]", "a[:, torch.arange(16) // 2]", "a.narrow(1, 4, 8)", "a.select(1, 3)", "a.flip(1)", "a.roll(3, 1)",
    "a.roll((1, -2), (1, 1))", "a.diff(dim=1)", "a.repeat(1, 2)", "torch.tile(a, (1, 3))", "F.glu(a, dim=1)",
    "torch.take_along_dim(a, b.argsort(dim=1), 1)", "a.index_select(1, torch.arange(3) * 5)",
)  # fmt: skip
# of 36 columns, which registers pad to 64 lanes
PADDED = (
    "a.chunk(3, -1)", "torch.chunk(a, 5, dim=1)", "a.chunk(2, dim=-1)", "a.split(9, dim=1)", "a.split(16, 1)",
    "torch.split(a, [5, 1, 30], dim=1)", "F.glu(a, dim=-1)", "torch.cat([a, b], dim=1)",
    "torch.cat([a, b[:, :5], a[:, 30:]], -1)", "torch.cat([a.half(), b], -1)", "torch.cat([a[:, :32], b[:, :4]], 1)",
    "torch.cat([a, b, a], 1)", "torch.stack([a, b, a + b], 1)", "torch.stack([a, b], 2)", "torch.cat([a], 1)",
    "a.repeat_interleave(3, dim=1)", "torch.repeat_interleave(a, 2, dim=-1)", "a.repeat(1, 3)", "a.repeat(1, 2)",
    "a.view(-1, 3, 12)", "a.reshape(-1, 4, 9)", "a.view(-1, 3, 12).sum(1)", "a.view(-1, 6, 6).transpose(1, 2)",
    "a.reshape(-1, 9, 4).amax(-1)", "a.view(-1, 2, 3, 6).flatten(2)", "a.view(-1, 3, 12).reshape(-1, 12, 3)",
    "a.unflatten(1, (3, -1)).mean(2)", "a.view(-1, 2, 3, 6).flatten(1)", "a.view(-1, 9, 4).flatten(1)",
    "a.view(-1, 1, 36).squeeze(1)", "a.view(-1, 3, 12).var(-1)", "a[:, None, :].repeat(1, 3, 1).flatten(1)",
    "a.view(-1, 3, 12).unbind(1)", "a.unflatten(1, (6, 6)).mT.flatten(1)", "a.roll(1, 1)", "a.flip(1)",
)  # fmt: skip
SORTS = (
    "torch.sort(a, dim=-1)", "a.sort(1, descending=True)", "torch.argsort(a, dim=1)", "a.topk(4)", "a.median(dim=1)",
    "torch.topk(a, 3, dim=-1, largest=False)", "a.kthvalue(3, dim=1, keepdim=True)",
    "(a * 1000).int().sort(1)", "a.half().sort(1)", "(a / b.sign().relu()).sort(dim=1, stable=True)",
    "torch.cummax(a, dim=1)", "a.cummin(1)", "a.logcumsumexp(1)", "(-a).sort(1).values",
    "a.argsort(1).argsort(1)", "a.topk(3).indices.sort(1).values",
)  # fmt: skip
LETTERS = (
    "torch.einsum('mk,mk->m', a, b)", "torch.einsum('mi,mj->mij', a, b)", "torch.einsum('mij->mji', a.view(-1, 4, 4))",
    "torch.einsum('mij,mj->mi', a.view(-1, 4, 4), b[:, :4])", "torch.einsum('mk->m', a)",
    "torch.einsum('mij,mjk->mik', a.view(-1, 4, 4), b.view(-1, 4, 4))",
    "torch.einsum('mij,mj,mi->m', a.view(-1, 4, 4), b[:, :4], b[:, 4:8])", "a.view(-1, 4, 4).tril()",
    "a.view(-1, 4, 4).triu(1)", "torch.tril(a.view(-1, 4, 4), diagonal=-1)",
    "torch.diagonal(a.view(-1, 4, 4), dim1=1, dim2=2)",
)  # fmt: skip
STATISTICS = (
    "torch.aminmax(a, dim=1, keepdim=True)", "torch.count_nonzero(a > 0, dim=1)", "a.nansum(1)", "a.log().nanmean(1)",
    "torch.std_mean(a, dim=1)", "torch.linalg.vector_norm(a, dim=-1)", "torch.linalg.norm(a, ord=1, dim=1)",
    "torch.norm(a, p=3, dim=-1)", "torch.linalg.vector_norm(a, ord=float('inf'), dim=1, keepdim=True)",
    "torch.linalg.vector_norm(a, ord=0, dim=1)", "F.cosine_similarity(a, b, dim=1)", "F.softmin(a, dim=1)",
    "F.mse_loss(a, b, reduction='none')", "F.l1_loss(a, b, reduction='none')", "F.huber_loss(a, b, reduction='none')",
    "F.smooth_l1_loss(a, b, reduction='none', beta=0.5)",
)  # fmt: skip
SPELLINGS = (
    "a.sum(axis=1)", "a.mean(-1, keepdims=True)", "torch.sum(input=a, dim=1)", "torch.max(input=a, dim=1)",
    "torch.add(input=a, other=b, alpha=2)", "torch.where(condition=a > 0, input=a, other=b)",
    "torch.sigmoid(input=a)", "torch.clamp(input=a, min=0.0)", "torch.mul(a, other=b)", "a.new_tensor(3.0) + a",
    "torch.tensor(2.0, device=a.device) * a.half()", "torch.tensor(2) * a", "a.masked_fill(a > b, torch.tensor(1.0))",
    "a.element_size() * a", "a.to(b.device, torch.float16)", "torch.bitwise_and(input=a.int(), other=3)",
)  # fmt: skip
GROUPS = {
    "padded": (PADDED, 36), "slices": (SLICES, 16), "sorts": (SORTS, 16), "sorts of a tail": (SORTS, 13),
    "letters": (LETTERS, 16),
    "statistics": (STATISTICS, 13), "spellings": (SPELLINGS, 13), "slices of a tail": (SLICES[8:9] + SLICES[11:17], 16),
}  # fmt: skip
HEAD = "import torch\nimport torch.nn.functional as F\nimport tileflow\nimport tileflow.language as tfl\n\n\n"


def operands(columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(6)
    x, y = torch.randn(2, 13, columns, generator=random)
    x[0, :4] = torch.tensor([0.0, -0.0, 0.0, -0.0])
    return x, y


def results(expression: str, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    found = eval(expression, {"torch": torch, "F": F, "a": x, "b": y})
    return found if isinstance(found, tuple) else (found,)


def kernel_text(expressions: tuple[str, ...], wanted: list[tuple[torch.Tensor, ...]]) -> str:
    """A kernel that stores every result of every expression."""
    made, body, number = [], [], 0
    for expression, values in zip(expressions, wanted, strict=True):
        body.append(f"        found = {expression}")
        for n, value in enumerate(values):
            made.append(f"    o{number} = torch.empty({list(value.shape)}, dtype={value.dtype})")
            item = f"found[{n}]" if len(values) > 1 else "found"
            body.append(f"        o{number}[{', '.join(['tile', *[':'] * (value.ndim - 1)])}] = {item}")
            number += 1
    head = ["@tileflow.kernel", "def subject(x, y):", *made, "    for tile in tfl.tile(x.size(0)):"]
    loads = ["        a = x[tile, :]", "        b = y[tile, :]"]
    return HEAD + "\n".join([*head, *loads, *body, f"    return {', '.join(f'o{n}' for n in range(number))},\n"])


@pytest.mark.parametrize("name", GROUPS)
def test_operations(interpreter: Callable[..., Any], tmp_path: Path, name: str) -> None:
    """Through Triton's interpreter and as plain Python."""
    expressions, columns = GROUPS[name]
    x, y = operands(columns)
    wanted = [results(e, x, y) for e in expressions]
    path = tmp_path / "operations.py"
    path.write_text(kernel_text(expressions, wanted))
    names = [e for e, values in zip(expressions, wanted, strict=True) for _ in values]
    flat = [v for values in wanted for v in values]
    (got,) = interpreter("runs.interpreted:run_all", [Call(str(path), "subject", (x, y), (("block:tile", 8),))])
    assert not isinstance(got, str), got
    eager = load_module(str(path)).subject.run_eagerly(x, y, config={"block:tile": 8})
    for mine in (got, eager):
        wrong = {e: w for e, g, v in zip(names, mine, flat, strict=True) if (w := close(g, v))}
        assert wrong == {}


REFUSED = {
    "a.add_(b)": "assign it", "a.sum().item()": "use it as it is", "a.cpu()": "store",
    "F.dropout(a, 0.5)": "tfl.rand", "a.double().sort(1)": r"\.float\(\)", "torch.einsum('...k->...', a)": "name every",
    "a.nonzero()": "known before", "a[::-1]": "index",
    "a[:, ::-1]": "flip", "a[a > 0]": "extra_mask=mask",
}  # fmt: skip


@pytest.mark.parametrize("expression", REFUSED)
def test_refusals_say_what_to_write(tmp_path: Path, expression: str) -> None:
    body = f"        out[tile, :] = {expression}\n    return out\n"
    text = "@tileflow.kernel\ndef subject(x, y, out):\n    for tile in tfl.tile(x.size(0)):\n"
    body = "        a, b = x[tile, :], y[tile, :]\n" + body
    path = tmp_path / "refused.py"
    path.write_text(HEAD + text + body)
    tensors = [torch.empty(13, 16, device="meta") for _ in range(3)]
    with pytest.raises(TileflowError, match=REFUSED[expression]):
        load_module(str(path)).subject.triton_source(*tensors)
