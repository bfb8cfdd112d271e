"""The rules of conda-smithy's linter that a v1 recipe can break, by the identifiers of its public list of messages.

conda-smithy is on no package index, so what its messages say is stated here again, once, as checks of a parsed recipe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SINGLE = ("schema_version", "context", "package", "source", "build", "requirements", "tests", "about", "extra")
SEVERAL = ("schema_version", "context", "recipe", "source", "build", "outputs", "about", "extra")
REQUIREMENTS = ("build", "host", "run", "run_constraints", "run_exports")


@dataclass(frozen=True)
class Feedstock:
    """What is checked: the recipe as data and as text, and `conda-forge.yml`."""

    text: str
    recipe: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def order(self) -> tuple[str, ...]:
        return SEVERAL if "outputs" in self.recipe else SINGLE

    @property
    def outputs(self) -> list[Mapping[str, Any]]:
        """The outputs that are packages."""
        return [o for o in self.recipe.get("outputs", [self.recipe]) if "package" in o]

    @property
    def blocks(self) -> list[Mapping[str, Any]]:
        return [self.recipe, *self.recipe.get("outputs", ())]

    def about(self, output: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.recipe.get("about", {}), **output.get("about", {})}


def plain(values: Any) -> Iterator[Any]:
    """Every value of a list, those of both branches of a condition too."""
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, Mapping) and "if" in value:
            for branch in ("then", "else"):
                if branch in value:
                    yield from plain(value[branch])
        elif value is not None:
            yield value


def requirements(feedstock: Feedstock) -> Iterator[tuple[str, str]]:
    for block in feedstock.blocks:
        for section, values in (block.get("requirements") or {}).items():
            if section != "run_exports":
                yield from ((section, value) for value in plain(values) if isinstance(value, str))


def r_000(f: Feedstock) -> Iterator[str]:
    """No section that is not known."""
    yield from (key for key in f.recipe if key not in f.order)


def r_001(f: Feedstock) -> Iterator[str]:
    """Sections in the expected order."""
    known = [key for key in f.recipe if key in f.order]
    if known != sorted(known, key=f.order.index):
        yield str(known)


def r_002(f: Feedstock) -> Iterator[str]:
    """A homepage, a licence and a summary."""
    for output in f.outputs:
        yield from {"homepage", "license", "summary"} - set(f.about(output))


def r_003(f: Feedstock) -> Iterator[str]:
    """At least one maintainer."""
    if not (f.recipe.get("extra") or {}).get("recipe-maintainers"):
        yield "none"


def r_004(f: Feedstock) -> Iterator[str]:
    """Maintainers are a list."""
    if not isinstance((f.recipe.get("extra") or {}).get("recipe-maintainers", []), list):
        yield "no list"


def r_005(f: Feedstock) -> Iterator[str]:
    """Some tests."""
    if not any(output.get("tests") for output in f.outputs):
        yield "none"


def r_008(f: Feedstock) -> Iterator[str]:
    """A build number."""
    for output in f.outputs:
        if "number" not in {**f.recipe.get("build", {}), **output.get("build", {})}:
            yield output["package"]["name"]


def r_009(f: Feedstock) -> Iterator[str]:
    """Requirements in the expected order."""
    for block in f.blocks:
        keys = [key for key in block.get("requirements") or {} if key in REQUIREMENTS]
        if keys != sorted(keys, key=REQUIREMENTS.index):
            yield str(keys)


def r_010(f: Feedstock) -> Iterator[str]:
    """A licence's name without the word, other than in LicenseRef-."""
    for output in f.outputs:
        name = f.about(output).get("license", "").lower()
        if "license" in name and "licenseref" not in name:
            yield name


def r_011(f: Feedstock) -> Iterator[str]:
    """One end of line at the end (R-012 as well)."""
    if not f.text.endswith("\n") or f.text.endswith("\n\n"):
        yield repr(f.text[-5:])


def r_013(f: Feedstock) -> Iterator[str]:
    """The text of a licence that asks for it to be passed on."""
    for output in f.outputs:
        about = f.about(output)
        asks = any(family in about.get("license", "").lower() for family in ("gpl", "bsd", "mit", "apache", "psf"))
        if asks and "license_file" not in about:
            yield output["package"]["name"]


def r_014(f: Feedstock) -> Iterator[str]:
    """Names in small letters."""
    for output in f.outputs:
        if not re.fullmatch(r"[a-z0-9_.-]+", re.sub(r"\$\{\{.*?\}\}", "x", output["package"]["name"])):
            yield output["package"]["name"]


def r_019(f: Feedstock) -> Iterator[str]:
    """A hash for every address."""
    for block in f.blocks:
        for source in plain(block.get("source")):
            if "url" in source and not re.fullmatch("[0-9a-f]{64}", source.get("sha256", "")):
                yield source["url"]


def r_020(f: Feedstock) -> Iterator[str]:
    """noarch is python or generic."""
    for block in f.blocks:
        kind = (block.get("build") or {}).get("noarch")
        if kind not in (None, "python", "generic"):
            yield kind


def r_021(f: Feedstock) -> Iterator[str]:
    """No space between an operator and a version, one before it (R-022 as well)."""
    for section, value in requirements(f):
        if re.search(r"[<>=!]\s|^[\w.-]+[<>=!]", re.sub(r"\$\{\{.*?\}\}", "1", value)):
            yield f"{section}: {value}"


def r_026(f: Feedstock) -> Iterator[str]:
    """noarch Python packages state the oldest Python."""
    for output in f.outputs:
        if (output.get("build") or {}).get("noarch") == "python":
            run = [v for v in plain((output.get("requirements") or {}).get("run")) if isinstance(v, str)]
            if not any(re.match(r"python >=", value) for value in run):
                yield output["package"]["name"]


def r_027(f: Feedstock) -> Iterator[str]:
    """pin_subpackage is for outputs of the recipe."""
    names = {output["package"]["name"] for output in f.outputs}
    for name, more in re.findall(r"pin_subpackage\(\"([^\"]+)\"( ~ target_platform)?", f.text):
        written = f"{name}${{{{ target_platform }}}}" if more else name
        if written not in names:
            yield written


def r_028(f: Feedstock) -> Iterator[str]:
    """No compiled wheels."""
    for block in f.blocks:
        for source in plain(block.get("source")):
            if source.get("url", "").endswith(".whl") and not source["url"].endswith("-none-any.whl"):
                yield source["url"]


def r_029(f: Feedstock) -> Iterator[str]:
    """No pure wheels, other than for noarch Python (R-030, a hint)."""
    for block in f.blocks:
        pure = [s["url"] for s in plain(block.get("source")) if s.get("url", "").endswith("-none-any.whl")]
        if (block.get("build") or {}).get("noarch") != "python":
            yield from pure


def r_033(f: Feedstock) -> Iterator[str]:
    """Who uses a compiler states the C library."""
    for block in f.blocks:
        build = [v for v in plain((block.get("requirements") or {}).get("build")) if isinstance(v, str)]
        if any("compiler(" in v for v in build) and not any("stdlib(" in v for v in build):
            yield str(build)


def r_040(f: Feedstock) -> Iterator[str]:
    """A version is text, not a number."""
    if isinstance((f.recipe.get("context") or {}).get("version"), float):
        yield str(f.recipe["context"]["version"])


def r1_002(f: Feedstock) -> Iterator[str]:
    """A noarch recipe has no conditions among its requirements, unless `conda-forge.yml` skips the rule."""
    if not (f.recipe.get("build") or {}).get("noarch"):
        return
    if "lint_noarch_selectors" in (f.settings.get("linter") or {}).get("skip", ()):
        return
    for section, values in (f.recipe.get("requirements") or {}).items():
        if isinstance(values, list) and any(isinstance(value, Mapping) for value in values):
            yield section


RULES: dict[str, Callable[[Feedstock], Iterator[str]]] = {
    name.upper().replace("_", "-"): rule for name, rule in list(globals().items()) if re.fullmatch(r"r1?_\d{3}", name)
}


def broken(feedstock: Feedstock) -> dict[str, list[str]]:
    """Identifier -> what breaks the rule."""
    found = {identifier: list(rule(feedstock)) for identifier, rule in RULES.items()}
    return {identifier: lines for identifier, lines in found.items() if lines}
