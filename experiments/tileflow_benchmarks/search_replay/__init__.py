"""The laboratory: measure a large sample of a kernel's space once, then try strategies on it without a GPU."""
