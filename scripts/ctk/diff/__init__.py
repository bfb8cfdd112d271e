"""Changes between two releases: of their locks, and the SONAMEs of their libraries."""

FORMS = "13.4, python-13, libraries-13, or REVISION:13.4 for the lock of a git revision"
"""The forms of a release on the command line."""
