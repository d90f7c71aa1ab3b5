"""What stands at ``module:qualname``, and what is wrong with a name at which nothing does."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from .errors import SpecError, TileflowError


def object_at(module_name: str, qualname: str, ref: str) -> Any:
    """The object of an importable module, which ``ref`` names. Raises SpecError that names what is missing."""
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise SpecError(
            "the kernel's module must import",
            got=f"{type(error).__name__}: {error}",
            where=ref,
            hint="run from the folder that it is in, or set PYTHONPATH",
        ) from error
    except TileflowError:
        raise  # it names the place in the author's file
    except (Exception, SystemExit) as error:  # the module's own: it may raise anything
        raise SpecError(
            "the kernel's module must import",
            got=f"{type(error).__name__}: {error}",
            where=ref,
            hint=f"{module_name} raises it: python -m {module_name} says where",
        ) from error
    for part in qualname.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            file = getattr(importlib.import_module(module_name), "__file__", None)
            raise SpecError(
                "the kernel must exist in its module",
                got=repr(part),
                where=ref,
                hint=f"did you mean {near[0]}?" if near else f"the module is {file or 'a folder without __init__.py'}",
            )
        found = getattr(found, part)
    return found
