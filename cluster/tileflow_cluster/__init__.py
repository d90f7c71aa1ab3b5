"""Evaluating trials: in this process, on this machine's GPUs, on a Ray cluster, or from recorded outcomes."""
