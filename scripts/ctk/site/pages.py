"""Pages of the site: templates with their values, written into a folder that takes the place of the site before."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ctk.core.console import count
from ctk.core.errors import BadValue
from ctk.core.files import check_place, disk_errors, held
from ctk.site.answers import Axes, gpu_names, pin_specs
from ctk.site.content import Site
from ctk.solve.fleet import pixi_lines
from ctk.solve.machine import python_specs
from ctk.solve.solve import ASKS

MARKER = ".ctk-site"
"""A file that only our sites have: a folder without it is never replaced."""
_TEXT = b"Made by ctk site. The folder is replaced as a whole: keep nothing of yours in it.\n"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_HERE = Path(__file__).parent
_NAVIGATION = (
    ("index.html", "Install"),
    ("picks.html", "Picks"),
    ("releases.html", "Releases"),
    ("packages.html", "Packages"),
    ("docs.html", "Docs"),
)


class Page(NamedTuple):
    """One file of the site: its path below the folder, with ``/``, and its bytes."""

    path: str
    content: bytes


def render(site: Site, path: str, template: str = "", **values: Any) -> Page:
    """A page from a template of its own name, or of another; every value is escaped, unless it is `Markup`."""
    first, slash, _ = path.partition("/")
    section = f"{first}.html" if slash else path  # packages/cuda-core.html belongs to packages.html
    root = "../" * path.count("/")
    own = {"site": site, "root": root, "navigation": _NAVIGATION, "path": path, "section": section}
    text = _environment().get_template(template or path).render(**own, **values)
    return Page(path, (text.rstrip() + "\n").encode())


def stand_alone(template: str, **values: Any) -> bytes:
    """A page that is one file, with the look of the site in it."""
    style = (_HERE / "assets" / "style.css").read_bytes()
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    own = {"style": Markup(style.decode()), "styles": Markup(f"'sha256-{digest}'"), "root": ""}
    return _environment().get_template(template).render(**own, **values).strip().encode(errors="replace")


def assets() -> Iterator[Page]:
    """The style sheets, and the scripts of pages that have one."""
    for file in sorted((_HERE / "assets").iterdir()):
        if file.is_file() and not file.name.startswith((".", "_")):
            yield Page(f"assets/{file.name}", file.read_bytes())


@cache
def _environment() -> Environment:
    """Templates with autoescape; a name that they use and do not get is an error."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": count,
        "bytes": bytes_text,
        "thousands": lambda number: f"{number:,}",
        "create": create_line,
        "arrows": lambda text: text.replace(" -> ", " → "),
    }
    return environment


def bytes_text(size: float) -> str:
    """``812 B``, ``16.8 kB``, ``84.4 MB``, ``1.02 GB``: as download sizes are told, in powers of 1000."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"


def write(pages: Iterable[Page], folder: Path) -> int:
    """Writes pages into a new folder, which replaces the one before in one step; returns how many.

    A reader sees the site before or the new one; a killed run, and a page that cannot be made, leave the former.
    """
    check(folder)
    folder = folder.absolute()
    written: set[str] = set()
    with disk_errors(folder.parent), held(folder.with_name(f".{folder.name}.new")) as fresh:
        (fresh / MARKER).write_bytes(_TEXT)
        for page in pages:
            written.add(page.path)
            target = fresh / page.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(page.content)
        _take_place(fresh, folder)
    return len(written)


def check(folder: Path) -> None:
    """Refuses a place where no folder can be, and a folder that holds something else than a site."""
    check_place(folder.absolute())
    if not folder.exists() and not folder.is_symlink():
        return
    step = "name a folder that is a site, is empty, or does not exist yet"
    if not folder.is_dir() or folder.is_symlink():
        raise BadValue(f"{folder} is no folder", step)
    if any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise BadValue(f"{folder} holds something that is no site of ctk's, and would be replaced", step)


def _take_place(fresh: Path, folder: Path) -> None:
    """Exchanges the two in one step where the system can (Linux); else there is a moment without a site."""
    if not folder.exists():
        fresh.rename(folder)
    elif not _exchange(fresh, folder):
        old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
        folder.rename(old)
        try:
            fresh.rename(folder)
        except OSError:
            old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc has it from 2.28 on
    names = os.fsencode(first), os.fsencode(second)
    return call is not None and call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0


# The front page: the selector, and what a client is given to install it.

_FIELDS = ("drivers", "older", "newer", "gpus", "pythons", "pins", "packages")  # of axes, as the script has them
_FIRST = ("cuda-core", "numba-cuda", "cuda-nvcc", "cuda-toolkit")  # have buttons, where the channel has them
_PLAIN = re.compile(r"[\w@%+=:,./-]+")  # what no shell reads as anything else


@dataclass(frozen=True)
class Selector:
    """What the front page offers."""

    axes: Mapping[str, Axes]  # by platform
    base: str = "local"  # as ``ctk solve --base`` takes it


def front_page(site: Site, selector: Selector) -> Page:
    """``index.html``. Where nothing was solved it says so."""
    return render(
        site,
        "index.html",
        title="Install CUDA packages",
        description="Choose, then copy the command.",
        selector=selector if any(axes.packages for axes in selector.axes.values()) else None,
        data=Markup(safe_json(_offered(site, selector))),  # safe_json leaves nothing that ends a script
    )


def create_line(specs: str, channels: Sequence[str], client: str = "conda") -> str:
    """The command that makes an environment, broken at its options, with the channels first."""
    given = [f"--channel {channel if _PLAIN.fullmatch(channel) else json.dumps(channel)}" for channel in channels]
    options = [*given, "--override-channels --strict-channel-priority", specs]
    return " \\\n  ".join([f"{client} create --name cuda", *options])


def shards(answers: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Page]:
    """A script for the packed answers of each package and Python: a page in a folder may load scripts, but no JSON."""
    for name, content in answers:
        yield Page(f"answers/{name}.js", f"ctkAnswers({safe_json(name)},{safe_json(content)});\n".encode())


def safe_json(content: object) -> str:
    """JSON that may stand in a script: nothing in it ends one, whatever a package is called."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def _offered(site: Site, selector: Selector) -> dict[str, Any]:
    """The choices of the page, and for each pin and Python the specs for conda and the lines of a ``pixi.toml``."""
    every = selector.axes.values()
    packages = {package for axes in every for package in axes.packages}
    pins = {pin: pin_specs(pin) for axes in every for pin in axes.pins}
    pythons = {python: python_specs(python) if python else () for axes in every for python in axes.pythons}
    return {
        "platforms": {
            subdir: {name: getattr(axes, name) for name in _FIELDS} for subdir, axes in selector.axes.items()
        },
        "gpus": gpu_names(),
        "pins": {pin: _request(specs) for pin, specs in pins.items()},
        "pythons": {python: _request(specs) for python, specs in pythons.items()},
        "channels": list(site.channels),
        "create": {client: create_line("", site.channels, client) for client in ("conda", "mamba")},
        "asks": ASKS if ASKS in packages else "__cuda",
        "first": [name for name in _FIRST if name in packages] or sorted(packages)[:3],
        "base": selector.base,
    }


def _request(specs: Sequence[str]) -> dict[str, list[str]]:
    return {"specs": list(specs), "lines": pixi_lines(specs)}
