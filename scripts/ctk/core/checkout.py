"""A checkout: its folders, git, and its settings in ``[tool.ctk]`` of ``pyproject.toml``."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

from ctk.core.console import listing
from ctk.core.errors import BadValue, ChannelBroken, ChannelMissing, NotReady, problems
from ctk.core.versions import version_key


class Below:
    """A folder of a `Workspace`."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts

    def __get__(self, workspace: Workspace, owner: type) -> Path:
        return workspace.root.joinpath(*self.parts)


class InCache(Below):
    """A folder of `Workspace.cache`."""

    def __get__(self, workspace: Workspace, owner: type) -> Path:
        return workspace.cache.joinpath(*self.parts)


_KNOWN = Path(__file__).resolve().parents[1] / "known"
"""What this package knows of recipes and releases where it has no checkout (`ctk.plan.known`)."""


class Known(Below):
    """A part of `_KNOWN`."""

    def __get__(self, workspace: Workspace, owner: type) -> Path:
        return _KNOWN.joinpath(*self.parts)


class Here(Below):
    """A folder below that in which ctk was started."""

    def __get__(self, workspace: Workspace, owner: type) -> Path:
        return Path.cwd().joinpath(*self.parts)


@dataclass(frozen=True)
class Workspace:
    """The folders of a checkout; git ignores ``.cache`` and ``output``, where all files are made.

    Attributes:
        root: The checkout.
        own_cache: All files that can be made again: artefacts, builds, package caches.
        store: Fetched files, named by their sha256.
        artefacts: The sources of recipes: ``<component>/<version>/<target>.zip``, hard links into
            the store.
        builds: Finished builds, one folder for each content key.
        notes: Values that were computed once (`ctk.core.memo`), one folder for each kind.
        rattler: The cache of rattler and rattler-build.
        packages: Unpacked packages, which environments have hard links to.
        logs: Output of rattler-build.
        temporary: Files of running commands.
        output: Channels and environments.
    """

    root: Path
    recipes = Below("recipes")
    base_recipes = Below("base")
    variants = Below("variants")
    build_config = Below("conda_build_config.yaml")
    own_cache = Below(".cache")
    store = Below(".cache", "sha256")
    artefacts = Below(".cache", "artefacts")
    builds = Below(".cache", "builds")
    notes = InCache("notes")
    rattler = InCache("packages")
    packages = InCache("packages", "pkgs")
    logs = InCache("logs")
    temporary = InCache("tmp")
    output = Below("output")
    channel = Below("output", "channel")
    base_channel = Below("output", "base")
    environments = Below("output", "envs")
    is_checkout: ClassVar = True

    @property
    def locked_minors(self) -> list[str]:
        """The toolkit minors that have a lock, oldest first.

        By the names of the files, which are not read.
        """
        minors = (file.stem.removeprefix("cuda-") for file in self.variants.glob("cuda-*.lock"))
        return sorted(minors, key=version_key)

    @property
    def name(self) -> str:
        """A name for its folder in a place that several checkouts share."""
        return f"ctk-{hashlib.sha256(str(self.root).encode()).hexdigest()[:12]}"

    @cached_property
    def cache(self) -> Path:
        """`own_cache`, or a folder in the user's cache if that is read-only.

        Builds are only in `own_cache`.
        """
        if takes_files(self.own_cache):
            return self.own_cache
        places = (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache"))
        return next(
            (Path(place, self.name) for place in places if os.path.isabs(place)), self.own_cache
        )


class UserFolders(Workspace):
    """The folders of a user who has no checkout.

    The root is a folder in the user's cache, with the same parts as ``.cache`` of a checkout. There
    are no recipes; of the releases there is what the package knows. What a command makes is below
    the folder in which it was started.
    """

    is_checkout: ClassVar = False
    own_cache = Below()
    store = Below("sha256")
    artefacts = Below("artefacts")
    builds = Below("builds")
    variants = Known("variants")
    build_config = Known("conda_build_config.yaml")
    names = Known("names.json")
    output = Here("output")


def base_channel(base: str, workspace: Workspace) -> Path | str:
    """The base channel that --base names: the one made here, a folder, or what a client takes."""
    if base == "local":
        return workspace.base_channel
    # A name such as conda-forge/label/dev has slashes too; output/channel is a folder, also where
    # there is none.
    is_path = "/" in base and "://" not in base and "/label/" not in base
    is_place = is_path or Path(base).is_dir() or base.startswith("~")
    return Path(base).expanduser().resolve() if is_place else base


def lasting(url: str) -> str:
    """An address below the link of a channel of ours, not below its state.

    A later build removes the state.
    """
    return re.sub(r"/\.([^/]+)-states/\d+(?=/|$)", r"/\1", url)


def takes_files(place: Path) -> bool:
    """Whether this user may write into a folder, or make it."""
    return os.access(
        next(p for p in (place, *place.absolute().parents) if os.path.lexists(p)), os.W_OK
    )


@cache
def given_environment() -> dict[str, str]:
    """The environment variables that this process got, for a program of the user.

    The first call notes them.
    """
    return dict(os.environ)


_OWN = Path(__file__).resolve().parents[3]


def workspace() -> Workspace:
    """The checkout of this package, or that of ``CTK_ROOT``; without one, the user's folders."""
    override = os.environ.get("CTK_ROOT")
    if override:
        return _checkout_in(Path(override).resolve())
    return _own_workspace()


@cache
def _own_workspace() -> Workspace:
    own = _checkout_in(_OWN)
    if _has_parts(own):
        return own
    from platformdirs import user_cache_path  # a checkout does without

    return UserFolders(user_cache_path("ctk"))


@cache
def _checkout_in(root: Path) -> Workspace:
    """The checkout in a folder: one object, which looks once where its cache is."""
    return Workspace(root)


def _has_parts(where: Workspace) -> bool:
    """Whether a folder has a part that only a checkout has."""
    return any(part.exists() for part in (where.recipes, where.variants, where.build_config))


HISTORY = ".history"
"""The folder of notes in a folder that `ctk publish` writes."""


def refuse_unshown(folder: Path) -> None:
    """Raises ChannelBroken for a folder whose first publish has not ended.

    Readers see no index in it.
    """
    if (folder / HISTORY).is_dir() and not any(folder.glob("*/repodata.json")):
        cause = f"{folder} has no index: a `ctk publish` into it was stopped, or is at work now"
        raise ChannelBroken(cause, "wait for that run, or run that command again")


def channel_missing(*places: object) -> ChannelMissing:
    """The error for places without a channel; `ctk build` makes only the two of this checkout."""
    names = [str(place) for place in places]
    are_addresses = all("://" in name for name in names)
    preposition = "at" if are_addresses else "in"
    return ChannelMissing(
        f"there is no channel {preposition} {listing(names)}", step_to_channel(*names)
    )


def step_to_channel(*names: str) -> str:
    """What to do where places that were named, or are the default, have no channel."""
    where = workspace()
    if all("://" in name for name in names):
        return "check the address"
    own = {*map(os.path.realpath, (where.channel, where.base_channel))}
    if where.is_checkout and own.issuperset(map(os.path.realpath, names)):
        return "run `ctk build`, or name another one (most commands: --channel and --base)"
    return "name a folder or a URL with a channel"


def known_workspace() -> Workspace:
    """`workspace`, for commands that need what is known of releases.

    BadValue if ``CTK_ROOT`` is not a checkout.
    """
    where = workspace()
    if where.is_checkout and not _has_parts(where):
        raise BadValue(
            f"CTK_ROOT={os.environ['CTK_ROOT']} is not a checkout: it has no recipes or variants",
            "name a checkout with it, or unset it: the default is the checkout that ctk was"
            " installed from",
        )
    return where


def checkout() -> Workspace:
    """`workspace`, for commands that need recipes and locks.

    Raises:
        BadValue: ``CTK_ROOT`` is not a checkout.
        NotReady: This package was installed without one.
    """
    where = known_workspace()
    refuse_without_recipes(where)
    return where


def lacks_package(subject: str, error: ModuleNotFoundError, *packages: str) -> NotReady:
    """The error for something that needs packages of an extra.

    `subject` is in the plural, as in "keys". A checkout has the extras' packages locked.
    """
    step = f"pip install {' '.join(packages)}"
    if workspace().is_checkout:
        step = "run ./scripts/setup, which installs what requirements-dev.lock names"
    return NotReady(f"{subject} need {error.name}, which is not installed", step)


def refuse_without_recipes(where: Workspace) -> None:
    """Raises NotReady for a command that needs recipes, where this package has none."""
    if not where.is_checkout:
        raise NotReady(
            "this needs the recipes of a channel, and this ctk was installed without them",
            "clone the repository that the channel is built from, and use its .venv/bin/ctk"
            " (`./scripts/setup` makes it); or name the clone: CTK_ROOT=/path/to/it",
        )


def git(folder: Path, *words: str) -> str:
    """The stripped output of git in a folder; "" if it fails or is not installed."""
    # Completion and --help do not need it, nor tarfile and tomllib.
    from ctk.core.children import run_program

    try:
        done = run_program(["git", "-C", str(folder), *words])
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.strip()


def git_export(folder: Path, commit: str, parts: Sequence[str], target: Path) -> bool:
    """Writes files and folders of a commit into another folder; False if git does not have them."""
    import tarfile

    from ctk.core.children import run_bytes

    command = ["git", "-C", str(folder), "archive", "--format=tar", commit, "--", *parts]
    try:
        done = run_bytes(command)
    except OSError:
        return False
    if done.returncode:
        return False
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(target, filter="data")
    return True


@dataclass(frozen=True)
class Default:
    """The releases and recipes of a command that names none; None for all.

    A release is a CTK minor, or a word: ``oldest`` and ``newest`` of each CUDA major, or
    ``conda-forge`` and ``rapids`` for those that these channels' packages are compiled with.
    """

    releases: list[str] | None = None
    recipes: list[str] | None = None


@dataclass(frozen=True)
class Libraries:
    """Recipes of libraries beside the toolkit, and those of the toolkit that they need.

    The latter are those that `Default` lacks.
    """

    recipes: list[str] = field(default_factory=list)
    toolkit: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Compiled:
    """The CTK minors that a channel's packages are compiled with."""

    minors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FeedstockSettings:
    """Settings of exported feedstocks; maintainers are GitHub names or teams."""

    maintainers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Publish:
    """Whether packages may be published with files that no licence text names."""

    accept_redistribution: bool = False


@dataclass(frozen=True)
class Settings:
    """The whole table; `runners` maps a platform to the label of its CI machine."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}
    default: Default = Default()
    libraries: Libraries = field(default_factory=Libraries)
    conda_forge: Compiled = field(default_factory=Compiled)
    rapids: Compiled = field(default_factory=Compiled)
    feedstock: FeedstockSettings = field(default_factory=FeedstockSettings)
    publish: Publish = Publish()
    runners: Mapping[str, str] = field(default_factory=dict)

    def runner(self, subdir: str) -> str:
        """The CI machine for a platform; BadValue if none is set."""
        try:
            return self.runners[subdir]
        except KeyError:
            step = "add it to [tool.ctk.runners] of pyproject.toml"
            raise BadValue(f"no CI machine is set for {subdir}", step) from None


def settings(root: Path) -> Settings:
    """The settings of a checkout; the defaults without a ``pyproject.toml``.

    Raises:
        BadValue: The file is not valid TOML, or the table has unknown keys or values; all
            problems are listed.
    """
    import tomllib

    from pydantic import TypeAdapter, ValidationError

    file = root / "pyproject.toml"
    if file.exists() and not file.is_file():  # a pipe would be waited for
        raise BadValue(
            "pyproject.toml cannot be read: it is not a file",
            "put the file in its place, or remove it",
        )
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        table: Any = tomllib.loads(text).get("tool", {}).get("ctk", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadValue(f"pyproject.toml cannot be read: {error}", "fix the file") from error
    try:
        # As JSON: in strict mode, pydantic takes only JSON's lists for tuples and the like.
        return TypeAdapter(Settings).validate_json(json.dumps(table, default=str))
    except ValidationError as error:
        lines = [f"tool.ctk.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise problems(BadValue, "pyproject.toml", lines, "fix the table [tool.ctk]") from error


@dataclass(frozen=True)
class Marked:
    """A generated table in a page, between two comments.

    Such as ``table of drivers and GPUs``, its command, and the page.
    """

    what: str
    command: str
    page: str  # path from the checkout's root

    def write(self, workspace: Workspace, table: str) -> tuple[Path, ...]:
        """Writes the table; returns the page if it changed."""
        path = workspace.root / self.page
        text = path.read_text(encoding="utf-8")
        begin, end = (
            f"<!-- {self.what}, written by `{self.command}` -->\n",
            "<!-- end of the table -->\n",
        )
        before, rest = text.split(begin)
        new = f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
        path.write_text(new, encoding="utf-8", newline="\n")
        return (path,) if new != text else ()


def markdown_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table, each line with its end."""
    return "".join(
        f"| {' | '.join(line)} |\n" for line in (columns, ("---",) * len(columns), *rows)
    )
