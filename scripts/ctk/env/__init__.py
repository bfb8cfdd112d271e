"""Environments: create, run, check, pack; and `ctk doctor`."""
