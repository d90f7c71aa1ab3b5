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
    "a[:, torch.arange(6).reshape(2, 3) * 2]", "a.view(-1, 4, 4)[:, torch.arange(6).reshape(3, 2) % 4]",
    "torch.tensor([0.5, -1.0, 2.0, 4.0, 8.0])[(a > 0).int() * 3 + (b > 0).int()]",
    "(torch.arange(16) / 5.0)[(a > 0).long()[:, :, None] * 9 + torch.arange(2)]",
    "F.embedding((a > 0).long() + 1, (torch.arange(12) / 5.0).view(4, 3))",
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
    "torch.diagonal(a.view(-1, 4, 4), dim1=1, dim2=2)", "torch.einsum('...k->...', a)",
    "torch.einsum('mii->mi', a.view(-1, 4, 4))",
)  # fmt: skip
VECTORS = (
    "torch.cross(a[:, :3], b[:, :3], dim=1)", "torch.linalg.cross(a[:, :3], b[:, 3:6])",
    "a.view(-1, 4, 4)[:, :, 1:].cross(b.view(-1, 4, 4)[:, :, :3], dim=-1)", "torch.linalg.vecdot(a, b)",
    "torch.linalg.vecdot(a.view(-1, 4, 4), b.view(-1, 4, 4), dim=1)", "torch.inner(a, torch.arange(16) / 5.0)",
    "torch.tensordot(a.view(-1, 4, 4), (torch.arange(16) / 5.0).view(4, 4), dims=1)",
    "torch.tensordot(a.view(-1, 4, 4), (torch.arange(16) / 5.0).view(4, 4), dims=([2, 1], [0, 1]))",
    "torch.cdist(a.view(-1, 4, 4), b.view(-1, 4, 4))", "torch.cdist(a.view(-1, 4, 4), b.view(-1, 4, 4)[:, :2], p=1.0)",
    "F.pairwise_distance(a, b)", "F.pairwise_distance(a, b, p=1.0, keepdim=True)",
    "torch.linalg.matrix_norm(a.view(-1, 4, 4))", "F.one_hot(a.abs().long(), 5)", "torch.linalg.vander(a[:, :3], N=4)",
    "F.prelu(a, torch.tensor([0.2]))", "F.prelu(a, torch.arange(16) / 5.0)", "F.prelu(a, torch.tensor(0.2))",
    "F.prelu(a.view(-1, 4, 4), torch.arange(4) / 5.0)", "F.prelu(a[:, 0], torch.tensor([0.2]))",
    "a.view(-1, 4, 4) + torch.eye(4)", "a[:, :2, None] * torch.eye(2, 3, dtype=torch.float64)",
    "a * torch.linspace(-1, 2, 16)", "a[:, :1] + torch.linspace(0.5, 0.25, 1)", "a[:, :7] + torch.linspace(3, -3.5, 7)",
    "torch.linalg.diagonal(a.view(-1, 4, 4))", "torch.diag_embed(a[:, :4])",
    "F.embedding(a[:, 0].abs().long(), torch.arange(64).view(4, 16) / 5.0)",
)  # fmt: skip
BORDERS = (
    "F.pad(a, (1, 2))", "F.pad(a, (0, 3), value=2.0)", "F.pad(a, (-1, 2))", "F.pad(a, [-2, -3])",
    "F.pad(a.view(-1, 4, 4), (1, 0, 0, 2))", "F.pad(a, (2, 2), mode='reflect')", "F.pad(a, (3, 15), mode='reflect')",
    "F.pad(a.view(-1, 1, 16), (3, 18), mode='replicate')", "F.pad(a, (4, 1), 'circular')",
    "F.pad(a.int(), (1, 1), value=7)", "a.view(-1, 4, 4).rot90(1, (1, 2))", "torch.rot90(a.view(-1, 2, 8), 3, [1, 2])",
    "torch.rot90(a.view(-1, 4, 4), -2, (2, 1))", "torch.diff(a, prepend=b[:, :2], dim=1)",
    "torch.diff(a, n=2, append=b[:, :1])", "torch.hstack([a, b])", "torch.column_stack([a[:, 0], b])",
    "torch.dstack([a, b])", "torch.hsplit(a, 2)", "torch.tensor_split(a, 3, dim=1)", "a.tensor_split((3, -5), 1)",
    "a.view(-1, 2, 2, 4).dsplit(2)",
)  # fmt: skip
INTEGRALS = (
    "torch.trapezoid(a, dim=1)", "torch.trapezoid(a, b, dim=1)", "torch.trapezoid(a, dx=0.5)",
    "torch.trapz(a.view(-1, 4, 4), torch.arange(4) ** 2 / 5.0, dim=1)", "torch.cumulative_trapezoid(a, dim=1)",
    "torch.cumulative_trapezoid(a, b)", "torch.quantile(a, 0.3, dim=1)", "a.quantile(0.5, dim=-1, keepdim=True)",
    "torch.quantile(a, 0.26, dim=1, interpolation='lower')", "torch.quantile(a, 0.26, dim=1, interpolation='higher')",
    "torch.quantile(a, 0.3, dim=1, interpolation='nearest')", "torch.quantile(a, 1.0, dim=1)",
    "torch.quantile(a, 0.3, dim=1, interpolation='midpoint')", "torch.quantile(a.log(), 0.3, dim=1)",
    "a.log().nanmedian(1)", "torch.nanmedian(a / 0 * 0, dim=1, keepdim=True)[0]",
    "F.kl_div(a, b.sigmoid(), reduction='none')", "F.kl_div(a, b, reduction='none', log_target=True)",
    "F.binary_cross_entropy(a.sigmoid(), b.sigmoid(), reduction='none')",
    "F.binary_cross_entropy(a.sigmoid().round(), b.sigmoid(), weight=b, reduction='none')",
    "F.binary_cross_entropy_with_logits(a * 60, b.sigmoid(), reduction='none')",
    "F.binary_cross_entropy_with_logits(a, b.sigmoid(), pos_weight=torch.arange(16) / 5.0, reduction='none')",
    "F.soft_margin_loss(a, b.sign(), reduction='none')", "F.poisson_nll_loss(a, b.abs(), reduction='none')",
    "F.poisson_nll_loss(a.abs(), 3 * b.abs(), log_input=False, full=True, reduction='none')",
    "F.gaussian_nll_loss(a, b, a.abs(), reduction='none')",
    "F.gaussian_nll_loss(a, b, b[:, :1].abs(), full=True, eps=0.5, reduction='none')",
    "F.gaussian_nll_loss(a, b, b[:, 0].abs(), reduction='none')",
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
    "letters": (LETTERS, 16), "vectors": (VECTORS, 16), "borders": (BORDERS, 16), "integrals": (INTEGRALS, 16),
    "integrals of a tail": (INTEGRALS[:3] + INTEGRALS[4:15], 13),
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
    "F.dropout(a, 0.5)": "tfl.rand", "a.double().sort(1)": r"\.float\(\)", "torch.einsum('m.k->m', a)": "one letter",
    "torch.einsum('mk,mk->m', a, b.double())[:, None]": "have one dtype", "a.cumsum(1, dtype=torch.bool)": "cummax",
    "a.nonzero()": "known before", "a[::-1]": "index",
    "a[:, ::-1]": "flip", "a[a > 0]": "extra_mask=mask", "F.pad(a, (0, 0, 1, 1))": "load more of the tensor",
    "F.pad(a, (17, 0), mode='circular')": "in several steps", "torch.quantile(a, 2.0, dim=1)": "from 0 to 1",
    "F.one_hot(a.long())[:, :, 0]": "number of classes", "F.embedding(a.long(), b, max_norm=1.0)": "scale the rows",
    "F.embedding(a.long(), b)": "1-D tile of ints", "torch.tensor_split(a, 17, 1)[0]": "fewer parts",
    "torch.hsplit(a, 3)[0]": "tensor_split", "torch.linalg.matrix_norm(a, ord=1)": "amax",
    "torch.cross(a, b, dim=1)": "name the dim", "torch.diag_embed(a, 1)[:, 0, :16]": "F.pad",
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
