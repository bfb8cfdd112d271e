"""What a request could have besides: from this checkout, or from another channel.

What to name first for CUDA builds, what `ctk build` would make, and where a package is that the
channels here lack. conda-forge and pip are named only for names of a list.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rattler import Gateway, Version, VersionSpec

from ctk.core.console import listing
from ctk.core.files import free_folder
from ctk.core.platforms import NOARCH, this_platform
from ctk.lock.model import ReleaseLock
from ctk.package.records import records as read_records
from ctk.package.records import spec_name
from ctk.plan.conda_forge import OtherChannels
from ctk.plan.messages import shown
from ctk.plan.names import Names
from ctk.plan.plan import release_for
from ctk.solve.solve import (
    ASKING,
    ASKS,
    ASKS_NATIVE,
    Catalogue,
    Pick,
    Scenario,
    Spec,
    channel_url,
    lasting,
    older,
    parse_spec,
)

_OF_A_LIST = "conda-forge"
_ONE_VERSION = re.compile(r"=*(\d+\.\d+(?:\.\d+)*(?:\.post\d+)?)(?:\.\*)?")
LOOK_ELSEWHERE = (
    "see how its name is written, or name a channel that has it with --channel or --base"
)


class Maker(NamedTuple):
    """The recipe of this checkout that makes a package, and whether the default build has it."""

    recipe: str
    is_default: bool


@dataclass(frozen=True)
class Checkout:
    """What this checkout and the command line say of channels.

    Attributes:
        maker: The recipe of a package that is in no channel; None without such a recipe.
        is_named: Whether the user named channels, which commands in advice then name, too.
        may_build: Whether the channel that `ctk build` writes is one of the channels, so that
            advice may be to build what they lack.
        planned: These channels with everything built; None if the built one is not among them.
        is_planned: Whether these are such channels.
        known_names: What is known of names that are no packages here.
        other_channels: What is known of the versions that conda-forge and RAPIDS keep.
        prefix: The environment of ctk that is asked to have more; "" for a new environment.
        is_for_recipe: Whether a request is for an environment in which a recipe is built, which no
            client makes.
    """

    maker: Callable[[str], Maker | None] = lambda name: None
    is_named: bool = False
    may_build: bool = True
    planned: Callable[[], Catalogue] | None = None
    is_planned: bool = False
    known_names: Callable[[], Names] = Names
    other_channels: Callable[[], OtherChannels] = lambda: OtherChannels({}, {})
    prefix: str = ""
    is_for_recipe: bool = False


class CheckoutCatalogue(Catalogue):
    """Channels of a command, and what its checkout could give besides."""

    def __init__(
        self,
        channels: Sequence[Path | str],
        subdir: str,
        checkout: Checkout,
        gateway: Gateway | None = None,
    ) -> None:
        super().__init__(channels, subdir, gateway)
        self.checkout = checkout


def checkout_of(catalogue: Catalogue) -> Checkout:
    """The checkout of channels; of others than a command's, one that gives nothing."""
    return catalogue.checkout if isinstance(catalogue, CheckoutCatalogue) else Checkout()


def is_for_page(catalogue: Catalogue) -> bool:
    """Whether the reader of advice has a page of the channel, and no command line."""
    return not isinstance(catalogue, CheckoutCatalogue)


def planned_of(catalogue: Catalogue) -> Catalogue | None:
    """The channels with everything built; None if that makes no difference."""
    planned = checkout_of(catalogue).planned
    return planned() if planned else None


def asking_for_cuda(scenario: Scenario, catalogue: Catalogue) -> Scenario:
    """The request with the package first that asks for CUDA builds.

    In place of the one that it names already. It is `ASKS_NATIVE` where that has a solution: what
    is installed is the same as with `ASKS`, and later commands keep a toolkit whose PTX the driver
    loads. Where only compat serves, and where no driver is known, it is `ASKS`.
    """
    others = tuple(text for text in scenario.specs if parse_spec(text).name not in ASKING)
    native = scenario.asking(ASKS_NATIVE, *others)
    if scenario.driver and catalogue.records(ASKS_NATIVE) and catalogue.solves(native):
        return native
    return scenario.asking(ASKS, *others)


def elsewhere(name: str, missing: str, scenario: Scenario, catalogue: Catalogue) -> str:
    """How to get a package from conda-forge, in the user's client too, or with pip.

    "" if neither is known to have it.

    Args:
        name: The package to ask for.
        missing: The package of the request that it takes the place of; often the same.
        scenario: The request.
        catalogue: The channels that lack it.
    """
    checkout = checkout_of(catalogue)
    names = checkout.known_names()
    if has_conda_forge(catalogue) or not names.at_conda_forge(name):
        return ""
    add = "add" if name == missing else "ask for that, and add"
    lines = [f"conda-forge has {name}: {add} --base conda-forge"]
    # From planned channels, nothing can be installed.
    if not checkout.is_planned and not checkout.is_for_recipe:
        if not checkout.prefix:
            places = _places(catalogue)
            channels = (*(places[:-1] or places), _OF_A_LIST)
            specs = [text.replace(missing, name, 1) for text in scenario.specs]
            lines.append(f"in your client: {_client_line(channels, specs, scenario)}")
        lines += _with_pip(names.pip_project(name), missing, scenario, catalogue)
    return "\n".join(lines)


def nvcc_of_conda_forge(rest: Sequence[str], scenario: Scenario, catalogue: Catalogue) -> str:
    """How to get nvcc of CUDA 12, which no wheel has, beside a toolkit of these channels.

    conda and mamba look for a build in every channel, unless their priority is strict; rattler does
    not, so this is no request to it. "" where conda-forge is asked already, and on a machine that
    cannot have CUDA 12.

    Args:
        rest: The specs of the request without those of nvcc.
        scenario: The request.
        catalogue: The channels.
    """
    if has_conda_forge(catalogue) or not catalogue.solves(
        scenario, specs=("cuda-version=12", *rest)
    ):
        return ""
    words = f"{_OF_A_LIST} has nvcc of CUDA 12"
    if checkout_of(catalogue).is_planned:
        return words
    places = _places(catalogue)[:-1] or _places(catalogue)
    line = _client_line([*places, _OF_A_LIST], specs_beside_nvcc(scenario), scenario)
    return f"{words}; in conda or mamba: {line}"


def specs_beside_nvcc(scenario: Scenario) -> list[str]:
    """What to ask conda or mamba for, so that nvcc comes from conda-forge."""
    others = [text for text in scenario.specs if parse_spec(text).name not in ASKING]
    return [ASKS, *others] if scenario.driver else others


def _client_line(channels: Iterable[str], specs: Iterable[str], scenario: Scenario) -> str:
    """The line of conda that creates an environment for the machine of a scenario."""
    named = [word for channel in channels for word in ("-c", channel)]
    line = shlex.join(["conda", "create", "-n", "gpu", *named, *specs])
    if scenario.driver:  # it may be another machine's
        return f"CONDA_OVERRIDE_CUDA={scenario.driver} {line}"
    return line


def _with_pip(project: str, missing: str, scenario: Scenario, catalogue: Catalogue) -> list[str]:
    """The commands that make an environment with the rest of a request, and a project by pip.

    What asks for more in an environment has that environment.
    """
    rest = [text for text in scenario.specs if missing not in text.lower()]
    specs = list(dict.fromkeys((*rest, "pip")))
    if (
        not project
        or scenario.subdir != this_platform()
        or not catalogue.solves(scenario, specs=tuple(specs))
    ):
        return []
    environment = checkout_of(catalogue).prefix
    if environment:
        words = ["ctk", "env", "add", environment, "pip"]
    else:
        environment = free_folder("my-env")
        words = _words_to_create(specs, environment, scenario, catalogue)
    install = ["ctk", "env", "run", environment, "--", "python", "-m", "pip", "install", project]
    return [f"with pip: {shlex.join(words)} && {shlex.join(install)}"]


def _words_to_create(
    specs: Iterable[str], environment: str, scenario: Scenario, catalogue: Catalogue
) -> list[str]:
    """The command that makes an environment for the machine of a scenario."""
    words = ["ctk", "env", "create", *specs, "--prefix", environment]
    words += ["--driver", scenario.driver] if scenario.driver else []
    words += ["--arch", scenario.arch] if scenario.driver and scenario.arch else []
    if checkout_of(catalogue).is_named:
        *ours, base = _places(catalogue)
        words += [word for place in ours for word in ("--channel", place)] + ["--base", base]
    return words


def base_with(name: str, catalogue: Catalogue) -> str:
    """The advice to name a base channel that has a package.

    Conda-forge only if it is known to have it.
    """
    if is_for_page(catalogue):
        other = "another one" if has_conda_forge(catalogue) else _OF_A_LIST
        return f"the base channel lacks {name}: the channel's keeper can name {other} as base"
    if has_conda_forge(catalogue) or not checkout_of(catalogue).known_names().at_conda_forge(name):
        return f"name a base channel that has {name} with --base"
    return f"name a base channel that has {name}, such as --base conda-forge"


def has_conda_forge(catalogue: Catalogue) -> bool:
    """Whether conda-forge is one of the channels."""
    return any(_OF_A_LIST in place for place in _places(catalogue))


def _places(catalogue: Catalogue) -> Sequence[str]:
    return [lasting(channel_url(channel)) for channel in catalogue.channels]


def other_base(name: str, catalogue: Catalogue) -> str:
    """The advice to try another base channel, for a package that is not ours.

    "" for our packages.
    """
    if name in catalogue.own_names or is_for_page(catalogue):
        return ""
    return ", or name a base channel that has more with --base"


# --- what this checkout could lock and build


def how_to_lock(wanted: Spec, catalogue: Catalogue) -> str:
    """The command that locks a version of a library or Python project, where a spec names one.

    "" for other packages, and where no version is known that the spec means. Whether the package
    index has a wheel of it, only the command knows.
    """
    checkout = checkout_of(catalogue)
    names = checkout.known_names()
    if not checkout.may_build or wanted.name not in names.projects or not wanted.version:
        return ""
    version = _version_meant(wanted, checkout.other_channels())
    if not version:
        return ""
    return f"`{shlex.join(['ctk', 'release', 'add', wanted.name, version, '--write'])}`"


def _version_meant(wanted: Spec, others: OtherChannels) -> str:
    """The newest version that another channel keeps and a spec accepts, or the one that it states.

    "" if neither is known.
    """
    bound = VersionSpec(wanted.version)
    kept = [v for v in others.versions_at(wanted.name) if bound.matches(Version(v))]
    if kept:
        return kept[-1]
    exact = _ONE_VERSION.fullmatch(wanted.version)
    return exact[1] if exact else ""


def how_made(package: str, lacking: Iterable[Scenario], catalogue: Catalogue) -> str:
    """The verb for a package that is there for some toolkits only: ``built here``, or published.

    Args:
        package: The name of the package.
        lacking: Requests for it with the toolkits that it is not there for.
        catalogue: The channels. What recipes of this checkout make for such a toolkit is only not
            built; NVIDIA publishes nothing for the others.
    """
    if not checkout_of(catalogue).maker(package):
        return "published"
    planned = planned_of(catalogue)
    could_be = planned is not None and any(planned.solves(request) for request in lacking)
    return "built here" if could_be else "published"


@dataclass(frozen=True)
class ToBuild:
    """What `ctk build` would make for a request."""

    cause: str  # that it is not built, in words
    command: str  # in backticks


def how_to_build(packages: Iterable[str], scenario: Scenario, release: str = "") -> str:
    """The command that builds packages for the machine of a scenario, or of a release.

    Without packages, it builds the default set.
    """
    options = {"--release": release}
    if not release:
        options = {"--driver": scenario.driver or ""}
        if scenario.driver:
            options["--arch"] = scenario.arch or ""
    if scenario.subdir != this_platform():
        options["--platform"] = scenario.subdir
    words = [word for option, value in options.items() if value for word in (option, value)]
    return f"`{shlex.join(['ctk', 'build', *packages, *words])}`"


def what_to_build(scenario: Scenario, catalogue: Catalogue) -> ToBuild | None:
    """What `ctk build` makes for this machine and the built channel lacks; else None.

    It is proved with the planned channel: `ctk build` with a driver takes the toolkit that the
    names alone are given.
    """
    checkout = checkout_of(catalogue)
    if not checkout.planned:
        return None
    known = catalogue.names([scenario.subdir, NOARCH])
    request = [parse_spec(text) for text in scenario.specs]
    ours = [spec for spec in request if checkout.maker(spec.name)]
    others = [spec for spec in request if spec not in ours]
    if not ours or any(spec.name not in known for spec in others):
        return None
    planned = checkout.planned()
    pick = planned.pick(scenario)
    if pick is None:
        return None

    def lacking(*toolkit: str) -> list[str]:
        return [
            spec.name
            for spec in ours
            if not catalogue.solves(scenario, specs=(spec.text, *toolkit))
        ]

    names = lacking(f"cuda-version={pick.toolkit}") if pick.toolkit else lacking()
    if not names or any(in_unnamed_channel(catalogue, name) for name in names):
        return None
    built = planned.pick(scenario.asking(*names))
    if not built or built.toolkit != pick.toolkit:  # `ctk build` with a driver takes another one
        return _release_to_build(names, pick, catalogue)
    cause = f"{_are_not_built(lacking() or names)} for this machine"
    return ToBuild(cause, how_to_build(names, scenario))


def _are_not_built(names: Sequence[str]) -> str:
    are = "are" if len(names) > 1 else "is"
    return f"{listing(names)} {are} not built here"


def _release_to_build(names: Sequence[str], pick: Pick, catalogue: Catalogue) -> ToBuild | None:
    """What to build for the toolkit that a request states; None if it states none."""
    if not pick.toolkit:
        return None
    if catalogue.toolkit(pick.toolkit):
        cause = f"{_are_not_built(names)} for toolkit {pick.toolkit}"
        return ToBuild(cause, how_to_build(names, pick.scenario, pick.toolkit))
    maker_of = checkout_of(catalogue).maker
    makers = [maker for name in names if (maker := maker_of(name))]
    packages = [name for name in names if name != "cuda-version"]
    if all(maker.is_default for maker in makers):
        packages = []
    command = how_to_build(packages, pick.scenario, pick.toolkit)
    return ToBuild(f"toolkit {pick.toolkit} is not built here", command)


def not_built(pick: Pick, locks: Iterable[ReleaseLock], catalogue: Catalogue) -> str:
    """The locked toolkit that would be native and better on a machine, and is not built; or "".

    It is proved by the toolkits beside it: on some machine, the request goes with an older one, and
    with a newer one.
    """
    machine = pick.scenario
    if not pick.toolkit or not machine.driver:
        return ""
    measured = [lock for lock in locks if lock.facts]
    best = release_for(measured, machine.subdir, machine.driver, machine.arch)
    there = [toolkit.version for toolkit in catalogue.toolkits]
    if not best or best in there or older(machine.driver, best):
        return ""
    if pick.fit == "native" and older(best, pick.toolkit):
        return ""
    ideal = machine.ideal
    fitting = {v for v in there if catalogue.solves(ideal.also(f"cuda-version={v}"))}
    newer = {version for version in there if older(best, version)}
    goes_with_older = any(older(version, best) for version in fitting)
    goes_with_newer = bool(newer & fitting)
    if not newer:  # nothing says that it does not
        goes_with_newer = not any(parse_spec(text).pinned for text in machine.specs)
    return best if goes_with_older and goes_with_newer else ""


# --- channels beside those that are asked


@dataclass(frozen=True)
class UnnamedChannel:
    """A channel of this checkout that has a package and is not asked.

    Attributes:
        place: Its folder.
        channels: What to name then, in this order: it, those that are asked, and others that have
            what it needs.
    """

    place: Path
    channels: tuple[str, ...]


def in_unnamed_channel(catalogue: Catalogue, name: str, *others: str) -> UnnamedChannel | None:
    """The channel that `ctk build` or `ctk build-recipe` wrote beside one that is asked.

    None without such a channel that has a package. The channels to name have the others, too, and
    what these need.
    """
    ours = [channel for channel in catalogue.channels[:-1] if isinstance(channel, Path)]
    asked = [Path(lasting(str(channel))) for channel in ours]
    outputs = dict.fromkeys(_output(place) for place in asked)
    for output in outputs:
        places = [place for place in _channels_below(output) if place not in asked]
        found = _holding([*others, name], places, catalogue)
        if name in found:
            built = [place for place in found.values() if place.name == "channel"]
            of_recipes = [place for place in found.values() if place.name != "channel"]
            named = of_recipes + asked + built
            return UnnamedChannel(found[name], tuple(map(shown, named)))
    return None


def _output(channel: Path) -> Path:
    """The folder with all channels of a checkout: one up, or two from that of a recipe."""
    parent = channel.parent
    return parent.parent if parent.name == "recipes" else parent


def _channels_below(output: Path) -> Iterator[Path]:
    """The channel of `ctk build` in a folder, then those of recipes, the latest first."""
    built = output.glob("channel/*/repodata.json")
    recipes = output.glob("recipes/*/*/repodata.json")
    latest_first = sorted(recipes, key=lambda index: -index.stat().st_mtime)
    indexes = [*built, *latest_first]
    yield from dict.fromkeys(index.parents[1] for index in indexes)


def _holding(wanted: list[str], places: Sequence[Path], catalogue: Catalogue) -> Mapping[str, Path]:
    """Package -> the channel that has it, for wanted ones and what their channels need."""
    subdirs = [catalogue.subdir, NOARCH]
    found: dict[str, Path] = {}
    while wanted:
        needed = wanted.pop()
        having = (place for place in places if needed in catalogue.names(subdirs, [place]))
        place = next(having, None)
        if place is None or place in found.values():
            continue
        found[needed] = place
        records = read_records(place).values()
        needs = {spec_name(need) for record in records for need in record["depends"]}
        there = catalogue.names(subdirs, [*catalogue.channels, *found.values()])
        wanted += sorted(needs - there)
    return found
