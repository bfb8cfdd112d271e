"""The zips that a variant file repeats are those of the build matrix."""

from __future__ import annotations

from ctk.core.checkout import Workspace
from ctk.core.document import load_yaml
from ctk.lock.model import SHARED_ZIPS


def test_a_variant_file_repeats_all_zips_of_the_build_matrix(project: Workspace) -> None:
    """rattler-build forgets all zips of earlier files when a file has its own."""
    matrix = load_yaml(project.build_config.read_text(encoding="utf-8"))
    assert tuple(tuple(group) for group in matrix["zip_keys"]) == SHARED_ZIPS
