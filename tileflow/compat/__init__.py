"""Other dialects of tiled PyTorch, each in a package of its own on top of :mod:`tileflow.api`."""
