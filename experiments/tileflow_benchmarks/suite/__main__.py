"""``python -m tileflow_benchmarks.suite``: see :mod:`.cli`.

A spawned process imports its parent's main module again, except one called ``__main__`` as this is. But :mod:`.cli`
must be imported in spawned processes (it says why), so this module runs it as the main module.
"""

import runpy

if __name__ == "__main__":
    runpy.run_module(f"{__package__}.cli", run_name="__main__", alter_sys=True)
