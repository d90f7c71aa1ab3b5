"""The search space of a kernel: its knobs and the constraints between them."""
