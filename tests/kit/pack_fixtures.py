"""A tiny environment, packed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit.packs import Made, checkout, pack
from kit.tiny_packages import NOISE, application, pure


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    where = checkout(
        tmp_path_factory.mktemp("the checkout"), application(**{"lib/noise": NOISE}), pure()
    )
    folder = tmp_path_factory.mktemp("packs")
    done = pack(
        where, "application", "--driver", "13.0", "--arch", "9.0", "-o", str(folder / "whole.run")
    )
    assert done.returncode == 0, done.stderr
    return Made(where, folder / "whole.run", done.stdout)


@pytest.fixture
def copy(made: Made, tmp_path: Path) -> Made:
    """The pack, to be damaged."""
    folder = shutil.copytree(made.whole.parent, tmp_path / "copy")
    return Made(made.workspace, folder / "whole.run", made.said)
