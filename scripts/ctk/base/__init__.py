"""The base channel, which stands in for conda-forge."""
