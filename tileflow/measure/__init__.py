"""Measuring a kernel: inputs, timing, and whether the result is right."""
