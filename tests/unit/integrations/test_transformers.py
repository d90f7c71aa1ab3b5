"""Small models of the transformers library with tileflow's kernels: losses and gradients against the models' own."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tileflow
from tileflow.errors import CallError
from tileflow.kernels import linear

transformers = pytest.importorskip("transformers")
import tileflow.integrations.transformers as module  # noqa: E402
from tileflow.integrations import norms, rotary  # noqa: E402
from tileflow.integrations.forms import NORMS, modeling, rotary_of  # noqa: E402
from tileflow.integrations.forwards import patch_of  # noqa: E402
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
                {"residual"}),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", {"num_experts": 4, "num_experts_per_tok": 2},
                  {"activation"}),
    "phi": ("PhiConfig", "PhiForCausalLM", {"partial_rotary_factor": 0.5}, {"residual", "activation"}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
             {"residual", "activation", "rotary", "fused_loss"}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {"rotary_pct": 0.5},
                 {"residual", "activation", "fused_loss"}),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM",
                   {"residual_dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0}, {"activation"}),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM", {"num_local_experts": 4, "num_experts_per_tok": 2},
                {"residual", "activation"}),
    "glm4_moe": ("Glm4MoeConfig", "Glm4MoeForCausalLM",
                 {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}, set()),
    "deepseek_v3": ("DeepseekV3Config", "DeepseekV3ForCausalLM",
                    {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 2,
                     "topk_group": 1, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "head_dim": 4,
                     "qk_nope_head_dim": 4, "v_head_dim": 8, "num_key_value_heads": 4}, set()),
    "helium": ("HeliumConfig", "HeliumForCausalLM", {"head_dim": 6}, set()),
    "ernie4_5": ("Ernie4_5Config", "Ernie4_5ForCausalLM", {}, set()),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM", {"num_attention_heads": 3, "num_key_value_heads": 3},
                 {"residual"}),
    "nemotron": ("NemotronConfig", "NemotronForCausalLM", {}, {"norm", "residual", "activation", "rotary"}),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}, set()),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 4},
                {"activation"}),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {}, {"residual", "activation"}),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", {}, {"residual"}),
    "glm4": ("Glm4Config", "Glm4ForCausalLM", {}, {"residual", "activation"}),
    "cohere": ("CohereConfig", "CohereForCausalLM", {"logit_scale": 0.3}, {"residual"}),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM", {}, {"residual"}),
    "mamba": ("MambaConfig", "MambaForCausalLM", {}, {"residual", "activation", "rotary", "fused_loss"}),
}  # fmt: skip
QUICK = ("granite", "qwen3_moe", "phi", "gpt2", "starcoder2", "olmo2", "cohere")


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with tileflow.interpret():
        yield


def model_of(family: str, **options: Any) -> Any:
    config, kind, own = FAMILIES[family] if family in FAMILIES else OTHERS[family][:3]
    torch.manual_seed(0)
    made = getattr(transformers, kind)(getattr(transformers, config)(**{**SIZES, **own, **options}))
    for name, parameter in made.named_parameters():
        if "norm" in name or ".ln_" in name:  # ones say nothing about what is multiplied
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
    assert not patched(model)


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in OTHERS]
)
def test_a_family_that_nobody_named(family: str) -> None:
    """What has the code of a known class is replaced, what has not stays: scaled sums and logits, other norms, ..."""
    model = model_of(family)
    wanted = step(model)
    report = apply(model, layer_norm=True)
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
    assert kind.forward is before and not patched(second)
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


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(**batch()).logits
    model.train()
    return found


def patched(model: Any) -> list[str]:
    return [name for name, part in model.named_modules() if patch_of(part) is not None]


def copied(model: Any) -> Any:
    return copy.deepcopy(model)


def pickled(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("duplicate", [copied, pickled])
def test_a_copy_is_a_model_of_its_own(duplicate: Any) -> None:
    """With kernels, the copy's weights, and what unapply puts back."""
    model = model_of("llama")
    wanted = step(model), logits_of(model)
    apply(model)
    other = duplicate(model)
    assert patched(other) == patched(model) and "" in patched(other)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    torch.testing.assert_close((step(other), logits_of(other)), wanted, rtol=1e-4, atol=1e-6)
    unapply(other)
    assert not patched(other) and patched(model)
    torch.testing.assert_close(step(other), wanted[0])


@pytest.mark.parametrize("part", ["lm_head", "model.layers.0.post_attention_layernorm", "model.layers.0.mlp.act_fn"])
@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "replaced"])
def test_what_is_hooked_or_replaced_after_apply_is_called(part: str, kind: str) -> None:
    """A kernel stands for several modules: not where one of them does something else by now."""
    model = model_of("llama")
    apply(model)
    owner, name = model.get_submodule(part.rpartition(".")[0]), part.rpartition(".")[2]
    seen: list[None] = []

    class Halved(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(None)
            return self.inner(x) / 2

    if kind == "replaced":
        setattr(owner, name, Halved(getattr(owner, name)))
    else:
        getattr(getattr(owner, name), f"register_{kind}_hook")(lambda *_: seen.append(None))
    found = step(model)
    assert seen
    unapply(model)
    torch.testing.assert_close(step(model), found, rtol=1e-4, atol=1e-6)


PARTS = {
    "lm_head": lambda m: m.lm_head,
    "last norm": lambda m: m.model.norm,
    "norm": lambda m: m.model.layers[0].post_attention_layernorm,
    "activation": lambda m: m.model.layers[0].mlp.act_fn,
    "product": lambda m: m.model.layers[0].mlp.up_proj,
    "mlp": lambda m: m.model.layers[0].mlp,
}


def with_own_forward(part: Any) -> None:
    own = type(part).forward
    part.forward = lambda x: own(part, x) / 2


def with_another_class(part: Any) -> None:
    own = type(part)
    part.__class__ = type("Halved", (own,), {"forward": lambda self, x: own.forward(self, x) / 2})


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("change", [with_own_forward, with_another_class])
def test_what_has_another_forward_after_apply_has_it(part: str, change: Any) -> None:
    model, plain = model_of("llama"), model_of("llama")
    apply(model)
    for each in (model, plain):
        change(PARTS[part](each))
    torch.testing.assert_close(step(model), step(plain), rtol=1e-4, atol=1e-6)


def test_a_class_that_the_library_s_user_changed_has_that_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """After apply, as other libraries of kernels do."""
    model, plain = model_of("llama"), model_of("llama")
    apply(model)
    monkeypatch.setattr(type(plain.model.norm), "forward", lambda self, x: x * self.weight)
    monkeypatch.setattr(type(plain.model.layers[0].mlp), "forward", lambda self, x: x / 2)
    monkeypatch.setattr(
        type(plain.model.layers[0].self_attn), "forward", lambda self, hidden_states, **_: (hidden_states / 2, None)
    )
    torch.testing.assert_close(step(model), step(plain), rtol=1e-4, atol=1e-6)


def test_hooks_of_all_modules_are_called() -> None:
    def halve(module: torch.nn.Module, _: Any, out: Any) -> Any:
        return out / 2 if isinstance(out, torch.Tensor) and not list(module.children()) else None

    model, plain = model_of("llama"), model_of("llama")
    apply(model)
    handle = torch.nn.modules.module.register_module_forward_hook(halve)
    try:
        torch.testing.assert_close(step(model), step(plain), rtol=1e-4, atol=1e-6)
    finally:
        handle.remove()


def test_a_loss_that_is_set_after_apply_is_the_loss_and_stays() -> None:
    model = model_of("llama")
    apply(model)

    def squared(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **_: Any) -> torch.Tensor:
        return logits.square().mean()

    model.loss_function = squared
    out = model(**batch())
    torch.testing.assert_close(out.loss, out.logits.square().mean())
    unapply(model)
    assert model.loss_function is squared


def test_a_class_made_out_of_a_patched_one_is_unapplied_first() -> None:
    """As fully_shard makes them; the kernels run until then."""
    model = model_of("llama")
    apply(model)
    norm = model.model.norm
    given = type(norm)
    norm.__class__ = type("Sharded", (given,), {})
    with pytest.raises(CallError, match=r"of model\.norm"):
        unapply(model)
    norm.__class__ = given
    unapply(model)
    assert not patched(model)


def test_shallow_copies_compute_with_what_they_hold() -> None:
    """Also those that DataParallel makes."""
    model = model_of("llama")
    apply(model)
    norm, x = model.model.norm, torch.randn(2, SIZES["hidden_size"])
    for other in (copy.copy(norm), norm._replicate_for_data_parallel()):
        other._parameters = {"weight": torch.nn.Parameter(torch.zeros(SIZES["hidden_size"]))}
        assert not other(x).any() and norm(x).any()
    other = copy.copy(model)
    unapply(other)
    assert not patched(other) and not patched(model.model)


@pytest.mark.parametrize("strict", [False, True])
def test_a_patched_model_is_exported(strict: bool) -> None:
    model, ids = model_of("llama").eval(), batch()["input_ids"]
    apply(model)
    program = torch.export.export(model, (ids,), kwargs={"use_cache": False}, strict=strict).module()
    torch.testing.assert_close(program(ids, use_cache=False).logits, model(ids).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("part", ["model.norm", "model.layers.0.mlp"])
def test_a_patched_part_is_exported(part: str) -> None:
    model, x = model_of("llama").eval(), torch.randn(2, 3, SIZES["hidden_size"])
    apply(model)
    layer = model.get_submodule(part)
    torch.testing.assert_close(torch.export.export(layer, (x,), strict=False).module()(x), layer(x))


def test_a_pickle_brings_its_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a process in which nobody called apply, and the library's registry does not know it."""
    model, ids = model_of("llama", head_dim=16).eval(), batch()["input_ids"]
    apply(model, attention=True)
    wanted = model(ids).logits
    for registry in (transformers.AttentionInterface, transformers.AttentionMaskInterface):
        monkeypatch.delitem(registry._global_mapping, "tileflow")
    torch.testing.assert_close(pickled(model)(ids).logits, wanted)


def test_attention_is_not_that_of_a_model_with_the_same_config() -> None:
    config = transformers.LlamaConfig(**SIZES)
    model, other = transformers.LlamaForCausalLM(config), transformers.LlamaForCausalLM(config)
    apply(model, attention=True)
    assert {m.config._attn_implementation for m in model.modules() if hasattr(m, "config")} == {"tileflow"}
    assert config._attn_implementation == other.config._attn_implementation == "sdpa"
    model.config.use_cache = False
    unapply(model)
    assert model.config._attn_implementation == "sdpa" and not model.config.use_cache


def test_a_residual_keeps_its_dtype_under_autocast() -> None:
    """The stream between layers is as wide as the wider of both summands."""
    model = model_of("llama")
    dtypes: list[torch.dtype] = []
    model.model.layers[0].register_forward_hook(lambda _, __, out: dtypes.append(out.dtype))
    apply(model)
    with torch.autocast("cpu", torch.bfloat16):
        model(input_ids=batch()["input_ids"])
    assert dtypes == [torch.float32]


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_epsilon_is_the_module_s(eps: float) -> None:
    model = model_of("llama", rms_norm_eps=0.0)
    apply(model)
    model.model.norm.variance_epsilon = eps
    found = logits_of(model)
    unapply(model)
    torch.testing.assert_close(found, logits_of(model), rtol=1e-4, atol=1e-5)


def test_a_wrapper_has_the_losses_of_what_it_wraps() -> None:
    """As adapters wrap a model; and whatever is patched inside is seen."""
    model = model_of("llama")
    wrapper = torch.nn.ModuleDict({"base": model})
    wanted = step(model)
    assert set(apply(wrapper).replaced) == ALL_PARTS
    torch.testing.assert_close(step(model), wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(CallError, match="patched once"):
        apply(torch.nn.ModuleList([wrapper]))
    unapply(wrapper)
    assert not patched(model)


def test_what_fails_half_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("llama")
    monkeypatch.setattr(module, "_replace_loss", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        apply(model)
    assert not patched(model)


def test_attention_that_torch_s_cannot_share_stays() -> None:
    """Gemma 2's softcap is none of sdpa's, which takes the calls with a mask."""
    model = model_of("gemma2", attn_implementation="eager")
    wanted = logits_of(model)
    report = apply(model, attention=True)
    assert "'eager'" in next(s.why for s in report.skipped if s.part == "attention")
    torch.testing.assert_close(logits_of(model), wanted, rtol=1e-4, atol=1e-5)


def kept_by(layer: Any) -> int:
    """How many tensors as wide as the layer's inner ones its forward pass keeps for its backward pass."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape[-1]) or x, lambda x: x):
        layer(torch.randn(3, SIZES["hidden_size"], requires_grad=True))
    return sum(width == SIZES["intermediate_size"] for width in kept)


def test_a_gated_layer_keeps_a_tensor_less() -> None:
    """But for layers whose products something else takes part in: hooks, adapters, biases, autocast."""
    model = model_of("llama")
    apply(model)
    layer = model.model.layers[0].mlp
    weights = 1  # the last one's rows are as wide
    assert kept_by(layer) == 2 + weights
    with torch.autocast("cpu", torch.bfloat16):
        assert kept_by(layer) > 2 + weights
    seen: list[torch.Tensor] = []
    handle = layer.up_proj.register_forward_hook(lambda _, __, out: seen.append(out))
    layer(torch.randn(3, SIZES["hidden_size"]))
    assert len(seen) == 1
    handle.remove()
    layer.down_proj.bias = torch.nn.Parameter(torch.ones(SIZES["hidden_size"]))
    x = torch.randn(3, SIZES["hidden_size"])
    wanted = layer.down_proj(torch.nn.functional.silu(layer.gate_proj(x)) * layer.up_proj(x))
    torch.testing.assert_close(layer(x), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_gated_layer_in_inference_is_a_kernel_with_its_first_products(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that wins; else its products are torch's."""
    model, called = model_of(family), []
    apply(model)
    layer, kernel = model.model.layers[0].mlp, linear.gated.gated_linear
    monkeypatch.setattr(linear.gated, "gated_linear", lambda *args: called.append(args[-1]) or kernel(*args))
    x = torch.randn(2, 3, SIZES["hidden_size"])
    wanted = layer(x)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), wanted, rtol=1e-4, atol=1e-6)
        assert not called
        monkeypatch.setattr(linear, "is_fused", lambda *_: True)
        torch.testing.assert_close(layer(x), wanted, rtol=1e-4, atol=1e-6)
    assert called == ["silu" if family == "llama" else "gelu"]


def test_a_batch_without_labels_that_count() -> None:
    """Has the loss of transformers' own: 0 / 0; and logits that are fewer than the labels are refused."""
    model = model_of("llama")
    apply(model)
    inputs = batch()
    ignored = {**inputs, "labels": torch.full_like(inputs["labels"], -100)}
    assert model(**ignored).loss.isnan()
    with pytest.raises(CallError, match="a label for each row"):
        model(**inputs, logits_to_keep=4)


def test_a_training_step_is_one_graph() -> None:
    """Checks of the kernels' arguments leave no break in it."""
    model = model_of("llama")
    ids = batch()["input_ids"]
    wanted = model(input_ids=ids, labels=ids).loss.detach()
    apply(model)
    loss = torch.compile(model, fullgraph=True, backend="aot_eager")(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.testing.assert_close(loss.detach(), wanted, rtol=1e-4, atol=1e-6)
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("given", [None, "meta-llama/Llama-3", {}])
def test_what_is_no_model_is_refused_in_words(given: Any) -> None:
    for change in (apply, unapply):
        with pytest.raises(CallError, match="a model is a module that is loaded"):
            change(given)


def test_a_model_of_pictures_turns_its_patches_as_the_library_does() -> None:
    """Its angles have no batch, and its call was refused in the middle of the model."""
    config = transformers.PixtralVisionConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, image_size=32, patch_size=8
    )
    model = transformers.PixtralVisionModel(config).eval()
    pictures, sizes = torch.randn(1, 3, 32, 32), torch.tensor([[32, 32]])
    wanted = model(pictures, image_sizes=sizes).last_hidden_state
    assert apply(model).replaced["rotary"] == 1
    torch.testing.assert_close(model(pictures, image_sizes=sizes).last_hidden_state, wanted)


@pytest.mark.parametrize(
    ("heads", "angles", "unsqueeze_dim"),
    [
        ((2, 4, 3, 8), (2, 3, 8), 1),
        ((2, 3, 4, 8), (2, 3, 8), 2),
        ((2, 3, 4, 8), (1, 3, 8), 2),
        ((2, 3, 4, 8), (2, 3, 8), -2),
        ((2, 4, 3, 8), (2, 3, 8), -3),
        ((2, 4, 3, 8), (1, 1, 8), 1),
        ((2, 4, 3, 8), (3, 8), 0),
        ((4, 3, 8), (3, 8), 0),
        ((1, 4, 3, 8), (4, 3, 8), 0),
    ],
)
def test_queries_are_turned_as_the_library_turns_them(
    heads: tuple[int, ...], angles: tuple[int, ...], unsqueeze_dim: int
) -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = torch.randn(heads), torch.randn(heads)
    half = torch.randn(*angles[:-1], angles[-1] // 2)
    cos = torch.cat((half, half), dim=-1)
    args = q, k, cos, cos * 0.5
    wanted = apply_rotary_pos_emb(*args, unsqueeze_dim=unsqueeze_dim)
    torch.testing.assert_close(rotary.turned(*args, unsqueeze_dim), wanted)


WHOLE_AS_GIVEN = ("olmo2", "esm", "ernie4_5", "cohere")  # those that turn all of a head's elements, in their dtype


def angles_of(family: str, half: torch.Tensor) -> torch.Tensor:
    """One for each pair, as a family's embedding of positions has them."""
    if family == "gpt_oss":
        return half
    return half.repeat_interleave(2, dim=-1) if family == "cohere" else torch.cat((half, half), dim=-1)


@pytest.mark.parametrize("family", [name for name in rotary.TURNED if name != "llama"])
@pytest.mark.parametrize(("width", "dtype"), [(8, torch.float32), (4, torch.float32), (4, torch.bfloat16)])
def test_each_family_s_queries_are_turned_as_the_family_turns_them(family: str, width: int, dtype: torch.dtype) -> None:
    """The first of a head's elements, or all of them in the dtype that they have."""
    size = width if family in (*WHOLE_AS_GIVEN, "gpt_oss", "helium", "deepseek_v3") else 8
    q, k = torch.randn(2, 4, 3, size).to(dtype), torch.randn(2, 2, 3, size).to(dtype)
    half = torch.randn(2, 3, width // 2)
    cos = angles_of(family, half).to(torch.float32 if family in WHOLE_AS_GIVEN else dtype)
    sin = (cos * 0.5).to(cos.dtype)
    as_floats = rotary_of(family)(*(x.float() for x in (q, k, cos, sin)))
    wanted = tuple(x.to(dtype) for x in as_floats)
    found = rotary.TURNED[family](q, k, cos, sin)
    torch.testing.assert_close(found, wanted)
    apart = cos[:, :1], sin[:, :1]  # one token's for all, which the kernel does not take
    torch.testing.assert_close(rotary.TURNED[family](q, k, *apart), rotary_of(family)(q, k, *apart))


def test_angles_that_are_not_those_of_a_family_are_the_library_s() -> None:
    """One angle a token broadcasts over all pairs of a head."""
    q, k, cos = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 3, 8), torch.randn(2, 3, 1)
    for family in ("llama", "gpt_oss"):
        wanted = rotary_of(family)(q, k, cos, cos)
        torch.testing.assert_close(rotary.TURNED[family](q, k, cos, cos), wanted)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_the_loss_of_routers_is_added(family: str, asked: bool) -> None:
    """By the config or by the call; tokens of padding count for nothing in it."""
    model = model_of(family, router_aux_loss_coef=0.5, output_router_logits=not asked)
    options = {"output_router_logits": True} if asked else {}
    plain = model(**batch(), **options)
    wanted = step(model, **options)
    without = model(**batch(), output_router_logits=False).loss
    assert apply(model).replaced["fused_loss"] == 1
    found = model(**batch(), **options)
    torch.testing.assert_close(step(model, **options), wanted, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.aux_loss, plain.aux_loss, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(model(**batch(), output_router_logits=False).loss, without, rtol=1e-4, atol=1e-6)
    assert found.logits is None and len(found.router_logits) == len(plain.router_logits)
    assert not torch.allclose(found.loss, without)


def test_a_part_is_called_as_its_own_class_is() -> None:
    """By position, and by the names that each family has for its arguments."""
    model, x, at = model_of("gemma"), torch.randn(1, 3, SIZES["hidden_size"]), torch.arange(3)[None]
    layer, norm, mlp = model.model.layers[0], model.model.norm, model.model.layers[0].mlp
    angles = model.model.rotary_emb(x, at)

    def called() -> tuple[torch.Tensor, ...]:
        by_position = layer(x, None, at, None, False, angles)
        by_name = layer(hidden_states=x, position_embeddings=angles)
        return by_position, by_name, norm(x=x), mlp(x=x)

    wanted = called()
    apply(model)
    torch.testing.assert_close(called(), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="argument: 'x'"):
        norm(hidden_states=x)


FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("weight", FLOATS)
@pytest.mark.parametrize("given", FLOATS)
@pytest.mark.parametrize("kind", ["t5.T5LayerNorm", "cohere.CohereLayerNorm", "moshi.MoshiRMSNorm"])
def test_a_norm_s_dtype_and_gradients_are_the_library_s(kind: str, given: torch.dtype, weight: torch.dtype) -> None:
    family, name = kind.split(".")
    norm = getattr(modeling(family), name)(16)
    torch.nn.init.normal_(norm.weight)
    whole = torch.nn.Sequential(norm).to(weight)
    x, grad = 3 + torch.randn(5, 16), torch.randn(5, 16)

    def computed() -> tuple[torch.Tensor, ...]:
        leaf = x.to(given).requires_grad_()
        out = whole(leaf)
        return out.detach(), *torch.autograd.grad(out, (leaf, norm.weight), grad.to(out.dtype))

    wanted = computed()
    assert apply(whole).replaced == {"norm": 1}
    close = {"rtol": 1e-4, "atol": 1e-4} if given == weight == torch.float32 else {"rtol": 3e-2, "atol": 3e-2}
    torch.testing.assert_close(computed(), wanted, **close)


def test_a_norm_of_heads_stays_the_library_s() -> None:
    """Cohere's of queries has a row of weights for each head."""
    model = model_of("cohere", use_qk_norm=True)
    wanted = step(model)
    apply(model)
    torch.testing.assert_close(step(model), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("gated", ["relu", "gated-gelu"])
def test_t5_has_its_norms_replaced(gated: str) -> None:
    config = transformers.T5Config(
        vocab_size=53, d_model=24, d_kv=6, d_ff=40, num_layers=2, num_heads=4, dropout_rate=0.0,
        feed_forward_proj=gated, decoder_start_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config)
    wanted = step(model)
    assert apply(model).replaced == {"norm": 12}
    torch.testing.assert_close(step(model), wanted, rtol=1e-4, atol=1e-6)


def layer_norm() -> torch.nn.Module:
    norm = torch.nn.LayerNorm(8)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    return torch.nn.Sequential(norm)


def test_layer_norms_are_replaced_where_they_are_asked_for() -> None:
    """Torch has a kernel for them, and a call of it costs less."""
    model = model_of("gpt2")
    report = apply(model)
    assert set(report.replaced) == {"loss"}
    assert "layer_norm=True" in next(s.why for s in report.skipped if s.part == "norm")
    unapply(model)
    assert apply(model, layer_norm=True).replaced["norm"] == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_norm_has_torch_s_dtype_under_autocast(dtype: torch.dtype) -> None:
    whole = layer_norm()
    x = torch.randn(3, 8).to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        wanted = whole(x)
        assert apply(whole, layer_norm=True).replaced == {"norm": 1}
        torch.testing.assert_close(whole(x), wanted)


def test_a_layer_norm_of_a_gpu_has_float32_under_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norms, "autocast_dtype", lambda device: torch.bfloat16)
    norm = torch.nn.LayerNorm(8)
    for device, wanted in (("cuda", torch.float32), ("cpu", torch.bfloat16)):
        assert norms._result_dtype(norm, NORMS[-1], torch.device(device), torch.bfloat16) == wanted


@pytest.mark.parametrize(
    ("norm", "x"),
    [
        (torch.nn.LayerNorm(8, elementwise_affine=False), torch.randn(3, 8)),
        (torch.nn.LayerNorm((2, 4)), torch.randn(3, 2, 4)),
        (torch.nn.LayerNorm(8), torch.randn(3, 8).bfloat16()),
        (torch.nn.LayerNorm(8).double(), torch.randn(3, 8).double()),
    ],
)
def test_a_layer_norm_that_no_kernel_is_for_stays_torch_s(norm: torch.nn.LayerNorm, x: torch.Tensor) -> None:
    whole = torch.nn.Sequential(norm)
    wanted = whole(x)
    apply(whole, layer_norm=True)
    assert torch.equal(whole(x), wanted)


def test_a_layer_norm_without_a_bias_is_replaced() -> None:
    whole, x = torch.nn.Sequential(torch.nn.LayerNorm(8, bias=False)), torch.randn(3, 8)
    torch.nn.init.normal_(whole[0].weight)
    wanted = torch.autograd.grad(whole(x).square().sum(), whole[0].weight)
    assert apply(whole, layer_norm=True).replaced == {"norm": 1}
    torch.testing.assert_close(torch.autograd.grad(whole(x).square().sum(), whole[0].weight), wanted)


def test_a_layer_s_sum_and_layer_norm_keep_their_dtypes_under_autocast() -> None:
    model = model_of("starcoder2")
    dtypes: list[torch.dtype] = []
    model.model.layers[0].register_forward_hook(lambda _, __, out: dtypes.append(out.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        wanted = model(**batch()).loss
        apply(model, fused_loss=False, layer_norm=True)
        found = model(**batch()).loss
    assert dtypes == [torch.float32, torch.float32]
    torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-2)


def test_a_norm_without_a_weight_stays_the_library_s() -> None:
    from transformers.models.gemma4.modeling_gemma4 import Gemma4RMSNorm

    whole, x = torch.nn.Sequential(Gemma4RMSNorm(8), Gemma4RMSNorm(8, with_scale=False)), torch.randn(3, 8)
    wanted = whole(x)
    assert apply(whole, layer_norm=True).replaced == {"norm": 2}
    torch.testing.assert_close(whole(x), wanted)


def test_a_model_is_told_by_the_loss_that_it_asks_for() -> None:
    """Not by its class's name, which said of GPT-2 that it is no causal language model."""
    config = transformers.LlamaConfig(**SIZES)
    skipped = apply(transformers.LlamaForSequenceClassification(config)).skipped
    assert "it is ForSequenceClassificationLoss" in {s.why for s in skipped if s.part == "loss"}
    skipped = apply(transformers.LlamaModel(config)).skipped
    assert "LlamaModel.forward asks for none" in {s.why for s in skipped if s.part == "loss"}


def test_logits_of_half_precision_that_are_a_slice_have_a_loss() -> None:
    """As models of pictures cut them; the library's cast to float32 made them contiguous."""
    from transformers.loss.loss_utils import ForCausalLMLoss

    logits = torch.randn(2, 5, 64).bfloat16()[:, 1:, :53]
    labels = torch.randint(53, (2, 4))
    wanted = ForCausalLMLoss(logits.contiguous(), labels, 53)
    torch.testing.assert_close(module._causal_loss(logits, labels, 53), wanted)


def test_a_norm_whose_weight_broadcasts_stays_the_library_s() -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm = LlamaRMSNorm((2, 8))
    torch.nn.init.normal_(norm.weight)
    whole, x = torch.nn.Sequential(norm), torch.randn(3, 2, 8)
    wanted = whole(x)
    assert apply(whole, layer_norm=True).replaced == {"norm": 1}
    torch.testing.assert_close(whole(x), wanted)
