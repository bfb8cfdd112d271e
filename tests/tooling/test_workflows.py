"""The CI workflows follow the public schema, and every command in them is one that this checkout has."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from ruamel.yaml import YAML

from conftest import ROOT
from ctk.cli import app

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
# What stands for a value that only the service knows.
VALUE = "13.4"


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    """check-jsonschema, which carries the schema: nothing is fetched."""
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )


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
            line = re.sub(r"\$(WHAT|words)\b", "", line)
            yield [re.sub(r"\$\w+", VALUE, word) for word in shlex.split(line)]


def test_the_three_workflows_are_there() -> None:
    assert [path.stem for path in FILES] == ["build", "publish", "release-check"]


def test_they_follow_the_public_schema() -> None:
    done = check(*FILES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_finds_what_is_wrong(tmp_path: Path) -> None:
    text = FILES[0].read_text()
    (tmp_path / "wrong.yml").write_text(text.replace("runs-on:", "run-on:", 1))
    done = check(tmp_path / "wrong.yml")
    assert done.returncode == 1
    assert "wrong.yml" in done.stdout + done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
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
    assert workflow["permissions"], "without this key a workflow may write everything"
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 240, name
    for step in steps(path):
        used = step.get("uses", "")
        assert not used or re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", used), "the service's own, of one commit"
        # What somebody typed must not become a part of a script.
        assert not re.search(r"\$\{\{\s*(inputs|github\.event)\.", step.get("run", "")), step


def test_only_publishing_has_an_identity_and_the_channel_is_configuration() -> None:
    texts = {path.stem: path.read_text() for path in FILES}
    assert [name for name, text in texts.items() if "id-token: write" in text] == ["publish"]
    assert "ctk publish --attest" in texts["publish"]
    environment = next(s["env"] for s in steps(FOLDER / "publish.yml") if "CTK_CHANNEL" in s.get("env", {}))
    assert environment["CTK_CHANNEL"] == "${{ vars.CHANNEL }}"
    assert environment["CTK_SERVER"] == "${{ vars.CHANNEL_SERVER }}"


@pytest.mark.parametrize("name", ["build", "publish"])
def test_the_matrix_is_the_plan_s_and_caches_are_found_by_content(name: str) -> None:
    jobs = load(FOLDER / f"{name}.yml")["jobs"]
    (job,) = (j for j in jobs.values() if "key" in str(j.get("steps")))
    assert job["strategy"]["matrix"] == "${{ fromJSON(needs.plan.outputs.matrix) }}"
    (cache,) = (s["with"] for s in job["steps"] if s.get("uses", "").startswith("actions/cache@"))
    assert cache == {"path": ".cache/builds", "key": "builds-${{ matrix.id }}-${{ matrix.key }}"}


def test_the_release_check_proposes_what_one_command_makes() -> None:
    text = (FOLDER / "release-check.yml").read_text()
    order = ["ctk release check --partial", "./scripts/new-release", "gh pr create", "output/new-release.md"]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)
    assert load(FOLDER / "release-check.yml")["on"]["schedule"]
    script = (ROOT / "scripts" / "new-release").read_text()
    order = ['release add "$@" $newer --write', "release measure --write", "$ctk verify", "$ctk build", "release diff"]
    assert [script.index(word) for word in order] == sorted(script.index(word) for word in order)
    assert "output/new-release.md" in script
