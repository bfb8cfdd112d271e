"""The shells that activation scripts are tried in."""

from __future__ import annotations

import shutil

import pytest
from activation_shells import SHELLS


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:  # every test runs in bash and sh too, which no machine lacks
        pytest.skip(f"no {request.param} on this machine")
    return str(request.param)
