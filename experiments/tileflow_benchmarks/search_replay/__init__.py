"""Search replay: measure a large sample of a kernel's space once, then run strategies on it without a GPU."""
