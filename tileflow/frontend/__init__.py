"""From a kernel's Python function to IR: device code is cut out of it and traced."""
