"""The SBOM that each package carries: CycloneDX, at ``info/sboms/<package>.cdx.json``.

There is no convention for the place yet; this is that of PEP 770 for wheels, moved to where conda keeps metadata. It
names the package, the artefacts that it was made of with their sha256 and licences, and the commit of the recipe. What
CycloneDX has no word for is a property in the namespace ``cuda-feedstocks``.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Commit, Component, ComponentType, Pedigree
from cyclonedx.model.license import License, LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from ctk.build.provenance import Input, Provenance
from ctk.core import upload_time
from ctk.core.errors import AuditFailed
from ctk.lock.lock import Artefact
from ctk.package.package import members

FOLDER = "info/sboms"
_SPACE = "cuda-feedstocks"
_LIMIT = 1 << 20  # bytes; ours have a few thousand
# A name for serial numbers: the same package has the same one.
_SERIAL = uuid.uuid5(uuid.NAMESPACE_URL, "urn:cuda-feedstocks:sbom")


@dataclass(frozen=True)
class Sbom:
    """What an SBOM says.

    Attributes:
        name, version, build, subdir: Of the package that it is about.
        provenance: Where that comes from.
    """

    name: str
    version: str
    build: str
    subdir: str
    provenance: Provenance


def place(name: str) -> str:
    """Where a package has its SBOM."""
    return f"{FOLDER}/{name}.cdx.json"


def write(index: Mapping[str, Any], origin: Provenance) -> bytes:
    """The SBOM of a package; the same input gives the same bytes.

    Args:
        index: Its ``info/index.json``.
        origin: Where it comes from.
    """
    purl = PackageURL(
        "conda", name=index["name"], version=index["version"], qualifiers={k: index[k] for k in ("build", "subdir")}
    )
    package = Component(
        name=index["name"],
        type=ComponentType.LIBRARY,
        version=index["version"],
        bom_ref=purl.to_string(),
        purl=purl,
        licenses=_licenses(index.get("license", "")),
        pedigree=Pedigree(commits=[Commit(uid=origin.commit)]) if origin.commit else None,
        properties=_properties(origin),
    )
    inputs = [_component(i) for i in origin.inputs]
    bom = Bom(
        serial_number=uuid.uuid5(_SERIAL, f"{purl.to_string()} {origin}"),
        metadata=BomMetaData(
            component=package,
            timestamp=datetime.fromtimestamp(origin.timestamp, UTC),
            tools=ToolRepository(
                components=[
                    Component(name=name, version=version, type=ComponentType.APPLICATION)
                    for name, version in sorted(origin.tools.items())
                ]
            ),
        ),
        components=inputs,
    )
    bom.register_dependency(package, inputs)
    return (JsonV1Dot6(bom).output_as_string(indent=1) + "\n").encode()


def _properties(origin: Provenance) -> list[Property]:
    plain = {
        "recipe": origin.recipe,
        "recipe-sha256": origin.digest,
        "place": origin.place,
        "compression-level": str(origin.level),
    }
    found = [Property(name=f"{_SPACE}:{name}", value=value) for name, value in plain.items()]
    for key, values in sorted(origin.variant.items()):
        found += [Property(name=f"{_SPACE}:variant:{key}", value=value) for value in values]
    return found


def _component(given: Input) -> Component:
    artefact = given.artefact
    purl = PackageURL(
        "pypi", name=artefact.distribution, version=artefact.version, qualifiers={"file_name": artefact.file}
    )
    facts = {
        "component": artefact.component,
        "target": artefact.target,
        "file": artefact.file,
        "size": str(artefact.size),
        "uploaded": upload_time.text(artefact.uploaded),
    }
    return Component(
        name=artefact.distribution,
        type=ComponentType.LIBRARY,
        version=artefact.version,
        bom_ref=purl.to_string(),
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=artefact.sha256)],
        licenses=_licenses(given.license),
        properties=[Property(name=f"{_SPACE}:{name}", value=value) for name, value in facts.items()],
    )


def _licenses(text: str) -> Iterable[Any]:
    return [LicenseFactory().make_from_string(text)] if text else []


def read(text: bytes) -> Sbom:
    """What an SBOM of ours says.

    Raises:
        AuditFailed: It is none.
    """
    try:
        bom = Bom.from_json(json.loads(text))  # type: ignore[attr-defined]
        package = bom.metadata.component
        qualifiers = package.purl.qualifiers
        said, variant = _said(package)
        origin = Provenance(
            recipe=said["recipe"],
            digest=said["recipe-sha256"],
            commit=next((c.uid for c in package.pedigree.commits), "") if package.pedigree else "",
            place=said["place"],
            timestamp=int(bom.metadata.timestamp.timestamp()),
            inputs=tuple(sorted(map(_input, bom.components), key=lambda i: i.artefact.file)),
            variant=variant,
            level=int(said["compression-level"]),
            tools={tool.name: tool.version for tool in bom.metadata.tools.components},
        )
        return Sbom(package.name, package.version, qualifiers["build"], qualifiers["subdir"], origin)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise AuditFailed(f"an SBOM of ours cannot be read: {reason}", "build the package again") from error


def _said(component: Component) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """The properties of a component in our namespace: plain ones, and the variant's."""
    plain: dict[str, str] = {}
    variant: dict[str, list[str]] = defaultdict(list)
    for entry in component.properties:
        space, _, name = entry.name.partition(":")
        if space != _SPACE:
            continue
        if name.startswith("variant:"):
            variant[name.removeprefix("variant:")].append(entry.value or "")
        else:
            plain[name] = entry.value or ""
    return plain, {key: tuple(sorted(values)) for key, values in variant.items()}


def _input(component: Component) -> Input:
    said, _ = _said(component)
    (sha256,) = [h.content for h in component.hashes if h.alg == HashAlgorithm.SHA_256]
    artefact = Artefact(
        component=said["component"],
        distribution=component.name,
        version=component.version or "",
        target=said["target"],
        file=said["file"],
        sha256=sha256,
        size=int(said["size"]),
        uploaded=upload_time.parse(said["uploaded"]),
    )
    licence = next(iter(component.licenses), None)
    return Input(artefact, _text(licence))


def _text(licence: License | None) -> str:
    if licence is None:
        return ""
    return licence.value if isinstance(licence, LicenseExpression) else licence.id or licence.name or ""


def of(package: Path) -> Sbom:
    """The SBOM inside a package.

    Raises:
        AuditFailed: The file is no readable package, or has no SBOM of ours.
    """
    for member, stream in members(package, "info"):
        if member.path.startswith(f"{FOLDER}/") and stream is not None:
            if member.size > _LIMIT:
                raise AuditFailed(f"{package.name}: {member.path} is {member.size} bytes", "build the package again")
            return read(stream.read())
    raise AuditFailed(f"{package.name} has no SBOM in {FOLDER}", "build it again with this version of ctk")
