"""``kernel.tune`` as its users meet it: the time to the first trial, and kernels that were never tuned before."""
