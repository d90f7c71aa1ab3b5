"""The classes of the transformers library that the kernels stand for. A class of any family may have that code."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

from .same_code import same_function, same_method

ROTARY = "apply_rotary_pos_emb"


@dataclass(frozen=True, slots=True)
class Norm:
    """An RMS norm. ``offset``: what is added to its weight. ``promotes``: whether its result has the promoted dtype of
    input and weight."""

    family: str
    kind: str
    offset: float = 0.0
    promotes: bool = True


@dataclass(frozen=True, slots=True)
class Head:
    """A causal language model. ``caps``: whether its logits have the softcap of its config."""

    family: str
    kind: str
    caps: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """Any other class."""

    family: str
    kind: str


F = TypeVar("F", Norm, Head, Form)
NORMS = (Norm("llama", "LlamaRMSNorm"), Norm("gemma", "GemmaRMSNorm", offset=1.0, promotes=False))
HEADS = (
    Head("llama", "LlamaForCausalLM"),
    Head("gemma2", "Gemma2ForCausalLM", caps=True),
    Head("gemma3", "Gemma3ForCausalLM", caps=True),
)
LAYERS = (Form("llama", "LlamaDecoderLayer"),)
MLPS = (Form("llama", "LlamaMLP"),)
ATTENTIONS = tuple(
    Form(family, f"{prefix}Attention")
    for family, prefix in (
        ("llama", "Llama"), ("mistral", "Mistral"), ("qwen2", "Qwen2"), ("qwen3", "Qwen3"), ("gemma", "Gemma"),
        ("gemma2", "Gemma2"), ("gemma3", "Gemma3"),
    )
)  # fmt: skip


def form_of(kind: type, forms: tuple[F, ...]) -> F | None:
    """The form whose ``forward`` is that of a class; None where it is another."""
    for form in forms:
        known = _known(form)
        if known is not None and same_method(kind, known, "forward"):
            return form
    return None


def turns_as_llama(forward: Any) -> bool:
    """Whether an attention's own forward calls, by its name, a function that turns queries and keys as Llama's does."""
    if not isinstance(forward, FunctionType) or ROTARY not in forward.__code__.co_names or forward.__closure__:
        return False
    function = forward.__globals__.get(ROTARY)
    return same_function(function, getattr(_modeling("llama"), ROTARY)) if callable(function) else False


@cache
def _known(form: Norm | Head | Form) -> type | None:
    """The library's class; None in a version that does not have it yet."""
    try:
        found: type | None = getattr(_modeling(form.family), form.kind, None)
    except ModuleNotFoundError:
        return None
    return found


def _modeling(family: str) -> Any:
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}")
