"""Benchmarks of tileflow, beside its peers and by itself. No wheel holds them: they run in a checkout."""
