"""The front page: which answer is whose, and what a client is given to install it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ctk.site.content import Site
from ctk.site.page import Page, render
from ctk.site.questions import Axes, gpu_names, pin_specs
from ctk.solve.machine import python_specs

_FIRST = ("cuda-core", "numba-cuda", "cuda-nvcc")


@dataclass(frozen=True)
class Selector:
    """What the front page offers.

    Attributes:
        axes: The questions, by platform.
        channels: What a client is given as channels, the most important first: addresses or names.
        planned: Whether the answers are from recipes and locks, so that sizes are not known.
        base: The base channel, as ``ctk solve --base`` takes it.
    """

    axes: Mapping[str, Axes]
    channels: Sequence[str]
    planned: bool = False
    base: str = "local"


def front_page(site: Site, selector: Selector) -> Page:
    """``index.html``. Where nothing was solved it says so, and the next step."""
    return render(
        site,
        "index.html",
        "index.html",
        title="Which CUDA packages does this machine get?",
        description="Say which driver and which GPU there is: here is what to type, and what a solver picks for it.",
        selector=selector if any(axes.packages for axes in selector.axes.values()) else None,
        data=Markup(safe_json(_offered(selector))),  # safe_json leaves nothing that ends a script
    )


def shards(answers: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Page]:
    """A script for the packed answers of each package and Python.

    Scripts and not JSON: a page opened from a folder may load the one and not the other.
    """
    for name, content in answers:
        yield Page(f"answers/{name}.js", f"ctkAnswers({safe_json(name)},{safe_json(content)});\n".encode())


def safe_json(content: object) -> str:
    """JSON that may stand in a script: nothing in it ends one, whatever a package is called."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def _offered(selector: Selector) -> dict[str, Any]:
    """The choices of the page, and the words that requests are put together from.

    Returns:
        ``platforms``: each with the values of its questions, and whether drivers ``older`` than the first or ``newer``
        than the last are answered by it; ``gpus``: name -> compute capability; ``pins`` and
        ``pythons``: value -> what conda is given (``specs``) and the lines of a ``pixi.toml`` (``lines``);
        ``channels``; ``first``: the package that is chosen first.
    """
    pins = dict.fromkeys(pin for axes in selector.axes.values() for pin in axes.pins)
    pythons = dict.fromkeys(python for axes in selector.axes.values() for python in axes.pythons)
    packages = {package for axes in selector.axes.values() for package in axes.packages}
    return {
        "platforms": {
            subdir: {
                "drivers": axes.drivers,
                "older": axes.is_older_alike,
                "newer": axes.is_newer_alike,
                "gpus": axes.gpus,
                "pythons": axes.pythons,
                "pins": axes.pins,
                "packages": axes.packages,
            }
            for subdir, axes in selector.axes.items()
        },
        "gpus": gpu_names(),
        "pins": {pin: _request(pin_specs(pin)) for pin in pins},
        "pythons": {python: _request(python_specs(python) if python else ()) for python in pythons},
        "channels": list(selector.channels),
        "first": next((name for name in (*_FIRST, *sorted(packages)) if name in packages), ""),
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
