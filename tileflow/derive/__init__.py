"""Backward passes, derived: a kernel's traced regions are differentiated in reverse, and what comes out is written as
a kernel in the language itself."""
