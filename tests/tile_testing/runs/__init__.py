"""What runs in the processes that interpret kernels or hold a GPU, and what is asked of them."""
