"""Kernels beside their peers on one GPU: values first, then times in turns, in one process."""
