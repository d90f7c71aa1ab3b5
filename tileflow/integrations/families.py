"""What is known of the model families whose modules are replaced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """``prefix``: of its classes' names. ``offset``: what is added to a norm's weight. ``promotes``: whether a norm's
    result is promoted to its weight's dtype. ``adds_before_norm``: whether a layer adds what attention gives and then
    normalises the sum."""

    prefix: str
    offset: float = 0.0
    promotes: bool = True
    adds_before_norm: bool = True


# by config.model_type
FAMILIES = {
    "llama": Family("Llama"),
    "mistral": Family("Mistral"),
    "qwen2": Family("Qwen2"),
    "qwen3": Family("Qwen3"),
    "gemma": Family("Gemma", offset=1.0, promotes=False),
    "gemma2": Family("Gemma2", offset=1.0, promotes=False, adds_before_norm=False),
    "gemma3_text": Family("Gemma3", offset=1.0, promotes=False, adds_before_norm=False),
}
