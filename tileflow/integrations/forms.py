"""The classes of the transformers library, and of torch's, that the kernels stand for. A class of any family may have
that code."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, Literal, TypeVar

import torch

from .same_code import same_function, same_method

ROTARY = "apply_rotary_pos_emb"
INTERLEAVE = f"{ROTARY}_interleave"
TORCH = "torch"  # in place of a family


@dataclass(frozen=True, slots=True)
class Norm:
    """An RMS norm, or one that ``centres`` and may add a bias. ``offset``: what is added to its weight. ``result``: the
    dtype that it has: the ``promoted`` one of input and weight, that of the ``input``, or that of the ``weight``, in
    which float32 is rounded to half precision."""

    family: str
    kind: str
    offset: float = 0.0
    result: Literal["promoted", "input", "weight"] = "promoted"
    centres: bool = False

    @property
    def is_torch_s(self) -> bool:
        """Whether the norm is one kernel of torch's already."""
        return self.family == TORCH


@dataclass(frozen=True, slots=True)
class Head:
    """A causal language model. ``caps``: whether its logits have the softcap of its config. ``scale``: where it has the
    number that its logits are multiplied by, or divided by if it ``divides``. ``routes``: whether its output holds
    its routers' logits; ``balances``: whether a loss of theirs may be added."""

    family: str
    kind: str
    caps: bool = False
    scale: str = ""
    divides: bool = False
    routes: bool = False
    balances: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """Any other class."""

    family: str
    kind: str


F = TypeVar("F", Norm, Head, Form)
NORMS = (
    Norm("llama", "LlamaRMSNorm"),
    Norm("gemma", "GemmaRMSNorm", offset=1.0, result="input"),
    Norm("olmo2", "Olmo2RMSNorm", result="input"),
    Norm("helium", "HeliumRMSNorm", result="input"),
    Norm("gemma4", "Gemma4RMSNorm", result="input"),
    Norm("moshi", "MoshiRMSNorm", result="input"),
    Norm("t5", "T5LayerNorm", result="weight"),
    Norm("cohere", "CohereLayerNorm", result="input", centres=True),
    Norm(TORCH, "LayerNorm", result="input", centres=True),
)
HEADS = (
    Head("llama", "LlamaForCausalLM"),
    Head("gemma2", "Gemma2ForCausalLM", caps=True),
    Head("gemma3", "Gemma3ForCausalLM", caps=True),
    Head("nemotron", "NemotronForCausalLM"),
    Head("stablelm", "StableLmForCausalLM"),
    Head("cohere", "CohereForCausalLM", scale="logit_scale"),
    Head("granite", "GraniteForCausalLM", scale="config.logits_scaling", divides=True),
    Head("deepseek_v3", "DeepseekV3ForCausalLM", routes=True),
    Head("mixtral", "MixtralForCausalLM", routes=True, balances=True),
)
LAYERS = (Form("llama", "LlamaDecoderLayer"), Form("mixtral", "MixtralDecoderLayer"))
MLPS = (Form("llama", "LlamaMLP"), Form("qwen2_5_vl", "Qwen2_5_VLMLP"))
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


def families_of_rotary(forward: Any, families: Iterable[str]) -> dict[str, str]:
    """The families of the functions by which an attention's own forward turns queries and keys, by the names that it
    reads them by; nothing where one of them is another."""
    if not isinstance(forward, FunctionType) or forward.__closure__:
        return {}
    names = [name for name in (ROTARY, INTERLEAVE) if name in forward.__code__.co_names]
    found = {name: _family_of(forward.__globals__.get(name), name, families) for name in names}
    return {name: family for name, family in found.items() if family} if all(found.values()) else {}


def _family_of(function: Any, name: str, families: Iterable[str]) -> str | None:
    if not callable(function):
        return None
    return next((family for family in families if _turns_as(function, family, name)), None)


def rotary_of(family: str) -> Any:
    """The library's function that turns queries and keys of a family."""
    return getattr(modeling(family), name_of_rotary(family))


def name_of_rotary(family: str) -> str:
    """What the function of a family is called: DeepSeek's attentions know both, and use one as their config says."""
    return INTERLEAVE if family == "deepseek_v3" else ROTARY


def _turns_as(function: Any, family: str, name: str) -> bool:
    known = _known(Form(family, name)) if name_of_rotary(family) == name else None
    return known is not None and same_function(function, known)


def asks_for_its_loss(kind: type) -> bool:
    """Whether the forward of a class computes its loss by the function that the library's models have for it."""
    forward = inspect.unwrap(getattr(kind, "forward", None))  # type: ignore[arg-type]
    return isinstance(forward, FunctionType) and "loss_function" in forward.__code__.co_names


@cache
def _known(form: Norm | Head | Form) -> Any:
    """The library's class or function; None in a version that does not have it yet."""
    try:
        found = getattr(torch.nn if form.family == TORCH else modeling(form.family), form.kind, None)
    except ModuleNotFoundError:
        return None
    return found


def modeling(family: str) -> Any:
    """The library's module of a family's models."""
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}")
