"""`ctk rebuild`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer

from ctk.build.rebuild import Rebuilt, rebuild
from ctk.channel import channel
from ctk.cli.options import Jobs
from ctk.core.errors import BadValue, NotReproduced, UnknownName
from ctk.core.paths import Workspace, workspace
from ctk.core.report import Reporter, count
from ctk.core.runlock import exclusive


def rebuild_command(
    packages: Annotated[
        list[str] | None, typer.Argument(help="Package files, or names of packages in the channel; see --all.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--channel", help="Where names are looked up; output/channel by default.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every package of the channel.")] = False,
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, help="This many packages of the channel, chosen at random.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of --sample; it is printed.")] = None,
    jobs: Jobs = None,
) -> None:
    """Make packages again from their own metadata, and compare byte by byte.

    A package names the commit of its recipe, its variant and its artefacts by sha256; what is missing is fetched.

    Example: ctk rebuild output/channel/noarch/cuda-version-13.0-native_100.conda
    """
    where, report = workspace(), Reporter()
    if sum((bool(packages), everything, sample is not None)) != 1:
        raise BadValue("name packages, or give --all or --sample", "see ctk rebuild --help")
    held = channel.packages(folder or where.channel)
    if packages:
        chosen = [p for name in packages for p in _named(name, held)]
    elif not held:
        raise UnknownName(f"there are no packages in {folder or where.channel}", "run `ctk build` first")
    elif sample is not None:
        seed = random.randrange(10**6) if seed is None else seed
        report.result(seed=seed)
        report.line(f"sample of {min(sample, len(held))} from {count(len(held), 'package')}, --seed {seed}")
        chosen = sorted(random.Random(seed).sample(held, min(sample, len(held))))
    else:
        chosen = held
    with exclusive(where, report.say):
        _run(list(dict.fromkeys(chosen)), where, jobs, report)


def _named(name: str, held: list[Path]) -> list[Path]:
    if Path(name).is_file():
        return [Path(name)]
    found = [p for p in held if name in (p.name, p.stem, p.stem.rsplit("-", 2)[0])]
    if not found:
        raise UnknownName.of("package", name, {p.stem.rsplit("-", 2)[0] for p in held})
    return found


def _run(chosen: list[Path], where: Workspace, jobs: int | None, report: Reporter) -> None:
    with report.task("rebuild", len(chosen)) as task:
        outcomes = rebuild(chosen, where, jobs=jobs, progress=lambda outcome: task.advance(1, _line(outcome)))
    changed = [o for o in outcomes if not o.identical]
    report.result(
        packages=[
            {
                "package": f"{o.package.parent.name}/{o.package.name}",
                "identical": o.identical,
                "differences": [{"where": d.place, "what": d.what} for d in o.differences],
            }
            for o in outcomes
        ]
    )
    rows = [(f"{o.package.parent.name}/{o.package.name}", d.place, d.what) for o in changed for d in o.differences]
    if rows:
        report.table("differences", ["package", "where", "what"], rows)
    subdirs = sorted({o.package.parent.name for o in outcomes})
    counts = [(s, [o.identical for o in outcomes if o.package.parent.name == s]) for s in subdirs]
    report.table(
        "rebuilt",
        ["subdir", "packages", "identical", "different"],
        [(s, len(found), sum(found), len(found) - sum(found)) for s, found in counts],
        ["packages", "identical", "different"],
    )
    if changed:
        raise NotReproduced(
            f"{count(len(changed), 'package')} of {len(outcomes)} came out in another way",
            "the table says which file differs; what another version of ctk built has to be built again",
        )
    report.line(f"{count(len(outcomes), 'package')} rebuilt, identical")


def _line(outcome: Rebuilt) -> str:
    return "" if outcome.identical else f"{outcome.package.name} differs"
