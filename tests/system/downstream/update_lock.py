"""Locks the newest sources and build tools of the downstream packages.

Run ``python tests/system/downstream/update_lock.py``.

Writes ``downstream.lock`` and ``downstream.yaml``, which the test reads; the diff belongs in the
review.
"""

from __future__ import annotations

from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.core.errors import NotPublished
from ctk.core.platforms import NOARCH
from ctk.index.index import Index
from ctk.lock import wheels
from ctk.lock.model import DOWNSTREAM, Component, ReleaseLock, dump, variant_config

FOLDER = Path(__file__).parent
# Source distribution -> what is accepted of it. finufft's setupDUCC.cmake is written for this
# ducc0.
SOURCES = {"ducc0": "==0.39.1", "jax-finufft": ""}
# Build tool -> what is accepted of it, and where its wheel is for one platform each.
PURE = dict.fromkeys(
    ("nanobind", "pathspec", "pythran", "scikit-build-core", "setuptools-scm", "vcs-versioning"), ""
)
PROGRAMS = {"cmake": "<4", "ninja": ""}
SUBDIRS = ("linux-64", "linux-aarch64")


def source(index: Index, name: str, accepted: str) -> Component:
    """The newest source distribution that is accepted."""
    files = [f for f in index.files(name) if f.file.endswith(".tar.gz") and not f.yanked]
    finals = [f for f in files if SpecifierSet(accepted).contains(f.version, prereleases=False)]
    if not finals:
        raise NotPublished(
            f"the package index has no source distribution of {name}{accepted}",
            "ask whoever runs the index",
        )
    newest = max(finals, key=lambda f: Version(f.version))
    artefact = wheels.artefact(index, name, NOARCH, newest)
    licence = wheels.joined_licences([wheels.read_licence(index, newest)])
    return Component(name, newest.distribution, newest.version, {NOARCH: artefact}, *licence)


def tool(index: Index, name: str, accepted: str, targets: tuple[str, ...]) -> Component:
    """The newest wheels of a build tool."""
    files = index.files(name)
    versions = wheels.final_versions(files, SpecifierSet(accepted))
    if not versions:
        raise NotPublished(
            f"the package index has no wheel of {name}{accepted}", "ask whoever runs the index"
        )
    return wheels.component(index, name, wheels.files_of(files, versions[0]), targets)


def main() -> None:
    with Index() as index:
        made = [source(index, name, accepted) for name, accepted in SOURCES.items()]
        made += [tool(index, name, accepted, (NOARCH,)) for name, accepted in PURE.items()]
        made += [tool(index, name, accepted, SUBDIRS) for name, accepted in PROGRAMS.items()]
    lock = ReleaseLock(DOWNSTREAM, None, {c.name: c for c in sorted(made, key=lambda c: c.name)})
    (FOLDER / "downstream.lock").write_text(dump(lock), encoding="utf-8")
    (FOLDER / "downstream.yaml").write_text(variant_config(lock), encoding="utf-8")


if __name__ == "__main__":
    main()
