"""Verify: solves a matrix of scenarios and compares each pick with the right one.

``oracle`` gives the right pick, from facts alone; ``scenarios`` is the matrix; ``channels`` writes the repodata; a
solver of ``clients`` answers; ``run`` judges each answer and counts.
"""
