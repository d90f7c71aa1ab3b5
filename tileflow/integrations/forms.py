"""The classes of the transformers library, and of torch's, that the kernels stand for. A class of any family may have
that code."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

import torch

from .same_code import same_function, same_method

ROTARY = "apply_rotary_pos_emb"
TORCH = "torch"  # in place of a family


@dataclass(frozen=True, slots=True)
class Norm:
    """An RMS norm, or one that ``centres`` and adds a bias. ``offset``: what is added to its weight. ``promotes``:
    whether its result has the promoted dtype of input and weight."""

    family: str
    kind: str
    offset: float = 0.0
    promotes: bool = True
    centres: bool = False


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
NORMS = (
    Norm("llama", "LlamaRMSNorm"),
    Norm("gemma", "GemmaRMSNorm", offset=1.0, promotes=False),
    Norm("olmo2", "Olmo2RMSNorm", promotes=False),
    Norm("helium", "HeliumRMSNorm", promotes=False),
    Norm("gemma4", "Gemma4RMSNorm", promotes=False),
    Norm(TORCH, "LayerNorm", promotes=False, centres=True),
)
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


def family_of_rotary(forward: Any, families: Iterable[str]) -> str | None:
    """Of which of the families the function is by which an attention's own forward turns queries and keys, and which it
    reads by its name; None where it is another."""
    if not isinstance(forward, FunctionType) or ROTARY not in forward.__code__.co_names or forward.__closure__:
        return None
    function = forward.__globals__.get(ROTARY)
    if not callable(function):
        return None
    return next((family for family in families if _turns_as(function, family)), None)


def rotary_of(family: str) -> Any:
    """The library's function that turns queries and keys of a family."""
    return getattr(_modeling(family), ROTARY)


def _turns_as(function: Any, family: str) -> bool:
    known = _known(Form(family, ROTARY))
    return known is not None and same_function(function, known)


def asks_for_its_loss(kind: type) -> bool:
    """Whether the forward of a class computes its loss by the function that the library's models have for it."""
    forward = inspect.unwrap(getattr(kind, "forward", None))  # type: ignore[arg-type]
    return isinstance(forward, FunctionType) and "loss_function" in forward.__code__.co_names


@cache
def _known(form: Norm | Head | Form) -> Any:
    """The library's class or function; None in a version that does not have it yet."""
    try:
        found = getattr(torch.nn if form.family == TORCH else _modeling(form.family), form.kind, None)
    except ModuleNotFoundError:
        return None
    return found


def _modeling(family: str) -> Any:
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}")
