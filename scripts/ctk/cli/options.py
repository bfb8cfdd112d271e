"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from ctk.cli.specs import only_specs
from ctk.core.address import refuse_secrets, typed_address
from ctk.core.checkout import Workspace, workspace
from ctk.core.checkout import base_channel as base_channel
from ctk.core.console import mode
from ctk.core.errors import BadValue

if TYPE_CHECKING:
    from ctk.core.own_channels import OwnChannels

VERBATIM = "-- COMMAND [ARG]..."
"""The metavar of an argument that is the command line of another program."""

ADDRESSES = frozenset(("base", "channel", "dask", "places", "published", "store", "to", "url"))
"""Names of parameters that take a folder, or the address of a channel or a server, only."""

CHANNELS = ADDRESSES - {"dask", "store", "to", "url"}
"""Those of them that we read channels from: not a cluster, its store, where a channel goes, or what
its pages say of it.
"""

CHECKED = frozenset(("places", "published"))
"""Those that may be a bucket of S3: `ctk check` lists it and reads its objects."""


def not_both(one: str, other: str, given: object, step: str = "give one of them") -> None:
    """Refuses two options that exclude each other."""
    if given:
        raise BadValue(f"{one} and {other} exclude each other", step)


def refuse_address(folder: Path) -> None:
    """Raises BadValue for an address in the place of a folder."""
    if ":/" in str(folder):
        address = typed_address(folder)
        raise BadValue(
            f"{address} is an address, but this needs a folder on this machine", "name the folder"
        )


def refuse_versions(names: Sequence[str], several: str) -> None:
    """Refuses a number in the place of a package: the second value of an option, behind a space."""
    for name in names:
        if re.fullmatch(r"(?a)\d[\d.,:]*", name):
            step = (
                f"write several values as in {several}{name}, and a package of this version as"
                f" NAME={name}"
            )
            raise BadValue(f"{name} is a version, but this needs the name of a package", step)


Releases = Annotated[
    list[str] | None,
    typer.Option(
        "--release",
        "-r",
        help="Toolkit release such as 13.4, or python-13, libraries-13; may be repeated.",
    ),
]
Platforms = Annotated[
    list[str] | None,
    typer.Option(
        "--platform", help="linux-64, linux-aarch64, win-64 or win-arm64; may be repeated."
    ),
]
Pythons = Annotated[
    list[str] | None, typer.Option("--python", help="Such as 3.12 or 3.14t; may be repeated.")
]
Base = Annotated[
    str,
    typer.Option(
        "--base",
        help=(
            "Channel with python, numpy and so on: a name such as conda-forge, a URL, a folder, or"
            " 'local' for the one that is made on this machine."
        ),
    ),
]
OtherChannels = Annotated[
    list[str] | None,
    typer.Option(
        "--channel",
        help=(
            "A folder, a name or a URL instead of the channel that was built here. May be repeated,"
            " the most important first. The base channel is then conda-forge, if none was made"
            " here."
        ),
    ),
]
VariantConfig = Annotated[
    list[Path] | None,
    typer.Option(
        "--variant-config",
        help=(
            "A recipe's variant file; may be repeated. By default conda_build_config.yaml here and"
            " its own."
        ),
        exists=True,
        dir_okay=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1, help="How many run at a time; the number of cores by default."
    ),
]
Specs = Annotated[
    list[str],
    typer.Argument(
        metavar="SPEC...",
        help="What conda would be given, such as cuda-version=12.6 numba-cuda.",
        callback=only_specs,
    ),
]
SpecsBesideFile = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SPEC...",
        help="What conda would be given, such as cuda-version=12.6 numba-cuda.",
        callback=lambda context, specs: only_specs(context, specs or []),
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        help="A file with the specs: environment.yml, pixi.toml, requirements.txt or a lock.",
    ),
]
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform",
        help="The platform; this machine's by default. No driver is assumed on another platform.",
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        "--python", help="Python version, such as 3.13, or 3.14t for free-threaded Python."
    ),
]
Driver = Annotated[
    str | None,
    typer.Option(
        "--driver",
        help="CUDA version of the driver, such as 12.4, or none; this machine's by default.",
    ),
]
Arch = Annotated[
    str | None,
    typer.Option(
        "--arch",
        help=(
            "Compute capability of the oldest GPU, such as 9.0 or sm_90, or none; this machine's by"
            " default, and not known where --driver is given."
        ),
    ),
]


EnvironmentName = Annotated[
    str | None,
    typer.Option("--environment", help="Which environment, if the file has several."),
]


@dataclass(frozen=True)
class Selection:
    """The options of `ctk build` that choose packages, releases, platforms and Pythons."""

    packages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PACKAGE...",
            help=(
                "Packages, or folders of recipes/: builds these and what they need, for the default"
                " releases. By default, the default recipes."
            ),
        ),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            help=(
                "Build the packages of this file that have recipes, for the releases that it pins:"
                " environment.yml, pixi.toml, requirements.txt or a lock."
            ),
        ),
    ] = None
    environment: EnvironmentName = None
    releases: Releases = None
    drivers: Annotated[
        list[str] | None,
        typer.Option(
            "--driver",
            help=(
                "Build the releases for machines whose driver supports this CUDA version, such as"
                " 12.4, or none; 12.4:7.0 with this GPU only. May be repeated."
            ),
        ),
    ] = None
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            help=(
                "With --driver: compute capability of the GPUs, such as 7.0 or sm_70. May be"
                " repeated: each driver with each GPU. By default, every GPU that the driver's"
                " toolkit supports."
            ),
        ),
    ] = None
    platforms: Platforms = None
    pythons: Pythons = None
    all_pythons: Annotated[
        bool,
        typer.Option(
            "--all-pythons",
            help=(
                "Build for every Python of the recipes. By default, if the base channel is local,"
                " for this machine's Python only."
            ),
        ),
    ] = False
    all_releases: Annotated[
        bool,
        typer.Option(
            "--all-releases",
            help="Build every locked release instead of the default ones.",
        ),
    ] = False
    all_components: Annotated[
        bool,
        typer.Option(
            "--all-components",
            help="Build every recipe of the toolkit instead of the default ones.",
        ),
    ] = False
    libraries: Annotated[
        bool,
        typer.Option(
            "--libraries",
            help="Also build cuDNN, NCCL, PyTorch, CuPy, JAX and other libraries.",
        ),
    ] = False


@dataclass(frozen=True)
class BuildOptions:
    """The options of `ctk build` that say how to build, and what else to do with a plan."""

    base: Base = "local"
    jobs: Jobs = None
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Folder of the channel; output/channel by default."),
    ] = None
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Build on a Dask cluster, such as tcp://scheduler:8786."
        ),
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="CTK_STORE",
            help=(
                "Where the cluster exchanges artefacts and packages: a folder or fsspec URL that"
                " all workers see; .cache/store by default."
            ),
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Build nothing; show what would be built, and what is left out and why.",
        ),
    ] = False
    fetch_only: Annotated[
        bool,
        typer.Option(
            "--fetch-only",
            help=(
                "Download the artefacts, check them against the release locks, and put them where"
                " the recipes read them, so that rattler-build alone can build these."
            ),
        ),
    ] = False
    form: Annotated[
        Literal["table", "github", "gitlab"],
        typer.Option(
            "--format",
            help=(
                "With --dry-run: github prints a job matrix, gitlab a child pipeline, by default of"
                " all platforms."
            ),
        ),
    ] = "table"


@dataclass(frozen=True)
class RecipeOptions:
    """The options of `ctk build-recipe`."""

    cuda: Annotated[
        list[str] | None,
        typer.Option(
            "--cuda",
            help=(
                "CUDA major such as 13, or toolkit such as 12.6; may be repeated. By default, all"
                " that the recipe has."
            ),
        ),
    ] = None
    driver: Annotated[
        list[str] | None,
        typer.Option(
            "--driver",
            help=(
                "Test as on a machine with this driver, such as 12.6 or none; may be repeated. By"
                " default the oldest and the newest that each build is for."
            ),
        ),
    ] = None
    python: Annotated[
        list[str] | None,
        typer.Option(
            "--python",
            help=(
                "Such as 3.12 or 3.14t; may be repeated. By default, all that the recipe and the"
                " channels have."
            ),
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder, made a channel, for the packages; output/recipes/NAME by default.",
        ),
    ] = None
    variant_config: VariantConfig = None
    channel: OtherChannels = None
    base: Base = "local"


@dataclass(frozen=True)
class PublishOptions:
    """The options of `ctk publish`."""

    folder: Annotated[
        Path | None,
        typer.Argument(help="A built channel; output/channel by default.", metavar="FOLDER"),
    ] = None
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help=(
                "Publish a published folder, s3://... or URL instead of a built channel, or a state"
                " of it as in PLACE@4, byte for byte and with its attestations."
            ),
            metavar="PLACE[@STATE]",
        ),
    ] = None
    to: Annotated[
        Path | None,
        typer.Option(
            help=(
                "A folder that a web server serves, created if missing; s3://BUCKET/PREFIX, at"
                " AWS_ENDPOINT_URL with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; or a server."
            )
        ),
    ] = None
    url: Annotated[
        str | None,
        typer.Option(
            envvar="CTK_CHANNEL_URL", help="URL of the channel; that of the server by default."
        ),
    ] = None
    new: Annotated[
        bool,
        typer.Option(
            "--new", help="For a server: the channel has no index yet, so no name is taken in it."
        ),
    ] = False
    wait: Annotated[
        int,
        typer.Option(min=0, help="For a server: seconds in which it must list what it was sent."),
    ] = 60
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help=(
                "For a folder or a bucket: packages that FOLDER lacks leave the index, and are"
                " deleted later. It names them first, and wants --yes."
            ),
        ),
    ] = False
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Let packages leave the index, as --exact has it."),
    ] = False
    skip_taken: Annotated[
        bool,
        typer.Option(
            "--skip-taken",
            help="Skip packages whose names are taken by other content there; publish the rest.",
        ),
    ] = False
    keep: Annotated[
        int,
        typer.Option(
            help=(
                "For a folder or a bucket: states that stay, with the one that readers see; at"
                " least 2."
            )
        ),
    ] = 10
    keep_days: Annotated[
        int,
        typer.Option(
            min=0,
            help="For a folder or a bucket: days that a package stays after the last such state.",
        ),
    ] = 7
    attest: Annotated[
        bool,
        typer.Option(
            "--attest", help="Attach a signed attestation by the CI job that built the packages."
        ),
    ] = False
    sign_key: Annotated[
        Path | None,
        typer.Option(
            help=(
                "For a folder or a bucket, with --url: an attestation by this private key (PEM);"
                " CTK_KEY_PASSWORD has its password."
            ),
        ),
    ] = None
    accept_redistribution: Annotated[
        bool,
        typer.Option(
            "--accept-redistribution",
            help=(
                "Also packages with files that their licence text does not name for distribution;"
                " they are listed."
            ),
        ),
    ] = False


@dataclass(frozen=True)
class SiteOptions:
    """The options of `ctk site`."""

    platforms: Platforms = None
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--package",
            help=(
                "Solve for this package; may be repeated. By default all packages that users"
                " install by name."
            ),
        ),
    ] = None
    pythons: Pythons = None
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help=(
                "The channel's published address, for the commands on the page; its folder by"
                " default."
            ),
        ),
    ] = None
    channel: Annotated[
        str | None,
        typer.Option(
            help="A folder or a URL in place of the built channel; its packages are downloaded."
        ),
    ] = None
    base: Base = "local"
    title: Annotated[str, typer.Option(help="The name of the site, at the head of each page.")] = (
        "CUDA for conda"
    )
    jobs: Jobs = None


@dataclass(frozen=True)
class CheckOptions:
    """The places and options of `ctk check`."""

    places: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                "A channel (a folder, s3://... or a URL), or packages and folders of them;"
                " output/channel by default."
            ),
            metavar="CHANNEL|FILE...",
        ),
    ] = None
    rebuild: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help=(
                "Instead, make so many packages again, chosen at random, or 'all', and compare each"
                " byte."
            ),
        ),
    ] = None
    check: Annotated[
        list[str] | None,
        typer.Option(help="Only audit, by this rule (see --list); may be repeated."),
    ] = None
    base: Annotated[
        list[Path] | None,
        typer.Option(help="Packages to depend on, not audited; the local base channel by default."),
    ] = None
    published: Annotated[
        str | None,
        typer.Option(
            help=(
                "URL, folder or s3://...: no name that is taken there may have other content here."
            )
        ),
    ] = None
    url: Annotated[
        str | None, typer.Option(help="URL of the channel that its attestations must name.")
    ] = None
    identity: Annotated[
        str | None,
        typer.Option(help="Who must have signed the attestations, such as a workflow's URL."),
    ] = None
    issuer: Annotated[
        str | None,
        typer.Option(help="Who must have vouched for the signer, such as a CI service's URL."),
    ] = None
    key: Annotated[
        Path | None,
        typer.Option(help="The public key (PEM) that must have signed the attestations."),
    ] = None
    attested: Annotated[
        bool, typer.Option("--attested", help="Every package must have an attestation.")
    ] = False
    trusted_root: Annotated[
        Path | None,
        typer.Option(
            help="Keys to trust; by default those of Sigstore's public instance.", exists=True
        ),
    ] = None
    jobs: Jobs = None
    list_: Annotated[bool, typer.Option("--list", help="List the rules of packages and exit.")] = (
        False
    )

    @property
    def of_channel(self) -> bool:
        """Whether there is an option that is about a channel."""
        of_signers = (self.identity, self.issuer, self.trusted_root, self.key)
        return any((self.published, self.url, self.attested, *of_signers))


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of each of its parameters that is a dataclass.

    Typer reads options from a signature only.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {}
    for name, parameter in own.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
    fields = {
        name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()
    }
    shown: list[inspect.Parameter] = []
    for name, parameter in own.items():
        shown += fields[name].values() if name in groups else [parameter]

    @functools.wraps(command)
    def called(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in fields[name]})
        command(**values)

    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return called


def base_beside(base: str, channels: Sequence[str] | None, workspace: Workspace) -> str:
    """The base channel beside those of --channel.

    conda-forge, if --base names none and none was made here.
    """
    is_made = workspace.base_channel.exists()
    return "conda-forge" if base == "local" and channels and not is_made else base


NO_CHANNEL = BadValue(
    "no channel is known here, and none is named",
    "name yours once: `ctk doctor --channel URL --keep`; or each time, with --channel",
)


def asked_channels(named: Sequence[str], base: str) -> tuple[tuple[str, ...], str]:
    """The channels of a command line, and its base channel.

    Without a checkout they are the user's own: the base channel where --base names none, and the
    others where --channel names none. The user is asked for a channel where none is known, once.

    Raises:
        BadValue: None is known, and nobody can be asked.
    """
    if workspace().is_checkout:
        return tuple(named), base
    from ctk.core.own_channels import own_channels  # a checkout does without

    own = own_channels()
    if own is None and not named:
        own = _ask_for_channel()
    if own and own.base and base == "local":
        base = own.base
    return tuple(named) or (own.channels if own else ()), base


def _ask_for_channel() -> OwnChannels:
    """Asks for the address of a channel on a terminal, and keeps it."""
    from ctk.core.own_channels import OwnChannels, keep

    is_heard = sys.stdin.isatty() and sys.stderr.isatty()
    if not is_heard or mode().json or mode().quiet:
        raise NO_CHANNEL
    channel = typer.prompt("the URL or folder of your channel", err=True).strip()
    refuse_secrets(channel, of_address=True)
    file = keep([channel], "")
    typer.echo(f"kept in {file}; --channel names another one", err=True)
    return OwnChannels((channel,), "", file)


Decorated = TypeVar("Decorated", bound=Callable[..., None])


def with_json(text: str) -> Callable[[Decorated], Decorated]:
    """Adds what a command's JSON document has to its docstring, where that is long."""

    def decorate(command: Decorated) -> Decorated:
        command.__doc__ = f"{inspect.getdoc(command)}\n\nJSON:\n{text}"
        return command

    return decorate
