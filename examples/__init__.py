"""The gallery: kernels by example, each with inputs to try it and a reference in plain torch."""
