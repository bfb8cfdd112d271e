"""Release locks: their model, the components of a release, measured facts, licences."""
