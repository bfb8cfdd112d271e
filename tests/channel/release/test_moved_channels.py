"""What `ctk release check` says of the channels that compile with a toolkit."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from ctk.core.checkout import Workspace
from ctk.plan import conda_forge
from ctk.plan.conda_forge import Compiled
from kit.ctk_release import Have, Run

pytest_plugins = ["kit.ctk_release_fixtures"]


POLICY = """
[tool.ctk.default]
releases = ["newest", "conda-forge", "rapids"]
[tool.ctk.conda_forge]
minors = ["12.9", "13.4"]
[tool.ctk.rapids]
minors = ["12.9", "13.3"]
"""


@pytest.mark.parametrize(
    ("rapids", "said"),
    [
        (("12.9", "13.3"), "the default set has all of these"),
        (
            ("12.9", "13.5"),
            "rapidsai has moved: the default set lacks 13.5, and [tool.ctk.rapids] of"
            " pyproject.toml has 12.9 and 13.3; write 12.9 and 13.5 there",
        ),
        (
            ("12.9", "13.4"),
            "rapidsai has moved: [tool.ctk.rapids] of pyproject.toml has 12.9 and 13.3; write 12.9"
            " and 13.4 there",
        ),
    ],
)
def test_check_says_when_rapids_moves_and_how_old_that_knowledge_is(
    rapids: tuple[str, ...],
    said: str,
    here: Workspace,
    have: Have,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    have("12.9", "13.4")
    (here.root / "pyproject.toml").write_text(POLICY)
    day = date(2026, 8, 7)
    known = {
        "conda-forge": Compiled(("12.9", "13.4"), "a pull request", day),
        "rapidsai": Compiled(rapids, "a workflow", day),
    }
    read = replace(conda_forge.read(), compiled=known)
    monkeypatch.setattr(conda_forge, "read", lambda: read)
    shown = " ".join(run("check").split())
    assert said in shown
    assert f"rapidsai with {' and '.join(rapids)} (read 2026-08-07)" in shown
    assert "compiles with which" not in run("check", "13.4")
