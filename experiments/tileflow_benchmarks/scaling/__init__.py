"""How many trials a second sweeps reach, by the number of GPUs: on real hosts, and on a simulated cluster."""
