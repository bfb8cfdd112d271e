"""Verify: solves a matrix of scenarios and compares each pick with the expected one.

``oracle`` says what is right, from facts alone; ``scenarios`` is the matrix; ``universe`` is what conda-forge would
provide; a `answers.Solver` answers; ``compare`` judges one answer; ``matrix`` runs them all and counts.
"""
