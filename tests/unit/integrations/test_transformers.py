"""Small models of the transformers library with tileflow's kernels: losses and gradients against the models' own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tileflow
from tileflow.errors import CallError

transformers = pytest.importorskip("transformers")
import tileflow.integrations.transformers as module  # noqa: E402
from tileflow.integrations.transformers import apply, unapply  # noqa: E402

SIZES = {
    "vocab_size": 53, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": 1,
    "bos_token_id": 2,
}  # fmt: skip
FAMILIES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "mistral": ("MistralConfig", "MistralForCausalLM", {}),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", {"hidden_act": "gelu_pytorch_tanh"}),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {}),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {}),
}
ALL_PARTS = {"norm", "residual", "activation", "rotary", "loss", "fused_loss"}
# Families that nobody named: of each, the parts whose code is not that of a known class.
OTHERS = {
    "granite": ("GraniteConfig", "GraniteForCausalLM", {"logits_scaling": 3.0, "residual_multiplier": 0.5},
                {"residual", "fused_loss"}),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", {"num_experts": 4, "num_experts_per_tok": 2},
                  {"activation", "fused_loss"}),
    "phi": ("PhiConfig", "PhiForCausalLM", {"partial_rotary_factor": 0.5}, {"norm", "residual", "activation"}),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}, set()),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 4},
                {"residual", "activation", "fused_loss"}),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {}, {"residual", "activation", "rotary"}),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", {}, {"norm", "residual", "rotary"}),
    "glm4": ("Glm4Config", "Glm4ForCausalLM", {}, {"residual", "activation", "rotary"}),
    "cohere": ("CohereConfig", "CohereForCausalLM", {}, {"norm", "residual", "rotary", "fused_loss"}),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM", {}, {"residual"}),
    "mamba": ("MambaConfig", "MambaForCausalLM", {}, {"residual", "activation", "rotary", "fused_loss"}),
}  # fmt: skip
QUICK = ("granite", "qwen3_moe", "phi")


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with tileflow.interpret():
        yield


def model_of(family: str, **options: Any) -> Any:
    config, kind, own = FAMILIES[family] if family in FAMILIES else OTHERS[family][:3]
    torch.manual_seed(0)
    made = getattr(transformers, kind)(getattr(transformers, config)(**{**SIZES, **own, **options}))
    for name, parameter in made.named_parameters():
        if "norm" in name:  # ones say nothing about what is multiplied
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.3)
    return made.train()


def batch() -> dict[str, torch.Tensor]:
    """Two sequences, with positions of their own, one of them padded."""
    ids = torch.randint(3, 53, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    labels = ids.where(mask.bool(), -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels,
            "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}  # fmt: skip


def step(model: Any, **options: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss, and the gradient of each parameter."""
    model.zero_grad()
    loss = model(**batch(), **options).loss
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_and_gradients(family: str) -> None:
    model = model_of(family)
    wanted = step(model, num_items_in_batch=torch.tensor(11))
    report = apply(model)
    torch.testing.assert_close(step(model, num_items_in_batch=torch.tensor(11)), wanted, rtol=1e-4, atol=1e-6)
    layers = 2
    has_residual = family not in ("gemma2", "gemma3")
    expected = {"norm", "activation", "rotary", "loss", "fused_loss"} | ({"residual"} if has_residual else set())
    assert set(report.replaced) == expected and report.replaced["rotary"] == layers
    assert {s.part for s in report.skipped} == {"attention"} | (set() if has_residual else {"residual"})
    unapply(model)
    assert not [m for m in model.modules() if "forward" in m.__dict__]


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in OTHERS]
)
def test_a_family_that_nobody_named(family: str) -> None:
    """What has the code of a known class is replaced, what has not stays: scaled sums and logits, other norms, ..."""
    model = model_of(family)
    wanted = step(model)
    report = apply(model)
    stays = OTHERS[family][3]
    assert set(report.replaced) == ALL_PARTS - stays and {s.part for s in report.skipped} == stays | {"attention"}
    found = step(model)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    assert any(not torch.equal(found[1][name], grad) for name, grad in wanted[1].items()), "our kernels ran"


def test_a_forward_of_the_instance_stays() -> None:
    """Hooks of other libraries stand there, and know what the module's own did."""
    model = model_of("llama")
    norm = model.model.norm
    norm.forward = lambda hidden_states: torch.zeros_like(hidden_states)
    report = apply(model)
    assert report.replaced["norm"] == 4 and not model.model.norm(torch.ones(2, 24)).any()


def test_logits_and_generation() -> None:
    """Evaluation has logits and a loss; a cache works."""
    model = model_of("llama").eval()
    inputs = batch()
    with torch.no_grad():
        wanted = model(**inputs)
        tokens = model.generate(inputs["input_ids"][:1], max_new_tokens=3, do_sample=False)
        apply(model)
        found = model(**inputs)
        again = model.generate(inputs["input_ids"][:1], max_new_tokens=3, do_sample=False)
    torch.testing.assert_close((found.loss, found.logits), (wanted.loss, wanted.logits), rtol=1e-4, atol=1e-5)
    assert torch.equal(tokens, again)


def test_training_has_no_logits_and_a_plain_mean() -> None:
    model = model_of("llama")
    loss, _ = step(model)
    apply(model)
    out = model(**batch())
    torch.testing.assert_close(out.loss, loss, rtol=1e-4, atol=1e-6)
    assert out.logits is None and out.past_key_values is not None


def test_the_library_s_classes_stay() -> None:
    kind = transformers.models.llama.modeling_llama.LlamaRMSNorm
    before = kind.forward
    first, second = model_of("llama"), model_of("llama")
    apply(first, residual=False, fused_loss=False)
    assert kind.forward is before and not [m for m in second.modules() if "forward" in m.__dict__]
    assert first(**batch()).logits is not None
    assert set(first.state_dict()) == set(second.state_dict())


def test_attention_through_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mask by our kernel, with one by torch's; sizes that the kernel takes."""
    model = model_of("llama", head_dim=16)
    ids = batch()["input_ids"]
    wanted = model(ids, labels=ids).loss
    padded, _ = step(model)
    report = apply(model, attention=True)
    assert report.replaced["attention"] == 2 and model.config._attn_implementation == "tileflow"
    ran: list[str] = []
    own = module.scaled_dot_attention
    monkeypatch.setattr(module, "scaled_dot_attention", lambda *a, **k: ran.append(k["backend"]) or own(*a, **k))
    torch.testing.assert_close(model(ids, labels=ids).loss, wanted, rtol=1e-4, atol=1e-6)
    assert ran == ["tileflow", "tileflow"]
    torch.testing.assert_close(step(model)[0], padded, rtol=1e-4, atol=1e-6)
    assert ran == ["tileflow", "tileflow"]
    unapply(model)
    assert model.config._attn_implementation == "sdpa"


def test_what_is_refused_says_so() -> None:
    with pytest.raises(CallError, match="modules whose code is known"):
        apply(torch.nn.Linear(2, 2))
    model = model_of("llama")
    with pytest.raises(CallError, match="something to put back"):
        unapply(model)
    apply(model)
    with pytest.raises(CallError, match="patched once"):
        apply(model)


def test_what_stays_says_why() -> None:
    model = model_of("llama", hidden_act="relu")
    model.lm_head = torch.nn.Sequential(model.lm_head)
    report = apply(model, rotary=False)
    why = {s.part: s.why for s in report.skipped}
    assert "ReLU" in why["activation"] and "Sequential" in why["fused_loss"] and "asked" in why["rotary"]
    assert "activation: stays" in str(report) and "norm: 5 replaced" in str(report)
