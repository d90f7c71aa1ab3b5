"""Kernels beside their peers on one GPU: values are checked first, then times taken in turns in one process."""
