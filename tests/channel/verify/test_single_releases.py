"""In a channel of a single release with all components, each metapackage can be installed.

`ctk build --all-components --release 12.2` once made a cuda-libraries-dev that could not be
installed: it needs the cuda-cccl of 12.3, which was not built.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import MINORS, NEWEST
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    write_repodata,
)
from ctk.solve.channels import universe
from ctk.solve.solve import Scenario
from ctk.verify.clients import RattlerSolver

GROUPS = "cuda-toolkit"
"""The recipe of the metapackages."""
NEWER_GLIBC = re.compile(r"__glibc >=2\.3\d")
"""Programs of 13.5 for ARM need a newer glibc than a machine of another platform is assumed to
have.
"""
IN_EACH_RUN = (MINORS[0], "12.2", NEWEST)


@pytest.mark.parametrize(
    "minor", [pytest.param(m, marks=[] if m in IN_EACH_RUN else pytest.mark.sweep) for m in MINORS]
)
def test_every_group_of_one_release_can_be_installed(
    project: Workspace, tmp_path: Path, minor: str
) -> None:
    found = plan(
        published_set(project), Request([minor], (), PLATFORMS), python_tags(project.build_config)
    )
    channels = [
        write_repodata(planned_repodata(found), tmp_path / "channel"),
        write_repodata(universe(), tmp_path / "base"),
    ]
    groups = {
        (o.name, b.subdir) for b in found.builds if b.recipe.name == GROUPS for o in b.outputs
    }
    asked = [
        Scenario((name, f"cuda-version={minor}"), subdir, minor) for name, subdir in sorted(groups)
    ]
    answers = RattlerSolver().solve_all(asked, channels)
    refused = {
        f"{a.scenario}": a.problem
        for a in answers
        if a.problem and not NEWER_GLIBC.search(a.problem)
    }
    assert refused == {}
    assert len(asked) >= 4
