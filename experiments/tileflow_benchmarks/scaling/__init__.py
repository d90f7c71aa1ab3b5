"""How many trials a second sweeps reach, with how many GPUs: real hosts, and a simulated cluster."""
