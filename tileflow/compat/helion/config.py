"""The dialect's Config: lists by position, in the order in which the kernel's loops and loads stand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LISTS = (
    "block_sizes", "loop_orders", "flatten_loops", "grid_fissions", "l2_groupings", "reduction_loops", "static_ranges",
    "range_unroll_factors", "range_warp_specializes", "range_num_stages", "range_multi_buffers", "range_flattens",
    "load_eviction_policies", "load_cache_modifiers", "store_cache_modifiers", "num_threads",
)  # fmt: skip
SCALARS: dict[str, Any] = {
    "num_warps": 4, "num_stages": 1, "pid_type": "flat", "num_sm_multiplier": 1, "maxnreg": None,
    "indexing": "pointer", "atomic_indexing": "pointer", "advanced_controls_file": "", "epilogue_subtile": None,
    "cross_loop_pipeline": None, "host_tensor_descriptors": None, "num_ctas": 1, "occupancy": 1,
    "waves_per_eu": None, "matrix_instr_nonkdim": None, "xcd_remap": False, "reduction_fusion": False,
    "use_yz_grid": False,
}  # fmt: skip
OTHER_BACKENDS = (  # and what only its own compiler can do: accepted, said once
    "cute_",
    "pallas_",
    "metal_",
    "tileir_",
    "tcgen05_",
    "flash_",
    "triton_",
    "_triton_",
    "cross_loop_",
    "advanced_",
)


class Config(Mapping[str, Any]):
    """The choices for one kernel, given as keyword arguments as in the dialect; those that are None are left out.

    Keys that are neither in LISTS nor in SCALARS are the kernel's own tunables. Keys of LISTS read as an empty list
    where they are not given, those of SCALARS as the dialect's default.
    """

    def __init__(self, **keys: Any) -> None:
        self.config: dict[str, Any] = {name: value for name, value in keys.items() if value is not None}

    def __getitem__(self, key: str) -> Any:
        return self.config[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.config)

    def __len__(self) -> int:
        return len(self.config)

    def __getattr__(self, name: str) -> Any:
        config = self.__dict__.get("config", {})
        if name in config:
            return config[name]
        if name in LISTS:
            return []
        if name in SCALARS:
            return SCALARS[name]
        raise AttributeError(f"a Config has no {name!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.config == other.config

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"helion.Config({', '.join(f'{k}={v!r}' for k, v in sorted(self.config.items()))})"

    def to_json(self) -> str:
        """The choices as indented JSON, sorted by name."""
        return json.dumps(self.config, indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Config:
        """The config that :meth:`to_json` wrote."""
        return cls(**json.loads(text))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The config with these choices."""
        return cls(**values)

    def minimize(self, config_spec: Any) -> Config:
        """The config without the keys that are the default's of ``config_spec``, a bound kernel's; block sizes stay."""
        default = config_spec.default_config().config
        return Config(**{k: v for k, v in self.config.items() if k == "block_sizes" or default.get(k) != v})

    def save(self, path: str | Path) -> None:
        """Write the config as JSON; the folder is made."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """The config in a JSON file."""
        return cls.from_json(Path(path).read_text())
