"""The groups bring exactly one release: all of it that is packaged, and nothing that is
not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from ctk.core.checkout import Workspace
from ctk.lock.model import ReleaseLock, release_locks
from ctk.plan.plan import Plan
from ctk.plan.rendered import Rendered

FEEDSTOCK = "cuda-toolkit"
# Components of no group, as on conda-forge, and the platforms where that is so: "" is all. NVTX is
# headers on Windows.
IN_NO_GROUP = {"nvtx": "win-"}
# Of no group itself, as on conda-forge: libnpp-dev and libnvjpeg-dev bring it.
OF_OTHERS = {"cuda-culibos-static"}
# What only the groups with a compiler bring; in CUDA 12 there are none.
OF_THE_COMPILER = {"cuxxfilt", "nvcc", "nvvm"}
OTHERS = {"cuda-version", "c-compiler", "cxx-compiler"}
# The wheels of the releases before 12.3 lack files; recipes/cuda-cccl says so.
SERVED_BY_NEWER = "cuda-cccl_"


@dataclass
class Here:
    """One release on one platform.

    Attributes:
        lock: The release.
        subdir: The platform.
        groups: Name -> native build.
        packages: Name -> all builds, those of the groups too.
        components: Package -> the components that it is made of.
    """

    lock: ReleaseLock
    subdir: str
    groups: dict[str, Rendered] = field(default_factory=dict)
    packages: dict[str, list[Rendered]] = field(default_factory=dict)
    components: dict[str, set[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.lock.minor} on {self.subdir}"

    @property
    def in_no_group(self) -> set[str]:
        return {component for component, on in IN_NO_GROUP.items() if self.subdir.startswith(on)}

    def reached(self, names: Iterable[str]) -> set[str]:
        """The components of these packages, and of all that they depend on."""
        found, waiting = set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.packages:
                found.add(name)
                waiting += [
                    spec.split()[0] for output in self.packages[name] for spec in output.depends
                ]
        return {
            component for name in found - self.groups.keys() for component in self.components[name]
        }


@pytest.fixture(scope="module")
def places(whole: Plan, project: Workspace) -> list[Here]:
    """Every release on every platform that it is published for."""
    locks = release_locks(project)
    found: dict[tuple[str, str], Here] = {}
    for build in whole.builds:
        # The recipe of the driver's stub needs the version of the headers, and no other.
        is_of_release = not {"cuda_version", "cudart"}.isdisjoint(build.recipe.names_used)
        if locks[build.lock].is_ctk and is_of_release:
            here = found.setdefault(
                (build.lock, build.subdir), Here(locks[build.lock], build.subdir)
            )
            for output in build.outputs:
                here.packages.setdefault(output.name, []).append(output)
                here.components[output.name] = {artefact.component for artefact in build.artefacts}
                if build.recipe.name == FEEDSTOCK and output.variant["cuda_fit"] == "native":
                    here.groups[output.name] = output
    return [here for here in found.values() if "nvrtc" in set().union(*here.components.values())]


def members(group: Rendered) -> Mapping[str, str]:
    """Package -> version and build, or "" where it names none."""
    return {
        spec.split()[0]: " ".join(spec.split()[1:])
        for spec in group.depends
        if spec.split()[0] not in OTHERS
    }


def test_there_are_the_groups_of_conda_forge(places: list[Here]) -> None:
    everywhere = {
        "cuda-runtime",
        "cuda-libraries",
        "cuda-libraries-dev",
        "cuda-command-line-tools",
        "cuda-tools",
    }
    compiling = {"cuda-compiler", "cuda-minimal-build", "cuda-toolkit", "cuda"}
    assert len(places) > 40
    for here in places:
        expected = everywhere | (compiling if "cuda-nvcc" in here.packages else set())
        assert here.groups.keys() - {"cuda-libraries-static"} == expected, here
        packaged = here.packages.keys() - here.groups.keys()
        static = {name for name in packaged if name.endswith("-static") and name not in OF_OTHERS}
        brought = (
            members(here.groups["cuda-libraries-static"])
            if "cuda-libraries-static" in here.groups
            else ()
        )
        assert static == set(brought), here


def test_every_member_of_a_group_is_planned_in_the_version_that_the_group_names(
    places: list[Here],
) -> None:
    wrong = []
    for here in places:
        for group in here.groups.values():
            assert (group.version, group.subdir) == (here.lock.release, here.subdir)
            for name, version in members(group).items():
                there = here.packages.get(name, [])
                known = {
                    text
                    for o in there
                    for text in (f"=={o.version}", f"=={o.version} {o.build_string}")
                }
                if version not in known and (known or not name.startswith(SERVED_BY_NEWER)):
                    wrong.append(f"{group.name} {here}: {name} {version}")
    assert not wrong


def test_whatever_is_packaged_comes_with_a_group(places: list[Here]) -> None:
    """So that no new component is forgotten."""
    forgotten, needless = [], set(IN_NO_GROUP)
    for here in places:
        whole = "cuda" in here.groups
        got = here.reached(["cuda-toolkit"] if whole else here.groups)
        left = set().union(*here.components.values()) - got
        needless -= left
        forgotten += [
            f"{here}: {name}"
            for name in left - here.in_no_group - (set() if whole else OF_THE_COMPILER)
        ]
    assert not forgotten
    assert not needless, "these come with a group: take them off the list"
