"""``kernel.tune`` as its users meet it: how long until the first trial, and kernels that nobody tuned before."""
