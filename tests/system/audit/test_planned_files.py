"""`ctk lint --planned`: checks of packages before they are built, by the contents of their
artefacts.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import NEWEST
from ctk.audit import audit_planned
from ctk.audit.packages import FilesHaveOneOwner, PackageSet
from ctk.audit.planned import planned_scans
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.core.versions import this_python
from ctk.fetch.fetch import laid_out
from ctk.lock import contents
from ctk.lock.contents import LEFT_OUT, PLAIN, Contents, read_contents
from ctk.lock.facts import known_gpus
from ctk.lock.model import release_locks
from ctk.package.reader import read_info
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags, small
from ctk.rules import Finding

# Files that NVIDIA's wheels for CUDA 12.0 and 13.0 have in common.
WHEELS = {
    ("nvcc", "12"): ("nvidia/cuda_nvcc/bin/ptxas", "nvidia/cuda_nvcc/include/nvPTXCompiler.h"),
    ("nvcc", "13"): (
        "nvidia/cu13/bin/nvcc",
        "nvidia/cu13/bin/nvcc.profile",
        "nvidia/cu13/bin/crt/link.stub",
    ),
    ("nvptxcompiler", "13"): (
        "nvidia/cu13/include/nvPTXCompiler.h",
        "nvidia/cu13/lib/libnvptxcompiler_static.a",
    ),
}


def planned(
    workspace: Workspace, recipes: tuple[str, ...], *releases: str, platform: str = "linux-64"
) -> Plan:
    request = Request(releases=releases, recipes=recipes, platforms=(platform,))
    return plan(published_set(workspace), request, python_tags(workspace.build_config))


def found(workspace: Workspace, *releases: str) -> list[Finding]:
    these = planned(workspace, ("cuda-version", "cuda-nvcc", "libnvptxcompiler"), *releases)
    inside = Contents()
    for artefact in these.artefacts:
        names = WHEELS[artefact.component, artefact.version.partition(".")[0]]
        inside.add(artefact.sha256, dict.fromkeys(["x.dist-info/License.txt", *names], PLAIN))
    return list(FilesHaveOneOwner(PackageSet(planned_scans(these, workspace, inside, jobs=2)[0])))


@pytest.fixture
def copy(project: Workspace, tmp_path: Path) -> Workspace:
    """The recipes and variants, to be changed."""
    for folder in ("recipes", "variants"):
        shutil.copytree(project.root / folder, tmp_path / folder)
    for file in ("conda_build_config.yaml", "pyproject.toml"):
        shutil.copy(project.root / file, tmp_path)
    return Workspace(tmp_path)


def test_files_of_two_toolkits_meet_in_no_environment(copy: Workspace) -> None:
    assert found(copy, "12.0", "13.0") == []


def test_files_without_a_tie_are_found_before_anything_is_built(copy: Workspace) -> None:
    """So `ctk build --release 13.0 --all-components` failed beside the default channel, after all
    was built.
    """
    recipe = copy.recipes / "libnvptxcompiler" / "recipe.yaml"
    tie = "      run:\n        - cuda-version ${{ cuda_range }}\n"
    assert tie in recipe.read_text()
    recipe.write_text(recipe.read_text().replace(tie, ""))
    (finding,) = found(copy, "12.0", "13.0")
    assert finding.path == "targets/x86_64-linux/include/nvPTXCompiler.h"
    assert finding.where.startswith("cuda-nvcc-dev_linux-64-12.0")
    assert "libnvptxcompiler-dev_linux-64-files-13.0" in finding.message


# ---- the repository


@pytest.mark.parametrize(
    "minors", [("12.9", NEWEST), pytest.param((), marks=pytest.mark.sweep)], ids=["ends", "all"]
)
def test_every_package_that_locks_and_recipes_name_follows_the_rules(
    project: Workspace, minors: tuple[str, ...]
) -> None:
    """Of two platforms with the newest release of each major, or of all, as in `ctk lint
    --planned`.
    """
    chosen = [lock.minor if lock.is_ctk else name for name, lock in release_locks(project).items()]
    chosen = [name for name in chosen if not minors or name in minors or not name[0].isdigit()]
    platforms = ("linux-64", "win-64") if minors else tuple(PLATFORMS)
    asked = Request(releases=chosen, platforms=platforms)
    everything = plan(published_set(project), asked, python_tags(project.build_config))
    report = audit_planned(everything, project, contents.load(project), jobs=os.cpu_count() or 1)
    assert [f"{f.check} {f.where} {f.path}: {f.message}" for f in report.findings] == []
    assert report.subjects > (600 if minors else 2_000)


def test_what_is_noted_is_canonical_and_of_the_locks(project: Workspace) -> None:
    text = contents.path_of(project).read_text()
    held = contents.load(project)
    is_canonical = held.dump() == text  # a name for it, as the difference would be a megabyte
    assert is_canonical
    locked = {a.sha256 for a in contents.to_read(release_locks(project).values())}
    assert held.artefacts.keys() - locked == set()
    has_nothing_else = held.of(locked).dump() == text
    assert has_nothing_else


# Of an output's own script; and the programs that recipes/common/wheel.sh makes of entry points.
NOT_PLANNED = ("etc/conda/", "lib/cuda/", "share/cmake/", "bin/numba-cuda-mlir-")


class Changed:
    """A plan whose artefacts have the noted contents, except for a member."""

    def __init__(
        self, project: Workspace, recipe: str, *releases: str, platform: str = "linux-64"
    ) -> None:
        self.project = project
        self.plan = planned(project, ("cuda-version", recipe), *releases, platform=platform)
        self.held = contents.load(project)

    def audit(self, check: str) -> list[str]:
        report = audit_planned(self.plan, self.project, self.held, jobs=2)
        return [finding.message for finding in report.errors if finding.check == check]

    def change(self, ending: str, **changes: Any) -> None:
        """Changes contents or headers of the members whose names end so.

        Without `changes`, removes them.
        """
        done = 0
        for artefact in self.plan.artefacts:
            # One Python stands for the others.
            members = dict(self.held.members(artefact.sha256) or {})
            for name in [name for name in members if name.endswith(ending)]:
                done += 1
                content = members.pop(name)
                if changes.keys() & {"needed", "moved"} and content.binary:
                    members[name] = replace(content, binary=replace(content.binary, **changes))
                elif changes:
                    members[name] = replace(content, **changes)
            if members:
                self.held.add(artefact.sha256, members)
        assert done


# Check -> recipe, its locks and platform, the member, the change, and a part of the message.
CHANGES = {
    "KeepsItsPromises": (
        "libcufile",
        "cuda-13.1",
        "linux-64",
        "libcufile_rdma.so.1",
        {},
        "matches no file",
    ),
    "NeededIsProvided": (
        *("libcufile", "cuda-13.1", "linux-64", "libcufile.so.0"),
        *({"needed": ("libnowhere.so.1",)}, "libnowhere.so.1"),
    ),
    "GlibcIsDeclared": (
        *("libcufile", "cuda-13.1", "linux-64", "libcufile.so.0"),
        *(
            {"needed": ("libc.so.6",), "moved": ("shm_open",)},
            "needs glibc 2.34, above the declared floor 2.27",
        ),
    ),
    # As of cccl-python, which said nothing of GPUs.
    "CodeIsForItsGpus": (
        *("cccl-python", "cuda-12.9 python-12", "linux-64", "libcccl.c.parallel.so"),
        *({"gpus": ">=8.0"}, "allows GPUs for which it has little or no code: 7.5"),
    ),
    "NeededIsFound": (
        *("cccl-python", "python-13", "win-64", "cuda/compute/_bindings.py"),
        *({"dll_folders": ()}, "cccl.c.parallel.dll"),
    ),
}


@pytest.mark.parametrize("check", CHANGES)
def test_a_member_that_breaks_a_rule_is_found(project: Workspace, check: str) -> None:
    recipe, locks, platform, member, changes, said = CHANGES[check]
    world = Changed(project, recipe, *locks.split(), platform=platform)
    assert world.audit(check) == []
    world.change(member, **changes)
    messages = world.audit(check)
    assert said in "\n".join(messages)


@pytest.mark.parametrize(
    ("recipe", "locks"), [("libcufile", "cuda-12.6"), ("cutensor", "cuda-12.9 libraries-12")]
)
def test_a_library_that_a_recipe_adds_has_the_symbols(
    project: Workspace, recipe: str, locks: str
) -> None:
    world = Changed(project, recipe, *locks.split(), platform="linux-aarch64")
    assert world.audit("GlibcIsDeclared") == []


def test_an_artefact_that_is_not_measured_is_a_hint(project: Workspace) -> None:
    world = Changed(project, "libcufile", "cuda-13.1")
    (artefact,) = world.plan.artefacts
    del world.held.artefacts[artefact.sha256]
    (hint,) = audit_planned(world.plan, project, world.held, jobs=2).findings
    assert (hint.severity, hint.where, hint.fix) == (
        "hint",
        "cuda-13.1",
        "ctk release measure 13.1 --write",
    )


# ---- compared with built packages


@pytest.mark.parametrize(
    "releases", [pytest.param((), marks=pytest.mark.sweep), (NEWEST,)], ids=["all", "newest"]
)
def test_a_planned_package_has_the_files_of_the_built_one(
    built: Workspace, releases: tuple[str, ...]
) -> None:
    """All files except those of an output's own script (etc/conda, lib/cuda), and those that are
    not noted.
    """
    asked = Request(releases, platforms=(this_platform(),), pythons=(this_python().tag,))
    request = small(asked, built)
    everything = plan(published_set(built), request, python_tags(built.build_config))
    noted, inside = contents.load(built), Contents()
    gpus = known_gpus(release_locks(built).values())
    for artefact in everything.artefacts:
        members = read_contents(artefact, laid_out(artefact, built), gpus)
        inside.add(artefact.sha256, members)
        if artefact.sha256 in noted.artefacts:
            assert noted.members(artefact.sha256) == inside.members(artefact.sha256), artefact.file
    compared = 0
    for scan in planned_scans(everything, built, inside, jobs=2)[0]:
        paths = (entry.path for entry in read_info(built.channel.resolve() / scan.file).paths)
        expected = {
            path
            for path in paths
            if not path.startswith(NOT_PLANNED) and not LEFT_OUT.fullmatch(path)
        }
        assert {
            file.path for file in scan.installed() if not LEFT_OUT.fullmatch(file.path)
        } == expected, scan.file
        compared += len(expected)
    assert compared > 1_000
