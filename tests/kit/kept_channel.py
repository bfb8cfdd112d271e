"""conda-forge and RAPIDS' channel with the versions that they keep, as metadata.

foreign_channel.py has the newest versions, kept_channel.yaml the others. Linux on x86 only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ctk.core.checkout import Workspace
from ctk.plan.conda_forge import other_channels
from kit import foreign_channel
from kit.foreign_channel import CPU, FORGE, Facts
from kit.small_channel import Record

DATA = Path(__file__).with_name("kept_channel.yaml")
SUBDIR = "linux-64"
KEPT: Facts = YAML(typ="safe").load(DATA)


def records(project: Workspace) -> Iterator[Record]:
    """The channel: the newest versions, those before them, and the whole toolkit."""
    versions = foreign_channel.every_version(project.variants)
    rest = foreign_channel.tied_packages(versions, _rest_of_the_toolkit(project))
    others = [*_older(), *_others()]
    made = [
        *foreign_channel.records(project.variants),
        # A component that a minor does not have yet has the number of the minor.
        *(record for record in rest if record["version"] not in foreign_channel.MINORS),
        *(record for facts in others for record in foreign_channel.builds(facts, versions)),
    ]
    places = ("noarch", SUBDIR)
    yield from (record for record in made if record["subdir"] in places)


def _rest_of_the_toolkit(project: Workspace) -> Iterator[Facts]:
    """The packages of the toolkit that no file of facts names; cuda-nvrtc is what they are like."""
    others = other_channels(project)
    known = {tied["name"] for tied in FORGE["toolkit"]} | {"cuda-version"}
    outputs = [output for output in others.components if others.minors[output]]
    names = {output: output.replace("${{ target_platform }}", "{subdir}") for output in outputs}
    for output, name in names.items():
        if name in known or not others.kept(name.format(subdir=SUBDIR)):
            continue
        library = name.removesuffix("-dev")
        needs = [f"{library} {{version}}"] if library != name and library in names.values() else []
        yield {"name": name, "component": others.components[output], "needs": needs}


def _older() -> Iterator[Facts]:
    """Older versions, each made of the facts of the newest."""
    for older in KEPT["older"]:
        (newest,) = (
            feedstock
            for feedstock in FORGE["feedstocks"]
            if feedstock["source"]["repository"] == older["repository"]
            and feedstock["version"] == older["of"]
        )
        for version, toolkits in older["versions"].items():
            text = json.dumps(newest, default=str)
            for old, new in _texts(older, version):
                text = text.replace(old, new)
            facts: dict[str, Any] = json.loads(text)
            facts.pop("assumed", None)
            facts["version"] = version
            if toolkits:
                facts["cuda"] = {SUBDIR: toolkits}
            yield facts


def _texts(older: Facts, version: str) -> Iterator[tuple[str, str]]:
    """What an older version says in another way."""
    yield older["of"], version
    yield from older.get("texts", {}).items()
    yield from older.get("per", {}).get(version, {}).items()


def _others() -> Iterator[Facts]:
    for number, (name, package) in enumerate(KEPT["others"].items(), start=50):
        for version, toolkits in package["versions"].items():
            needs = [need.replace("{version}", version) for need in package.get("needs", ())]
            more = package.get("per", {}).get(version)
            output = {
                "build": f"cuda{{major}}_h{number}_{{number}}",
                "build_of_cpu": f"h{number}_{{number}}",
                "needs": [*needs, more] if more else needs,
                "tie": package.get("tie", ""),
            }
            facts: dict[str, Any] = {"version": version, "number": {"cuda": 0, "cpu": 0}}
            if toolkits == [CPU]:
                facts["cpu"] = [SUBDIR]
            else:
                facts["cuda"] = {SUBDIR: toolkits}
            yield facts | {"outputs": {name: output}}
