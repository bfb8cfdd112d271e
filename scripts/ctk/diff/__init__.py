"""What changed between two releases: their locks, and what a program sees of their binaries."""
