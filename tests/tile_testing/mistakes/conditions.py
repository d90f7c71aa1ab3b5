"""Mistakes of conditions, and of what is asked of numbers; see table.py."""

from __future__ import annotations

import enum

import torch

import tileflow.language as tfl
from tile_testing.mistakes.table import mistake
from tileflow.errors import TraceError


@mistake(
    TraceError,
    (
        "an if, and, or, not, while and a chained comparison in device code take scalars",
        "but got tile float32[tile, 96]",
        "torch.where(a != 0, a, b)",
    ),
    "x[tile, :]",
)
def or_of_numbers(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] or 1.0  # <-


OF_CONDITIONS = (
    "an if, and, or, not, while and a chained comparison in device code take scalars",
    "but got tile bool[tile, 96]",
    "conditions are (a) & (b), (a) | (b), ~a",
)


@mistake(TraceError, OF_CONDITIONS, "-0.5 < x[tile, :] < 0.5")
def chain_of_tiles(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.where(-0.5 < x[tile, :] < 0.5, 1.0, 0.0)  # <-


@mistake(TraceError, OF_CONDITIONS, "(x[tile, :] > 0) and (x[tile, :] < 1)")
def and_of_tiles(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.where((x[tile, :] > 0) and (x[tile, :] < 1), 1.0, 0.0)  # <-


@mistake(TraceError, OF_CONDITIONS, "not x[tile, :] > 0")
def not_of_a_tile(x):
    for tile in tfl.tile(64):
        x[tile, :] = torch.where(not x[tile, :] > 0, 1.0, 0.0)  # <-


@mistake(TraceError, ("a tile has no Python truth value while the", "(x == 2) | (x == 3)"), "x[0, 0].int() in")
def number_in_numbers(x):
    for tile in tfl.tile(64):
        if x[0, 0].int() in (2, 3):  # <-
            x[tile, :] = 0


@mistake(TraceError, ("Python's dictionaries and sets are of what Python knows", "(x == 2) | (x == 3)"), "i in")
def number_in_a_set(x):
    for tile in tfl.tile(64):
        for i in range(20):
            if i in {2, 3}:  # <-
                x[tile, i] = 0


class Colour(enum.Enum):
    RED = 1


@mistake(
    TraceError, ("an operand must be a tile, a size or a number", "Colour", ".value", "enum.IntEnum"), "x[tile, :]"
)
def member_of_an_enum_as_a_number(x):
    for tile in tfl.tile(64):
        x[tile, :] = x[tile, :] * Colour.RED  # <-
