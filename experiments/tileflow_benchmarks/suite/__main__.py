"""``python -m tileflow_benchmarks.suite``: see :mod:`.cli`.

Spawned processes import the main module of their parent again, unless it is called ``__main__`` as this one is; but
:mod:`.cli` must be imported in them (it says why), so that it is what runs as the main module.
"""

import runpy

if __name__ == "__main__":
    runpy.run_module(f"{__package__}.cli", run_name="__main__", alter_sys=True)
