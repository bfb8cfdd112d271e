"""What to name first for CUDA builds, and where a package is that the channels here lack.

conda-forge and pip are named only for names of a list.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from ctk.core.platforms import this_platform
from ctk.solve.solve import (
    ASKING,
    ASKS,
    ASKS_NATIVE,
    Catalogue,
    Scenario,
    channel_url,
    lasting,
    parse_spec,
)

_OF_A_LIST = "conda-forge"
LOOK_ELSEWHERE = (
    "see how its name is written, or name a channel that has it with --channel or --base"
)
_ENVIRONMENT = "./my-env"


def asking_for_cuda(scenario: Scenario, catalogue: Catalogue) -> Scenario:
    """The request with the package first that asks for CUDA builds.

    In place of the one that it names already. It is `ASKS_NATIVE` where that has a solution: what
    is installed is the same as with `ASKS`, and later commands keep a toolkit whose PTX the driver
    loads. Where only compat serves, and where no driver is known, it is `ASKS`.
    """
    others = tuple(text for text in scenario.specs if parse_spec(text).name not in ASKING)
    native = replace(scenario, specs=(ASKS_NATIVE, *others))
    if scenario.driver and catalogue.records(ASKS_NATIVE) and catalogue.solves(native):
        return native
    return replace(scenario, specs=(ASKS, *others))


def elsewhere(name: str, missing: str, scenario: Scenario, catalogue: Catalogue) -> str:
    """How to get a package from conda-forge, in the user's client too, or with pip.

    "" if neither is known to have it.

    Args:
        name: The package to ask for.
        missing: The package of the request that it takes the place of; often the same.
        scenario: The request.
        catalogue: The channels that lack it.
    """
    names = catalogue.known_names()
    if has_conda_forge(catalogue) or not names.at_conda_forge(name):
        return ""
    add = "add" if name == missing else "ask for that, and add"
    lines = [f"conda-forge has {name}: {add} --base conda-forge"]
    if not catalogue.is_planned:  # nothing can be installed from there
        places = _places(catalogue)
        channels = [
            word for place in (*(places[:-1] or places), _OF_A_LIST) for word in ("-c", place)
        ]
        specs = [text.replace(missing, name, 1) for text in scenario.specs]
        client = shlex.join(["conda", "create", "-n", "gpu", *channels, *specs])
        if scenario.driver:  # it may be another machine's
            client = f"CONDA_OVERRIDE_CUDA={scenario.driver} {client}"
        lines.append(f"in your client: {client}")
        lines += _with_pip(names.pip_project(name), missing, scenario, catalogue)
    return "\n".join(lines)


def _with_pip(project: str, missing: str, scenario: Scenario, catalogue: Catalogue) -> list[str]:
    """The commands that create an environment with the rest of a request, and have its pip install
    a project.
    """
    rest = [text for text in scenario.specs if missing not in text.lower()]
    specs = (*rest, "pip")
    if (
        not project
        or scenario.subdir != this_platform()
        or not catalogue.solves(scenario, specs=specs)
    ):
        return []
    words = ["ctk", "env", "create", *specs, "--prefix", _ENVIRONMENT]
    words += ["--driver", scenario.driver] if scenario.driver else []
    words += ["--arch", scenario.arch] if scenario.driver and scenario.arch else []
    if catalogue.is_named:
        *ours, base = _places(catalogue)
        words += [word for place in ours for word in ("--channel", place)] + ["--base", base]
    install = shlex.join(
        ["ctk", "env", "run", _ENVIRONMENT, "--", "python", "-m", "pip", "install", project]
    )
    return [f"with pip: {shlex.join(words)} && {install}"]


def base_with(name: str, catalogue: Catalogue) -> str:
    """The advice to name a base channel that has a package.

    Conda-forge only if it is known to have it.
    """
    if has_conda_forge(catalogue) or not catalogue.known_names().at_conda_forge(name):
        return f"name a base channel that has {name} with --base"
    return f"name a base channel that has {name}, such as --base conda-forge"


def has_conda_forge(catalogue: Catalogue) -> bool:
    """Whether conda-forge is one of the channels."""
    return any(_OF_A_LIST in place for place in _places(catalogue))


def _places(catalogue: Catalogue) -> Sequence[str]:
    return [lasting(channel_url(channel)) for channel in catalogue.channels]
