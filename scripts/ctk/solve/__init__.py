"""The pick of a solver for a machine, and the reason for it."""
