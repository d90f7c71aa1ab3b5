"""Random kernels: a generator of well-typed programs, and what holds each of them against its meaning.

``draws`` chooses, by Hypothesis or by a seed; ``values`` knows what a register tile holds and whether it is exact;
``tensors`` are arguments and views of them; ``writer`` keeps what is in scope; ``loads``, ``pointwise``, ``shapes``,
``reductions``, ``loops``, ``branches`` and ``stores`` each write one kind of statement; ``kernels`` puts a kernel
together. ``checks`` runs one in each way, ``calls`` runs several calls of one kernel, and ``hunt`` is the command:

    TRITON_INTERPRET=1 PYTHONPATH=tests python -m tile_testing.random_kernels.hunt --first 0 --count 1000
"""
