"""Kernels of others: written from published descriptions as a newcomer writes them first, and no relatives of the
gallery. No word in them is for the tuner; :data:`ALL` has each with its arguments and what it must give."""

from __future__ import annotations

from . import (
    adapters,
    algebra,
    attention_variants,
    caches,
    climate,
    codecs,
    contrasts,
    control,
    databases,
    evolution,
    fields,
    finance,
    flows,
    formats,
    genomes,
    geometry,
    graphs,
    hashing,
    heads,
    images,
    layers,
    losses,
    models,
    molecules,
    neurons,
    numerics,
    objectives,
    optimisers,
    pairs,
    pictures,
    products,
    quantisation,
    ranking,
    recommenders,
    recurrences,
    segments,
    selection,
    sequences,
    series,
    serving,
    signals,
    sketches,
    sky,
    sparse,
    spatial,
    speech,
    survival,
    tables,
    training,
    vision,
)
from .stranger import ALL, Stranger

__all__ = ["ALL", "Stranger"]

_FAMILIES = (
    adapters, algebra, attention_variants, caches, climate, codecs, contrasts, control, databases, evolution,
    fields, finance, flows, formats, genomes, geometry, graphs, hashing, heads, images, layers, losses,
    models, molecules, neurons, numerics, objectives, optimisers, pairs, pictures, products, quantisation,
    ranking, recommenders, recurrences, segments, selection, sequences, series, serving, signals, sketches,
    sky, sparse, spatial, speech, survival, tables, training, vision,
)  # fmt: skip
