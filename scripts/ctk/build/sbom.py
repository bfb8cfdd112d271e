"""The provenance of a package, and its SBOM: CycloneDX, at ``info/sboms/<package>.cdx.json``.

The place is that of PEP 770 for wheels, in conda's folder of metadata; conda has no convention yet.
The SBOM names the package, its artefacts with sha256 and licence, and the commit of the recipe:
everything that `ctk check --rebuild` needs. It names the libraries that its wheels bundle, too. If
CycloneDX has no word for a fact, it is a property in the namespace ``cuda-feedstocks``.

The package itself has no PURL: a conda package's PURL names its channel (CEP 49), and the same
bytes may be in any.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Commit, Component, ComponentType, Pedigree
from cyclonedx.model.license import LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from pydantic import Field, TypeAdapter, ValidationError

from ctk.build import LEVEL
from ctk.build.bundled import Bundled
from ctk.build.originals import NO_FILES, UNREAD, Changed, PackageFiles
from ctk.core.errors import AuditFailed
from ctk.core.times import parse_time, time_text
from ctk.lock.model import Artefact, FileName, Name, Sha256, Target, VersionText
from ctk.lock.redistribution import Word
from ctk.package.reader import members
from ctk.plan.plan import Build
from ctk.plan.recipes import recipe_commit, recipe_digest
from ctk.plan.variants import variant_values

FOLDER = "info/sboms"
_SPACE, _VARIANT, _WORD = "cuda-feedstocks", "variant:", "distribution:"
_LIMIT = 1 << 20  # bytes; ours have a few thousand
# A name for serial numbers: the same package has the same one.
_SERIAL = uuid.uuid5(uuid.NAMESPACE_URL, "urn:cuda-feedstocks:sbom")


@dataclass(frozen=True)
class Input:
    """An artefact of a package, with the licence that the wheels of its component declare."""

    artefact: Artefact
    license: str


@dataclass(frozen=True)
class Provenance:
    """Everything that decides the bytes of the packages of a build."""

    recipe: str  # name of the feedstock
    digest: str  # sha256 over the names and contents of the recipe's files, shared ones too
    commit: str  # the last commit that touched one of those files; "" if git does not know it
    place: str  # the platform it was built for; ``noarch`` if it is the same from every platform
    timestamp: (
        int  # seconds since 1970, from the release lock; every time in the package is this one
    )
    inputs: tuple[Input, ...]  # its artefacts; none for a package of metadata only
    # Every variant key that the recipe can see -> its values.
    variant: Mapping[str, tuple[str, ...]]
    level: int  # zstd compression level
    tools: Mapping[str, str]  # name -> version of the programs that wrote the package


def provenance(build: Build, tools: Mapping[str, str]) -> Provenance:
    """The provenance for the packages of a build, written by these tools."""
    return Provenance(
        recipe=build.recipe.name,
        digest=recipe_digest(build.recipe),
        commit=recipe_commit(build.recipe),
        place=build.place,
        timestamp=build.timestamp,
        inputs=tuple(
            Input(a, build.licenses[a.component])
            for a in sorted(build.artefacts, key=lambda a: a.file)
        ),
        variant=variant_values(build.recipe, build.variant_files, build.subdir, build.outputs),
        level=LEVEL,
        tools=tools,
    )


@dataclass(frozen=True)
class Sbom:
    """The package of an SBOM, its provenance, and its files that come from wheels."""

    name: str
    version: str
    build: str
    subdir: str
    provenance: Provenance
    files: PackageFiles = NO_FILES


def place(name: str) -> str:
    """The path of the SBOM in a package of this name."""
    return f"{FOLDER}/{name}.cdx.json"


def write(index: Mapping[str, Any], origin: Provenance, files: PackageFiles = NO_FILES) -> bytes:
    """The SBOM of a package; the same input gives the same bytes.

    Args:
        index: Its ``info/index.json``.
        origin: Its provenance.
        files: Its files that come from wheels.
    """
    package = _component(
        f"{index['subdir']}/{index['name']}-{index['version']}-{index['build']}",
        index["name"],
        index["version"],
        index.get("license", ""),
        {
            "build": [index["build"]],
            "subdir": [index["subdir"]],
            "recipe": [origin.recipe],
            "recipe-sha256": [origin.digest],
            "place": [origin.place],
            "compression-level": [str(origin.level)],
            **{f"{_VARIANT}{key}": values for key, values in origin.variant.items()},
            **_of_files(files),
        },
        components=[*map(_changed, files.changed), *map(_bundled, files.bundled)],
        pedigree=Pedigree(commits=[Commit(uid=origin.commit)]) if origin.commit else None,
    )
    inputs = [_input(i.artefact, i.license) for i in origin.inputs]
    tools = [
        Component(name=n, version=v, type=ComponentType.APPLICATION)
        for n, v in sorted(origin.tools.items())
    ]
    bom = Bom(
        serial_number=uuid.uuid5(_SERIAL, f"{package.bom_ref.value} {origin}"),
        metadata=BomMetaData(
            component=package,
            timestamp=datetime.fromtimestamp(origin.timestamp, UTC),
            tools=ToolRepository(components=tools),
        ),
        components=inputs,
    )
    bom.register_dependency(package, inputs)
    return (JsonV1Dot6(bom).output_as_string(indent=1) + "\n").encode()


def _of_files(files: PackageFiles) -> dict[str, Iterable[str]]:
    """The properties of a package about its files; none for a package without files of wheels."""
    words = {f"{_WORD}{word}": [str(number)] for word, number in files.words.items()}
    found = {
        "files-as-published": [str(files.published)],
        "licence-text": files.licences,
        "not-named": files.not_named,
        UNREAD: files.unread,
    }
    return {**words, **found} if words else {}


def _changed(file: Changed) -> Component:
    return Component(
        name=file.path,
        type=ComponentType.FILE,
        bom_ref=f"file:{file.path}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)],
        properties=[
            Property(name=f"{_SPACE}:change", value=file.why),
            Property(name=f"{_SPACE}:distribution", value=file.word),
        ],
    )


def _bundled(library: Bundled) -> Component:
    return Component(
        name=library.project,
        version=library.version or None,
        type=ComponentType.LIBRARY,
        bom_ref=f"bundled:{library.path}",
        purl=PackageURL("generic", None, library.project, library.version or None),
        licenses=[LicenseFactory().make_from_string(library.licence)],
        properties=[Property(name=f"{_SPACE}:path", value=library.path)],
    )


def _component(
    ref: str,
    name: str,
    version: str,
    license: str,
    properties: Mapping[str, Iterable[str]],
    **more: Any,
) -> Component:
    return Component(
        name=name,
        type=ComponentType.LIBRARY,
        version=version,
        bom_ref=ref,
        licenses=[LicenseFactory().make_from_string(license)] if license else [],
        properties=[
            Property(name=f"{_SPACE}:{key}", value=v)
            for key, values in properties.items()
            for v in values
        ],
        **more,
    )


def _input(artefact: Artefact, license: str) -> Component:
    properties = {
        "component": artefact.component,
        "target": artefact.target,
        "file": artefact.file,
        "size": str(artefact.size),
        "uploaded": time_text(artefact.uploaded),
    }
    purl = PackageURL(
        "pypi", None, artefact.distribution, artefact.version, {"file_name": artefact.file}
    )
    return _component(
        purl.to_string(),
        artefact.distribution,
        artefact.version,
        license,
        {key: [value] for key, value in properties.items()},
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=artefact.sha256)],
    )


def read(text: bytes) -> Sbom:
    """Parses an SBOM that `write` made.

    Raises:
        AuditFailed: The text is no such SBOM.
    """
    try:
        bom = Bom.from_json(json.loads(text))  # type: ignore[attr-defined]
        package = bom.metadata.component
        found = _properties(package)
        variant = {
            k.removeprefix(_VARIANT): tuple(sorted(v))
            for k, v in found.items()
            if k.startswith(_VARIANT)
        }
        origin = Provenance(
            recipe=found["recipe"][0],
            digest=found["recipe-sha256"][0],
            commit=next((c.uid for c in package.pedigree.commits), "") if package.pedigree else "",
            place=found["place"][0],
            timestamp=int(bom.metadata.timestamp.timestamp()),
            inputs=tuple(sorted(map(_read_input, bom.components), key=lambda i: i.artefact.file)),
            variant=variant,
            level=int(found["compression-level"][0]),
            tools={tool.name: tool.version for tool in bom.metadata.tools.components},
        )
        _refuse_unfit(origin)
        files = _read_files(package, found)
        return Sbom(
            package.name, package.version, found["build"][0], found["subdir"][0], origin, files
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise AuditFailed(
            f"its SBOM cannot be read: {reason}", "build the package again"
        ) from error


# A rebuild makes paths, and words of scripts and of git, of the texts in an SBOM, which anybody may
# have written. Those of locks have the forms of `ctk.lock.model`.
_Commit = Annotated[str, Field(pattern=r"^([0-9a-f]{40})?$")]
_Variant = Annotated[str, Field(pattern=r"^([A-Za-z0-9_<>=*][A-Za-z0-9_ .,|<>=*!+-]*)?$")]
_FORMS: Mapping[str, TypeAdapter[str]] = {
    "recipe": TypeAdapter(Name),
    "digest": TypeAdapter(Sha256),
    "commit": TypeAdapter(_Commit),
    "place": TypeAdapter(Target),
    "variant": TypeAdapter(_Variant),
    "component": TypeAdapter(Name),
    "distribution": TypeAdapter(Name),
    "version": TypeAdapter(VersionText),
    "target": TypeAdapter(Target),
    "file": TypeAdapter(FileName),
    "sha256": TypeAdapter(Sha256),
}


def _refuse_unfit(origin: Provenance) -> None:
    """Raises ValueError for a text that is none of ours."""
    stated = [(field, getattr(origin, field)) for field in ("recipe", "digest", "commit", "place")]
    for key, values in origin.variant.items():
        stated += [("variant", text) for text in (key, *values)]
    for given in origin.inputs:
        artefact = vars(given.artefact)
        stated += [(field, artefact[field]) for field in _FORMS if field in artefact]
    for field, text in stated:
        try:
            _FORMS[field].validate_python(text)
        except ValidationError:
            raise ValueError(f"no {field} can be {ascii(text)[:100]}") from None
        if ".." in text.split("/"):
            raise ValueError(f"no {field} can be '..'")


def _read_files(package: Component, found: Mapping[str, list[str]]) -> PackageFiles:
    changed, libraries = [], []
    for file in package.components:
        properties = _properties(file)
        if file.type is ComponentType.LIBRARY:
            path, licence = properties["path"][0], _licence(file)
            libraries.append(Bundled(path, file.name, file.version or "", licence))
            continue
        word = cast(Word, properties["distribution"][0])
        changed.append(Changed(file.name, properties["change"][0], file.hashes[0].content, word))
    words = {
        k.removeprefix(_WORD): int(v[0]) for k, v in sorted(found.items()) if k.startswith(_WORD)
    }
    return PackageFiles(
        int(found.get("files-as-published", ["0"])[0]),
        tuple(sorted(changed, key=lambda file: file.path)),
        tuple(sorted(found.get("licence-text", ()))),
        cast(Mapping[Word, int], words),
        tuple(sorted(found.get("not-named", ()))),
        tuple(sorted(found.get(UNREAD, ()))),
        tuple(sorted(libraries, key=lambda library: library.path)),
    )


def _properties(component: Component) -> dict[str, list[str]]:
    """The properties of a component in our namespace."""
    values: dict[str, list[str]] = defaultdict(list)
    for entry in component.properties:
        space, _, name = entry.name.partition(":")
        if space == _SPACE:
            values[name].append(entry.value or "")
    return dict(values)


def _read_input(component: Component) -> Input:
    found = {name: value for name, (value,) in _properties(component).items()}
    (sha256,) = [h.content for h in component.hashes if h.alg == HashAlgorithm.SHA_256]
    artefact = Artefact(
        component=found["component"],
        distribution=component.name,
        version=component.version or "",
        target=found["target"],
        file=found["file"],
        sha256=sha256,
        size=int(found["size"]),
        uploaded=parse_time(found["uploaded"]),
    )
    return Input(artefact, _licence(component))


def _licence(component: Component) -> str:
    for licence in component.licenses:
        if isinstance(licence, LicenseExpression):
            return licence.value
        return licence.id or licence.name or ""
    return ""


def of(package: Path) -> Sbom:
    """The SBOM inside a package.

    Raises:
        AuditFailed: The file is not a readable package, or has no SBOM of ours.
    """
    for member, stream in members(package, "info"):
        if member.path.startswith(f"{FOLDER}/") and stream is not None:
            if member.size > _LIMIT:
                raise AuditFailed(
                    f"{package.name}: {member.path} is {member.size} bytes",
                    "build the package again",
                )
            return read(stream.read())
    raise AuditFailed(
        f"{package.name} has no SBOM in {FOLDER}", "build it again with this version of ctk"
    )
