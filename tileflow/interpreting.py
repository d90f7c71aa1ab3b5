"""``tileflow.interpret``: kernels as plain Python over real tiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from .config import Choice, Config
from .errors import ConfigError
from .runtime.elsewhere import opened

interpreted_config: ContextVar[Mapping[str, Choice] | None] = ContextVar("tileflow_interpreting", default=None)


@contextlib.contextmanager
def interpret(config: Mapping[str, Choice] | Config | None = None) -> Iterator[None]:
    """Inside, kernels run as plain Python over real tiles, with ``config``'s block sizes where it names them. Raises
    ConfigError for what is no config."""
    token = interpreted_config.set(choices_of(config))
    try:
        with opened():
            yield
    finally:
        interpreted_config.reset(token)


def choices_of(config: object) -> Mapping[str, Choice]:
    """The choices of a config, however it was given; none of None. Raises ConfigError for what is none."""
    if config is None:
        return {}
    if isinstance(config, Config) and isinstance(config.items, tuple):
        return config.to_dict()
    if isinstance(config, Mapping):
        return config
    raise ConfigError(
        "a config is a dictionary of knobs, or the Config of a row",
        got=repr(config)[:80],
        hint='{"block:tile": 16}',
    )


def interpreting() -> bool:
    """Whether the calls of this thread stand inside :func:`interpret`."""
    return interpreted_config.get() is not None
