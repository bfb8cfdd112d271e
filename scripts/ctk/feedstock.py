"""A recipe as a feedstock that stands alone: sources by address and sha256, scripts beside it, variants in one file.

`conda smithy rerender` makes the rest (`.ci_support`, the CI files). In the recipe only the lines that must differ do;
comments and layout stay the author's. Places are taken from the parsed file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from packaging.version import Version
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, NoSpace, NotPublished, RecipeError, UnknownName, problems
from ctk.core.platforms import PLATFORMS
from ctk.index.index import IndexFile
from ctk.lock.lock import Artefact, ReleaseLock, variant_keys
from ctk.plan.plan import Build, Plan, Request, Set, plan, published_set, python_tags
from ctk.plan.recipes import Recipe

_README = """# {name}-feedstock

The recipe of {packages}, {version}, for {platforms}: exported from a repository that makes all of CUDA's packages.
The sources are NVIDIA's wheels, by address and sha256 of the index that was configured then.

`conda smithy rerender` writes the CI files. `rattler-build build --experimental --allow-symlinks-on-windows --recipe
recipe --variant-config recipe/conda_build_config.yaml` builds for this machine; `--target-platform` names another. The
first option is for outputs that share one tree, the second for libraries' links in noarch packages of Linux targets.
"""
_GITIGNORE = "/build_artifacts/\n/output/\n"
_GITATTRIBUTES = "* text=auto\n*.sh text eol=lf\n*.patch binary\n"

# The order that conda-smithy's rule R-001 asks for, of recipes of one and of several outputs.
_ORDER = (
    *("schema_version", "context", "package", "recipe", "source", "build"),
    *("requirements", "tests", "outputs", "about", "extra"),
)
_SCRIPT = re.compile(r"\bfile: \.\./common/([^\s,}]+)")
_FLOW_SOURCE = re.compile(r'^( *)source: \{path: "(.*)"\}$', re.MULTILINE)
_PATH = re.compile(
    r"^(?P<indent> *)(?P<dash>- )?path: \S*\.cache/artefacts/(?P<component>[^/]+)/\$\{\{ *(?P<version>[^}]+?) *\}\}/"
    r"(?P<target>.+)\.zip$"
)
_MAJOR = re.compile(r"\$\{\{ *cuda_major *\}\}")  # in the name of a component, as nccl-cu13
# A wheel is unpacked with Python's zipfile, and patchelf is what the scripts call for Linux. Both have a version, so
# that no variant of Python is made of them.
_TOOLS = ("patchelf >=0.17", "python >=3.11")
# Where nothing but the licence is taken from the wheel.
_UNPACK = "python -m zipfile -e *.whl ."

Locate = Callable[[Artefact], str]
"""Gives the address of an artefact."""


Offer = tuple[Artefact, str]
"""An artefact and its address."""

_Edit = tuple[int, int, list[str]]
"""The first line to replace (0-based), the one after the last, and the lines that come there."""


def feedstock(
    workspace: Workspace, name: str, releases: Sequence[str], maintainers: Sequence[str], locate: Locate
) -> dict[str, str]:
    """The files of a feedstock, by path.

    It is for the releases given, as CTK minors or names of locks; for the newest CTK release that has it, or every CUDA
    major, otherwise.

    Raises:
        UnknownName: No such recipe or release.
        BadValue: No maintainer, or a recipe that no release given has.
        NotPublished: The index lacks artefacts; every one is named.
    """
    published = published_set(workspace)
    if name not in published.recipes:
        raise UnknownName.of("recipe", name, published.recipes)
    if not maintainers:
        raise BadValue("nobody is named as a maintainer", "name one with --maintainer, or in [tool.ctk.feedstock]")
    recipe = published.recipes[name]
    tags = python_tags(workspace.build_config)
    planned = _planned(published, recipe, releases, tags)
    locks = [published.locks[lock][0] for lock in dict.fromkeys(b.lock for b in planned.builds)]
    # What is the same on all platforms is planned, and made, on the first.
    subdirs = [subdir for subdir in PLATFORMS if any(b.subdir == subdir for b in planned.builds)]
    text = recipe.file.read_text(encoding="utf-8")
    skips = _skips(planned, recipe, locks, tags, subdirs)
    outputs = [o for b in planned.builds for o in b.outputs]
    files = {
        "recipe/recipe.yaml": _standalone(text, _offers(planned, locate), skips, maintainers),
        "recipe/conda_build_config.yaml": _variants(workspace, recipe, locks),
        "conda-forge.yml": _smithy(workspace, recipe, subdirs),
        "LICENSE.txt": (workspace.root / "LICENSE").read_text(encoding="utf-8"),
        "README.md": _README.format(
            name=name,
            packages=", ".join(dict.fromkeys(o.name for o in outputs)),
            version=", ".join(dict.fromkeys(o.version for o in outputs)),
            platforms=", ".join(subdirs),
        ),
        ".gitignore": _GITIGNORE,
        ".gitattributes": _GITATTRIBUTES,
    }
    for script in _SCRIPT.findall(text):
        files[f"recipe/{script}"] = _with_unpacking((workspace.recipes / "common" / script).read_text(encoding="utf-8"))
    for own in sorted(recipe.folder.iterdir()):  # its licence, scripts, and what they install
        if own.is_file() and own.name not in ("recipe.yaml", "conda-forge.yml"):
            files[f"recipe/{own.name}"] = own.read_text(encoding="utf-8")
    return files


def public_url(file: IndexFile) -> str:
    """The address of a file, without the name and password that the index may be reached with."""
    parts = urlsplit(file.url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def write(files: Mapping[str, str], folder: Path, workspace: Workspace, *, force: bool = False) -> None:
    """Writes a feedstock.

    Raises:
        BadValue: The folder is in this checkout, where addresses of an index must not be; or it is not empty.
        NoSpace: The folder cannot be written.
    """
    folder = folder.resolve()
    inside = folder.is_relative_to(workspace.root.resolve())
    if inside and not folder.is_relative_to(workspace.output.resolve() / "feedstocks"):
        raise BadValue(
            f"{folder} is in this checkout, which holds no address of an index",
            "name a folder elsewhere, or below output/feedstocks",
        )
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
            raise BadValue(f"there is something in {folder}", "name another folder, or overwrite with --force")
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
            if name.endswith(".sh"):
                file.chmod(0o755)
    except OSError as error:
        raise NoSpace(
            f"{error.filename or folder} cannot be written: {error.strerror}", "name another folder"
        ) from error


def _planned(published: Set, recipe: Recipe, releases: Sequence[str], tags: Sequence[str]) -> Plan:
    """The builds of a recipe, on all platforms."""
    # A component of the toolkit has one release, as a branch of conda-forge's has; the rest has a build for each major.
    newest = sorted((lock.minor for lock, _ in published.locks.values() if lock.is_ctk), key=Version, reverse=True)
    choices = [[minor] for minor in newest] if "cuda_version" in recipe.names_used else [list[str]()]
    for choice in [list(releases)] if releases else choices:
        planned = plan(published, Request(releases=choice, recipes=(recipe.name,), platforms=tuple(PLATFORMS)), tags)
        if planned.builds:
            builds = tuple(b for b in planned.builds if _is_newest(b, published.locks[b.lock][0]))
            return replace(planned, builds=builds)
    reasons = [x.reason for x in planned.left_out] or [f"no lock of {', '.join(releases) or 'any release'} has it"]
    raise problems(BadValue, recipe.name, list(dict.fromkeys(reasons)), "see `ctk plan` for what there is")


def _is_newest(build: Build, lock: ReleaseLock) -> bool:
    """Whether it is of a project's newest version: an older one is for another branch, as conda-forge has it."""
    newest = {c.variant_key: c.version for name, c in lock.components.items() if name == c.name}
    return all(newest[key] == version for key, version in build.versions.items())


def _offers(planned: Plan, locate: Locate) -> list[Offer]:
    """The artefacts of a plan with their addresses, by platform."""
    artefacts = {(a.component, a.version, a.target): a for b in planned.builds for a in b.artefacts}
    offers, lost = [], []
    for artefact in artefacts.values():
        try:
            offers.append((artefact, locate(artefact)))
        except NotPublished as error:
            lost.append(error.cause)
    if lost:
        raise problems(NotPublished, "the package index", lost, "a mirror may have to fetch them first")

    def order(offer: Offer) -> tuple[int, str]:
        target = offer[0].target
        return next((n for n, subdir in enumerate(PLATFORMS) if target.startswith(subdir)), 0), target

    return sorted(offers, key=order)


def _skips(
    planned: Plan, recipe: Recipe, locks: Sequence[ReleaseLock], tags: Sequence[str], subdirs: Sequence[str]
) -> list[str]:
    """Conditions for what is left out because a wheel is not published, on platforms that have others."""
    # An output may have the name of its recipe.
    left_out = {entry.id for entry in planned.left_out} - set(planned.by_id)
    pythons = list(tags) if "python_tag" in recipe.names_used else [""]
    # conda-smithy builds for linux-64 whatever its settings are.
    skips = {} if "linux-64" in subdirs else {'target_platform == "linux-64"': None}
    for subdir in subdirs:
        lost = {lock.name: _lost(left_out, recipe, lock, pythons, subdir) for lock in locks}
        is_same = len({tuple(tags_lost) for tags_lost in lost.values()}) == 1
        for lock in locks:
            if not lost[lock.name]:
                continue
            conditions = [f'target_platform == "{subdir}"']
            if not is_same:
                key, value = ("cuda_version", lock.minor) if lock.is_ctk else ("cuda_major", lock.major)
                conditions.append(f'{key} == "{value}"')
            if lost[lock.name] != pythons:
                names = ", ".join(f'"{tag}"' for tag in lost[lock.name])
                conditions.append(f"python_tag in [{names}]")
            skips[" and ".join(conditions)] = None
    return list(skips)


def _lost(left_out: set[str], recipe: Recipe, lock: ReleaseLock, pythons: Iterable[str], subdir: str) -> list[str]:
    """The Pythons without a build of a release, by the ids that the plan has for builds."""
    labels = (f"cuda{lock.minor or lock.major}", "")
    ids = {
        tag: {"-".join(filter(None, (recipe.name, label, tag.replace("cp", "py", 1), subdir))) for label in labels}
        for tag in pythons
    }
    return [tag for tag in pythons if ids[tag] & left_out]


def _variants(workspace: Workspace, recipe: Recipe, locks: Sequence[ReleaseLock]) -> str:
    """The matrix and the versions that the recipe reads, in one file."""
    shared: dict[str, Any] = YAML(typ="safe").load(workspace.build_config)
    zips = [group for group in shared.pop("zip_keys", []) if recipe.names_used & set(group)]
    used = recipe.names_used | {key for group in zips for key in group}
    # The first of a project's versions is the newest, and each GPU is a variant of its own.
    columns = [
        {k: v if k == "cuda_arch" else v[:1] for k, v in variant_keys(lock).items() if k in used} for lock in locks
    ]
    rows = {key: [value for column in columns for value in column.get(key, [])] for column in columns for key in column}
    if len(columns) > 1 and all(len(values) == len(columns) for values in rows.values()):
        if all(len(set(values)) == 1 for values in rows.values()):
            rows = {key: values[:1] for key, values in rows.items()}
        elif len(rows) > 1:
            zips.append(list(rows))
    else:
        rows = {key: list(dict.fromkeys(values)) for key, values in rows.items()}
    keys = {key: values for key, values in shared.items() if key in used} | rows
    out: dict[str, Any] = {key: [Quoted(v) for v in values] for key, values in keys.items()}
    return _yaml(out | ({"zip_keys": zips} if zips else {}))


def _smithy(workspace: Workspace, recipe: Recipe, subdirs: Iterable[str]) -> str:
    """The settings of this checkout with the recipe's own, for the platforms that the recipe is for."""
    settings: dict[str, Any] = YAML(typ="safe").load(workspace.root / "conda-forge.yml")
    own = recipe.folder / "conda-forge.yml"
    if own.exists():
        settings |= YAML(typ="safe").load(own)
    names = [subdir.replace("-", "_") for subdir in subdirs]
    settings["build_platform"] = {k: v for k, v in settings.get("build_platform", {}).items() if k in names}
    # conda-smithy builds on these unless told otherwise.
    settings["provider"] |= {name: "None" for name in ("win_64", "osx_64") if name not in names}
    # conda-forge's pinning would make more variants of `python` than there are wheels.
    settings["exclusive_config_file"] = "recipe/conda_build_config.yaml"
    return _yaml({key: value for key, value in settings.items() if value})


def _yaml(data: Mapping[str, Any]) -> str:
    yaml, out = YAML(), StringIO()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(dict(data), out)
    return out.getvalue()


def _standalone(text: str, offers: Sequence[Offer], skips: Sequence[str], maintainers: Sequence[str]) -> str:
    """The text of a recipe with its sources by address, and the variants skipped that have no artefact."""
    text = _FLOW_SOURCE.sub(r"\1source:\n\1  path: \2", text)
    lines = text.rstrip("\n").split("\n")
    recipe = YAML().load(text)
    edits: list[_Edit] = []
    for block in (recipe, *recipe.get("outputs", ())):
        if "source" in block:
            edits.append(_source(block, lines, offers))
            edits.append(_tools(block, lines))
        if skips and "package" in block:
            edits.append(_skip(block, lines, skips))
        if "source" in block and "script" not in block["build"]:
            start, _, column = _place(block, "build", lines)
            edits.append((start + 1, start + 1, [f"{' ' * (column + 2)}script: {_UNPACK}"]))
    for start, end, edited in sorted(edits, reverse=True):
        lines[start:end] = edited
    lines = [_SCRIPT.sub(r"file: \1", line) for line in lines]
    lines += ["", "extra:", "  recipe-maintainers:", *(f"    - {name}" for name in maintainers)]
    return _in_order(lines)


def _with_unpacking(script: str) -> str:
    """A build script that first unpacks the wheels of its sources: rattler-build does so for names in .zip only."""
    head, line, tail = script.partition("set -euo pipefail\n")
    if not line:
        raise RecipeError("a build script has no `set -euo pipefail`", "begin it like the others in recipes/common")
    return f"""{head}{line}
for wheel in ./*.whl ./*/*.whl; do
  if [[ -f $wheel ]]; then
    python -m zipfile -e "$wheel" "${{wheel%/*}}"
    rm "$wheel"
  fi
done
{tail}"""


def _place(block: Any, key: str, lines: Sequence[str]) -> tuple[int, int, int]:
    """First line of a key, the line after its value, and its column."""
    start, column = block.lc.key(key)
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _column(lines[end]) > column):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return start, end, column


def _column(line: str) -> int:
    return len(line) - len(line.lstrip())


def _source(block: Any, lines: Sequence[str], offers: Sequence[Offer]) -> _Edit:
    start, end, column = _place(block, "source", lines)
    edited, rest = [lines[start]], list(lines[start + 1 : end])
    while rest:
        line = rest.pop(0)
        path = _PATH.match(line)
        if not path:
            edited.append(line)
            continue
        inner = len(path["indent"]) + len(path["dash"] or "")
        siblings = list(takewhile(re.compile(rf" {{{inner}}}[^\s#-]").match, rest))
        del rest[: len(siblings)]
        component = re.compile(_MAJOR.sub("(?P<cuda_major>[0-9]+)", path["component"]))
        mine = [offer for offer in offers if component.fullmatch(offer[0].component)]
        entries = _entries(component, path["version"], path["target"], mine, [sibling.strip() for sibling in siblings])
        edited += (f"{' ' * (column + 2)}{entry}" for entry in entries)
    if not any("url:" in line for line in edited):
        raise RecipeError(
            f"line {start + 1}: a source that is no artefact of a lock", "read it by `path: ../../.cache/artefacts/...`"
        )
    return start, end, edited


def _entries(
    component: re.Pattern[str], version: str, target: str, offers: Sequence[Offer], siblings: Sequence[str]
) -> Iterator[str]:
    """One source for each file, each under the condition that the path stood for."""
    has_versions = len({artefact.version for artefact, _ in offers}) > 1
    urls: dict[tuple[str, str], str] = {}
    for artefact, url in offers:
        subdir, _, python = artefact.target.partition("-cp")  # a target may have no Python
        named = component.fullmatch(artefact.component)
        values = named.groupdict() if named else {}
        if has_versions and not values:
            values = {version: artefact.version}
        if "target_platform" in target:
            values["target_platform"] = subdir
        if "python_tag" in target:
            values["python_tag"] = f"cp{python}"
        condition = " and ".join(f'{name} == "{value}"' for name, value in values.items())
        urls.setdefault((condition, artefact.sha256), url)
    for (condition, sha256), url in urls.items():
        rest = [f"sha256: {sha256}", *siblings]
        if condition:
            yield from (f"- if: {condition}", "  then:", f"    url: {url}")
            yield from (f"    {line}" for line in rest)
        else:
            yield f"- url: {url}"
            yield from (f"  {line}" for line in rest)


def _tools(block: Any, lines: Sequence[str]) -> _Edit:
    """What the script calls, as requirements."""
    requirements = block.get("requirements") or {}
    tools = [f"    - {tool}" for tool in _TOOLS]
    if "build" in requirements:
        start, _, column = _place(requirements, "build", lines)
        at, column, added = start + 1, column - 2, tools
    elif requirements:
        start, _, column = _place(block, "requirements", lines)
        at, added = start + 1, ["  build:", *tools]
    else:
        _, at, column = _place(block, "build", lines)
        added = ["requirements:", "  build:", *tools]
    return at, at, [f"{' ' * column}{line}" for line in added]


def _skip(block: Any, lines: Sequence[str], skips: Sequence[str]) -> _Edit:
    """The conditions, beside those that the output has."""
    build = block["build"]
    if "skip" in build:
        start, end, column = _place(build, "skip", lines)
        skips = [*(build["skip"] if isinstance(build["skip"], list) else [build["skip"]]), *skips]
    else:
        start, _, column = _place(block, "build", lines)
        if build.fa.flow_style():
            opened = f"build: {{skip: {json.dumps(list(skips))}, "
            return start, start + 1, [lines[start].replace("build: {", opened, 1)]
        start, end, column = start + 1, start + 1, column + 2
    return start, end, [f"{' ' * column}skip:", *(f"{' ' * column}  - {skip}" for skip in skips)]


def _in_order(lines: Iterable[str]) -> str:
    """The top-level sections in the order of the rule, each with the comments above it."""
    sections: dict[str, list[str]] = {}
    above: list[str] = []
    current = above
    for line in lines:
        if re.match(r"[a-z_]+:", line):
            current = sections.setdefault(line.partition(":")[0], [])
            current.extend(above)
            current.append(line)
            above = []
        elif line.startswith("#"):
            above.append(line)
        elif line.strip() or not above:
            current.append(line)
    unknown = [name for name in sections if name not in _ORDER]
    if unknown:
        raise RecipeError(f"a section {unknown[0]} has no place in the order", "add it to _ORDER in ctk/feedstock.py")
    text = "\n\n".join("\n".join(sections[name]).strip("\n") for name in sorted(sections, key=_ORDER.index))
    return text + "\n"
