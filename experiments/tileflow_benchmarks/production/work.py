"""What a soak's threads call: kernels at known and unseen shapes, the same in torch, and the comparison of both."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from tileflow.api import Kernel, load_kernel

from .warm_calls import ADD, ADD_SIZE

TWICE = "tileflow_benchmarks.production.kernels:add_twice"

POOL = 1 << 24  # elements that inputs are cut from
KNOWN_SHAPES, UNSEEN = 24, 0.25  # known shapes per kernel; the share of calls with any other
Shape = tuple[int, ...]
Tensors = tuple[torch.Tensor, ...]


class InputPool:
    """Random numbers on a device, made once: drawing them in a thread would disturb another's capture."""

    def __init__(self, device: str, elements: int = POOL) -> None:
        torch.manual_seed(0)
        self.device = device
        self._float32 = torch.randn(elements, device=device)
        self._of = {torch.float32: self._float32, torch.bfloat16: self._float32.bfloat16()}

    def cut(self, rng: random.Random, shape: Shape, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return a view at a random place; for a third of them the address is too unaligned for vector loads."""
        numbers, count = self._of[dtype], 1
        for size in shape:
            count *= size
        begin = rng.randrange(numbers.numel() - count)
        begin -= 0 if rng.random() < 1 / 3 else begin % 16
        return numbers[begin : begin + count].view(shape)


@dataclass(frozen=True, slots=True)
class CheckedKernel:
    """A kernel and its reference.

    ``inputs(pool, rng, shape)``: what both get, and leave unchanged. ``tolerance``: 0 for results that must be equal.
    """

    name: str
    kernels: tuple[str, ...]
    largest: Shape
    inputs: Callable[[InputPool, random.Random, Shape], Tensors]
    call: Callable[..., torch.Tensor]
    reference: Callable[..., torch.Tensor]
    tolerance: float

    def shape(self, rng: random.Random) -> Shape:
        """Return mostly one of a few known shapes, else any."""
        if rng.random() < UNSEEN:
            return tuple(rng.randint(1 + (most > 64) * 16, most) for most in self.largest)
        return rng.choice(known_shapes(self.largest))


@cache
def known_shapes(largest: Shape) -> Sequence[Shape]:
    """Return shapes of which half are divisible by 16; in one dimension also the size of the bundle's row."""
    rng = random.Random(str(largest))
    rough = [tuple(rng.randint(17, most) for most in largest) for _ in range(KNOWN_SHAPES)]
    exact = [(ADD_SIZE,)] if len(largest) == 1 and largest[0] >= ADD_SIZE else []
    return exact + [tuple(n // 16 * 16 for n in shape) if i % 2 else shape for i, shape in enumerate(rough)]


def disagreement(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Return whether they differ by more than the tolerance, as a bool on their device, without waiting. NaN
    differs."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return torch.ones((), dtype=torch.bool, device=expected.device)
    if not tolerance:
        return (got != expected).any()
    wide = expected.float()
    allowed = tolerance * (wide.square().mean().sqrt() + wide.abs())
    return (~((got.float() - wide).abs() <= allowed)).any()


def checked_kernels() -> tuple[CheckedKernel, ...]:
    """Return kernels of many kinds: elementwise, in place twice, reductions, two launches, tensor maps, a closure."""
    return (_added(), _twice(), _softmax(), _long_sum(), _product(), _closed_over())


def _kernel(name: str) -> Kernel:
    return load_kernel(name)


def _two(pool: InputPool, rng: random.Random, shape: Shape) -> Tensors:
    return pool.cut(rng, shape), pool.cut(rng, shape)


def _added() -> CheckedKernel:
    return CheckedKernel("vector_add", (ADD,), (1 << 17,), _two, _kernel(ADD), torch.add, 0.0)


def _twice() -> CheckedKernel:
    kernel = _kernel(TWICE)

    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mine = x.clone()
        kernel(mine, y)
        return mine

    return CheckedKernel("add_twice, in place", (TWICE,), (1 << 17,), _two, call, lambda x, y: (x + y) + 1, 0.0)


def _softmax() -> CheckedKernel:
    name = "examples.softmax:softmax"
    return CheckedKernel(
        "softmax",
        (name,),
        (512, 2000),
        lambda pool, rng, shape: (pool.cut(rng, shape, torch.bfloat16),),
        _kernel(name),
        lambda x: torch.softmax(x, dim=1),
        1.6e-2,
    )


def _long_sum() -> CheckedKernel:
    name = "examples.long_sum:long_sum_split"
    return CheckedKernel(
        "long_sum_split",
        (name,),
        (64, 8000),
        lambda pool, rng, shape: (pool.cut(rng, shape),),
        _kernel(name),
        lambda x: x.sum(1),
        1e-3,
    )


def _operands(pool: InputPool, rng: random.Random, shape: Shape) -> Tensors:
    m, n, k = shape
    return pool.cut(rng, (m, k), torch.bfloat16), pool.cut(rng, (k, n), torch.bfloat16)


def _product() -> CheckedKernel:
    name = "examples.matmul:matmul"
    return CheckedKernel("matmul", (name,), (512, 512, 512), _operands, _kernel(name), torch.matmul, 1.6e-2)


def _closed_over() -> CheckedKernel:
    from examples.matmul import bias_gelu

    name = "examples.matmul:matmul_epilogue"
    kernel = _kernel(name)

    def inputs(pool: InputPool, rng: random.Random, shape: Shape) -> Tensors:
        return *_operands(pool, rng, shape), pool.cut(rng, shape[1:2], torch.bfloat16)

    def call(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = kernel(x, y, bias_gelu(bias))
        return made

    def reference(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.gelu((x.float() @ y.float()) + bias.float()).bfloat16()

    return CheckedKernel("matmul_epilogue, a closure", (name,), (512, 512, 512), inputs, call, reference, 3e-2)


def gradient(differentiated: Any, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Return the gradient of ``x`` through a function by autograd, which launches kernels in its own thread."""
    leaf = x.detach().clone().requires_grad_()
    differentiated(leaf).backward(grad)
    assert leaf.grad is not None
    return leaf.grad
