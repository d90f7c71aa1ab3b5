"""Sweeps from their spec to tables, bundles and reports, and the command line."""
