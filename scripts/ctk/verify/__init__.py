"""Verify: solves a matrix of scenarios and compares each pick with the right pick.

``scenarios`` is the matrix, ``clients`` and ``libsolv`` are the solvers, ``oracle`` computes the
right pick from facts alone, and ``run`` compares and counts. The channels are those of
`ctk.solve.channels`.
"""
