"""The IR: a region as a graph of typed ops, with the rules that verify it."""
