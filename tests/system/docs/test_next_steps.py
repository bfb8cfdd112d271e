"""What is printed as a next step can be typed: ctk has its commands, and lines for conda fix what
they are for.

Lines for conda are solved by rattler from the channels that they name, beside all that is in the
environment. What `ctk` prints for bad input is typed in tests/channel/cli/test_bad_input.py. Of
what changes the machine (`chmod`, `rm` of a broken record) the test sees that the program or the
file is there.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.env import examine as environment
from ctk.env.check import ENVIRONMENT_CHECKS
from ctk.env.doctor import look
from ctk.env.examine import examined
from ctk.lock.model import release_locks
from ctk.solve.channels import Channels
from ctk.solve.solve import Catalogue, Pick, Scenario, channel_url
from kit.doc_clients import Line, read
from kit.doc_commands import Command, parse_ctk
from kit.doc_pages import Block
from kit.next_steps import commands_in

pytest_plugins = ["docs_fixtures"]

VALUE = "VALUE"
"""What stands for a value that the code fills in."""


def literals(file: Path) -> Iterator[str]:
    """The texts in a module of Python that are no docstrings, with `VALUE` for what is
    filled in.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values
            )
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


NO_STEPS = {
    f"ctk {VALUE}": "the title of a page of help",
    "ctk env pack": "a comment in a file",
    "ctk site": "the line that somebody typed for a site that is there",
    "ctk solve": "the beginning of a line that goes on",
    f"ctk build {VALUE}": (
        "with a recipe, in test_a_package_that_is_left_out_is_built_by_the_line_for_it"
    ),
}
SOURCES = sorted((ROOT / "scripts" / "ctk").rglob("*.py"))


def test_every_command_of_ctk_in_a_text_is_one_that_it_takes() -> None:
    found = {
        c: file
        for file in SOURCES
        for text in literals(file)
        for c in commands_in(text)
        if c.startswith("ctk ")
    }
    assert len(found) > 20 and found.keys() >= NO_STEPS.keys(), "NO_STEPS has one that no text has"
    wrong = []
    for command, file in found.items():
        if command not in NO_STEPS:
            try:
                parse_ctk(shlex.split(command)[1:])
            except Exception as error:
                if type(error).__name__ != "Exit":  # as --help ends
                    wrong.append(f"{file.name}: `{command}`: {error}")
    assert wrong == []


RELEASES = {
    "lock.minor or lock.name",
    "lock.minor",
    "lock.removeprefix('cuda-')",
    "minor[1]",
    "self.minor",
    "state.minor",
    "stem.removeprefix('cuda-')",
    "releases",
    "' '.join(unmeasured)",
}
WITHOUT_SPACES = RELEASES | {
    "lock.name",
    "maker.recipe",
    "re.sub('-cu[0-9]+$', '', name)",  # of a project
    "version",
    "' '.join(words)",  # of `ctk build`: recipes, releases and platforms
    "name",  # of a package or a release
    "platform",
    "subdir",
    "words",  # of `ctk build`, and a quoted channel
}
IN_COMMAND = re.compile(
    r"(?:^|[`(]|: |&& |\b(?:run|see|type|then|or) )(?:ctk [a-z]|(?:conda|mamba|rm|rmdir|mv|touch)"
    r" )[^`;,)\n]*$|hand: $"
)


def unquoted(file: Path) -> Iterator[str]:
    """The values in commands of a module that shlex has not quoted, there or where the function
    names them.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        named = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
        safe = [
            ast.unparse(node.targets[0]) for node in named if "shlex." in ast.unparse(node.value)
        ]
        is_quoted = re.compile(
            "|".join([r"shlex\.", *(rf"\b{re.escape(name)}\b" for name in safe)])
        )
        for string in (node for node in ast.walk(function) if isinstance(node, ast.JoinedStr)):
            text = ""
            for part in string.values:
                if isinstance(part, ast.FormattedValue):
                    value = ast.unparse(part.value)
                    if IN_COMMAND.search(text) and not is_quoted.search(value):
                        yield value
                text += str(part.value) if isinstance(part, ast.Constant) else VALUE


def test_a_value_in_a_command_is_quoted() -> None:
    """A folder may have a space: `ctk publish --to /srv/my cuda` publishes another channel."""
    found = {value: file.name for file in SOURCES for value in unquoted(file)}
    assert {value: name for value, name in found.items() if value not in WITHOUT_SPACES} == {}
    assert found.keys() >= WITHOUT_SPACES, "WITHOUT_SPACES has one that no command has"


# --- `ctk doctor PREFIX`

MACHINES = (
    ("13.0", None),
    ("13.0", "7.0"),
    ("12.4", "9.0"),
    ("13.5", "12.0"),
    ("13.0", "9.0"),
    ("12.6", "12.1"),
    ("11.8", None),
)
REQUESTS = (
    ("cuda-core",),
    ("numba-cuda", "cuda-version=12.6"),
    ("cuda-nvcc", "cuda-core"),
    ("cuda-core", "cuda-version=13.5"),
)


def write(pick: Pick, prefix: Path) -> None:
    """The records of a pick in an environment of nothing else."""
    shutil.rmtree(prefix, ignore_errors=True)
    (prefix / "conda-meta").mkdir(parents=True)
    for r in pick.records:
        lists = {name: list(map(str, getattr(r, name))) for name in ("depends", "constrains")}
        record = {
            "name": r.name.normalized,
            "version": str(r.version),
            "build": str(r.build),
            "subdir": r.subdir,
            **lists,
        }
        record |= {"channel": str(r.channel), "url": str(r.url), "fn": r.file_name}
        (prefix / "conda-meta" / f"{r.name.normalized}-{r.version}-{r.build}.json").write_text(
            json.dumps(record)
        )


def checked(prefix: Path, driver: str | None, arch: str | None) -> dict[str, tuple[str, str]]:
    seen = look(ENVIRONMENT_CHECKS, examined(Workspace(ROOT), prefix, driver or "none", arch))
    return {check.name: (finding.severity, finding.fix) for check, finding in seen}


def after(line: Line, prefix: Path, driver: str | None, arch: str | None) -> Pick:
    """The environment after a line of `conda install`, from the channels that it names."""
    assert line.scenario and line.channels
    there = [json.loads(file.read_text()) for file in (prefix / "conda-meta").glob("*-*.json")]
    named = {spec.split("=")[0].split()[0] for spec in line.scenario.specs}
    pythons = [
        f"python={'.'.join(r['version'].split('.')[:2])}" for r in there if r["name"] == "python"
    ]
    kept = [r["name"] for r in there if r["name"] not in {*named, "python"}]
    places = [Path(unquote(urlsplit(channel).path)) for channel in line.channels]
    pick = Catalogue(places, line.scenario.subdir).pick(
        Scenario((*line.scenario.specs, *pythons, *kept), line.scenario.subdir, driver, arch)
    )
    assert pick, (
        f"{line.scenario.specs} with {kept} has no solution for driver {driver}, GPU {arch}"
    )
    return pick


def conda_lines(step: str) -> Iterator[tuple[str, Line]]:
    for command in commands_in(step):
        if command.startswith("conda install "):
            yield (
                command,
                read(Command(Block("a step", 1, "bash", command, ""), tuple(shlex.split(command)))),
            )


@pytest.mark.parametrize("made_for", MACHINES[:4], ids=str)
@pytest.mark.parametrize("specs", REQUESTS, ids=" ".join)
def test_what_env_check_prints_for_conda_mends_what_it_found(
    specs: tuple[str, ...],
    made_for: tuple[str, str | None],
    solved: Channels,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On every machine, with the pick of another one: also where a client sees no GPU."""
    locks = release_locks(Workspace(ROOT))
    monkeypatch.setattr(environment, "release_locks", lambda where: locks)
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    catalogue = Catalogue(solved.folders, "linux-64")
    pick = catalogue.pick(Scenario(specs, "linux-64", *made_for))
    if pick is None:
        pytest.skip("there is no such environment")
    prefix = tmp_path / "an environment"
    for driver, arch in MACHINES:
        write(pick, prefix)
        found = checked(prefix, driver, arch)
        for name, (severity, step) in found.items():
            if severity == "ok":
                continue
            lines = list(conda_lines(step))
            assert (
                lines
                or severity == "hint"
                or step.startswith(("update the driver to one", "make another"))
            ), step
            for _, line in lines:
                assert line.channels == tuple(map(channel_url, solved.folders)), step
                for seen in {arch, None}:
                    write(after(line, prefix, driver, seen), prefix)
                    again = checked(prefix, driver, arch)
                    assert again[name][0] != "error", f"{name} after {step}: {again[name]}"
                    write(pick, prefix)
            if "update the driver" in step:  # and that would do, or conda then has what does
                newer = step.partition("driver to one for CUDA ")[2].split(" ")[0]
                severity, then = checked(prefix, newer, arch)[name]
                assert severity != "error" or (
                    list(conda_lines(then)) and "update the driver" not in then
                ), (
                    step,
                    then,
                )


def test_a_broken_record_is_removed_and_its_package_installed_again(
    solved: Channels, tmp_path: Path
) -> None:
    pick = Catalogue(solved.folders, "linux-64").pick(Scenario(("cuda-core",), "linux-64", "13.0"))
    assert pick
    write(pick, tmp_path / "e")
    (broken,) = (tmp_path / "e" / "conda-meta").glob("numpy-*.json")
    broken.write_text("")
    severity, step = checked(tmp_path / "e", "13.0", None)["records"]
    assert severity == "error"
    remove, _ = commands_in(step)
    ((_, line),) = conda_lines(step)
    subprocess.run(["sh", "-c", remove], check=True)
    assert not broken.exists() and line.scenario and line.scenario.specs == ("numpy",)
    assert after(line, tmp_path / "e", "13.0", None).record("numpy")


def test_a_package_that_is_left_out_is_built_by_the_line_for_it(solved: Channels) -> None:
    from ctk.core.errors import Unsolvable
    from ctk.solve.advice import Checkout, CheckoutCatalogue
    from ctk.solve.channels import makers
    from ctk.solve.why import solve_or_say_why

    checkout = Checkout(maker=makers(Workspace(ROOT)))
    base = CheckoutCatalogue(solved.folders[1:], "linux-64", checkout)
    for package in ("cuda-core", "libcublas", "cudnn"):
        with pytest.raises(Unsolvable) as error:
            solve_or_say_why(Scenario((package,), "linux-64", "13.0"), base)
        lines = [c for c in commands_in(error.value.step) if c.startswith("ctk ")]
        assert lines, error.value.step
        for command in lines:
            parse_ctk(shlex.split(command)[1:])
