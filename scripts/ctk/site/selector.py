"""The front page: which answer is whose, and what a client is given to install it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ctk.site.answers import Axes, gpu_names, pin_specs
from ctk.site.content import Site
from ctk.site.pages import Page, render
from ctk.solve.machine import python_specs

_FIELDS = ("drivers", "older", "newer", "gpus", "pythons", "pins", "packages")  # of axes, as the script has them
_FIRST = ("cuda-core", "numba-cuda", "cuda-nvcc")


@dataclass(frozen=True)
class Selector:
    """What the front page offers."""

    axes: Mapping[str, Axes]  # by platform
    channels: Sequence[str]  # what a client is given, the most important first: addresses or names
    planned: bool = False  # answers are from recipes and locks, so sizes are not known
    base: str = "local"  # as ``ctk solve --base`` takes it


def front_page(site: Site, selector: Selector) -> Page:
    """``index.html``. Where nothing was solved it says so, and the next step."""
    return render(
        site,
        "index.html",
        title="Which CUDA packages does this machine get?",
        description="Say which driver and which GPU there is: here is what to type, and what a solver picks for it.",
        selector=selector if any(axes.packages for axes in selector.axes.values()) else None,
        data=Markup(safe_json(_offered(selector))),  # safe_json leaves nothing that ends a script
    )


def shards(answers: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Page]:
    """A script for the packed answers of each package and Python: a page in a folder may load scripts, but no JSON."""
    for name, content in answers:
        yield Page(f"answers/{name}.js", f"ctkAnswers({safe_json(name)},{safe_json(content)});\n".encode())


def safe_json(content: object) -> str:
    """JSON that may stand in a script: nothing in it ends one, whatever a package is called."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def _offered(selector: Selector) -> dict[str, Any]:
    """The choices of the page, and for each pin and Python the specs for conda and the lines of a ``pixi.toml``."""
    every = selector.axes.values()
    packages = {package for axes in every for package in axes.packages}
    pins = {pin: pin_specs(pin) for axes in every for pin in axes.pins}
    pythons = {python: python_specs(python) if python else () for axes in every for python in axes.pythons}
    first = next((name for name in (*_FIRST, *sorted(packages)) if name in packages), "")
    return {
        "platforms": {
            subdir: {name: getattr(axes, name) for name in _FIELDS} for subdir, axes in selector.axes.items()
        },
        "gpus": gpu_names(),
        "pins": {pin: _request(specs) for pin, specs in pins.items()},
        "pythons": {python: _request(specs) for python, specs in pythons.items()},
        "channels": list(selector.channels),
        "first": first,
        "planned": selector.planned,
        "base": selector.base,
    }


def _request(specs: Sequence[str]) -> dict[str, list[str]]:
    return {"specs": list(specs), "lines": [pixi_line(spec) for spec in specs]}


def pixi_line(spec: str) -> str:
    """A conda spec, ``name``, ``name=version`` or ``name=version=build``, as a line of a ``pixi.toml``."""
    name, _, rest = spec.partition("=")
    version, _, build = rest.partition("=")
    if not build:
        return f"{name} = {json.dumps(f'{version}.*' if version else '*')}"
    # Before a build, conda takes a version as it is.
    return f"{name} = {{ version = {json.dumps(f'=={version}')}, build = {json.dumps(build)} }}"
