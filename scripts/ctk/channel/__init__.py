"""The built channel and its published states: repodata, publishing, checks, attestations."""
