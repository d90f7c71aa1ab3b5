"""Warp-specialised kernels as Gluon programs, from the schedules of :mod:`tileflow.schedule`.

``kernel`` puts a program together, ``roles`` writes what each role does step by step, ``context`` and ``rules`` the
author's operations within, ``functions`` what a function of the program takes.
"""
