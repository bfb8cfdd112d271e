"""Downloads artefacts, checks them, and keeps them in the cache."""
