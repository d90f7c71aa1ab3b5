"""Models whose tensors torch distributes after apply: over a mesh of one process, where DTensors are what they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

import tileflow
import tileflow.language as tfl
from tileflow import kernels
from tileflow.errors import CallError

transformers = pytest.importorskip("transformers")
from tileflow.integrations.transformers import apply  # noqa: E402

IDS = torch.randint(53, (2, 9), generator=torch.Generator().manual_seed(1))


@tileflow.kernel
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile(x.shape):
        out[tile_m, tile_n] = x[tile_m, tile_n] * 2
    return out


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=53, hidden_size=24, intermediate_size=40, num_hidden_layers=1, num_attention_heads=4
    )
    return transformers.LlamaForCausalLM(config).train()


def step(one: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    loss = one(input_ids=IDS, labels=IDS).loss
    loss.backward()
    grads = {name: whole(p.grad) for name, p in one.named_parameters()}
    return whole(loss.detach()), grads


def whole(x: torch.Tensor) -> torch.Tensor:
    return x.full_tensor() if isinstance(x, DTensor) else x


def sequence_parallel(one: Any, mesh: DeviceMesh) -> None:
    """Norms of tokens that are sharded."""
    norm = SequenceParallel(use_local_output=True)
    parallelize_module(one, mesh, {"model.norm": norm})
    for layer in one.model.layers:
        parallelize_module(layer, mesh, {"input_layernorm": norm, "post_attention_layernorm": norm})


def tensor_parallel(one: Any, mesh: DeviceMesh) -> None:
    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = {f"self_attn.{name}_proj": columns for name in "qkv"} | {"self_attn.o_proj": rows}
    plan |= {"mlp.gate_proj": columns, "mlp.up_proj": columns, "mlp.down_proj": rows}
    for layer in one.model.layers:
        parallelize_module(layer, mesh, plan)
    parallelize_module(one, mesh, {"lm_head": ColwiseParallel(output_layouts=Replicate())})


def gates_stay_distributed(one: Any, mesh: DeviceMesh) -> None:
    columns = ColwiseParallel(use_local_output=False)
    for layer in one.model.layers:
        plan = {"mlp.gate_proj": columns, "mlp.up_proj": columns, "mlp.down_proj": RowwiseParallel()}
        parallelize_module(layer, mesh, plan)


def fully_sharded(one: Any, mesh: DeviceMesh) -> None:
    for layer in one.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(one, mesh=mesh)


@pytest.mark.parametrize("distribute", [sequence_parallel, tensor_parallel, gates_stay_distributed, fully_sharded])
def test_a_model_that_is_distributed_after_apply(distribute: Any, mesh: DeviceMesh) -> None:
    """Where a part is given DTensors the library's own computes; kernels have no rule of sharding, and raised."""
    wanted = step(model())
    found = model()
    apply(found)
    distribute(found, mesh)
    torch.testing.assert_close(step(found), wanted, rtol=1e-4, atol=1e-6)


def test_the_loss_of_logits_that_are_sharded_over_the_vocabulary(mesh: DeviceMesh) -> None:
    wanted, found = model()(input_ids=IDS, labels=IDS).loss, model()
    apply(found)
    parallelize_module(found, mesh, {"lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    with loss_parallel():
        loss = found(input_ids=IDS, labels=IDS).loss
        assert isinstance(loss, DTensor)
        loss.backward()
    torch.testing.assert_close(whole(loss), wanted, rtol=1e-4, atol=1e-6)


def test_a_kernel_that_is_given_a_dtensor_says_so(mesh: DeviceMesh) -> None:
    """torch said of an operator with a digest for a name that it has no sharding strategy."""
    x, weight = distribute_tensor(torch.randn(4, 8), mesh, [Shard(0)]), torch.ones(8)
    calls = (
        lambda: doubled(x),
        lambda: kernels.rms_norm(x, weight),
        lambda: kernels.rms_norm(torch.randn(4, 8), distribute_tensor(weight, mesh, [Replicate()])),
        lambda: kernels.attention(x[None, None], x[None, None], x[None, None]),
    )
    doubled(torch.randn(4, 8))
    for call in calls:
        with pytest.raises(CallError, match=r"with placements, a DTensor\n.*\n  pass x\.to_local\(\)"):
            call()
