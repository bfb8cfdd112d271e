"""Checks of what a recipe says of itself: summary, licence, addresses, maintainers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from ctk.check.lint.check import ADVICE, ALONE, PUBLIC, RecipeCheck, TreeCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.recipe import RecipeFile
from ctk.check.lint.source import text_of

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

_LONGEST = 100  # characters of a summary
_PROPRIETARY = re.compile(r"nvidia|propriet", re.I)


class AboutIsComplete(RecipeCheck):
    """Every package has a summary and a licence, and, if it is published, a homepage (conda-smithy's R-002)."""

    fix = "add it below about"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        wanted = ("summary", "license", *(["homepage"] if recipe.home != "base" else []))
        for block in recipe.outputs:
            about = recipe.inherited(block, "about")
            lost = [key for key in wanted if not about.get(key)]
            if lost:
                place = (*block.place, "about") if "about" in block.data else ("about",)
                yield recipe.problem(place, f"{block.name or 'the package'} has no {' and no '.join(lost)}")


class SummaryIsOneLine(RecipeCheck):
    """A summary is one line of at most a hundred characters, without a full stop: lists of packages show it."""

    fix = "shorten it; about: description has room"
    homes = ADVICE
    severity = "hint"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            summary = text_of(block.section("about").get("summary")).strip()
            place = (*block.place, "about", "summary")
            if "\n" in summary or (len(summary) > _LONGEST and "${{" not in summary):
                yield recipe.problem(place, f"the summary has {len(summary)} characters")
            if summary.endswith("."):
                yield recipe.problem(place, "the summary ends with a full stop")


class LicenceIsSpdx(RecipeCheck):
    """A licence is an SPDX expression, or LicenseRef- with a name (R-010): a solver's user can ask for it, an SBOM
    names it.
    """

    fix = "write the SPDX identifier, https://spdx.org/licenses; LicenseRef-NAME for a text that has none"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            licence = text_of(block.section("about").get("license"))
            if licence and "${{" not in licence:
                try:
                    # Exceptions after WITH, and free names after LicenseRef-, are known to it too.
                    canonicalize_license_expression(licence)
                except InvalidLicenseExpression:
                    yield recipe.problem((*block.place, "about", "license"), f"{licence!r} is no SPDX expression")


class LicenceFileIsNamed(RecipeCheck):
    """Every package names the file with the text of its licence (R-013); in the base channel, if it brings files of
    somebody else.
    """

    fix = "add about: license_file"
    homes = PUBLIC

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.outputs:
            brings = block.sources or recipe.shared.sources or "inherit" in block.data
            if (brings or recipe.home != "base") and "license_file" not in recipe.inherited(block, "about"):
                place = (*block.place, "about") if "about" in block.data else ("about",)
                yield recipe.problem(place, f"{block.name or 'the package'} names no file of its licence")


class AddressesArePublic(RecipeCheck):
    """An address in a recipe is https, of a host that everybody reaches, without name and password."""

    fix = "write the project's public https address"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            for key in ("homepage", "documentation", "repository"):
                address = text_of(block.section("about").get(key))
                if address and (why := _not_public(address)):
                    yield recipe.problem((*block.place, "about", key), f"{address} {why}")


class MaintainersAreNamed(RecipeCheck):
    """A feedstock that stands alone names its maintainers, as a list (R-003, R-004)."""

    fix = "add extra: recipe-maintainers with a list of GitHub names, or export it with --maintainer NAME"
    homes = ALONE

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        named = recipe.shared.section("extra").get("recipe-maintainers")
        if not named:
            yield recipe.problem(("extra",), "nobody is named as a maintainer")
        elif not isinstance(named, list):
            yield recipe.problem(("extra", "recipe-maintainers"), "maintainers are not a list")


class LicenceIsTheArtefacts(TreeCheck):
    """The licence of a package is the one that its artefact declares: a package is not called proprietary when its
    wheel says Apache-2.0, and not open when its wheel is proprietary.
    """

    fix = "state the licence of the artefact, with a condition on cuda_version where it changed"

    def check(self, tree: Tree) -> Iterator[Problem]:
        found: dict[tuple[str, str, str, str], dict[str, None]] = {}
        for build in tree.builds:
            lock = tree.locks_by_name[build.lock]
            for component in {c.name: c for a in build.artefacts if (c := lock.component_of(a))}.values():
                name, declared, texts = component.name, component.license, component.license_texts
                for output in build.outputs:
                    if not _fits(output.license, declared, [text in tree.open_texts for text in texts]):
                        key = (build.recipe.name, output.license, name, declared)
                        found.setdefault(key, {})[f"{output.name} of {build.lock}"] = None
        for (recipe, stated, name, declared), packages in found.items():
            file, first = tree.recipe(recipe), next(iter(packages))
            more = f" and {len(packages) - 1} more" if len(packages) > 1 else ""
            said = f"{first}{more} is under {stated or 'no licence'}, and {name} declares {declared}"
            if _PROPRIETARY.search(declared) and _PROPRIETARY.search(stated):
                said += " with a text that others declare open"
            if file is not None:
                yield file.problem(("about", "license"), said)


def _fits(stated: str, declared: str, open_texts: list[bool]) -> bool:
    """Whether a package's licence can be that of its artefact.

    Args:
        stated: By the recipe.
        declared: By the artefacts of the component.
        open_texts: For each licence text that they have, whether it is one that others declare open. It counts for
            more than the declaration, which NVIDIA has changed while the text stayed.
    """
    if _PROPRIETARY.search(stated):
        return bool(_PROPRIETARY.search(declared)) and not (open_texts and all(open_texts))
    return not _PROPRIETARY.search(declared) or any(open_texts)


def _not_public(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        if parts.port or parts.username or parts.password:
            return "has a port, a name or a password"
    except ValueError:
        return "is no address"
    if parts.scheme != "https":
        return "is not https"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        local = ("local", "localhost", "internal", "invalid", "test", "example", "lan")
        return "" if "." in host and host.rpartition(".")[2] not in local else "is of no public host"
    return "is of no public host"
