"""The CI workflows: what would break a release or let somebody write.

The pre-commit hooks have their form.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from conftest import ROOT
from ctk.cli.main import COMMANDS

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


def load(path: Path) -> dict[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    return yaml.load(path)


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in load(path)["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_command_and_script_that_is_run_is_there(path: Path) -> None:
    for step in steps(path):
        text = re.sub(r"\$\{\{.*?\}\}", "", step.get("run", "")).replace("\\\n", " ")
        for name in re.findall(r"\./(scripts/[\w-]+)|\b(tests/\S+\.py)", text):
            assert (ROOT / (name[0] or name[1])).exists(), name
        for line in re.findall(r"\.venv/bin/ctk ([^\n)|&]*)", text):
            words = shlex.split(line)
            entry = COMMANDS[words[0]]
            assert not isinstance(entry, tuple) or words[1] in entry[1], line


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_workflow_may_do_no_more_than_it_must(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}, "more is for the one job that needs it"
    text = path.read_text()
    assert not re.search(r"pull_request_target|workflow_run|secrets[.\[]|zizmor: ignore", text)
    if "pull_request" in workflow["on"]:
        assert not re.search(r"secrets|github\.token|vars\.|environment:|write", text)


def test_who_may_write_or_has_an_identity() -> None:
    """And runs nothing that came from the index: no build, no release, only what was handed on."""
    more = {
        (path.stem, name): {
            right for right, kind in job.get("permissions", {}).items() if kind == "write"
        }
        for path in FILES
        for name, job in load(path)["jobs"].items()
        if job.get("permissions")
    }
    assert more == {
        ("publish", "publish"): {"id-token", "attestations"},
        ("release-check", "propose"): {"contents", "pull-requests"},
    }
    for stem, name in more:
        job = load(FOLDER / f"{stem}.yml")["jobs"][name]
        scripts = "\n".join(step.get("run", "") for step in job["steps"])
        assert not re.search(
            r"scripts/(build|new-release|test)|ctk (build|release|check --rebuild)", scripts
        )
        assert any(
            step.get("uses", "").startswith("actions/download-artifact@") for step in job["steps"]
        )


def test_what_is_published_was_built_whole_from_no_cache_and_checked() -> None:
    jobs = load(FOLDER / "publish.yml")["jobs"]
    publish = jobs["publish"]
    assert (publish["environment"], publish["needs"]) == ("publish", ["plan", "build"])
    *_, checked, published = publish["steps"]
    assert "ctk check packages" in checked["run"]
    assert "ctk publish packages --attest" in published["run"]
    assert "actions/cache" not in (FOLDER / "publish.yml").read_text()


def test_a_proposal_touches_only_what_a_release_changes(tmp_path: Path) -> None:
    """The step that applies it, run: what the job before it was made to add elsewhere does not get
    through.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    wanted = ["docs/a.md", "tests/channel/recipes/golden/a/b.json", "variants/cuda-13.6.lock"]
    others = [
        ".github/workflows/build.yml",
        "scripts/build",
        "tests/conftest.py",
        "recipes/README.md",
    ]
    git("init", "-q")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "build").write_text("build\n")
    git("add", "--all")
    git("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x")
    for name in wanted + others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("changed\n")
    git("add", "--all")
    (tmp_path / ".git" / "proposal").mkdir()
    (tmp_path / ".git" / "proposal" / "changes.patch").write_text(
        git("diff", "--cached", "--binary")
    )
    git("reset", "-q", "--hard")
    (step,) = (s for s in steps(FOLDER / "release-check.yml") if "git apply" in s.get("run", ""))
    environment = {**os.environ, "RUNNER_TEMP": str(tmp_path / ".git")}
    subprocess.run(["bash", "-ec", step["run"]], cwd=tmp_path, check=True, env=environment)
    assert git("diff", "--cached", "--name-only").split() == wanted
