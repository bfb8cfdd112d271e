"""Errors, files, settings, processes: shared by all rooms."""
