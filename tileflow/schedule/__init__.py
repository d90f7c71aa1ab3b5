"""Warp-specialised kernels as data: who does what, in which buffers, waiting for whom.

``types`` says what a schedule is made of. ``chained`` finds the structure that has one in a region, ``attention`` makes
the schedule, ``memory`` counts its shared memory, ``execute`` runs it on a CPU under adversarial interleavings, with
the author's own operations by ``evaluate``. :mod:`tileflow.emit.gluon` writes it as a program.
"""
