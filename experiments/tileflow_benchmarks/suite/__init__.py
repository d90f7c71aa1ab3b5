"""The benchmark suite: our kernels beside torch's, checked first, then timed interleaved in one process."""
