"""Between the dialect's Config, by position, and tileflow's, by site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import config as native
from ...config import Choice
from ...errors import ConfigError
from ...lowered import Lowered
from ...space.knob import LaunchKnob
from ...space.knobs import GRID, LOAD_ACCESS, MAXNREG, TUNABLE, WALK
from . import notes
from .config import LISTS, OTHER_BACKENDS, SCALARS, Config
from .sites import Sites, sites_of

EVICTION = {"": "", "first": "evict_first", "last": "evict_last"}
ACCESS = {"pointer": "pointer", "tensor_descriptor": "descriptor", "block_ptr": "pointer"}
PERSISTENT = ("persistent_blocked", "persistent_interleaved")
PER_SITE = {"indexing", "atomic_indexing", "host_tensor_descriptors"}  # lists too, one entry a site
PROGRAM_IDS = ("flat", "xyz", *PERSISTENT)
MEANT = {
    "block_sizes",
    "loop_orders",
    "l2_groupings",
    "reduction_loops",
    "load_eviction_policies",
    "indexing",
    "num_warps",
    "num_stages",
    "pid_type",
    "num_sm_multiplier",
    "maxnreg",
    "use_yz_grid",
}


def to_native(config: Mapping[str, Any], lowered: Lowered) -> native.Config:
    """The valid config of ``lowered``'s space that ``config`` names; knobs that it leaves out are at the dialect's
    defaults. Choices that the space lacks move to the nearest one, with a note.

    Raises ConfigError where a list has the wrong length, naming the sites, and for unknown keys.
    """
    given, sites = _singular(_plural(config)), sites_of(lowered)
    _check_keys(given, sites)
    wanted: dict[str, Choice] = {}
    wanted |= _blocks(given, sites)
    wanted |= _reductions(given, sites)
    wanted |= _grid(given, sites, lowered.space)
    by_axes = given.get("pid_type") == "xyz" or given.get("use_yz_grid") is True  # the latter is its first name
    wanted |= _of_each_launch(lowered, GRID, "axes" if by_axes else "flat")
    wanted |= _of_each_launch(lowered, WALK, "blocked" if given.get("pid_type") == PERSISTENT[0] else "interleaved")
    wanted |= _evictions(given, sites)
    wanted |= _accesses(given, sites, lowered.space)
    wanted |= dict.fromkeys(sites.warps, _warps(given.get("num_warps", SCALARS["num_warps"])))
    wanted |= dict.fromkeys(sites.stages, _count("num_stages", given.get("num_stages", SCALARS["num_stages"])))
    wanted |= _of_each_launch(lowered, MAXNREG, _count("maxnreg", given["maxnreg"]) if given.get("maxnreg") else 0)
    wanted |= {TUNABLE.symbol_of(name): given[name] for name in sites.tunables if name in given}
    chosen = lowered.space.adapt(wanted)
    for name in (*sites.blocks, *sites.reductions, *(TUNABLE.symbol_of(t) for t in sites.tunables)):
        if name in wanted and chosen[name] != wanted[name]:
            notes.once(f"{lowered.host.fn.__name__} {name}={wanted[name]}", f"no valid choice; {chosen[name]} instead")
    return chosen


def from_native(config: native.Config, lowered: Lowered) -> Config:
    """``config`` in the dialect's words."""
    sites = sites_of(lowered)
    policies = {ours: theirs for theirs, ours in EVICTION.items()}
    kinds = {ours: theirs for theirs, ours in reversed(ACCESS.items())}
    most = max((int(config[p]) for p in sites.persistents), default=0)
    return Config(
        block_sizes=[config[name] for name in sites.blocks],
        reduction_loops=[config[name] or None for name in sites.reductions],
        l2_groupings=[config[name] for name in sites.groups],
        loop_orders=[_theirs(str(config[o]), int(config[g])) for o, g in zip(sites.orders, sites.groups, strict=True)],
        load_eviction_policies=[policies[str(config[name])] for name in sites.evictions],
        indexing=[kinds[str(config.get(name, LOAD_ACCESS.default))] for name in sites.accesses],
        num_warps=config[sites.warps[0]],
        num_stages=config[sites.stages[0]],
        pid_type=_program_ids(config, lowered, bool(most)),
        maxnreg=MAXNREG.chosen(config, lowered.regions[0]) or None,
        num_sm_multiplier=most or None,
        **{name: config[TUNABLE.symbol_of(name)] for name in sites.tunables},
    )


def _of_each_launch(lowered: Lowered, knob: LaunchKnob[Any], choice: Choice) -> dict[str, Choice]:
    """The knob of every launch that has it."""
    return {k.name: choice for k in lowered.space.knobs if knob.matches(k.name)}


def _program_ids(config: native.Config, lowered: Lowered, is_persistent: bool) -> str:
    """The dialect's one word for the program ids of all launches: that of the launch that needs one."""
    if is_persistent:
        blocked = any(config[name] == "blocked" for name in _of_each_launch(lowered, WALK, ""))
        return PERSISTENT[0] if blocked else PERSISTENT[1]
    return "xyz" if any(config[name] == "axes" for name in _of_each_launch(lowered, GRID, "")) else "flat"


def _plural(config: Mapping[str, Any]) -> dict[str, Any]:
    """``block_size=16`` is ``block_sizes=[16]``; a list's own key with a scalar means it for all sites."""
    singular = {
        name.removesuffix("ies") + "y" if name.endswith("ies") else name.removesuffix("s"): name for name in LISTS
    }
    return {singular.get(k, k): [v] if k in singular else v for k, v in config.items()}


def _singular(config: Mapping[str, Any]) -> dict[str, Any]:
    """``num_warps=[4]`` is ``num_warps=4``. Raises ConfigError where a key of one choice is given several."""
    for name in SCALARS.keys() - PER_SITE:
        value = config.get(name)
        if isinstance(value, (list, tuple)) and len(value) > 1:
            raise ConfigError(
                f"{name} is one choice for the whole kernel", got=repr(value), hint=f"write {name}={value[0]!r}"
            )
    ones = {k: v for k, v in config.items() if k in SCALARS and k not in PER_SITE and isinstance(v, (list, tuple))}
    return {**config, **{k: v[0] if v else SCALARS[k] for k, v in ones.items()}}


def _each(value: Any, names: Sequence[str]) -> Sequence[Any]:
    """The entries of a list, or one entry for every site."""
    return value if isinstance(value, (list, tuple)) else [value] * len(names)


def _check_keys(given: Mapping[str, Any], sites: Sites) -> None:
    for name, value in given.items():
        if name in MEANT or name in sites.tunables:
            continue
        if name in LISTS or name in SCALARS or name.startswith(OTHER_BACKENDS):
            if value != SCALARS.get(name) and any(value if isinstance(value, (list, tuple)) else [value]):
                notes.once(name, "the config's key has no meaning here")
        else:
            raise ConfigError(
                "a config's key is the dialect's, or a tunable of the kernel",
                got=repr(name),
                hint=f"the kernel's tunables are {list(sites.tunables)}",
            )


def _paired(key: str, values: Sequence[Any], names: Sequence[str]) -> list[tuple[str, Any]]:
    if len(values) != len(names):
        raise ConfigError(
            f"{key} has one entry a call site",
            got=f"{len(values)} for {len(names)}: {list(values)}",
            hint=f"the call sites are {', '.join(names) or 'none'}",
        )
    return list(zip(names, values, strict=True))


def _blocks(given: Mapping[str, Any], sites: Sites) -> dict[str, Choice]:
    if "block_sizes" not in given:
        return {}
    entries = _each(given["block_sizes"], sites.blocks)
    flat = [size for entry in entries for size in (entry if isinstance(entry, (list, tuple)) else [entry])]
    return {name: _count("a block size", size) for name, size in _paired("block_sizes", flat, sites.blocks)}


def _count(what: str, value: Any) -> int:
    """``value`` where it is a count. Raises ConfigError, also for what ``int`` would make one of."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{what} is an int of 1 or more", got=repr(value))
    return value


def _warps(value: Any) -> int:
    if _count("num_warps", value) & (value - 1):
        raise ConfigError("num_warps is a power of two", got=repr(value), hint="4 or 8 suit most kernels")
    return int(value)


def _reductions(given: Mapping[str, Any], sites: Sites) -> dict[str, Choice]:
    """What can be rolled here is not always what can be there: a list of another length names nothing."""
    values = _each(given.get("reduction_loops", ()), sites.reductions)
    if len(values) == len(sites.reductions):
        return {name: int(size or 0) for name, size in zip(sites.reductions, values, strict=True)}
    if any(values):
        notes.once(f"reduction_loops={list(values)}", f"the loops here are {', '.join(sites.reductions) or 'none'}")
    return {}


def _grid(given: Mapping[str, Any], sites: Sites, space: native.ConfigSpace) -> dict[str, Choice]:
    """Order, groups and persistence of each launch."""
    kind = given.get("pid_type", SCALARS["pid_type"])
    if kind not in PROGRAM_IDS:
        raise ConfigError(f"pid_type is one of {list(PROGRAM_IDS)}", got=repr(kind))
    each = _count("num_sm_multiplier", given.get("num_sm_multiplier", SCALARS["num_sm_multiplier"]))
    groups = [int(g) for g in _by_launch("l2_groupings", given, sites.groups, [1] * len(sites.groups))]
    plain = [list(range(1 + str(space.knob(name).default).count(","))) for name in sites.orders]
    orders = _by_launch("loop_orders", given, sites.orders, plain)
    return {
        **dict.fromkeys(sites.persistents, each if kind in PERSISTENT else 0),
        **dict(zip(sites.groups, groups, strict=True)),
        **{name: _ours(o, g) for name, o, g in zip(sites.orders, orders, groups, strict=True)},
    }


def _by_launch(key: str, given: Mapping[str, Any], names: Sequence[str], default: Sequence[Any]) -> list[Any]:
    """One entry a launch; entries for loops inside kernels, which have no such knob here, come after those."""
    values = list(_each(given.get(key, ()), names))
    if key == "loop_orders" and values and not isinstance(values[0], (list, tuple)):
        values = [values] * len(names)  # one order for all
    if len(values) > len(names):
        notes.once(f"{key}={values}", f"the launches with such a knob are {', '.join(names) or 'none'}")
    return [*values[: len(names)], *default[len(values) :]]


def _ours(order: Sequence[int], group: int) -> str:
    """The dialect lists the axis that varies fastest first, tileflow last. Groups band the dialect's first axis and
    ours of the last two, so that there these two keep their order."""
    first, second, *outer = order
    fastest = (first, second) if group > 1 else (second, first)
    return ",".join(map(str, (*reversed(outer), *fastest)))


def _theirs(order: str, group: int) -> list[int]:
    *outer, slow, fast = (int(n) for n in order.split(","))
    return [slow, fast, *reversed(outer)] if group > 1 else [fast, slow, *reversed(outer)]


def _choices(key: str, given: Mapping[str, Any], names: Sequence[str], meaning: Mapping[str, str]) -> dict[str, Choice]:
    """A choice for each of ``names``, or one for all. A list of another length names nothing."""
    values = given.get(key, ())
    values = [values] * len(names) if isinstance(values, str) else list(values)
    unknown = [v for v in values if v not in meaning]
    if unknown:
        raise ConfigError(f"{key} are of {list(meaning)}", got=unknown)
    if len(values) != len(names) and any(meaning[v] != next(iter(meaning.values())) for v in values):
        notes.once(f"{key}={values}", f"the call sites here are {', '.join(names) or 'none'}")
        return {}
    return {name: meaning[v] for name, v in zip(names, values, strict=False)}


def _evictions(given: Mapping[str, Any], sites: Sites) -> dict[str, Choice]:
    return _choices("load_eviction_policies", given, sites.evictions, EVICTION)


def _accesses(given: Mapping[str, Any], sites: Sites, space: native.ConfigSpace) -> dict[str, Choice]:
    """The choices of access kinds. A site without the knob is left out: a descriptor cannot serve it."""
    present = {k.name for k in space.knobs}
    return {n: c for n, c in _choices("indexing", given, sites.accesses, ACCESS).items() if n in present}
