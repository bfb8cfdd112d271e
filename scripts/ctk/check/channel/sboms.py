"""The SBOM inside a package: there, valid, and about this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ctk.build import sbom
from ctk.check.channel.problem import Problem
from ctk.check.channel.strict import loads
from ctk.core.errors import AuditFailed
from ctk.package.package import IndexJson

_LIMIT = 1 << 20  # bytes


def check_sbom(texts: Mapping[str, bytes], name: str, index: IndexJson) -> Iterator[Problem]:
    """What is wrong with the SBOM of a package.

    Args:
        texts: The files under ``info/``.
        name: ``subdir/file``, for messages.
        index: Its ``info/index.json``.
    """
    place = sbom.place(index.name)
    text = texts.get(place)
    for other in sorted(texts):
        if other.startswith(f"{sbom.FOLDER}/") and other != place:
            yield Problem(name, "sbom", f"{other} is none of this package")
    if text is None or len(text) > _LIMIT:
        yield Problem(name, "sbom", "there is none" if text is None else f"it has more than {_LIMIT} bytes")
        return
    wrong = _invalid(text)
    if wrong:
        yield Problem(name, "sbom", f"it is not valid CycloneDX: {wrong}")
    try:
        said = sbom.read(text)
    except AuditFailed as error:
        yield Problem(name, "sbom", error.cause)
        return
    ours = f"{index.name} {index.version} {index.build} for {index.subdir}"
    theirs = f"{said.name} {said.version} {said.build} for {said.subdir}"
    if ours != theirs:
        yield Problem(name, "sbom", f"it is about {theirs}")
    if not said.provenance.commit:
        yield Problem(name, "sbom", "it names no commit of the recipe: built with changes that were not committed?")
    for given in said.provenance.inputs:
        if not given.license:
            yield Problem(name, "sbom", f"it states no licence of {given.artefact.file}")


@cache
def _validator() -> Any:
    # Imported here: what reads the schema takes a second to load, and every command would pay for it.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6)


def _invalid(text: bytes) -> Any:
    """What the standard's schema says against a text, None for nothing, or without what reads the schema."""
    from cyclonedx.exception import MissingOptionalDependencyException

    try:
        loads(text)
        found = _validator().validate_str(text.decode(errors="replace"))
    except MissingOptionalDependencyException:
        return None
    except (ValueError, RecursionError) as error:
        return error
    return " ".join(str(found).split())[:200] if found else None
