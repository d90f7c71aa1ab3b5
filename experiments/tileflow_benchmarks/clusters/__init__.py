"""What clusters of thread blocks can do, by compiling."""
