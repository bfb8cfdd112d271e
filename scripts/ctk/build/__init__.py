"""Builds: rattler-build once for each build of a plan, and the same bytes each time."""
