"""A training step of a causal language model, whose last product and loss are one operation."""

from __future__ import annotations

import operator
from typing import Any

import torch

from ..kernels import linear_cross_entropy
from .forms import Head, modeling

_OF_LOSS = ("num_items_in_batch", "ignore_index", "shift_labels")
_ROUTES = "output_router_logits"


def shifted(labels: torch.Tensor, ignore_index: int) -> torch.Tensor:
    """The label of each token: the next one."""
    return torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]


def train_step(model: Any, form: Head, labels: torch.Tensor, inputs: dict[str, Any]) -> Any:
    """The model's output with a loss and without logits."""
    from transformers.modeling_outputs import CausalLMOutputWithPast, MoeCausalLMOutputWithPast

    if form.balances and inputs.get(_ROUTES) is None:
        inputs = {**inputs, _ROUTES: model.config.output_router_logits}
    outputs = model.model(**inputs)
    loss = _loss(model, form, outputs.last_hidden_state, labels, inputs)
    found = {name: getattr(outputs, name) for name in ("past_key_values", "hidden_states", "attentions")}
    if not form.routes:
        return CausalLMOutputWithPast(loss=loss, **found)
    found["router_logits"] = outputs.router_logits
    if form.balances and inputs[_ROUTES]:
        found["aux_loss"] = _aux_loss(model, outputs.router_logits, inputs.get("attention_mask"))
        loss = loss + model.router_aux_loss_coef * found["aux_loss"].to(loss.device)
    return MoeCausalLMOutputWithPast(loss=loss, **found)


def _loss(model: Any, form: Head, hidden: torch.Tensor, labels: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
    options = {name: inputs[name] for name in _OF_LOSS if inputs.get(name) is not None}
    given = options.pop("shift_labels", None)
    wanted = shifted(labels, options.get("ignore_index", -100)) if given is None else given
    cap = model.config.final_logit_softcapping if form.caps else None
    if form.scale:  # logits are linear in what they are made of
        scale = operator.attrgetter(form.scale)(model)
        hidden = hidden / scale if form.divides else hidden * scale
    weight, bias = model.lm_head.weight, model.lm_head.bias
    return linear_cross_entropy(hidden, weight, wanted.to(hidden.device), bias=bias, softcap=cap, **options)


def _aux_loss(model: Any, routers: Any, mask: torch.Tensor | None) -> torch.Tensor:
    """The loss by which a mixture's experts are used alike."""
    balancing = modeling("mixtral").load_balancing_loss_func
    found: torch.Tensor = balancing(routers, model.num_experts, model.num_experts_per_tok, mask)
    return found
