"""Rules on the text of files, the form of recipes, and what recipes say of their packages.

Those of conda-smithy's linter name its identifier.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import rattler_build

from ctk.check import Finding, check
from ctk.check.lint.tree import (
    ADVICE,
    ALONE,
    EXPRESSION,
    OURS,
    PUBLIC,
    PUBLISHED,
    REQUIREMENTS,
    LockFile,
    RecipeFile,
    SourceFile,
    Tree,
    YamlFile,
    entries,
    mapping,
    one_line,
    recipe_rule,
    text_of,
)
from ctk.core.document import Place

_SINGLE = ("schema_version", "context", "package", "source", "build", "requirements", "tests", "about", "extra")
_SEVERAL = ("schema_version", "context", "recipe", "source", "build", "outputs", "about", "extra")
_LONGEST = 60  # lines of an output
_SHARED = 40  # and of what all of them share
_LONGEST_SUMMARY = 100  # characters
_NUMBER = re.compile(r"[0-9][0-9._]*")
_PROPRIETARY = re.compile(r"nvidia|propriet", re.I)
# Open texts of wheels that declare LicenseRef-NVIDIA-Proprietary.
_OPEN = {"0f0174a6b4e0b33ac26375bf729533075b32f4c51a5b6802a3d742d7dcdc9a76": "BSD-3-Clause, of NCCL"}
# Folders that are somebody's: homes, temporary ones, drives of Windows.
_MACHINE = re.compile(r"(?<![\w.}$/-])(/(?:home|root|Users|tmp|work|mnt|opt|media|srv)/[\w./-]+|[A-Z]:\\\w[\w\\.-]*)")


@check(SourceFile, fix="name another file, or save it as UTF-8")
def FileCanBeRead(file: SourceFile) -> Iterator[Finding]:
    """A file that is linted exists, can be read, and is UTF-8 text."""
    if file.unreadable:
        yield file.at_line(1, file.unreadable)


@check(YamlFile, fix="mend the line that is named")
def FileIsYaml(file: YamlFile) -> Iterator[Finding]:
    """A file is YAML with a mapping at its top: no key twice, no anchors, no tags, not nested without end."""
    yield from file.at_lines(file.broken)
    if not (file.broken or file.unreadable or isinstance(file.data, dict) or isinstance(file, LockFile)):
        yield file.at_line(1, "the file is no mapping of keys to values")


def _stripped(file: SourceFile) -> str:
    text = "\n".join(line.rstrip() for line in file.lines).rstrip("\n")
    return f"{text}\n" if text else ""


@check(SourceFile, fix="ctk lint --fix --write", autofix=_stripped)
def NoStraySpace(file: SourceFile) -> Iterator[Finding]:
    """No line ends with a space or a carriage return or begins with a tab; the file has one end (R-011, R-012)."""
    for number, line in enumerate(file.lines, 1):
        if line != line.rstrip():
            end = "a carriage return" if line.endswith("\r") else "a space"
            yield file.at_line(number, f"the line ends with {end}", len(line.rstrip()) + 1)
        if isinstance(file, YamlFile) and "\t" in line[: len(line) - len(line.lstrip())]:
            yield file.at_line(number, "the line is indented with a tab", fix="indent with spaces")
    if file.text and not file.text.endswith("\n"):
        yield file.at_line(len(file.lines), "the last line has no end")
    if file.text.endswith("\n\n"):
        yield file.at_line(len(file.lines) - 1, "there are empty lines at the end")


@check(SourceFile, fix="write a path below $PREFIX, $SRC_DIR or $RECIPE_DIR")
def NoPathOfAMachine(file: SourceFile) -> Iterator[Finding]:
    """Nothing names a folder of one machine: a recipe is built anywhere."""
    for number, line in enumerate(file.lines, 1):
        if match := _MACHINE.search(line):
            yield file.at_line(number, f"{match[1]} is a folder of one machine", match.start() + 1)


@recipe_rule("mend what rattler-build names; https://rattler-build.prefix.dev has the format")
def RecipeParses(recipe: RecipeFile) -> Iterator[Finding]:
    """rattler-build reads the recipe: sections (R-000), noarch (R-020) and licence (R-010) follow the v1 format."""
    try:
        rattler_build.Stage0Recipe.from_file(recipe.path)
    except Exception as error:  # whatever its parser says
        text = one_line(error)
        # It names keys and values, not lines.
        named = [word for word in re.findall(r"'([^']+)'", text) if word in recipe.text]
        line = next((number for number, code in recipe.code() if named and named[-1] in code), 1)
        yield recipe.at_line(line, f"rattler-build does not read it: {text}")


@recipe_rule("move schema_version and context to the top", OURS)
def ContextComesFirst(recipe: RecipeFile) -> Iterator[Finding]:
    """A recipe opens with schema_version and context: a reader finds first what is a variable."""
    first = list(recipe.top)[:2]
    needed = recipe.home == "recipes" or "context" in recipe.top
    if recipe.top and needed and first != ["schema_version", "context"]:
        yield recipe.at((first[0],), f"it opens with {' and '.join(map(str, first))}")


@recipe_rule("move the section")
def SectionsAreInOrder(recipe: RecipeFile) -> Iterator[Finding]:
    """Sections are in conda-forge's order, from context and package to about and extra (R-001)."""
    yield from _misplaced(recipe, (), list(recipe.top), _SEVERAL if "outputs" in recipe.top else _SINGLE)


@recipe_rule("move the section")
def RequirementsAreInOrder(recipe: RecipeFile) -> Iterator[Finding]:
    """Requirements are in the order build, host, run, run_constraints, run_exports (R-009)."""
    for block in recipe.blocks:
        place = (*block.place, "requirements")
        yield from _misplaced(recipe, place, list(block.section("requirements")), REQUIREMENTS)


def _misplaced(recipe: RecipeFile, place: Place, keys: list[str], order: Sequence[str]) -> Iterator[Finding]:
    """The first of the keys that is not in order."""
    known = [key for key in keys if key in order]
    for key, other in zip(known, sorted(known, key=order.index), strict=True):
        if key != other:
            yield recipe.at((*place, key), f"{key} comes before {other}")
            return


@recipe_rule("write it in small letters")
def NamesArePlain(recipe: RecipeFile) -> Iterator[Finding]:
    """Names of packages are in small letters, digits, and the signs - _ . (R-014)."""
    for block in recipe.outputs:
        if not re.fullmatch(r"[a-z0-9_.-]+", EXPRESSION.sub("x", block.name)):
            yield recipe.at((*block.place, "package", "name"), f"{block.name!r} is no name of a package")


@recipe_rule("rename the folder or the recipe", OURS)
def FolderHasTheName(recipe: RecipeFile) -> Iterator[Finding]:
    """The folder of a recipe has the name that the recipe gives itself: commands, logs and reports say the folder."""
    section = "recipe" if "recipe" in recipe.top else "package"
    name = text_of(recipe.shared.section(section).get("name"))
    if name and name != recipe.folder.name:
        yield recipe.at((section, "name"), f"the recipe is {name}, its folder {recipe.folder.name}")


@recipe_rule("give it the name that conda-forge's feedstock has", PUBLISHED)
def NamesAreCondaForges(recipe: RecipeFile) -> Iterator[Finding]:
    """What is made of the toolkit is named as on conda-forge, cuda-<part> or lib<part>-dev: it replaces theirs."""
    for block in recipe.outputs if "cuda_version" in recipe.text else ():
        name = EXPRESSION.sub("PLATFORM", block.name)
        if not re.fullmatch(r"cuda|(cuda-|lib)[a-z0-9-]+(_(PLATFORM|[a-z0-9-]+))?(-files)?", name):
            yield recipe.at((*block.place, "package", "name"), f"{block.name!r} is no name of conda-forge's")


@recipe_rule("add build: number: 0")
def BuildNumberIsStated(recipe: RecipeFile) -> Iterator[Finding]:
    """Every package has a build number (R-008): without one, a changed package would replace a published one."""
    for block in recipe.outputs:
        if "number" not in recipe.inherited(block, "build"):
            yield recipe.at((*block.place, "build"), f"{block.name or 'the package'} has no build number")


def _skips_noarch_selectors(recipe: RecipeFile) -> bool:
    return "lint_noarch_selectors" in (mapping(recipe.settings.get("linter")).get("skip") or ())


@recipe_rule("take the condition out, or write linter: skip: [lint_noarch_selectors] into the recipe's conda-forge.yml")
def NoarchHasNoConditions(recipe: RecipeFile) -> Iterator[Finding]:
    """A noarch recipe, built once, has no conditional requirements (R1-002) unless its conda-forge.yml skips this."""
    if recipe.shared.section("build").get("noarch") and not _skips_noarch_selectors(recipe):
        for entry in recipe.shared.requirements():
            if entry.conditions:
                yield recipe.at(entry.place, f"{entry.value} is asked for under a condition")


@recipe_rule("take linter: skip out of the recipe's conda-forge.yml", PUBLISHED)
def NoarchSkipIsNeeded(recipe: RecipeFile) -> Iterator[Finding]:
    """A recipe whose conda-forge.yml skips conda-smithy's rule about conditions breaks that rule."""
    needed = recipe.shared.section("build").get("noarch") and any(e.conditions for e in recipe.shared.requirements())
    if _skips_noarch_selectors(recipe) and not needed:
        yield recipe.at((), "its conda-forge.yml skips lint_noarch_selectors, and it has no such conditions")


@recipe_rule("share what outputs have in common, or make two recipes of it", ADVICE)
def OutputIsShort(recipe: RecipeFile) -> Iterator[Finding]:
    """An output takes about sixty lines, comments aside: what is longer says something twice, or belongs elsewhere."""
    lines = sum(1 for _, line in recipe.code() if line.strip())
    allowed = _LONGEST * max(len(recipe.outputs), 1) + _SHARED
    if lines >= allowed and recipe.home != "feedstock":
        yield recipe.at((), f"{lines} lines for {len(recipe.outputs)} outputs; {allowed} would be many")


def _numbers(recipe: RecipeFile) -> list[Place]:
    """Where versions are that YAML reads as numbers."""
    return [
        place
        for place, node in recipe.scalars.items()
        if (
            place[-1:] in (("version",), ("lower_bound",), ("upper_bound",))
            or (place[:1] == ("context",) and "version" in str(place[-1]))
        )
        and not node.style
        and _NUMBER.fullmatch(node.value)
        and not str(node.tag).endswith(":str")
    ]


@recipe_rule("put it in quotes: ctk lint --fix --write", autofix=lambda recipe: recipe.quoted(_numbers(recipe)))
def VersionIsText(recipe: RecipeFile) -> Iterator[Finding]:
    """A version in a recipe is in quotes, or it is a number: 1.10 would be 1.1 (R-040)."""
    for place in _numbers(recipe):
        yield recipe.at(place, f"the version {recipe.scalars[place].value} is a number, not text")


@recipe_rule("take one of them out")
def TextIsNotTwice(recipe: RecipeFile) -> Iterator[Finding]:
    """No requirement and no file is listed twice in one list."""
    for block in recipe.blocks:
        lists = [((*block.place, "requirements", s), block.section("requirements").get(s)) for s in REQUIREMENTS]
        lists.append(((*block.place, "build", "files"), block.section("build").get("files")))
        for place, values in lists:
            seen: set[tuple[str, tuple[str, ...]]] = set()
            for entry in entries(values, place):
                if isinstance(entry.value, str):
                    if (entry.value, entry.conditions) in seen or (entry.value, ()) in seen:
                        yield recipe.at(entry.place, f"{entry.value} is listed twice")
                    seen.add((entry.value, entry.conditions))


@recipe_rule("add it below about")
def AboutIsComplete(recipe: RecipeFile) -> Iterator[Finding]:
    """Every package has a summary and a licence, and, if it is published, a homepage (conda-smithy's R-002)."""
    wanted = ("summary", "license", *(["homepage"] if recipe.home != "base" else []))
    for block in recipe.outputs:
        about = recipe.inherited(block, "about")
        if lost := [key for key in wanted if not about.get(key)]:
            place = (*block.place, "about") if "about" in block.data else ("about",)
            yield recipe.at(place, f"{block.name or 'the package'} has no {' and no '.join(lost)}")


@recipe_rule("shorten it; about: description has room", ADVICE)
def SummaryIsOneLine(recipe: RecipeFile) -> Iterator[Finding]:
    """A summary is one line of at most a hundred characters, without a full stop: lists of packages show it."""
    for block in recipe.blocks:
        summary = text_of(block.section("about").get("summary")).strip()
        place = (*block.place, "about", "summary")
        if "\n" in summary or (len(summary) > _LONGEST_SUMMARY and "${{" not in summary):
            yield recipe.at(place, f"the summary has {len(summary)} characters")
        if summary.endswith("."):
            yield recipe.at(place, "the summary ends with a full stop")


@recipe_rule("add about: license_file", PUBLIC)
def LicenceFileIsNamed(recipe: RecipeFile) -> Iterator[Finding]:
    """Every package names its licence's text (R-013); in the base channel, where it brings files of somebody else."""
    for block in recipe.outputs:
        brings = block.sources or recipe.shared.sources or "inherit" in block.data
        if (brings or recipe.home != "base") and "license_file" not in recipe.inherited(block, "about"):
            place = (*block.place, "about") if "about" in block.data else ("about",)
            yield recipe.at(place, f"{block.name or 'the package'} names no file of its licence")


@recipe_rule("write the project's public https address")
def AddressesArePublic(recipe: RecipeFile) -> Iterator[Finding]:
    """An address in a recipe is https, of a host that everybody reaches, without name and password."""
    for block in recipe.blocks:
        for key in ("homepage", "documentation", "repository"):
            address = text_of(block.section("about").get(key))
            if address and (why := _not_public(address)):
                yield recipe.at((*block.place, "about", key), f"{address} {why}")


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


@recipe_rule("add extra: recipe-maintainers with a list of GitHub names, or export it with --maintainer NAME", ALONE)
def MaintainersAreNamed(recipe: RecipeFile) -> Iterator[Finding]:
    """A feedstock that stands alone names its maintainers, as a list (R-003, R-004)."""
    named = recipe.shared.section("extra").get("recipe-maintainers")
    if not named:
        yield recipe.at(("extra",), "nobody is named as a maintainer")
    elif not isinstance(named, list):
        yield recipe.at(("extra", "recipe-maintainers"), "maintainers are not a list")


@check(Tree, fix="state the licence of the artefact, with a condition on cuda_version where it changed")
def LicenceIsTheArtefacts(tree: Tree) -> Iterator[Finding]:
    """The licence of a package is what its artefact declares: not proprietary when that is open, nor the reverse."""
    # A text that is declared open somewhere counts for more than NVIDIA's declaration, which changed while it stayed.
    known = [component for lock in tree.locks_by_name.values() for component in lock.components.values()]
    is_open = {text for c in known if "nvidia" not in c.license.lower() for text in c.license_texts} | _OPEN.keys()
    found: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for build in tree.builds:
        lock = tree.locks_by_name[build.lock]
        for component in {
            c.name: c for a in build.artefacts if (c := lock.component_of(a.component, a.version))
        }.values():
            declared, texts = component.license, [text in is_open for text in component.license_texts]
            for output in build.outputs:
                if not _fits(output.license, declared, texts):
                    key = (build.recipe.name, output.license, component.name, declared)
                    found.setdefault(key, {})[f"{output.name} of {build.lock}"] = None
    for (recipe, stated, name, declared), packages in found.items():
        file, first = tree.recipe(recipe), next(iter(packages))
        more = f" and {len(packages) - 1} more" if len(packages) > 1 else ""
        said = f"{first}{more} is under {stated or 'no licence'}, and {name} declares {declared}"
        if _PROPRIETARY.search(declared) and _PROPRIETARY.search(stated):
            said += " with a text that others declare open"
        if file is not None:
            yield file.at(("about", "license"), said)


def _fits(stated: str, declared: str, open_texts: list[bool]) -> bool:
    """Whether a package's licence can be that of its artefact, for each of whose texts it is known if it is open."""
    if _PROPRIETARY.search(stated):
        return bool(_PROPRIETARY.search(declared)) and not (open_texts and all(open_texts))
    return not _PROPRIETARY.search(declared) or any(open_texts)
