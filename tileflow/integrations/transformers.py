"""A model of the transformers library with tileflow's kernels: ``apply(model)``, and ``unapply(model)``.

What changes is the classes of the one model's modules, never the library's own: two models in a process may differ.
Parameters and their names stay, so checkpoints load and save as before. ``torch.compile`` the model after applying.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ..errors import CallError
from ..kernels import attention as scaled_dot_attention
from ..kernels import cross_entropy, gated_mlp, geglu, swiglu
from ..runtime.ambient import autocast_dtype
from .forms import ATTENTIONS, HEADS, LAYERS, MLPS, NORMS, F, Head, asks_for_its_loss, families_of_rotary, form_of
from .forwards import (
    are_local,
    inherits_patch,
    is_plain,
    is_product,
    only_argument,
    original,
    own_class,
    patch_of,
    put_back,
    with_forward,
    with_rotary,
)
from .heads import shifted, train_step
from .norms import form_of_norm, normed, sum_and_normed
from .rotary import TURNED

__all__ = ["Report", "Skipped", "apply", "unapply"]

_STATE = "_tileflow_replaced"  # an attribute of the model: what to put back
_LOSS = "_loss_function"  # what the setter of model.loss_function sets
_WHERE = "tileflow.integrations.transformers"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of the model that stayed as it was, and why."""

    part: str
    why: str


@dataclass(slots=True)
class Report:
    """What ``apply`` did. ``replaced``: how many modules of each part; ``skipped``: what stayed."""

    replaced: dict[str, int] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{part}: {count} replaced" for part, count in self.replaced.items()]
        return "\n".join(lines + [f"{s.part}: stays, {s.why}" for s in self.skipped])


def apply(
    model: torch.nn.Module,
    *,
    norm: bool = True,
    layer_norm: bool = False,
    residual: bool = True,
    activation: bool = True,
    rotary: bool = True,
    loss: bool = True,
    fused_loss: bool = True,
    attention: bool = False,
) -> Report:
    """Let a loaded model run on tileflow's kernels, as far as its modules have the code that they stand for.

    That is most of Llama, Qwen2, Qwen3, Mistral and Gemma (1, 2, 3), and what other families share of their code; the
    report says what stays, and why.

    ``norm``: RMS norms. ``layer_norm``: torch's layer norms too, each of which is one kernel of torch's already: eager
    models that wait for the host are slower by it. ``residual``: a layer's first addition together with the norm after
    it. ``activation``: what an MLP does between its products; together with them where
    they are plain (``kernels.gated_mlp``), so that a wide tensor less is kept in training, or written in inference.
    ``rotary``: the embedding of positions, of all of a head's elements or the first. ``loss``: the library's causal
    loss; ``fused_loss``: in training together with the last product, so that the output has a loss and no logits.
    ``attention``: through the library's registry; calls with a mask stay torch's.

    Raises CallError for a model that has no such module, and for one that it was applied to already.
    """
    _require_module(model)
    if patched := [name for name, module in model.named_modules() if _STATE in module.__dict__]:
        part = f"its part {patched[0]}" if patched[0] else "it"
        raise CallError(
            "a model is patched once",
            got=f"apply to {type(model).__name__}, but {part} is patched",
            where=_WHERE,
            hint="unapply what is patched first",
        )
    patch = _Patch(model)
    try:
        for is_wanted, part, change in (
            (norm, "norm", partial(_replace_norms, layer_norms=layer_norm)),
            (residual and norm, "residual", _replace_residuals),
            (activation, "activation", _replace_activations),
            (rotary, "rotary", _replace_rotary),
            (loss, "loss", _replace_loss),
            (loss and fused_loss, "fused_loss", _fuse_loss),
            (attention, "attention", _replace_attention),
        ):
            if is_wanted:
                change(patch)
            else:
                patch.skip(part, "it was not asked for")
        if not patch.report.replaced:
            raise CallError(
                "a model has modules whose code is known",
                got=type(model).__name__,
                where=_WHERE,
                hint=f"{patch.report}\ntileflow.kernels has the parts",
            )
    except BaseException:
        patch.undo()
        raise
    setattr(model, _STATE, patch)
    return patch.report


def unapply(model: torch.nn.Module) -> None:
    """Put back what :func:`apply` changed, but for what was replaced since. Raises CallError where there is nothing to
    put back, and where the class of a module was made out of the one that it has of ``apply``."""
    _require_module(model)
    patch = model.__dict__.get(_STATE)
    if patch is None:
        raise CallError(
            "there is something to put back",
            got="a model that apply was not called with",
            where=_WHERE,
        )
    if derived := [name for name, module in model.named_modules() if inherits_patch(module)]:
        raise CallError(
            "modules have the classes that apply gave them, or others of their own",
            got=f"a class that was made out of one of these, of {derived[0] or 'the model'}",
            where=_WHERE,
            hint="unapply before fully_shard, or what else changed the class",
        )
    patch.undo()
    put_back(model)  # a shallow copy of the one that apply was called with
    delattr(model, _STATE)


def _require_module(model: object) -> None:
    if not isinstance(model, torch.nn.Module):
        raise CallError(
            "a model is a module that is loaded",
            got=f"{type(model).__name__} {model!r}"[:100],
            where=_WHERE,
            hint="model = AutoModelForCausalLM.from_pretrained(...), then apply(model)",
        )


class _Patch:
    """The changes of one model: a copy of the model has a copy of this."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.report = model, Report()
        self._changed: list[torch.nn.Module] = []  # the modules that have another class
        self._losses: list[tuple[Any, dict[str, Any]]] = []  # models, and the loss function that was set, if any
        self.attention: tuple[Any, str] | None = None  # a model of the library's, and the implementation that it had

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.attention is not None:  # a process that did not call apply
            _register_attention()

    def modules(self, forms: tuple[F, ...]) -> list[tuple[torch.nn.Module, F]]:
        """The model's modules that have the code of one of the forms, with that form."""
        pairs = ((m, form_of(type(m), forms)) for m in self.plain_modules())
        return [(m, form) for m, form in pairs if form is not None]

    def plain_modules(self) -> Iterator[torch.nn.Module]:
        """The modules whose forward is their class's: not those that another library has hooked."""
        return (m for m in self.model.modules() if "forward" not in m.__dict__ and patch_of(m) is None)

    @property
    def language_models(self) -> list[Any]:
        """The models that compute a loss: the model, or what it wraps."""
        return [module for module in self.model.modules() if asks_for_its_loss(type(module))]

    def set_class(self, module: torch.nn.Module, kind: type) -> None:
        self._changed.append(module)
        module.__class__ = kind

    def forward(self, module: torch.nn.Module, function: Callable[..., Any], *settings: Any) -> None:
        kind: Any = type(module)
        self.set_class(module, with_forward(kind, function, *settings))

    def set_loss(self, model: Any, function: Callable[..., Any]) -> None:
        own = model.__dict__
        self._losses.append((model, {_LOSS: own[_LOSS]} if _LOSS in own else {}))
        own[_LOSS] = function

    def count(self, part: str, number: int) -> None:
        if number:
            self.report.replaced[part] = number
        else:
            self.skip(part, "the model has none whose code is known")

    def skip(self, part: str, why: str) -> None:
        self.report.skipped.append(Skipped(part, why))

    def undo(self) -> None:
        if self.attention is not None:
            owner, implementation = self.attention
            owner.set_attn_implementation(implementation)
        for module in self._changed:
            put_back(module)
        for model, before in self._losses:
            if model.__dict__.get(_LOSS) is _causal_loss:
                del model.__dict__[_LOSS]
                model.__dict__.update(before)


def _replace_norms(patch: _Patch, layer_norms: bool) -> None:
    norms = patch.modules(NORMS)
    asked = [(module, form) for module, form in norms if layer_norms or not form.is_torch_s]
    for module, form in asked:
        patch.forward(module, normed, form)
    if norms and not asked:
        return patch.skip("norm", "its layer norms are kernels of torch's, and layer_norm=True was not asked for")
    return patch.count("norm", len(asked))


def _replace_residuals(patch: _Patch) -> None:
    """Replace the residual additions of layers that add, normalise the sum, and go on with both."""
    layers: list[Any] = [layer for layer, _ in patch.modules(LAYERS)]
    layers = [layer for layer in layers if form_of_norm(layer.post_attention_layernorm) is not None]
    for layer in layers:
        patch.forward(layer, _layer)
    patch.count("residual", len(layers))


def _layer(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    bound = original(self).signature.bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    hidden_states, extra = given.pop("hidden_states"), given.pop("kwargs")
    attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **given, **extra)
    summed, normed = sum_and_normed(self.post_attention_layernorm, attended, hidden_states)
    out: torch.Tensor = summed + self.mlp(normed)
    return out


_TANH = ("gelu_pytorch_tanh", "gelu_new", "gelu_fast")  # one formula, three times written


def _replace_activations(patch: _Patch) -> None:
    from transformers.activations import ACT2FN

    functions = {type(ACT2FN["silu"]): swiglu, **{type(ACT2FN[name]): geglu for name in _TANH}}
    layers: list[Any] = [module for module, _ in patch.modules(MLPS)]
    kinds = {type(module.act_fn) for module in layers}
    if others := sorted(kind.__name__ for kind in kinds - functions.keys()):
        return patch.skip("activation", f"no kernel is for {', '.join(others)}")
    for module in layers:
        patch.forward(module, _mlp, type(module.act_fn), functions[type(module.act_fn)])
    return patch.count("activation", len(layers))


def _mlp(self: Any, activation: Any, gated: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    x: torch.Tensor = only_argument(self, args, kwargs)
    products = self.gate_proj, self.up_proj, self.down_proj
    is_gated = type(self.act_fn) is activation and is_plain(self.act_fn)
    if is_gated and autocast_dtype(x.device) is None and all(map(is_product, products)):
        weights = [product.weight for product in products]
        if all(weight.dtype == x.dtype for weight in weights):
            return gated_mlp(x, *weights, activation="silu" if gated is swiglu else "gelu")
    gate, up = self.gate_proj(x), self.up_proj(x)
    inner = gated(gate, up) if is_gated and are_local(gate, up) else self.act_fn(gate) * up
    out: torch.Tensor = self.down_proj(inner)
    return out


def _replace_rotary(patch: _Patch) -> None:
    families = ((module, families_of_rotary(type(module).forward, TURNED)) for module in patch.plain_modules())
    layers = [(module, found) for module, found in families if found]
    for module, found in layers:
        kind: Any = type(module)
        patch.set_class(module, with_rotary(kind, *((name, TURNED[family]) for name, family in found.items())))
    patch.count("rotary", len(layers))


def _causal_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    vocab_size: int,
    num_items_in_batch: torch.Tensor | float | None = None,
    ignore_index: int = -100,
    shift_labels: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    """The loss that transformers' ForCausalLMLoss computes."""
    if not are_local(logits):  # as of loss_parallel, which is torch's operations'
        return _library_s_loss(logits, labels, vocab_size, num_items_in_batch, ignore_index, shift_labels)
    wanted = shifted(labels, ignore_index) if shift_labels is None else shift_labels
    return cross_entropy(
        logits.reshape(-1, vocab_size),  # a slice of bfloat16, which the library's cast makes contiguous
        wanted.reshape(-1).to(logits.device),
        ignore_index=ignore_index,
        num_items_in_batch=num_items_in_batch,
    )


def _library_s_loss(*args: Any) -> torch.Tensor:
    from transformers.loss.loss_utils import ForCausalLMLoss

    found: torch.Tensor = ForCausalLMLoss(*args)
    return found


def _replace_loss(patch: _Patch) -> None:
    from transformers.loss.loss_utils import ForCausalLMLoss

    losses = [(model, getattr(model, "loss_function", None)) for model in patch.language_models]
    models = [model for model, loss in losses if loss is ForCausalLMLoss]
    if not models:
        found = {getattr(loss, "__name__", type(loss).__name__) for _, loss in losses}
        why = f"it is {', '.join(sorted(found))}" if found else f"{type(patch.model).__name__}.forward asks for none"
        return patch.skip("loss", why)
    for model in models:
        patch.set_loss(model, _causal_loss)
    return patch.count("loss", len(models))


def _fuse_loss(patch: _Patch) -> None:
    models = [model for model in patch.language_models if model.__dict__.get(_LOSS) is _causal_loss]
    if not models:
        patch.skip("fused_loss", "the loss stays")
    found = 0
    for model in models:
        form, head = form_of(type(model), HEADS), getattr(model, "lm_head", None)
        if "forward" in model.__dict__:
            patch.skip("fused_loss", f"another library has replaced the forward of this {type(model).__name__}")
        elif form is None:
            patch.skip("fused_loss", f"{type(model).__name__}.forward does more than it knows of")
        elif type(head) is not torch.nn.Linear:
            patch.skip("fused_loss", f"the last product is {type(head).__name__}, not torch.nn.Linear")
        else:
            patch.forward(model, _causal_model, form)
            found += 1
    if found:
        patch.count("fused_loss", found)


def _causal_model(self: Any, form: Head, *args: Any, **kwargs: Any) -> Any:
    own = original(self)
    given = own.signature.bind(*args, **kwargs).arguments
    extra = given.pop("kwargs", {})
    keep = given.pop("logits_to_keep", 0)
    labels = given.pop("labels", None)
    keeps_all = isinstance(keep, int) and keep == 0
    is_step = labels is not None and self.training and keeps_all and extra.get("return_dict") is not False
    is_ours = self.loss_function is _causal_loss and is_product(self.lm_head, may_add=True)
    if not is_step or not is_ours:
        return own.kind.forward(self, *args, **kwargs)
    return train_step(self, form, labels, {**given, **extra})


_ATTENTION = "tileflow"  # its name in the library's registry
_CHANGES = ("softcap", "position_bias", "cache")  # what changes attention itself; others are the model's bookkeeping


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What the registry asks for: (batch, heads, tokens, size) to (batch, tokens, heads, size)."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    is_whole = not causal or query.size(2) == key.size(2)
    is_served = attention_mask is None and not dropout and is_whole and are_local(query, key, value)
    if not is_served or any(options.get(name) is not None for name in _CHANGES):
        found: tuple[torch.Tensor, None] = ALL_ATTENTION_FUNCTIONS["sdpa"](
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **options
        )
        return found
    out = scaled_dot_attention(query, key, value, causal=causal, scale=scaling, backend="tileflow")
    return out.transpose(1, 2).contiguous(), None


def _replace_attention(patch: _Patch) -> None:
    layers = [module for module in patch.model.modules() if form_of(own_class(module), ATTENTIONS) is not None]
    if not layers:
        return patch.count("attention", 0)
    owner: Any = next(module for module in patch.model.modules() if hasattr(module, "set_attn_implementation"))
    implementation = owner.config._attn_implementation
    if implementation != "sdpa":  # which takes the calls that the kernel does not serve, by the same masks
        return patch.skip("attention", f"the model's is {implementation!r}, and only sdpa's calls can be shared")
    _register_attention()
    _own_config(owner)
    patch.attention = owner, implementation
    owner.set_attn_implementation(_ATTENTION)
    return patch.count("attention", len(layers))


def _register_attention() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_ATTENTION, _attend)
    AttentionMaskInterface.register(_ATTENTION, sdpa_mask)


def _own_config(owner: Any) -> None:
    """Give a model a config of its own: what it is told of attention would be told to all models that share it."""
    copies: dict[int, Any] = {}
    copy.deepcopy(owner.config, copies)
    for module in owner.modules():
        config = module.__dict__.get("config")
        if id(config) in copies:
            module.config = copies[id(config)]
