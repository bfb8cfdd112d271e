"""What the docs tell users to type gives the toolkit that they say: conda, mamba and pixi, and
workspaces of pixi.

The clients are not run (`ctk verify --solver` does, where they are there): lines are read, and
solved by rattler.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from conftest import NEWEST, ROOT
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.plan.plan import Request, small
from ctk.solve.solve import ASKING
from kit.doc_clients import CLIENTS, PageSolve, Solve, problem, promise, read, scenario
from kit.doc_commands import Command, commands, of_script
from kit.doc_pages import NVCC_OF_CUDA_12, Block, blocks

pytest_plugins = ["docs_fixtures"]

# What stands on conda-forge's packages is held by tests/system/verify/test_flexible.py.
BLOCKS = [b for b in blocks() if b.heading != NVCC_OF_CUDA_12]
TOOL = "ctk"  # it has no toolkit: tests/system/cli/test_without_checkout.py
LINES = [
    command
    for block in BLOCKS
    if block.language == "bash"
    for command in commands(block)
    if command.program in CLIENTS and command.words[-1] != TOOL
]
# A text for another project quotes what that project reads, in part.
MANIFESTS = [b for b in BLOCKS if b.language == "toml" and not b.page.startswith("docs/upstream/")]
DOCKERFILES = [b for b in blocks() if b.language == "dockerfile"]
WORKFLOWS = [b for b in blocks() if b.text.startswith("# .github/workflows/")]
OURS_FIRST = ("CHANNEL", "conda-forge")


@pytest.mark.parametrize("command", LINES, ids=str)
def test_a_line_gives_the_toolkit_that_its_comment_says(
    command: Command, page_solve: PageSolve
) -> None:
    line = read(command)
    if line.scenario is None:
        return
    assert line.toolkit, "say in a comment which toolkit it gives"
    assert problem(line, page_solve(command.block)(line.scenario), NEWEST) == ""
    assert line.channels in ((), OURS_FIRST)
    asked = bool(line.scenario.driver) and command.program != "pixi"
    assert (line.scenario.specs[0] in ASKING) == asked, (
        "conda and mamba are asked for the driver, where there is one"
    )


def test_the_page_for_users_names_the_toolkits_of_the_default_channel(
    project: Workspace, page_solve: PageSolve
) -> None:
    """And what a driver between two of them gets."""
    *first, last = small(Request(), project).releases
    text = " ".join((ROOT / "docs" / "users.md").read_text().split())
    assert f"-->the default channel gives, which has {', '.join(first)} and {last}.<!--" in text
    assert "A driver for 12.4 gets 12.0 of the default channel" in text
    block = next(c.block for c in LINES if c.block.page == "docs/users.md")
    pick = page_solve(block)(scenario(("cuda-gpu", "numba-cuda"), {"CONDA_OVERRIDE_CUDA": "12.4"}))
    assert (pick.toolkit, pick.fit) == ("12.0", "native")


def test_what_the_page_says_of_exports(planned_solve: Solve) -> None:
    """With builds, an export needs the driver that it was made with.

    Without, the toolkit stays, and is compat.
    """
    made = planned_solve(scenario(("cuda-core", "__cuda"), {"CONDA_OVERRIDE_CUDA": "13.0"}))
    exact = tuple(f"{r.name.normalized}={r.version}={r.build}" for r in made.records)
    every = {str(r.name.normalized): f"{r.name.normalized}={r.version}" for r in made.records}
    with pytest.raises(Unsolvable, match="cuda-version-native"):
        planned_solve(scenario(tuple(every.values()), {"CONDA_OVERRIDE_CUDA": ""}))
    versions = tuple(spec for name, spec in every.items() if name != "cuda-version-native")
    nowhere = {"CONDA_OVERRIDE_CUDA": ""}
    assert (made.toolkit, made.fit) == ("13.0", "native")
    with pytest.raises(Unsolvable, match="__cuda"):
        planned_solve(scenario(exact, nowhere))
    again = planned_solve(scenario(exact, {"CONDA_OVERRIDE_CUDA": "13.0"}))
    assert {str(r.name.normalized): r.build for r in again.records} == {
        str(r.name.normalized): r.build for r in made.records
    }
    without = planned_solve(scenario(versions, nowhere))
    assert (without.toolkit, without.fit) == ("13.0", "compat")


@pytest.mark.parametrize("block", MANIFESTS, ids=str)
def test_a_workspace_of_pixi_gives_the_toolkit_that_its_comment_says(
    block: Block, page_solve: PageSolve
) -> None:
    manifest = tomllib.loads(block.text)
    assert set(manifest) <= {"workspace", "dependencies", "system-requirements"}
    workspace = manifest["workspace"]
    assert tuple(workspace["channels"]) == OURS_FIRST
    specs = tuple(
        name if version == "*" else f"{name} {version}"
        for name, version in manifest["dependencies"].items()
    )
    # A comment of the whole block, or one for each platform, in their order.
    stated = [made for line in block.text.splitlines() if (made := promise(line)) != ("", "")]
    platforms = workspace["platforms"]
    assert len(stated) in {1, len(platforms)}
    for platform, (toolkit, fit) in zip(
        platforms, stated * (len(platforms) // len(stated)), strict=True
    ):
        machine = {"platform": platform} if isinstance(platform, str) else platform
        cuda = machine.get("cuda", manifest.get("system-requirements", {}).get("cuda", {}))
        cuda = {"driver": cuda} if isinstance(cuda, str) else cuda
        assert set(machine) <= {"name", "platform", "cuda"} and set(cuda) <= {"driver", "arch"}
        variables = {
            "CONDA_SUBDIR": machine["platform"],
            "CONDA_OVERRIDE_CUDA": cuda.get("driver", ""),
        }
        pick = page_solve(block)(
            scenario(specs, variables | {"CONDA_OVERRIDE_CUDA_ARCH": cuda.get("arch", "")})
        )
        assert (pick.toolkit, pick.fit) == (NEWEST if toolkit == "newest" else toolkit, fit)


def hadolint(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "Dockerfile").write_text(text)
    program = Path(sys.executable).with_name("hadolint")
    return subprocess.run(
        [program, folder / "Dockerfile"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("block", DOCKERFILES, ids=str)
def test_a_dockerfile_is_one_and_its_commands_give_an_environment(
    block: Block, page_solve: PageSolve, tmp_path: Path
) -> None:
    done = hadolint(block.text, tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    text = block.text.replace("\\\n", " ")
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    found = []
    for script in re.findall(r"^RUN (.+)$", text, re.MULTILINE):
        for command in of_script(block, script):
            line = read(Command(block, command.words, arguments))
            if line.scenario:
                found.append(line)
                assert line.channels == ("CHANNEL", "conda-forge")
                assert (
                    "--override-channels" in command.words and line.scenario.specs[0] == "cuda-gpu"
                )
                # What the comment above says: the toolkit of that driver.
                assert page_solve(block)(line.scenario).toolkit == arguments["CONDA_OVERRIDE_CUDA"]
                prefix = command.words[command.words.index("--prefix") + 1]
                assert f"CONDA_PREFIX={prefix}" in text and f"PATH={prefix}/bin:$PATH" in text
    assert found


@pytest.mark.parametrize("block", WORKFLOWS, ids=str)
def test_the_commands_of_a_workflow_give_an_environment(
    block: Block, page_solve: PageSolve
) -> None:
    (job,) = YAML(typ="safe").load(block.text)["jobs"].values()
    scripts = [shlex.split(step["run"]) for step in job["steps"]]
    lines = []
    for words in scripts:
        assert words[0] == "$CONDA/bin/conda"
        lines.append(read(Command(block, ("conda", *words[1:]), job["env"])))
    (made,) = [line for line in lines if line.scenario]
    assert made.scenario and made.scenario.specs[0] == "cuda-gpu"
    assert page_solve(block)(made.scenario).toolkit == job["env"]["CONDA_OVERRIDE_CUDA"]
