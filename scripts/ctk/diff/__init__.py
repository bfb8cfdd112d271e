"""What changed between two releases: their locks, and what a program sees of their binaries."""

FORMS = "13.4, python-13, libraries-13, or REVISION:13.4 for the lock of a git revision"
"""How a release may be written."""
