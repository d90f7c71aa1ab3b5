"""tileflow's kernels inside other people's programs: a module each, which imports theirs when it is asked for."""
