"""TritonSource: the text of one region's kernel for one config, and how to call it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from ..config import Choice
from ..expr import Expr
from ..runtime.abi import LaunchArg


@dataclass(frozen=True, slots=True)
class TritonSource:
    """One region of a kernel as a Triton program. Pickles; two equal hashes build the same binary for a target.

    ``text``: a module that defines the jitted function ``name``, standalone but for its imports. ``comments``:
    which of its lines, from 0, are comments; ``code`` is the text without them, which is what is compiled.
    ``args``: the run-time arguments in the function's order; ``constexprs``: the others, by name.
    ``options``: Triton's compile options (``num_warps``, ``num_stages`` ...).
    ``grid``, ``guards``: Exprs over the launch symbols of :mod:`tileflow.runtime.abi`, the config's knobs already
    substituted. ``lines``: for each line of ``text`` the user's line it comes from (0 for none). ``language``: of the
    functions in ``text``: Triton's own, or Gluon, which says itself what each warp does. ``cluster``: how many
    blocks a program of the grid is; Triton's own launchers, which know nothing of clusters, take sources of 1 alone.
    ``given``: bytes at the end of a block's dynamic shared memory, behind Triton's own, that other blocks write to.
    """

    name: str
    region: int
    text: str
    args: tuple[LaunchArg, ...]
    constexprs: tuple[tuple[str, Choice], ...]
    options: tuple[tuple[str, Choice], ...]
    grid: tuple[Expr, Expr, Expr]
    guards: Expr
    mode: Literal["static", "dynamic"] = "static"
    lines: tuple[int, ...] = ()
    language: Literal["triton", "gluon"] = "triton"
    comments: tuple[int, ...] = ()
    cluster: int = 1
    given: int = 0

    @property
    def code(self) -> str:
        """What is compiled, and what the source is known by: comments change neither."""
        if not self.comments:
            return self.text
        dropped = frozenset(self.comments)
        return "".join(line for n, line in enumerate(self.text.splitlines(keepends=True)) if n not in dropped)

    @property
    def code_lines(self) -> tuple[int, ...]:
        """``lines`` of ``code``."""
        dropped = frozenset(self.comments)
        return tuple(line for n, line in enumerate(self.lines) if n not in dropped)

    @property
    def hash(self) -> str:
        """SHA-256 of everything that the binary depends on; comments and the user's line numbers are not part of it."""
        data = [
            self.name,
            self.region,
            self.code,
            [a.to_json() for a in self.args],
            self.constexprs,
            self.options,
            [g.to_json() for g in self.grid],
            self.guards.to_json(),
            self.mode,
        ]
        if self.language != "triton":
            data.append(self.language)
        if self.cluster != 1:
            data.append(self.cluster)
        if self.given:
            data.append(self.given)
        return hashlib.sha256(json.dumps(data).encode()).hexdigest()
