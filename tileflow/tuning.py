"""``tileflow.tune``: a search for the best configs of calls, which the ``tune`` extra makes."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any

from .errors import CallError, SpecError

# the last one is for tests and other dialects
TUNE_OPTIONS = ("budget_s", "tables", "out", "device_class", "strategy", "seed", "by_value", "tools")


def tune(calls: Iterable[tuple[Any, ...]], **options: Any) -> list[Any]:
    """Search for the best configs of several calls at once: ``(kernel, args)`` or ``(kernel, args, kwargs)`` each.

    ``budget_s=60.0``: seconds for each. ``tables``: the folder for the rows, the user's own where not given (see
    :mod:`tileflow.runtime.user_tables`). ``out``: where to keep the journal and a report as well. ``device_class``: of
    another card than the tensors': the cost model stands in for one that is not at hand. ``strategy``, ``seed``: of the
    search. ``by_value=False``: whether workers are given floats as they are, also where they take more than 64 MiB.
    Returns a row for each call, None where no config works. The search is in the ``tune`` extra
    (``pip install tileflow[tune]``), which this package does not import. Raises CallError and SpecError.
    """
    refuse_unknown_options(options, "tileflow.tune")
    try:
        if "tools" not in options:  # whose workers have begun
            importlib.import_module("tileflow_experiments.begin").begin()
        search = importlib.import_module("tileflow_experiments.tune")
    except ModuleNotFoundError as error:
        raise SpecError("tuning needs the tune extra", got=str(error), hint="pip install 'tileflow[tune]'") from error
    rows: list[Any] = search.tune_calls(calls, **options)
    return rows


def refuse_unknown_options(options: Iterable[str], where: str, parameters: Iterable[str] = ()) -> None:
    """Raises CallError for an option that :func:`tune` lacks. ``parameters``: keywords that are the call's."""
    for name in options:
        if name not in TUNE_OPTIONS:
            near = difflib.get_close_matches(name, (*TUNE_OPTIONS, *parameters), n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            own = f"; arguments of the call: {', '.join(parameters)}" if parameters else ""
            raise CallError(
                "a keyword of tune must be one of its options" + (", or a parameter of the kernel" if own else ""),
                got=f"{name}=",
                where=where,
                hint=f"{hint}options: {', '.join(o for o in TUNE_OPTIONS if o != 'tools')}{own}",
            )
