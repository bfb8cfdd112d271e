"""Readers of wheels, `.conda` packages, binaries, and the GPU code in them."""
