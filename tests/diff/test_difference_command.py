"""`ctk release diff` against a package index on localhost."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, NotPublished, UnknownName
from ctk.core.platforms import PLATFORMS
from ctk.fetch.fetch import fetch, laid_out, stored
from ctk.index.index import Index
from ctk.lock.model import ReleaseLock, load
from kit.ctk_release import Run, component, write
from kit.ctk_release import release as ctk_lock
from kit.fake_index import FakeIndex, configure_pip, serve
from kit.fake_index import wheel as made_wheel

pytest_plugins = ["kit.ctk_release_fixtures"]


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, here: Workspace) -> Iterator[FakeIndex]:
    """Offers two minors of one component; the newer one has lost a header."""
    here.variants.mkdir()
    with serve() as index:
        configure_pip(monkeypatch, index, retries="0", timeout="60")
        write(here.variants, offer(index, "13.3.1", {"a.h": b"int a;", "b.h": b"int b;"}))
        write(here.variants, offer(index, "13.4.0", {"a.h": b"int a, more;"}))
        yield index


@pytest.fixture
def run(run: Run, index: FakeIndex) -> Run:
    """Runs `ctk release diff ...` in this process, for linux-64; errors propagate."""
    return partial(run, "diff", "-p", "linux-64")


TAGS = "py3-none-manylinux2014_x86_64"


def offer(index: FakeIndex, release: str, files: dict[str, bytes]) -> ReleaseLock:
    inside = {f"nvidia/cu13/include/{name}": content for name, content in files.items()}
    content = made_wheel("nvidia-a", release, TAGS, (), inside)
    index.add(f"nvidia_a-{release}-{TAGS}.whl", content)
    return locked(release, "a", content)


def locked(release: str, name: str, content: bytes) -> ReleaseLock:
    """A release of a component, for linux-64."""
    made = component(name, release, ["linux-64"])
    sha256 = hashlib.sha256(content).hexdigest()
    wheels = {t: replace(a, sha256=sha256, size=len(content)) for t, a in made.artefacts.items() if a}
    return ctk_lock(release, replace(made, artefacts=dict.fromkeys(PLATFORMS) | wheels))


def lock_of(here: Workspace, minor: str) -> ReleaseLock:
    return load(here.variants / f"cuda-{minor}.lock")


def test_two_locked_minors_are_compared_by_their_files_and_asked_of_the_index_once(run: Run, index: FakeIndex) -> None:
    shown = run("13.3", "13.4")
    assert shown.startswith("### CTK 13.3.1 -> 13.4.0\n\n- linux-64: 1 of 1 component changed")
    assert " -1 \\~1 " in shown
    index.requests.clear()
    assert run("13.3", "13.4") == shown
    assert index.requests == []


def test_files_fetched_for_the_comparison_are_removed_and_others_stay(run: Run, here: Workspace) -> None:
    [kept], [borrowed] = (lock_of(here, minor).artefacts for minor in ("13.3", "13.4"))
    fetch([kept], here, Index)
    run("13.3", "13.4")
    assert stored(kept, here).exists() and laid_out(kept, here).exists()
    assert not stored(borrowed, here).exists() and not laid_out(borrowed, here).exists()


def test_without_binaries_nothing_is_fetched(run: Run, index: FakeIndex) -> None:
    assert "the binaries were not read" in run("13.3", "13.4", "--no-binaries")
    assert index.requests == []


def test_a_lock_of_a_git_revision_is_compared(run: Run, here: Workspace) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(here.root), "-c", "user.name=a", "-c", "user.email=a", *words], check=True)

    git("init", "-q")
    git("add", "variants")
    git("commit", "-qm", "locks")
    now = replace(lock_of(here, "13.4"), release="13.4.7")
    write(here.variants, now)
    assert "CTK 13.4.0 -> 13.4.7" in run("HEAD:13.4", "13.4", "--no-binaries")
    with pytest.raises(BadValue, match=r"HEAD:variants/cuda-13\.9\.lock cannot be read"):
        run("HEAD:13.9", "13.4")


def test_a_component_that_is_gone_is_flagged(run: Run, here: Workspace, index: FakeIndex) -> None:
    write(here.variants, locked("13.5.0", "b", b"not read"))
    assert "- linux-64: a: not published any more" in run("13.4", "13.5", "--no-binaries")
    assert "Gone" not in run("13.3", "13.4")


def test_a_terminal_shows_the_page_formatted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the output for a terminal
    shown = run("13.3", "13.4", "--no-binaries")
    assert "CTK 13.3.1 -> 13.4.0" in shown and "#" not in shown and "| ---" not in shown


def test_releases_of_two_kinds_cannot_be_compared(run: Run, here: Workspace) -> None:
    write(here.variants, replace(lock_of(here, "13.4"), release="python-13", manifest=None))
    with pytest.raises(UnknownName, match="nothing in common"):
        run("13.4", "python-13")


def test_a_wheel_that_vanished_is_named(run: Run, index: FakeIndex) -> None:
    index.projects["nvidia-a"].popitem()
    with pytest.raises(NotPublished, match="nvidia-a"):
        run("13.3", "13.4")
