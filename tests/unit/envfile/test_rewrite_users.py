"""The files of users after random edits: what the edits say is there, and all else as before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ctk.envfile.model import EnvironmentFile, Line, Tool
from ctk.envfile.read import read_file
from ctk.envfile.rewrite import Edit, name_of_new, rewritten
from ctk.envfile.rewrite_edits import readable_spec

USERS = sorted(Path(__file__).with_name("files").glob("[0-9]*"))
SWEEP = pytest.mark.sweep
CHANNELS = ("https://example.org/ours", "conda-forge")
SPECS = (
    "new-{}",
    "new-{}=12.6",
    "new-{} >=12,<13",
    "new-{}=*=*cuda*",
    "conda-forge::new-{}=9",
)


def random_edits(file: EnvironmentFile, seed: int) -> list[Edit]:
    """Edits of some lines, each with specs of packages that the file does not name."""
    random_numbers = random.Random(f"{file.path.name} {seed}")
    lines = list(file.lines)
    chosen = random_numbers.sample(lines, random_numbers.randint(1, len(lines)))
    edits = []
    for line in chosen:
        count = random_numbers.choice((0, 1, 1, 2))
        specs = [
            random_numbers.choice(SPECS).format(f"{line.number}-{place}") for place in range(count)
        ]
        comment = random_numbers.choice(("", f"was {line.text}"))
        edits.append(Edit(line, tuple(specs), comment))
    return edits


def read_again(text: str, path: Path, folder: Path) -> EnvironmentFile:
    new = folder / path.name
    new.write_bytes(text.encode())
    return read_file(new)


def lines_that_stay(file: EnvironmentFile, edits: list[Edit]) -> list[str]:
    """All but edited lines, channels, and what stands above a part of pip: it may be empty now."""
    numbers = {edit.line.number for edit in edits}
    stays = []
    in_channels = False
    for number, line in enumerate(file.text.splitlines(), start=1):
        if not line.strip().startswith("-"):
            in_channels = line.startswith("channels")
        is_above_pip = line.strip() == "- pip:" or line.endswith("pypi-dependencies]")
        is_empty = line == "dependencies:" and len(numbers) == len(file.lines)
        if number not in numbers and not in_channels and not is_above_pip and not is_empty:
            stays.append(line)
    return stays


def asked(line: Line) -> tuple[str, ...]:
    """What a line asks for, in a form that does not depend on how it is written."""
    spec = readable_spec(line.spec)
    if line.tool is Tool.PIP or spec is None:
        return (line.tool, line.spec)
    return (line.tool, line.channel, spec.name, spec.version.removeprefix("*"), spec.build)


def asked_by(spec: str) -> tuple[str, ...]:
    channel, _, rest = spec.rpartition("::")
    return asked(Line(0, "", Tool.CONDA, "", rest, channel))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=SWEEP) for n in range(2, 12))])
@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_a_file_of_a_user_after_edits(path: Path, seed: int, tmp_path: Path) -> None:
    file = read_file(path)
    edits = random_edits(file, seed)
    text = rewritten(file, edits, CHANNELS)
    after = read_again(text, path, tmp_path)

    edited = {edit.line for edit in edits}
    expected = [asked(line) for line in file.lines if line not in edited]
    expected += [asked_by(spec) for edit in edits for spec in edit.specs]
    # What is added is for each platform with CUDA, in a table of its own where others are listed.
    assert set(map(asked, after.lines)) == set(expected)
    named = {line.channel for line in after.lines}
    for environment in after.environments:
        found = tuple(c for c in environment.channels if c != "nodefaults")
        is_ours = found[:2] == CHANNELS
        is_kept = path.suffix == ".toml" and bool(named - {*CHANNELS, ""})
        assert is_ours or is_kept
        assert len(found) == 2 or is_kept
    assert [environment.name for environment in after.environments] == [
        environment.name for environment in file.environments
    ]
    stays = lines_that_stay(file, edits)
    rest = iter(text.splitlines())
    assert [line for line in stays if line not in rest] == []  # in this order
    for edit in edits:
        if edit.comment:
            brackets = "[]" if path.suffix == ".toml" else "()"
            assert edit.comment.translate(str.maketrans("[]", brackets)) in text


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_a_rewritten_file_stays_when_it_is_rewritten_again(path: Path, tmp_path: Path) -> None:
    file = read_file(path)
    once = rewritten(file, random_edits(file, 0), CHANNELS, ["cuda-gpu"])
    again = rewritten(read_again(once, path, tmp_path), [], CHANNELS)
    assert again == once
    crlf = rewritten(read_again(once.replace("\n", "\r\n"), path, tmp_path), [], CHANNELS)
    assert crlf == once.replace("\n", "\r\n")


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_no_edits_and_its_own_channels_change_no_file(path: Path) -> None:
    file = read_file(path)
    channels = file.environments[0].channels
    if "channels" in file.text:
        assert rewritten(file, [], channels) == file.text


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_each_line_may_become_the_same_spec(path: Path, tmp_path: Path) -> None:
    """What several lines are replaced by stands once in each table."""
    file = read_file(path)
    edits = [Edit(line, ("cuda-version=12.6",), "the same") for line in file.lines]
    text = rewritten(file, edits, CHANNELS)
    after = read_again(text, path, tmp_path)
    assert {asked(line) for line in after.lines} == {asked_by("cuda-version=12.6")}
    parts = {"" if line.part == "pip" else line.part for line in file.lines}
    if not any(subdir.startswith("osx") for each in file.environments for subdir in each.subdirs):
        assert sorted(line.part for line in after.lines) == sorted(parts)
    else:  # once for each platform with CUDA, and not for the others
        assert len({line.part for line in after.lines}) == len(after.lines)
        before = {line.part for line in file.lines if line.name == "cuda-version"}
        assert not any(line.is_for("osx-arm64") and line.part not in before for line in after.lines)


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_all_lines_may_go(path: Path, tmp_path: Path) -> None:
    file = read_file(path)
    text = rewritten(file, [Edit(line, ()) for line in file.lines], CHANNELS, ["cuda-gpu"])
    after = read_again(text, path, tmp_path)
    assert {line.name for line in after.lines} == {"cuda-gpu"}
    assert name_of_new(file) == path.suffix
