"""The input of a site, its templates, its folder, and the front page.

`report` has the other pages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from rattler import Version

from ctk.channel.publish import SITE
from ctk.core.checkout import HISTORY, Workspace, channel_missing
from ctk.core.console import count
from ctk.core.disk import disk_errors, refuse_unwritable
from ctk.core.errors import BadValue, ChannelBroken
from ctk.core.inside import place_in
from ctk.core.locks import held
from ctk.core.platforms import PLATFORMS
from ctk.lock.model import ReleaseLock, release_locks
from ctk.package.reader import IndexJson, index_of
from ctk.package.records import checked_records
from ctk.plan.names import Names, reviewed
from ctk.site.answers import Axes, is_half, pin_specs
from ctk.site.settings import settings
from ctk.solve.machine import driver_branches, gpu_names, python_specs
from ctk.solve.pixi import pixi_lines
from ctk.solve.solve import ASKS, ASKS_NATIVE

_TEXT = b"Made by ctk site. The folder is replaced as a whole: keep nothing of yours in it.\n"
_HERE = Path(__file__).parent
_NAVIGATION = (
    ("index.html", "Install"),
    ("packages.html", "Packages"),
    ("docs/index.html", "Docs"),
)
_ENVIRONMENT = "gpu"  # the name that the docs use


@dataclass(frozen=True)
class IndexedPackage:
    """A package file, with its data from the index."""

    file: str
    index: IndexJson
    size: int
    sha256: str
    path: Path

    @property
    def name(self) -> str:
        return self.index.name


@dataclass(frozen=True)
class Site:
    """The channel and the checkout of a site."""

    workspace: Workspace
    channel: Path  # the folder of a state, which does not change
    # By name, then newest version first, then native before compat.
    entries: tuple[IndexedPackage, ...]
    locks: Mapping[str, ReleaseLock]  # CTK releases first, oldest first
    channels: tuple[str, ...] = ()  # URLs or names of channels for clients, by priority
    title: str = "CUDA for conda"
    docs: bool = False  # whether the docs are among the pages

    @cached_property
    def packages(self) -> Mapping[str, tuple[IndexedPackage, ...]]:
        """Package name -> its entries, newest first."""
        return {
            name: tuple(group)
            for name, group in groupby(self.entries, key=lambda entry: entry.name)
        }

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms for which the channel has packages."""
        subdirs = {entry.index.subdir for entry in self.entries}
        return tuple(subdir for subdir in PLATFORMS if subdir in subdirs)

    @property
    def releases(self) -> tuple[ReleaseLock, ...]:
        """The CTK releases of the checkout, oldest first."""
        return tuple(lock for lock in self.locks.values() if lock.is_ctk)

    @property
    def asks(self) -> str:
        """What a command requests besides a package.

        With it, the package is a CUDA build, and without a driver there is an error.
        """
        return ASKS if ASKS in self.packages else "__cuda"

    @property
    def newest(self) -> str:
        """The newest CUDA version of the channel, or ""."""
        return next((entry.index.version for entry in self.packages.get("cuda-version", ())), "")


def read(workspace: Workspace, channel: Path) -> Site:
    """Reads the index of a channel folder, and the locks.

    Raises:
        ChannelBroken: An index is damaged.
        ChannelMissing: The channel does not exist.
    """
    if not channel.is_dir():
        raise channel_missing(channel)
    state = channel.resolve()  # one state, since a build may make the next one meanwhile
    entries = [_entry(state / name, record) for name, record in checked_records(state).items()]
    # Each sort keeps the order before.
    entries.sort(key=lambda entry: (entry.index.subdir, entry.file))
    entries.sort(
        key=lambda entry: (Version(entry.index.version), entry.index.build_number), reverse=True
    )
    entries.sort(key=lambda entry: entry.name)
    return Site(workspace, state, tuple(entries), release_locks(workspace))


def _entry(path: Path, record: Mapping[str, Any]) -> IndexedPackage:
    index = replace(index_of(record), subdir=path.parent.name)
    return IndexedPackage(path.name, index, record["size"], record["sha256"], path)


# Templates


class Page(NamedTuple):
    """A file of the site: its path below the folder, with ``/``, and its bytes."""

    path: str
    content: bytes


def render(site: Site, path: str, template: str = "", **values: Any) -> Page:
    """A page from `template`, by default that of its own name.

    Values are escaped, except `Markup`.
    """
    first, slash, _ = path.partition("/")
    section = f"{first}.html" if slash else path  # packages/cuda-core.html belongs to packages.html
    root = "../" * path.count("/")
    tabs = _NAVIGATION if site.docs else _NAVIGATION[:-1]
    own = {"site": site, "root": root, "navigation": tabs, "path": path, "section": section}
    text = _environment().get_template(template or path).render(**own, **values)
    return Page(path, (text.rstrip() + "\n").encode())


def missing(site: Site) -> Iterator[Page]:
    """What a server can send in place of a page that is not there.

    One for each folder, because links are relative.
    """
    said = "A page goes when the channel no longer has its package."
    for folder in ("", "packages/", *(("docs/",) if site.docs else ())):
        yield render(
            site, f"{folder}404.html", "404.html", title="There is no such page", description=said
        )


def docs_header(title: str) -> str:
    """The header of the pages of the docs."""
    return _environment().get_template("header.html").render(**_in_docs(title))


def moved(title: str, path: str, target: str, heading: str, label: str) -> Page:
    """A page of the docs at an old address, which leads to another page of the docs.

    Args:
        title: That of the site.
        path: The old address.
        target: The new page, relative to the old one.
        heading: Where a reader arrives whose address names no heading.
        label: The title of the new page.
    """
    own = {"target": target, "heading": heading, "label": label}
    own |= {"title": "This page has moved", "description": "It is now part of another page."}
    text = _environment().get_template("moved.html").render(**_in_docs(title), **own)
    return Page(path, (text.rstrip() + "\n").encode())


def _in_docs(title: str) -> dict[str, Any]:
    """What the header of a page of the docs needs."""
    own = {"site": {"title": title}, "root": "../", "path": "", "section": _NAVIGATION[-1][0]}
    return {"navigation": _NAVIGATION, **own}


def assets(names: Names) -> Iterator[Page]:
    """The style sheets and scripts; one of them knows the names that are no packages here."""
    for file in sorted((_HERE / "assets").iterdir()):
        if file.is_file() and not file.name.startswith((".", "_")):
            known = _names_script(names) if file.name == "names.js" else ""
            text = file.read_text(encoding="utf-8")
            if file.suffix == ".js":
                text = _COMMENT.sub("", text)  # readers of the page download the rest
            yield Page(f"assets/{file.name}", (text + known).encode())


def _names_script(names: Names) -> str:
    """The values at the end of ``names.js``.

    Names that are no packages here, and those that another place has.
    """
    table = {}
    for name in reviewed().names:
        if other := names.meant_by(name):
            packages = dict.fromkeys(
                map(_package_in, other.requests) if other.requests else [other.instead]
            )
            entry = reviewed().names[name]
            known = [package for package in packages if package != name]
            table[name] = (entry.what, known, entry.here)
    wheels = {name: [*wheel.values()][-1][0] for name, wheel in names.wheels.items()}
    maps: dict[str, dict[str, Any]] = {
        "OTHER_NAMES": table,
        "WHEELS": {
            name: package
            for name, package in wheels.items()
            if name == package or name not in names.own
        },
        "COMPONENTS": {
            name: package for name, package in names.components.items() if name not in names.own
        },
    }
    lines = [
        f"const {name} = new Map({safe_json([*entries.items()])});\n"
        for name, entries in maps.items()
    ]
    meant = {*maps["WHEELS"].values(), *maps["COMPONENTS"].values()}
    others = sorted(name for name in names.own - meant if "{" not in name and not is_half(name))
    for name, known in (("ELSEWHERE", names.elsewhere), ("OTHERS", others)):
        lines.append(f"const {name} = new Set({safe_json(known)});\n")
    return "".join(lines)


def _package_in(request: str) -> str:
    """The package of a request beside cuda-version."""
    words = [word.partition("=")[0] for word in request.split()]
    return next((word for word in words if word != "cuda-version"), words[0])


@cache
def _environment() -> Environment:
    """The templates, with autoescape; an undefined name is an error."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "thousands": lambda number: f"{number:,}", "day": _day}
    environment.filters["colour"] = colour
    return environment


def colour(cell: str) -> str:
    """The CSS class of a cell of `ctk.verify.table`: ``native``, ``compat`` or ``refused``."""
    if cell in ("", "-") or cell.endswith("no code"):
        return "refused"
    return "compat" if " " in cell else "native"


def _day(timestamp: int) -> str:
    """The day of a number of milliseconds since 1970, as ``2026-11-27``; "" for 0."""
    return f"{datetime.fromtimestamp(timestamp / 1000, UTC):%Y-%m-%d}" if timestamp else ""


# The folder


def write(pages: Iterable[Page], folder: Path) -> int:
    """Writes pages into a new folder, which then replaces the old folder.

    Returns the number of pages.
    Readers see the old site until all pages are written; after a kill or an error it stays.
    """
    check(folder)
    folder = folder.absolute()
    written: set[str] = set()
    with disk_errors(folder.parent), held(folder.with_name(f".{folder.name}.new")) as fresh:
        (fresh / SITE).write_bytes(_TEXT)
        for page in pages:
            written.add(page.path)
            target = place_in(fresh, page.path)  # a package of other people may have any name
            if target is None:
                cause = f"no page can have the name {page.path!a}"
                raise ChannelBroken(cause, "tell the channel's keeper which package has that name")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(page.content)
        _take_place(fresh, folder)
    return len(written)


def refuse_unreachable(url: str, base: Path | str) -> None:
    """Refuses addresses that readers of a page cannot use: the channel's, or its base channel's."""
    if not re.fullmatch(r"https?://[^\s/?#]+\S*", url):
        raise BadValue(
            f"{url} is not an address on the web",
            "give the published one: --url https://example.org/cuda",
        )
    if isinstance(base, Path) or base.startswith("file:"):
        step = (
            "name a channel that they can use: --base conda-forge, or the address of your mirror"
            " of it"
        )
        raise BadValue(f"no reader of the pages can install from {base}", step)


def check(folder: Path) -> None:
    """Refuses a place where no folder can be made, and a folder with other content than a site."""
    refuse_unwritable(folder.absolute())
    if not folder.exists() and not folder.is_symlink():
        return
    step = "name a folder that is a site, is empty, or does not exist yet"
    if (folder / HISTORY).exists() or any(folder.glob("*/repodata.json")):
        step = (
            f"name another folder for the site, with --channel {folder} if it is the site of that"
            " channel"
        )
        raise BadValue(f"{folder} has a channel in it, and would be replaced", step)
    if not folder.is_dir() or folder.is_symlink():
        raise BadValue(f"{folder} is not a folder", step)
    if any(folder.iterdir()) and not (folder / SITE).is_file():
        raise BadValue(f"{folder} is not a site that `ctk site` wrote, and would be replaced", step)


def _take_place(fresh: Path, folder: Path) -> None:
    """Puts the new folder in the place of the old one, by two renames."""
    if folder.exists():
        old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
        folder.rename(old)
        fresh.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        fresh.rename(folder)


# The front page: the selector, and the commands for clients

# Of axes, for the script.
_FIELDS = (
    "drivers",
    "older",
    "newer",
    "gpus",
    "floor",
    "pythons",
    "of_python",
    "without_cuda",
    "pins",
    "packages",
)
WANTED = ("cuda-core", "numba-cuda")
"""The packages that most readers come for: lists begin with them."""
# Packages with buttons, if the channel has them.
_FIRST = (*WANTED, "cuda-nvcc", "cuda-toolkit")
# Sentences about packages, for those who choose them.
_NOTES = {
    "numba-cuda": (  # https://github.com/NVIDIA/numba-cuda/issues/902
        "Since 2026-06-25 it gets only security and critical fixes; its successor is"
        " numba-cuda-mlir."
    ),
}
_PART = re.compile(r"(.+)(?:-files|-impl|_(?:linux|win)-\w+)")
_COMMENT = re.compile(r"^ *(?://[^\n]*|/\*\*.*?\*/)\n", re.M | re.S)  # lines without code
_PLAIN = re.compile(r"[\w@%+=:,./-]+")  # characters without a meaning in any shell


def front_page(site: Site, axes: Mapping[str, Axes]) -> Page:
    """``index.html`` for the axes of each platform, also for a channel without packages."""
    offered = _offered(site, axes)
    return render(
        site,
        "index.html",
        title="Install CUDA packages",
        description="Choose, then copy the command.",
        is_empty=not offered["first"],
        data=Markup(safe_json(offered)),  # safe_json leaves nothing that ends a script
        settings=settings(site.channels, site.title),
    )


def settings_pages(site: Site) -> Iterator[Page]:
    """The files of settings that the front page names."""
    for file in settings(site.channels, site.title):
        yield Page(file.path, file.text.encode())


def client_line(
    specs: str, channels: Sequence[str], client: str = "conda", command: str = "create"
) -> str:
    """The command that creates an environment, or adds to it.

    It has a line for each option, channels first.
    """
    given = [f"--channel {channel}" for channel in _quoted(channels)]
    options = [*given, "--override-channels", specs]
    return " \\\n  ".join([f"{client} {command} --name {_ENVIRONMENT}", *options])


def _quoted(channels: Iterable[str]) -> list[str]:
    """Channels as a shell takes them."""
    return [channel if _PLAIN.fullmatch(channel) else json.dumps(channel) for channel in channels]


def commands(site: Site, package: str, asks: str) -> dict[str, str]:
    """Client -> what installs a package, with what asks for CUDA, and activates its environment."""
    specs = f"{asks} {package}".lstrip()
    found = {
        client: client_line(specs, site.channels, client) + _then_activate(client)
        for client in ("conda", "mamba")
    }
    return {**found, "pixi": f"{_pixi_lines(site)}{package}\npixi shell"}


def _then_activate(client: str) -> str:
    """The end of a command that creates an environment: it activates it.

    conda and mamba ask whether to proceed. Without ``&&``, a shell that gets both lines from the
    clipboard gives them the second one as the answer.
    """
    return f" &&\n{client} activate {_ENVIRONMENT}"


def _pixi_lines(site: Site) -> str:
    """The commands of pixi for an environment on this machine, without the packages at the end."""
    named = " ".join(f"--channel {channel}" for channel in _quoted(site.channels))
    detect = "pixi workspace platform add --auto-detect"
    return f"pixi init {_ENVIRONMENT} {named}\ncd {_ENVIRONMENT}\n{detect}\npixi add "


def _pixi_channels(site: Site) -> str:
    """The command of pixi that gives a workspace the channels that it does not have yet."""
    return f"pixi workspace channel add --prepend {' '.join(_quoted(site.channels))}"


def shards(answers: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Page]:
    """A script for the packed answers of each package and Python.

    A page in a folder cannot load JSON.
    """
    for name, content in answers:
        yield Page(
            f"answers/{name}.js", f"ctkAnswers({safe_json(name)},{safe_json(content)});\n".encode()
        )


def safe_json(content: object) -> str:
    """JSON for a script element, which no text in it can end."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def _offered(site: Site, axes: Mapping[str, Axes]) -> dict[str, Any]:
    """The choices of the page.

    For each pin and Python with the specs for conda and the lines of a ``pixi.toml``.
    """
    every = axes.values()
    packages = {package for each in every for package in each.packages}
    pins = {pin: pin_specs(pin) for each in every for pin in each.pins}
    pythons = {
        python: python_specs(python) if python else () for each in every for python in each.pythons
    }
    return {
        "platforms": {
            subdir: {name: getattr(each, name) for name in _FIELDS} for subdir, each in axes.items()
        },
        "gpus": gpu_names(),
        "branches": [[cuda, branch] for cuda, branch in driver_branches().items()],
        "pins": {pin: _request(specs) for pin, specs in pins.items()},
        "pythons": {python: _request(specs) for python, specs in pythons.items()},
        "channels": list(site.channels),
        "create": {
            **{client: client_line("", site.channels, client) for client in ("conda", "mamba")},
            "pixi": _pixi_lines(site),
        },
        "add": {
            **{
                client: client_line("", site.channels, client, "install")
                for client in ("conda", "mamba")
            },
            "pixi": f"{_pixi_channels(site)}\npixi add ",
        },
        "nvcc": {
            client: client_line("", (*site.channels[:1], "conda-forge"), client)
            for client in ("conda", "mamba")
        },
        "parts": _parts(site, packages),
        "docs": site.docs,
        "asks": site.asks,
        "lasts": ASKS_NATIVE if ASKS_NATIVE in site.packages else None,
        "environment": _ENVIRONMENT,
        "first": [name for name in _FIRST if name in packages] or sorted(packages)[:3],
        "notes": {name: note for name, note in _NOTES.items() if name in packages},
    }


def _parts(site: Site, packages: Collection[str]) -> dict[str, str]:
    """Packages that are not asked for by name -> the package that brings each."""
    return {
        name: owner
        for name in site.packages
        if name not in packages and (owner := part_of(name, site.packages)) in packages
    }


def part_of(name: str, names: Container[str]) -> str:
    """The package that brings a part, such as ``cuda-nvrtc`` for ``cuda-nvrtc-files``.

    For other packages the same.
    """
    owner = name
    while match := _PART.fullmatch(owner):
        owner = (
            match[1] if match[1] in names else match[1].removesuffix("-dev").removesuffix("-static")
        )
    return owner if owner in names else name


def _request(specs: Sequence[str]) -> dict[str, list[str]]:
    return {"specs": list(specs), "lines": pixi_lines(specs)}
