"""The CI workflows: their commands are ones that this checkout has, and they may do no more than they must.

That they follow the public schema, and that zizmor finds nothing in them, is held by test_pre_commit.py.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from ruamel.yaml import YAML

import acceptance
from conftest import ROOT
from ctk import feedstock
from ctk.cli.main import app
from ctk.core.checkout import Workspace

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
# The clients' own, for a job that builds nothing that anybody gets.
INSTALLERS = ("conda-incubator/setup-miniconda", "mamba-org/setup-micromamba", "prefix-dev/setup-pixi")
# What stands for a value that only the service knows.
VALUE = "13.4"


def load(path: Path) -> dict[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    return yaml.load(path)


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in load(path)["jobs"].values():
        yield from job["steps"]


def commands(path: Path) -> Iterator[list[str]]:
    """Each `ctk` command line of a workflow, as words."""
    for step in steps(path):
        text = re.sub(r"\$\{\{.*?\}\}", "", step.get("run", "")).replace("\\\n", " ")
        for line in re.findall(r"\.venv/bin/ctk ([^\n)|&]*)", text):
            line = re.sub(r"\$(WHAT|words|OPTIONS)\b", "", line)
            yield [re.sub(r"\$\w+", VALUE, word) for word in shlex.split(line)]


def test_the_workflows_are_there() -> None:
    assert [path.stem for path in FILES] == ["build", "clients", "nightly", "publish", "release-check"]


def test_each_client_and_each_solver_of_conda_runs_the_picks_and_the_docs() -> None:
    jobs = load(FOLDER / "clients.yml")["jobs"]
    used = {step["uses"].partition("@")[0] for step in jobs["clients"]["steps"] if "uses" in step}
    assert used >= set(INSTALLERS)
    rows = jobs["clients"]["strategy"]["matrix"]["include"]
    tried = {(name, row["solver"]) for row in rows for name in row["tests"].split()}
    assert tried >= {("tests/docs/test_environments.py", solver) for solver in ("rattler", "classic")}
    assert tried >= {("tests/docs", "libmamba"), ("tests/solver/test_clients.py", "libmamba")}
    scripts = "\n".join(step.get("run", "") for step in jobs["clients"]["steps"])
    assert "-r requirements-conda-lock.lock" in scripts and "conda-rattler-solver" in scripts


def test_the_commands_of_an_exported_readme_are_run_for_every_recipe() -> None:
    scripts = "\n".join(step.get("run", "") for step in load(FOLDER / "clients.yml")["jobs"]["feedstocks"]["steps"])
    assert "for recipe in recipes/*/recipe.yaml" in scripts and "ctk feedstock export" in scripts
    for command in re.findall(r"`(conda smithy [^`]*)`", feedstock._README):
        assert command in scripts


def test_every_piece_of_the_acceptance_runs_every_night(project: Workspace) -> None:
    workflow = load(FOLDER / "nightly.yml")
    assert workflow["on"]["schedule"]
    patterns = " ".join(workflow["jobs"]["acceptance"]["strategy"]["matrix"]["only"]).split()
    names = [piece.name for piece in acceptance.pieces(project)]
    assert {name: sum(fnmatch(name, each) for each in patterns) for name in names} == dict.fromkeys(names, 1)
    assert ["./scripts/test", "--all"] in [words for piece in acceptance.pieces(project) for words in piece.commands]


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "nightly"], ids=lambda p: p.stem)
def test_every_command_is_one_that_ctk_has(path: Path) -> None:
    found = list(commands(path))
    assert found
    for words in found:
        command: Any = typer.main.get_command(app)
        context = click.Context(command)
        rest = list(words)
        while isinstance(command, click.Group) or hasattr(command, "commands"):
            assert rest and rest[0] in command.commands, " ".join(words)
            command = command.commands[rest.pop(0)]
        # Parses the words as the command itself does; a required value may come from the environment of the step.
        needed = {p.envvar: "x" for p in command.params if p.envvar}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in needed.items():
                patch.setenv(name, value)
            command.make_context(command.name, rest, parent=context)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_script_that_is_run_is_there(path: Path) -> None:
    for step in steps(path):
        for name in re.findall(r"\./(scripts/[\w-]+)|\b(tests/\S+\.py)", step.get("run", "")):
            assert (ROOT / (name[0] or name[1])).exists(), name


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_workflow_may_do_no_more_than_it_must(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}, "more is for the one job that needs it"
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 240, name
        for step in job["steps"]:
            used = step.get("uses", "")
            own = r"actions/[\w-]+" + (f"|{'|'.join(INSTALLERS)}" if path.stem == "clients" else "")
            assert not used or re.fullmatch(rf"({own})@[0-9a-f]{{40}}", used), "the service's own, of one commit"
            if used.startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name
            # What somebody typed, and what a job before handed on, must not become a part of a script.
            assert "${{" not in step.get("run", ""), "a value comes into a script through env"


def test_who_may_write_or_has_an_identity() -> None:
    """And runs nothing that came from the index: no build, no release, only what was handed on."""
    more = {
        (path.stem, name): {right for right, kind in job.get("permissions", {}).items() if kind == "write"}
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
        assert not re.search(r"scripts/(build|new-release|test)|ctk (build|rebuild|release)", scripts)
        assert any(step.get("uses", "").startswith("actions/download-artifact@") for step in job["steps"])


def test_what_is_published_was_built_whole_and_checked_and_the_channel_is_configuration() -> None:
    jobs = load(FOLDER / "publish.yml")["jobs"]
    publish = jobs["publish"]
    assert (publish["environment"], publish["needs"]) == ("publish", ["plan", "build"])
    handed_on = [
        step["with"]["name"]
        for job in (jobs["build"], publish)
        for step in job["steps"]
        if re.match(r"actions/(up|down)load-artifact@", step.get("uses", ""))
    ]
    assert handed_on == ["channel-${{ matrix.id }}"] * 2
    *_, checked, published = publish["steps"]
    assert "ctk channel check packages" in checked["run"]
    assert "ctk publish packages --attest" in published["run"]
    assert published["env"].items() >= {
        ("CTK_CHANNEL", "${{ vars.CHANNEL }}"),
        ("CTK_SERVER", "${{ vars.CHANNEL_SERVER }}"),
    }


def test_what_a_pull_request_runs_has_no_secret() -> None:
    texts = {path.stem: path.read_text() for path in FILES}
    assert [name for name in texts if "pull_request" in load(FOLDER / f"{name}.yml")["on"]] == ["build"]
    assert not re.search(r"secrets|github\.token|vars\.|environment:|write", texts["build"])
    for text in texts.values():
        assert not re.search(r"pull_request_target|workflow_run|secrets[.\[]|zizmor: ignore", text)
    assert not list(ROOT.glob(".github/zizmor.y*ml"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_what_makes_packages_knows_the_commits_of_their_recipes(path: Path) -> None:
    for name, job in load(path)["jobs"].items():
        if any(re.search(r"scripts/(build|new-release)", step.get("run", "")) for step in job["steps"]):
            (checkout,) = (s for s in job["steps"] if s.get("uses", "").startswith("actions/checkout@"))
            assert checkout["with"]["fetch-depth"] == 0, name


@pytest.mark.parametrize("name", ["build", "publish"])
def test_the_matrix_is_the_plan_s(name: str) -> None:
    jobs = load(FOLDER / f"{name}.yml")["jobs"]
    made = [job for job in jobs.values() if "matrix.id" in job["name"]]
    assert {job["strategy"]["matrix"] for job in made} == {"${{ fromJSON(needs.plan.outputs.matrix) }}"}
    options = [s["env"]["OPTIONS"] for job in made for s in job["steps"] if "scripts/build" in s.get("run", "")]
    assert options == ["${{ matrix.options }}"]


@pytest.mark.parametrize(("name", "made"), [("build", 3), ("publish", 1)])
def test_every_channel_that_is_built_has_a_sample_rebuilt(name: str, made: int) -> None:
    """And is checked: for publishing where it arrives."""
    found = 0
    for job in load(FOLDER / f"{name}.yml")["jobs"].values():
        scripts = "\n".join(step.get("run", "") for step in job["steps"])
        if "scripts/build" in scripts:
            found += 1
            assert "ctk rebuild --sample" in scripts
            assert name == "publish" or "ctk channel check" in scripts
    assert found == made


def test_builds_are_found_by_content_and_never_for_publishing() -> None:
    (cache,) = (s["with"] for s in steps(FOLDER / "build.yml") if s.get("uses", "").startswith("actions/cache@"))
    assert cache == {"path": ".cache/builds", "key": "builds-${{ matrix.id }}-${{ matrix.key }}"}
    assert "actions/cache" not in (FOLDER / "publish.yml").read_text()


def test_the_release_check_proposes_what_one_command_makes() -> None:
    text = (FOLDER / "release-check.yml").read_text()
    order = [
        "ctk release check --base",
        "./scripts/new-release",
        "output/new-release.md",
        "git apply",
        "gh pr create",
    ]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)
    assert load(FOLDER / "release-check.yml")["on"]["schedule"]
    script = (ROOT / "scripts" / "new-release").read_text()
    order = ['release add "$@" $newer --write', "release measure --write", "$ctk verify", "$ctk build", "release diff"]
    assert [script.index(word) for word in order] == sorted(script.index(word) for word in order)
    assert "output/new-release.md" in script


def test_a_proposal_touches_only_what_a_release_changes(tmp_path: Path) -> None:
    """The step that applies it, run: what the job before it was made to add elsewhere does not get through."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    wanted = ["docs/a.md", "tests/recipes/golden/a/b.json", "variants/cuda-13.6.lock"]
    others = [".github/workflows/build.yml", "scripts/build", "tests/conftest.py", "recipes/README.md"]
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
    (tmp_path / ".git" / "proposal" / "changes.patch").write_text(git("diff", "--cached", "--binary"))
    git("reset", "-q", "--hard")
    (step,) = (s for s in steps(FOLDER / "release-check.yml") if "git apply" in s.get("run", ""))
    environment = {**os.environ, "RUNNER_TEMP": str(tmp_path / ".git")}
    subprocess.run(["bash", "-ec", step["run"]], cwd=tmp_path, check=True, env=environment)
    assert git("diff", "--cached", "--name-only").split() == wanted
