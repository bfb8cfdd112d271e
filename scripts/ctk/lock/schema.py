"""What a release lock must look like, checked whole: every problem is found, with its component and line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from ctk.core.document import Document, place_text, problem_line
from ctk.core.platforms import NOARCH, PLACES, PLATFORMS, targets
from ctk.core.upload_time import EARLIEST, parse
from ctk.lock.lock import SCHEMA, Artefact, Component, Facts, ReleaseLock

_TARGET = re.compile(rf"{NOARCH}|({'|'.join(PLATFORMS)})(-cp3[0-9]{{1,2}}t?)?")
_RELEASE = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|python-[0-9]{1,3}|base|downstream")
# Versions become paths, and words of shells: `Version` itself would let spaces and newlines around them pass.
_PLAIN_VERSION = re.compile(r"[0-9][0-9A-Za-z.+]{0,63}")
_LARGEST = 1 << 40  # bytes of an artefact


def _version(text: str) -> str:
    try:
        if _PLAIN_VERSION.fullmatch(text) and Version(text):
            return text
    except InvalidVersion:
        pass
    raise ValueError(f"{text!r} is not a version")


def _target(text: str) -> str:
    if not _TARGET.fullmatch(text):
        raise ValueError(
            f"unknown target {text!r}; targets are {', '.join(PLATFORMS)}, each with a Python tag or not, or noarch"
        )
    return text


def _release(text: str) -> str:
    if not _RELEASE.fullmatch(text):
        raise ValueError(f"{text!r} is not a release like 13.4.3, python-13 or base")
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError("a sha256 is 64 hexadecimal digits in lower case")
    return text


def _file(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,249}", text):
        raise ValueError(f"{text!r} is not a plain file name")
    return text


def _moment(text: str) -> str:
    parse(text)
    return text


def _one_line(text: str) -> str:
    if not text.isprintable() or not text or text != " ".join(text.split()):
        raise ValueError("a licence is one line of text, NOASSERTION where none is declared")
    return text


def _known_place(text: str) -> str:
    if text not in PLACES:
        raise ValueError(f"unknown place {text!r}; places are {', '.join(PLACES)}")
    return text


# Names become folders of the artefact cache, so they hold no separator.
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$", max_length=100)]
VersionText = Annotated[str, AfterValidator(_version)]
Target = Annotated[str, AfterValidator(_target)]
Sha256 = Annotated[str, AfterValidator(_sha256)]
FileName = Annotated[str, AfterValidator(_file)]
Moment = Annotated[str, AfterValidator(_moment)]
Place = Annotated[str, AfterValidator(_known_place)]
LicenceText = Annotated[str, AfterValidator(_one_line)]
Number = Annotated[str, Field(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ArtefactModel(_Model):
    file: FileName
    sha256: Sha256
    size: Annotated[int, Field(gt=0, le=_LARGEST)]
    uploaded: Moment


class ManifestModel(ArtefactModel):
    distribution: Name
    version: VersionText


class ComponentModel(_Model):
    distribution: Name
    version: VersionText
    license: LicenceText
    license_texts: list[Sha256]
    artefacts: dict[Target, ArtefactModel | None]

    @field_validator("license_texts")
    @classmethod
    def _sorted(cls, values: list[str]) -> list[str]:
        if values != sorted(set(values)):
            raise ValueError("they are sorted, and none comes twice")
        return values


class FactsModel(_Model):
    gpu_architectures: Annotated[list[Number], Field(min_length=1)]
    ptx_isa: Number
    glibc: dict[Target, dict[Name, VersionText]]

    @field_validator("gpu_architectures")
    @classmethod
    def _ascending(cls, values: list[str], info: ValidationInfo) -> list[str]:
        if values != sorted(set(values), key=Version):
            raise ValueError("the lowest comes first, and none comes twice")
        return values


class LockModel(_Model):
    schema_: Annotated[int, Field(alias="schema", ge=SCHEMA, le=SCHEMA)]
    release: Annotated[str, AfterValidator(_release)]
    since: Moment | None = None
    manifest: ManifestModel | None = None
    components: Annotated[dict[Name, ComponentModel], Field(min_length=1)]
    facts: FactsModel | None = None
    missing: dict[Name, Annotated[list[Place], Field(min_length=1)]] = {}
    measured: dict[Target, dict[Name, VersionText | None]] = {}


def parse_lock(text: str, stem: str, document: Document | None = None) -> tuple[ReleaseLock | None, list[str]]:
    """The lock of a text (None when it does not follow the schema) and every problem of it.

    Args:
        text: Content of the ``.lock``.
        stem: Name of its file without the suffix, which must be the release's.
        document: The text, where it has been read already.
    """
    document = document or Document(text)
    if document.data is None and document.problems:
        return None, document.problems
    if older := _older_schema(document):
        return None, [*document.problems, older]
    try:
        model = LockModel.model_validate(document.data)
    except ValidationError as error:
        return None, document.problems + [problem_line(document, e) for e in error.errors()]
    lock = _lock(model)
    return lock, document.problems + _contradictions(lock, model, stem, document)


def disagreements(text: str, expected: Mapping[str, list[str]]) -> list[str]:
    """Where a ``.yaml`` half is not what its ``.lock`` says, a line each."""
    document = Document(text)
    found = list(document.problems)
    data = document.data if isinstance(document.data, dict) else {}
    for key in [*expected, *(k for k in data if k not in expected)]:
        line = f"line {document.line((key,))}: {key}"
        if key not in data:
            found.append(f"line 1: {key}: missing, the .lock says {' '.join(expected[key])!r}")
        elif key not in expected:
            found.append(f"{line}: the .lock does not have it")
        elif data[key] != expected[key]:
            found.append(f"{line}: is {data[key]!r}, the .lock says {expected[key]!r}")
    return found


def _older_schema(document: Document) -> str:
    """What to say of a lock that an older revision of this tool wrote: its fields would all be problems."""
    stated = document.data.get("schema") if isinstance(document.data, dict) else None
    if type(stated) is not int or not 0 < stated < SCHEMA:
        return ""
    line = document.line(("schema",))
    return f"line {line}: schema: {stated} was written by an older revision; this one reads and writes {SCHEMA}"


def _lock(model: LockModel) -> ReleaseLock:
    components = {}
    for key, c in sorted(model.components.items()):
        name = key.removesuffix(f"-{c.version}")  # an older version of a project has it in its key
        artefacts = {
            t: Artefact(name, c.distribution, c.version, t, *_file_fields(a)) if a else None
            for t, a in c.artefacts.items()
        }
        components[key] = Component(name, c.distribution, c.version, artefacts, c.license, tuple(c.license_texts))
    m, f = model.manifest, model.facts
    manifest = Artefact(m.distribution, m.distribution, m.version, NOARCH, *_file_fields(m)) if m else None
    facts = Facts(tuple(f.gpu_architectures), f.ptx_isa, f.glibc) if f else None
    missing = {name: tuple(places) for name, places in model.missing.items()}
    since = parse(model.since) if model.since else EARLIEST
    return ReleaseLock(model.release, manifest, components, facts, missing, model.measured, since)


def _file_fields(model: ArtefactModel) -> tuple[str, str, int, int]:
    return model.file, model.sha256, model.size, parse(model.uploaded)


def _contradictions(lock: ReleaseLock, model: LockModel, stem: str, document: Document) -> list[str]:
    """What no single field shows."""
    found = []

    def problem(place: tuple[str | int, ...], text: str) -> None:
        found.append(f"line {document.line(place)}: {place_text(place)}: {text}")

    if lock.name != stem:
        problem(("release",), f"{lock.release} belongs into {lock.name}.lock")
    if lock.is_ctk and lock.manifest is None:
        problem(("manifest",), "a CTK release names the artefact that is its manifest")
    if lock.is_ctk and model.since is None:
        problem(("since",), "a CTK release says when its minor appeared")
    if not lock.is_ctk and model.since:
        problem(("since",), "only a CTK release has it")
    if not lock.is_ctk and (lock.manifest or lock.facts):
        problem(("manifest" if lock.manifest else "facts",), "only a CTK release has it")
    if not lock.is_ctk and (lock.missing or lock.measured):
        problem(("missing" if lock.missing else "measured",), "only a CTK release has it")
    if lock.facts and lock.measured:
        problem(("measured",), "is only for a release without facts")
    for name, places in lock.missing.items():
        for where in places:
            if name in lock.components and any(lock.components[name].artefacts.get(s) for s in PLACES[where]):
                problem(("missing", name), f"has an artefact for {where}")
    for name, component in lock.components.items():
        place = ("components", name, "artefacts")
        if name != component.name and component.name not in lock.components:
            problem(("components", name), f"is an older version of {component.name}, which is not there")
        missing = [t for t in PLATFORMS if t not in component.artefacts] if lock.is_ctk else []
        if missing:
            problem(place, f"says nothing about {', '.join(missing)}; null means that none is published")
        for target, artefact in component.artefacts.items():
            if artefact and (wrong := _wrong_file(artefact)):
                problem((*place, target, "file"), wrong)
    return found


def _wrong_file(artefact: Artefact) -> str:
    """What its file name says that the lock does not: another distribution, version or target."""
    if not artefact.file.endswith(".whl"):
        return "" if artefact.target == NOARCH else "is no wheel, and sources are for all platforms"
    other = f"is no file of {artefact.distribution} {artefact.version}"
    try:
        name, version, _, tags = parse_wheel_filename(artefact.file)
    except InvalidWheelFilename:
        return other
    if name != canonicalize_name(artefact.distribution) or version != Version(artefact.version):
        return other
    return "" if artefact.target in targets(tags) else f"{artefact.file} is not for {artefact.target}"
