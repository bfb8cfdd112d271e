"""The pieces of `scripts/acceptance` that need something from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import acceptance
from ctk.core.checkout import workspace


def test_samples_of_others_are_a_piece_where_clones_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cuda-nvcc-feedstock", "conda-forge-pinning-feedstock"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(acceptance, "_builds", lambda _where: ())  # plans everything
    [piece] = [p for p in acceptance.pieces(workspace(), tmp_path) if p.name == "samples"]
    words = [word for command in piece.commands for word in command]
    for name in ("cuda-samples.git", "CUDALibrarySamples.git", "cuda-nvcc-feedstock"):
        assert str(tmp_path / name) in words
    assert not any("pinning" in word for word in words)
    assert f"https://gitlab.kitware.com/cmake/cmake.git={tmp_path / 'CMake.git'}" in words
    assert acceptance.main(["--list"]) == 0
    without = capsys.readouterr()
    assert "without --clones" in without.err
    assert "\nexport:cuda-core: " in without.out
    assert "\nexport:ctk: " not in without.out, "it is made of this repository"
    assert "samples:" not in without.out
    assert acceptance.main(["--list", "--clones", str(tmp_path)]) == 0
    assert "\nsamples: .venv/bin/ctk build cuda-toolkit" in capsys.readouterr().out
