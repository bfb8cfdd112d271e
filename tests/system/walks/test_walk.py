"""The commands of docs/maintainers.md, in the order of the page, from a new release on the index to
readers who see it.

The release is made up, its packages are tiny and the index is on localhost; the commands are the
page's own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import walk_world

from conftest import ROOT
from ctk.core.platforms import this_platform
from ctk.lock.model import load
from kit import world
from kit.doc_commands import Command, commands
from kit.doc_pages import blocks
from kit.fake_index import serve
from kit.tables import cells
from kit.world import World

MAINTAINERS = blocks(ROOT / "docs" / "maintainers.md")
RELEASE, *_ = (
    block for block in MAINTAINERS if block.heading == "A new release of the CUDA Toolkit"
)
PUBLISHING = next(block for block in MAINTAINERS if block.heading == "Publish, check and roll back")
EXCLUSIONS = next(
    block for block in MAINTAINERS if block.text.startswith("# variants/exclusions.yaml")
)
STEPS = commands(RELEASE)
MINOR = next(c.words[3] for c in STEPS if c.starts_with(("ctk", "release", "add")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    compiler = shutil.which("cc")
    if this_platform() != "linux-64" or compiler is None or shutil.which("git") is None:
        pytest.skip(
            "needs a linux-64 machine with git and a C compiler, which makes a library to be"
            " measured"
        )
    with pytest.MonkeyPatch.context() as patch, serve() as index:
        index.html = False  # as the usual index answers: it says when a file was uploaded
        patch.setitem(world.VERSIONS, MINOR, f"{MINOR}.12")
        for name, component in walk_world.NVRTC.items():
            patch.setitem(world.HEADERS, name, component)
        made = walk_world.make(tmp_path_factory.mktemp("walk") / "checkout", index, compiler)
        walk_world.offer(made, MINOR)
        yield made


def step(made: World, command: Command | tuple[str, ...]) -> str:
    """What a command of the page prints, run in that checkout.

    Only the published folder is at another place.
    """
    words = command.words if isinstance(command, Command) else command
    if words[0] == "git":
        return walk_world.git(made.root, *words[1:])
    assert words[0] == "ctk"
    own = [word.replace("/srv/www/cuda", str(made.root / "www")) for word in words[1:]]
    published = str(made.root / "www")
    if own[0] == "build" or (
        own[0] == "check" and published not in own
    ):  # of no interpreter is a base channel made
        own += ["--base", str(made.base)]
    done = world.ctk(made, *own)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def names(folder: Path) -> set[str]:
    found: set[str] = set()
    for subdir in ("linux-64", "noarch"):
        found |= set(json.loads((folder / subdir / "repodata.json").read_text())["packages.conda"])
    return found


@dataclass(frozen=True)
class Walked:
    """What the page's commands for a new release came to.

    Attributes:
        made: The checkout.
        said: Command -> what it printed.
        before, after: The packages that readers saw, and see now.
    """

    made: World
    said: dict[tuple[str, ...], str]
    before: set[str]
    after: set[str]


@pytest.fixture(scope="module")
def walked(made: World) -> Walked:
    before, said = names(made.root / "www"), {}
    for command in STEPS:
        said[command.words] = step(made, command)
        if command.words == ("ctk", "release", "add", MINOR):
            assert not (made.root / "variants" / f"cuda-{MINOR}.lock").exists(), (
                "it shows the files, and writes none"
            )
        if command.words == ("ctk", "release", "list"):
            # What the page says next of a new component: it is unclassified until the written list
            # has it.
            assert "neither packaged nor in variants/exclusions.yaml: cccl" in said[command.words]
            entry = EXCLUSIONS.text.replace(">=13.6", f">={MINOR}")
            (made.root / "variants" / "exclusions.yaml").write_text(entry)
            assert "neither packaged" not in step(made, command)
    return Walked(made, said, before, names(made.root / "www"))


def test_the_page_s_commands_lead_from_a_new_release_to_readers_who_see_it(walked: Walked) -> None:
    assert ("ctk", "release", "list") in walked.said
    assert f"\ncuda-{MINOR} " in walked.said["ctk", "release", "check"]
    assert {
        f"cuda-version-{MINOR}-{build}.conda" for build in ("native_101", "compat_1")
    } <= walked.after
    assert walked.before < walked.after, "what was published stays"


def test_what_is_measured_is_in_the_lock_and_in_the_tables(walked: Walked) -> None:
    root = walked.made.root
    facts = load(root / "variants" / f"cuda-{MINOR}.lock").facts
    assert facts and (facts.gpu_architectures, facts.ptx_isa) == (("7.5", "9.0", "12.1"), "9.9")
    page = (root / "docs/how-the-right-build-is-picked.md").read_text()
    assert "| 13.5 or newer |" not in page, "its tables are of that release"
    assert f"| {MINOR}.0 | 7.5 to 12.1 | 9.9 |" in page


def test_what_was_published_can_be_looked_through_and_taken_back(walked: Walked) -> None:
    """The page's commands for a published folder.

    Tests/channel has those for a server, for a bucket and from a staging channel: test_server.py,
    test_protocols.py, test_bucket.py and test_source.py.
    """
    said = {}
    elsewhere = re.compile(r"URL|s3://|/srv/www/staging")
    for command in commands(PUBLISHING):
        if not elsewhere.search(" ".join(command.words)):
            said[command.words] = step(walked.made, command)
    assert cells(said["ctk", "rollback", "/srv/www/cuda"])
    assert names(walked.made.root / "www") == walked.before
