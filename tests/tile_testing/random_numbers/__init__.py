"""Random expressions of numbers: of Python's ints, and of tiles of ints, bools and half types. What Triton's
interpreter makes of each is what it means as plain Python over tiles, to the last bit.

:mod:`expressions` writes them, :mod:`checks` runs them, in the process that interprets.
"""
