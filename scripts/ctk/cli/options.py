"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ctk.core.checkout import Workspace
from ctk.core.checkout import base_channel as base_channel
from ctk.core.console import listing
from ctk.core.errors import BadValue

if TYPE_CHECKING:
    from ctk.env.prefix import Installed

VERBATIM = "-- COMMAND [ARG]..."
"""The metavar of an argument that is the command line of another program."""

ADDRESSES = frozenset(
    ("base", "channel", "dask", "places", "published", "server", "store", "to", "url")
)
"""Names of parameters that take a folder, or the address of a channel or a server, only."""

CHANNELS = ADDRESSES - {"dask", "store", "url"}
"""Those of them that we read channels from: not a cluster, its store, or what a channel's pages say
of it.
"""


def not_both(one: str, other: str, given: object, step: str = "give one of them") -> None:
    """Refuses two options that exclude each other."""
    if given:
        raise BadValue(f"{one} and {other} exclude each other", step)


def refuse_versions(names: Sequence[str], several: str) -> None:
    """Refuses a number in the place of a package: the second value of an option, behind a space."""
    for name in names:
        if re.fullmatch(r"(?a)\d[\d.,:]*", name):
            step = (
                f"write several values as in {several}{name}, and a package of this version as"
                f" NAME={name}"
            )
            raise BadValue(f"{name} is a version, and the name of a package is wanted", step)


def _no_paths(context: typer.Context, specs: list[str]) -> list[str]:
    """Refuses a path in the place of a spec, before an option that lacks is said."""
    from ctk.env.prefix import Installed, Note

    # A spec has a slash in its channel only. A name with a space is no spec either, and without
    # one, the spec `cuda-core` may have a folder of that name here.
    paths = [s for s in specs if "::" not in s and re.match(r"[./~]|[^\[]*/|recipe\.yaml$", s)]
    paths += [s for s in specs if " " in s and Path(s, "conda-meta").is_dir()]
    if not paths:
        return specs
    path, name = paths[0], context.info_name or ""
    is_there = Path(path, "conda-meta").is_dir()
    more = {"pack": ["-o", f"{Path(path).resolve().name}.run"], "create": ["--prefix", path]}.get(
        name, []
    )
    if not is_there and (
        not more or path.endswith("recipe.yaml") or Path(path, "recipe.yaml").is_file()
    ):
        raise BadValue(
            f"{path} is a path, and a spec is wanted",
            f"for a recipe: ctk build-recipe {shlex.quote(path)}",
        )
    note = Note.read(Path(path))
    has = Installed.read(Path(path)) if is_there else None
    of_client = has.requested if has else []
    asked = (
        note.asked
        if note and note.asked
        else [s for s in specs if s not in paths] or of_client or ["cuda-core"]
    )
    cause = f"{path} is {'an' if is_there else 'no'} environment, and a spec is wanted"
    words = [*context.command_path.split(), *asked, *more]
    if name == "add":
        words = [
            *context.command_path.split(),
            *_folder_first(context, path, [s for s in specs if s not in paths]),
        ]
    step = f"name what it shall have, as in `{shlex.join(words)}`"
    if name == "pack" and has:
        lost, more_steps = _lost_in_pack(has, path)
        cause, step = cause + lost, step + more_steps
    raise BadValue(cause, step)


def _folder_first(context: typer.Context, path: str, specs: list[str]) -> list[str]:
    """The folder and the specs of a command that takes the folder first, where a spec may stand in
    its place.
    """
    first = str(context.params.get("prefix", path))
    if Path(first, "conda-meta").is_dir():
        return [first, *(specs or ["numba-cuda"])]
    return [path, first, *specs]


def _lost_in_pack(has: Installed, path: str) -> tuple[str, str]:
    """What pip installed in an environment, which is in no pack.

    And how to carry it, if its pip can fetch it.
    """
    infos = [info for info in has.of_pip if not (info / "direct_url.json").exists()]
    wheels = [info.name.removesuffix(".dist-info").replace("-", "==", 1) for info in infos]
    others = [info.name.partition("-")[0] for info in has.of_pip if info not in infos]
    if not wheels and not others:
        return "", ""
    lost = f"; what pip installed there is in no pack: {listing([*wheels, *others], most=4)}"
    if not wheels or not any(record["name"] == "pip" for record in has.records.values()):
        return lost, "; and carry its wheels beside it, from where you had them"
    get = [
        "ctk",
        "env",
        "run",
        path,
        "--",
        "python",
        "-m",
        "pip",
        "download",
        "--no-deps",
        "-d",
        "wheels",
        *wheels,
    ]
    return lost, f"; and carry the wheels beside it: `{shlex.join(get)}`"


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
        "--platform", "-p", help="linux-64, linux-aarch64, win-64 or win-arm64; may be repeated."
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
            "Channel with python, numpy and so on: a name like conda-forge, a URL, a folder, or"
            " 'local' to make one."
        ),
    ),
]
OtherChannels = Annotated[
    list[str] | None,
    typer.Option(
        "--channel",
        help=(
            "A folder, a name or a URL in place of the built channel, the most important first; may"
            " be repeated. conda-forge is then the base channel, if none was made here."
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
    typer.Option("--jobs", "-j", min=1, help="How many at a time; as many as cores by default."),
]
Specs = Annotated[
    list[str],
    typer.Argument(
        help="What conda would be given, such as cuda-version=12.6 numba-cuda.", callback=_no_paths
    ),
]
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform",
        "-p",
        help="The platform; this machine's by default. On another one no driver is assumed.",
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


@dataclass(frozen=True)
class Selection:
    """The options of `ctk build` that choose packages, releases, platforms and Pythons."""

    packages: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                "Packages, or folders of recipes/: exactly these and what they need, of the default"
                " releases. Without them: the default recipes."
            )
        ),
    ] = None
    releases: Releases = None
    drivers: Annotated[
        list[str] | None,
        typer.Option(
            "--driver",
            help=(
                "The releases that machines will get whose drivers support this CUDA version, such"
                " as 12.4, or none; 12.4:7.0 with this GPU only; may be repeated."
            ),
        ),
    ] = None
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            help=(
                "With --driver: compute capability of the GPUs, such as 7.0 or sm_70; may be"
                " repeated: each driver with each GPU. Without it: every GPU that the driver's"
                " toolkit knows."
            ),
        ),
    ] = None
    platforms: Platforms = None
    pythons: Pythons = None
    all_releases: Annotated[
        bool,
        typer.Option(
            "--all-releases",
            help="Every locked release; without it and --release, the default ones.",
        ),
    ] = False
    all_components: Annotated[
        bool,
        typer.Option(
            "--all-components", help="Every recipe of the toolkit; without it, the default ones."
        ),
    ] = False
    libraries: Annotated[
        bool,
        typer.Option(
            "--libraries",
            help="Beside the toolkit cuDNN, NCCL, CuPy, JAX and other libraries, too.",
        ),
    ] = False


def selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of its first parameter, a `Selection`: Typer reads them from a
    signature only.
    """
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    chosen = inspect.signature(Selection, eval_str=True).parameters

    @functools.wraps(command)
    def called(**values: Any) -> None:
        command(Selection(**{name: values.pop(name) for name in chosen}), **values)

    called.__signature__ = inspect.Signature([*chosen.values(), *own])  # type: ignore[attr-defined]
    return called


def base_beside(base: str, channels: Sequence[str] | None, workspace: Workspace) -> str:
    """The base channel beside those of --channel: conda-forge, if --base names none and none was
    made here.
    """
    return (
        "conda-forge"
        if base == "local" and channels and not workspace.base_channel.exists()
        else base
    )


Decorated = TypeVar("Decorated", bound=Callable[..., None])


def with_json(text: str) -> Callable[[Decorated], Decorated]:
    """Adds what a command's JSON document has to its docstring, where that is long."""

    def decorate(command: Decorated) -> Decorated:
        command.__doc__ = f"{inspect.getdoc(command)}\n\nJSON:\n{text}"
        return command

    return decorate
