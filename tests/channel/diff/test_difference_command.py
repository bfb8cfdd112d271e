"""`ctk release diff` of a small checkout."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import partial

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, UnknownName
from ctk.core.platforms import PLATFORMS
from ctk.lock import contents
from ctk.lock.contents import Content
from ctk.lock.model import ReleaseLock, load
from ctk.package.binaries import Binary
from kit.ctk_release import Run, component, release, write

pytest_plugins = ["kit.ctk_release_fixtures"]


@pytest.fixture
def run(run: Run, here: Workspace) -> Run:
    """Runs `ctk release diff ...` in this process, for linux-64, where two minors are locked.

    Errors propagate.
    """
    here.variants.mkdir()
    for name, number in (("13.3.1", "1"), ("13.4.0", "2")):
        write(here.variants, locked(name))
        measured(here, name[:4], f"liba.so.{number}")
    return partial(run, "diff", "--platform", "linux-64")


def locked(version: str) -> ReleaseLock:
    """A release of a component for linux-64."""
    made = component("a", version, ["linux-64"])
    return release(
        version, replace(made, artefacts=dict.fromkeys(PLATFORMS) | dict(made.artefacts))
    )


def measured(here: Workspace, minor: str, soname: str) -> None:
    """Adds the contents of the artefacts of a lock to those of the checkout: a library."""
    known = contents.load(here)
    for artefact in lock_of(here, minor).artefacts:
        known.add(
            artefact.sha256, {f"lib/{soname}": Content(Binary("elf", "x86_64", soname=soname))}
        )
    contents.path_of(here).write_text(known.dump())


def lock_of(here: Workspace, minor: str) -> ReleaseLock:
    return load(here.variants / f"cuda-{minor}.lock")


def test_two_locked_minors_are_compared(run: Run) -> None:
    shown = run("13.3", "13.4")
    assert shown.startswith("### CUDA Toolkit 13.3.1 -> 13.4.0\n\n- 13.3 is not measured; next:")
    assert "\n- linux-64: 1 of 1 component changed" in shown
    assert "+liba.so.2 -liba.so.1" in shown and "- linux-64: a: liba.so.1 is gone" in shown


def test_a_lock_of_a_git_revision_is_compared_with_its_own_contents(
    run: Run, here: Workspace
) -> None:
    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-C", str(here.root), "-c", "user.name=a", "-c", "user.email=a", *words],
            check=True,
        )

    git("init", "-q")
    git("add", "variants")
    git("commit", "-qm", "locks")
    write(here.variants, locked("13.4.7"))
    contents.path_of(here).unlink()
    measured(here, "13.4", "liba.so.3")
    shown = run("HEAD:13.4", "13.4")
    # No facts, only contents.
    assert "\n\n- HEAD:13.4 is not measured\n- 13.4 is not measured; next: `ctk" in shown
    assert "CUDA Toolkit 13.4.0 -> 13.4.7" in shown and "+liba.so.3 -liba.so.2" in shown
    with pytest.raises(BadValue, match=r"HEAD:variants/cuda-13\.9\.lock cannot be read"):
        run("HEAD:13.9", "13.4")


def test_releases_of_two_kinds_cannot_be_compared(run: Run, here: Workspace) -> None:
    write(here.variants, replace(lock_of(here, "13.4"), release="python-13", manifest=None))
    with pytest.raises(UnknownName, match="nothing in common"):
        run("13.4", "python-13")
