"""The builds of a plan that its own packages and machines can use.

The others are left out, with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from packaging.version import Version
from rattler import PackageRecord

from ctk.core.console import listing
from ctk.package.records import matches, package_record
from ctk.plan.plan import Build, LeftOut, Plan
from ctk.plan.rendered import Rendered

_GPU = "__cuda_arch"

Package = tuple[Rendered, PackageRecord]


def usable(planned: Plan, recipes: Container[str] = (), gpus: Collection[str] = ()) -> Plan:
    """The plan without builds whose packages no environment can have.

    What it makes none of comes from elsewhere. PyTorch that was compiled with a newer toolkit than
    all of the plan is such a build, and jax in a version whose jaxlib has no wheel for the plan's
    Pythons.

    Args:
        planned: A plan.
        recipes: If given, builds of other recipes stay only if a build that stays needs them.
        gpus: If given, builds without code for any of these compute capabilities go, too.
    """
    made = {
        build.id: [(output, _record(output)) for output in build.outputs]
        for build in planned.builds
    }
    whole = offered = _offered(made.values(), gpus)
    unmet: dict[str, str] = {}  # id of a build -> the first requirement that nothing meets
    changed = True
    while changed:
        changed = False
        for build, packages in made.items():
            for package in tuple(packages):
                if spec := next(_unmet(package[0], whole, offered), None):
                    packages.remove(package)
                    unmet.setdefault(build, spec)
                    changed = True
        offered = _offered(made.values(), gpus)
    kept = [build for build in planned.builds if made[build.id]]
    if recipes:
        kept = _needed(kept, made, recipes)
    stays = {build.id for build in kept}
    gone = (build for build in planned.builds if build.id not in stays)
    left = (_left_out(build, "" if made[build.id] else unmet[build.id], whole) for build in gone)
    return Plan(tuple(kept), (*planned.left_out, *left))


def _record(output: Rendered) -> PackageRecord:
    return package_record(
        output.name, output.version, output.build_string, output.build_number, output.subdir
    )


def _offered(
    packages: Iterable[Iterable[Package]], gpus: Collection[str]
) -> Mapping[str, list[PackageRecord]]:
    """By name, with the machines' GPUs."""
    found = defaultdict(
        list,
        ({_GPU: [package_record(_GPU, gpu) for gpu in gpus]} if gpus else {}),
    )
    for output, record in (package for some in packages for package in some):
        found[output.name].append(record)
    return found


def _unmet(
    output: Rendered,
    whole: Mapping[str, list[PackageRecord]],
    offered: Mapping[str, list[PackageRecord]],
) -> Iterator[str]:
    """The requirements of a package that nothing meets, though the whole plan has their names."""
    for spec in (*output.depends, *(c for c in output.constrains if c.startswith(f"{_GPU} "))):
        name = spec.split()[0]
        if name in whole and not any(matches(spec, record) for record in offered.get(name, ())):
            yield spec


def _needed(
    kept: Iterable[Build], made: Mapping[str, list[Package]], recipes: Container[str]
) -> list[Build]:
    """The builds of some recipes, and those that they need.

    A constraint of a package with files is a need, too.
    """
    by_name: dict[str, list[tuple[PackageRecord, Build]]] = defaultdict(list)
    for build in kept:
        for output, record in made[build.id]:
            by_name[output.name].append((record, build))
    new = [build for build in kept if build.recipe.name in recipes]
    found = {build.id for build in new}
    seen: set[str] = set()
    while new:
        build = new.pop()
        for output, _ in made[build.id]:
            for spec in {*output.depends, *(output.constrains if build.artefacts else ())} - seen:
                seen.add(spec)
                for record, maker in by_name.get(spec.split()[0], ()):
                    if maker.id not in found and matches(spec, record):
                        found.add(maker.id)
                        new.append(maker)
    return [build for build in kept if build.id in found]


def _left_out(build: Build, spec: str, whole: Mapping[str, list[PackageRecord]]) -> LeftOut:
    reason, name = "nothing that is built needs it", spec.partition(" ")[0]
    there = (
        listing(sorted({str(record.version) for record in whole[name]}, key=Version))
        if spec
        else ""
    )
    if spec:
        reason = f"needs {' '.join(spec.split()[:2])}, and this build has only {there}"
    kind = reason
    if name == _GPU:
        reason, kind = (
            f"for GPUs {spec.split()[1]}, and you named {there}",
            f"for other GPUs than {there}",
        )
    return LeftOut(build.id, reason, build.title, kind, "", build.recipe.name)
