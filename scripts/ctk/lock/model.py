"""Release locks: the artefacts of a release, and the facts of its binaries.

A release is a pair of files that are generated together. ``<name>.lock`` is for fetch: JSON with an
artefact a line. ``<name>.yaml`` is for recipes: a standard variant config with a version of each
component, and the facts. The types of this module are the schema: pydantic checks a file by their
annotations, `dump` writes it by them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SkipValidation,
    TypeAdapter,
    ValidationError,
)

from ctk.core.checkout import Workspace
from ctk.core.document import faults, read
from ctk.core.errors import LockError, UnknownName, problems
from ctk.core.platforms import NOARCH, PLATFORMS, targets
from ctk.core.times import EARLIEST, parse_time, time_text
from ctk.core.versions import PythonTag, version_key
from ctk.package.gpu_support import common

SCHEMA = 3
BASE = "base"
"""The lock of the base channel; it is beside the recipes of that channel."""
LIBRARY_LOCK = "libraries-"
"""The names of locks of libraries begin with it; the CUDA major follows."""
_OWN = "win-arm64"  # the platform that other GPUs are for than for the others
_IS_OWN = "win and arm64"  # the same, as a condition of a variant file
_ANY_OTHER = "linux-64"
UNDECLARED = "NOASSERTION"
"""The licence of an artefact that declares none; SPDX's word for it."""
DOWNSTREAM = "downstream"
"""The lock of a downstream package that tests build: its sources, and tools that the base channel
lacks.
"""
_ANY_GPU = "*"  # of a version without code, beside one with code
_MOST = 64  # texts that are kept parsed
SHARED_ZIPS = (
    ("cuda_major", "major_number"),
    ("cuda_fit", "fit_string", "fit_number", "fit_priority"),
    ("nvjitlink_fit", "nvjitlink_string", "nvjitlink_number", "nvjitlink_priority"),
    ("python", "python_tag", "python_number", "is_freethreading"),
)
"""The zips of ``conda_build_config.yaml``."""
_ZIPS_REPLACE = "# For rattler-build, the zips of a later file take the place of all others.\n"


# ---- the types of fields: how each is checked, and how it is written


@lru_cache(maxsize=4096)
def _version(text: str) -> str:
    Version(text)
    return text


FromPlace = Annotated[str, SkipValidation, Field(exclude=True)]
"""A field that is not written: it is read from the key of its entry."""
# Names and versions become folders of the artefact cache, so they hold no separator.
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$", max_length=100)]
VersionText = Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+]{0,63}$"), AfterValidator(_version)]
Target = Annotated[
    str, Field(pattern=rf"^({NOARCH}|({'|'.join(PLATFORMS)})(-cp3[0-9]{{1,2}}t?)?)$")
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+!-]{0,249}$")]
Size = Annotated[int, Field(strict=True, gt=0, le=1 << 40)]
Moment = Annotated[int, BeforeValidator(parse_time), PlainSerializer(time_text, return_type=str)]
ReleaseName = Annotated[
    str,
    Field(
        pattern=(
            r"^([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|(python|libraries)-[0-9]{1,3}|base|downstream)$"
        )
    ),
]


# ---- a lock


@dataclass(frozen=True)
class Artefact:
    """One published file.

    Attributes:
        component: Our name of its component, e.g. ``cudart``.
        distribution: Its name on the package index, e.g. ``nvidia-cuda-runtime``.
        target: Its platform and Python: ``<subdir>``, ``<subdir>-<python tag>`` or ``noarch``; stem
            of the file that recipes read.
        uploaded: When its publisher uploaded it, in seconds since 1970 (UTC).
    """

    component: FromPlace
    distribution: Name
    version: VersionText
    target: FromPlace
    file: FileName
    sha256: Sha256
    size: Size
    uploaded: Moment = EARLIEST

    @property
    def subdir(self) -> str:
        """The platform, or ``noarch``, of its target."""
        return self.target.partition("-cp")[0]

    @property
    def python(self) -> PythonTag | None:
        """The Python of its target; None where it is for any."""
        return PythonTag.read(self.target.removeprefix(f"{self.subdir}-"))


@dataclass(frozen=True)
class Component:
    """A part of a release with a version of its own.

    Attributes:
        artefacts: By target; None where no artefact is published.
        license: As its artefacts declare it, e.g. ``Apache-2.0``.
        license_texts: sha256 of each text that its artefacts have as their licence.
    """

    name: FromPlace
    distribution: Name
    version: VersionText
    artefacts: Mapping[Target, Artefact | None]
    license: str = UNDECLARED
    license_texts: tuple[Sha256, ...] = ()

    @property
    def variant_key(self) -> str:
        """The key under which recipes find the version: ``nccl`` for ``nccl-cu13``."""
        return re.sub(r"-cu[0-9]+$", "", self.name).replace("-", "_")


@dataclass(frozen=True)
class Facts:
    """Facts of a CTK release, measured from its binaries.

    Attributes:
        gpu_architectures: Compute capabilities that NVRTC can compile for, lowest first, e.g.
            ``7.5``.
        ptx_isa: PTX ISA version that NVRTC writes, e.g. ``9.4``.
        glibc: Subdir -> component -> the oldest glibc that has what its ELF files need.
    """

    gpu_architectures: tuple[str, ...]
    ptx_isa: str
    glibc: Mapping[Target, Mapping[Name, VersionText]]


@dataclass(frozen=True)
class ReleaseLock:
    """A release lock.

    Attributes:
        release: ``13.4.3`` for a CTK release, else the name itself: ``python-13``,
            ``libraries-13``, ``base``.
        manifest: The artefact that defines a CTK release; None in other locks.
        components: By name, sorted. A version beside the newest has the name ``<name>-<version>``.
        facts: None until measured, and in other locks.
        gpu_code: Library -> subdir -> the GPUs that its code runs on; no subdirs for a library
            without code. A library that is not in it is not measured yet.
        added: Component -> each version that `ctk release add NAME VERSION` locked -> the project
            and version that requires it; "" for the one that was named. These versions stay when
            the lock is made again.
        since: When the first manifest of this CTK minor was uploaded, in seconds since 1970.
            Packages that have only metadata carry this time: a new patch leaves them as they are.
        schema: Version of the format.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    release: ReleaseName
    manifest: Artefact | None
    components: Annotated[Mapping[Name, Component], Field(min_length=1)]
    facts: Facts | None = None
    gpu_code: Mapping[Name, Mapping[Target, str]] = field(default_factory=dict)
    added: Mapping[Name, Mapping[VersionText, str]] = field(default_factory=dict)
    since: Moment = EARLIEST
    schema: Annotated[int, Field(strict=True, ge=SCHEMA, le=SCHEMA)] = SCHEMA

    @property
    def is_ctk(self) -> bool:
        return self.release[:1].isdigit()

    @property
    def is_library_set(self) -> bool:
        """Whether it is a lock of libraries beside the toolkit."""
        return self.release.startswith(LIBRARY_LOCK)

    @property
    def is_measured(self) -> bool:
        """Whether contents of its artefacts are known, as for the CUDA Toolkit's releases.

        They are not for the base channel and the downstream tests.
        """
        return bool(self.major)

    @property
    def name(self) -> str:
        """Stem of the pair of files."""
        return f"cuda-{self.minor}" if self.is_ctk else self.release

    @property
    def minor(self) -> str:
        """E.g. ``13.4``; empty for what is not a CTK release."""
        return ".".join(self.release.split(".")[:2]) if self.is_ctk else ""

    @property
    def major(self) -> str:
        """E.g. ``13``; empty for the base channel."""
        return self.release.split(".")[0] if self.is_ctk else self.release.partition("-")[2]

    def require_facts(self) -> Facts:
        """The facts; `LockError` where the release is not measured yet."""
        if self.facts is None:
            step = f"run `ctk release measure {self.minor} --write`"
            raise LockError(f"release {self.minor} has not been measured", step)
        return self.facts

    @cached_property
    def own_keys(self) -> frozenset[str]:
        """The keys of its variant file by which recipes are matched to releases.

        A CTK release has the key of the facts even if it is not measured: a recipe that needs facts
        must not render.
        """
        own = {"cuda_version", "cuda_arch"} if self.is_ctk else {"cuda_major"}
        return frozenset({c.variant_key for c in self.components.values()} | own)

    @cached_property
    def gpu_keys(self) -> Mapping[str, Mapping[str, list[str]]]:
        """Platform -> `_gpu_keys`: what is read of a lock asks for them many times."""
        return {subdir: _gpu_keys(self, subdir) for subdir in (_ANY_OTHER, _OWN)}

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """Every artefact of every component, in the order of the file.

        The manifest is not one of them.
        """
        return tuple(
            a for c in self.components.values() for a in c.artefacts.values() if a is not None
        )

    @cached_property
    def targets(self) -> frozenset[str]:
        """The targets for which it has artefacts."""
        return frozenset(artefact.target for artefact in self.artefacts)

    @cached_property
    def older(self) -> frozenset[tuple[str, str]]:
        """Variant key and version of each component that is locked beside a newer version."""
        return frozenset(
            (component.variant_key, component.version)
            for key, component in self.components.items()
            if key != component.name
        )

    def component_of(self, name: str, version: str) -> Component | None:
        """The component of an artefact, or of a recipe's source."""
        return self._by_version.get((name, version))

    @cached_property
    def _by_version(self) -> Mapping[tuple[str, str], Component]:
        return {(c.name, c.version): c for c in self.components.values()}


SHAPE = TypeAdapter(ReleaseLock)
"""The schema."""


def known_gpus(locks: Iterable[ReleaseLock]) -> tuple[str, ...]:
    """Every compute capability that the NVRTC of some release can compile for, lowest first."""
    return tuple(
        sorted({g for k in locks if k.facts for g in k.facts.gpu_architectures}, key=version_key)
    )


FACT_KEY = re.compile(r"cuda_arch(_set)?|ptx_isa|\w+_gpus")
"""The keys of `variant_keys` that only a measured release has."""


def variant_keys(lock: ReleaseLock, subdir: str) -> dict[str, list[str]]:
    """The ``.yaml`` half as it reads on a platform: key -> values.

    A key has one value, except ``cuda_arch``, and a project that is locked in several versions,
    with its GPUs if these differ by version.
    """
    keys = {}
    if lock.major:
        keys = {"cuda_major": [lock.major], "major_number": [str(1000 * int(lock.major))]}
    if lock.is_library_set:
        keys["cuda_range"] = [f">={lock.major},<{int(lock.major) + 1}.0a0"]
    if lock.is_ctk:
        next_minor = f"{lock.major}.{int(lock.minor.partition('.')[2]) + 1}"
        cuda_range = f">={lock.minor},<{next_minor}.0a0"
        keys = {
            "cuda_version": [lock.minor],
            "cuda_range": [cuda_range],
            "cuda_release": [lock.release],
        }
    for component in lock.components.values():
        keys.setdefault(component.variant_key, []).append(component.version)
    if lock.facts:
        keys |= {
            "cuda_arch": [*lock.facts.gpu_architectures],
            "cuda_arch_set": ["|".join(lock.facts.gpu_architectures)],
            "ptx_isa": [lock.facts.ptx_isa],
        }
    by_version = lock.gpu_keys[_OWN if subdir == _OWN else _ANY_OTHER]
    differing = _gpu_zips(lock)
    return keys | {key: gpus if key in differing else gpus[:1] for key, gpus in by_version.items()}


def _gpu_keys(lock: ReleaseLock, subdir: str) -> dict[str, list[str]]:
    """The GPUs of each component with code, as ``cublas_gpus`` -> a spec for each version.

    Windows on ARM has its own: there some components are for PCs with a new GPU only. All other
    platforms have theirs together. A component of which a version is not measured has no key, so
    that no recipe renders with the GPUs of another version.
    """
    bounds: dict[str, list[str]] = {}
    unmeasured = set()
    for name, component in lock.components.items():
        stated = lock.gpu_code.get(name)
        if stated is None:
            unmeasured.add(f"{component.variant_key}_gpus")
            continue
        elsewhere = [gpus for place, gpus in stated.items() if place != _OWN]
        bound = common(elsewhere) if elsewhere else ""
        if subdir == _OWN:
            bound = stated.get(_OWN, bound)
        bounds.setdefault(f"{component.variant_key}_gpus", []).append(bound)
    return {
        key: [bound or _ANY_GPU for bound in found]
        for key, found in bounds.items()
        if key not in unmeasured and any(found)
    }


def _gpu_zips(lock: ReleaseLock) -> dict[str, tuple[str, str]]:
    """The zips of the components whose GPUs differ by version, on any platform.

    ``nvcomp_gpus`` -> it and the key of the versions.
    """
    zips = {}
    for by_version in lock.gpu_keys.values():
        for key, gpus in by_version.items():
            if len(set(gpus)) > 1:
                zips[key] = (key.removesuffix("_gpus"), key)
    return dict(sorted(zips.items()))


# ---- loading


def load(path: Path) -> ReleaseLock:
    """A release: the ``.lock`` at ``path`` and the ``.yaml`` beside it.

    LockError lists every problem of both.
    """
    return _checked(path.stem, read(path.with_suffix(".lock")), read(path.with_suffix(".yaml")))


@lru_cache(maxsize=_MOST)
def _checked(stem: str, text: str, pair: str) -> ReleaseLock:
    lock, wrong = parse_lock(text, stem)
    wrong = tuple(f"{stem}.lock {line}" for line in wrong)
    if lock is not None and pair != variant_config(lock):
        wrong = (f"{stem}.yaml is not what {stem}.lock says",)
    if wrong or lock is None:
        step = f"run `ctk release add {stem.removeprefix('cuda-')} --write` to write it anew"
        raise problems(LockError, stem, wrong, step)
    return lock


def parse_lock(text: str, stem: str | None = None) -> tuple[ReleaseLock | None, tuple[str, ...]]:
    """The lock in a text, None if it is not valid, and all its problems.

    If the stem of its file is given, it must be the release's name.
    """
    try:
        lock = SHAPE.validate_python(_with_places(json.loads(text)))
    except json.JSONDecodeError as error:
        return None, (f"line {error.lineno}: not JSON: {error.msg}; an older revision wrote YAML",)
    except ValidationError as error:
        return None, tuple(faults(error))
    except (AttributeError, KeyError, TypeError) as error:
        return None, (f"does not have the form of a lock: {error!r}",)
    wrong = tuple(_contradictions(lock, stem))
    return None if wrong else lock, wrong


def _with_places(data: Any) -> Any:
    """The content of a file, with the fields of each entry that are read from its key."""
    components = {
        key: _component(key, stated) for key, stated in sorted(data["components"].items())
    }
    manifest = data.get("manifest")
    if manifest:
        manifest = {**manifest, "component": manifest["distribution"], "target": NOARCH}
    return {**data, "components": components, "manifest": manifest}


def _component(key: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    name = key.removesuffix(f"-{stated['version']}")  # the key of an older version ends with it
    place = {
        "component": name,
        "distribution": stated["distribution"],
        "version": stated["version"],
    }
    files = {
        target: file and {**file, **place, "target": target}
        for target, file in stated["artefacts"].items()
    }
    return {**stated, "name": name, "artefacts": files}


def _contradictions(lock: ReleaseLock, stem: str | None) -> Iterator[str]:
    """Problems that no single field shows."""
    if stem is not None and lock.name != stem:
        yield f"release: {lock.release} belongs in {lock.name}.lock"
    if lock.is_ctk is (lock.manifest is None):
        yield (
            "manifest: a release of the CUDA Toolkit names the artefact that is its manifest, and"
            " no other lock does"
        )
    for name, versions in lock.added.items():
        for version in versions:
            if lock.component_of(name, version) is None:
                yield f"added.{name}: {version} is not among the components"
    for name, component in lock.components.items():
        if name != component.name and component.name not in lock.components:
            yield f"components.{name}: is an older version of {component.name}, which is not there"
        silent = [t for t in PLATFORMS if t not in component.artefacts]
        if silent and (lock.is_ctk or (lock.is_library_set and len(silent) < len(PLATFORMS))):
            yield (
                f"components.{name}: has no entry for {', '.join(silent)}; null means that none"
                " is published"
            )
        for target, artefact in component.artefacts.items():
            if artefact and (wrong := _wrong_file(artefact)):
                yield f"components.{name}.artefacts.{target}: {wrong}"


def _wrong_file(artefact: Artefact) -> str:
    """The difference between an artefact and its file name, such as another version or target."""
    if not artefact.file.endswith(".whl"):
        if artefact.target == NOARCH:
            return ""
        return "is not a wheel, and sources are for all platforms"
    other = f"is not a file of {artefact.distribution} {artefact.version}"
    try:
        name, version, _, tags = parse_wheel_filename(artefact.file)
    except InvalidWheelFilename:
        return other
    if name != canonicalize_name(artefact.distribution) or version != Version(artefact.version):
        return other
    return (
        "" if artefact.target in targets(tags) else f"{artefact.file} is not for {artefact.target}"
    )


# ---- the locks of a checkout


def path_of(workspace: Workspace, name: str) -> Path:
    """The path of the lock ``cuda-13.4``, ``python-13`` or ``base``."""
    return (workspace.base_recipes if name == BASE else workspace.variants) / f"{name}.lock"


def release_locks(workspace: Workspace) -> dict[str, ReleaseLock]:
    """All releases of a checkout by name: CTK releases by version, then the others.

    LockError if one is invalid.
    """
    return {lock.name: lock for lock in in_order(map(load, workspace.variants.glob("*.lock")))}


def find_release(locks: Mapping[str, ReleaseLock], name: str) -> ReleaseLock:
    """The lock that ``13.4``, ``13.4.3``, ``cuda-13.4`` or ``python-13`` names.

    UnknownName with similar names.
    """
    for lock in locks.values():
        if name in (lock.name, lock.minor, lock.release):
            return lock
    if minor := re.fullmatch(r"(?:cuda-)?(\d+\.\d+)", name):
        step = (
            f"see in `ctk release check` whether the index has it; then ctk release add {minor[1]}"
            " --write"
        )
        raise UnknownName(f"{minor[1]} is not locked", step)
    raise UnknownName.of("release", name, [lock.minor or lock.name for lock in locks.values()])


def in_order(locks: Iterable[ReleaseLock]) -> list[ReleaseLock]:
    """CTK releases by version, then the others."""

    def order(lock: ReleaseLock) -> tuple[bool, bool, Version]:
        return (
            not lock.is_ctk,
            lock.is_library_set,
            Version(lock.release if lock.is_ctk else lock.major or "0"),
        )

    return sorted(locks, key=order)


_OPTIONAL = ("manifest", "facts", "gpu_code", "added")


def dump(lock: ReleaseLock) -> str:
    """The text of the ``.lock`` half."""
    stated = SHAPE.dump_python(lock, mode="json")
    for component in stated["components"].values():
        for artefact in filter(None, component["artefacts"].values()):
            del artefact["distribution"], artefact["version"]
        component["artefacts"] = component.pop("artefacts")  # last, as they are the longest
    skipped = {key for key in _OPTIONAL if not stated[key]} | (
        {"since"} if not lock.is_ctk else set()
    )
    order = ("schema", "release", "since", "manifest", "components", *_OPTIONAL[1:])
    return _json({key: stated[key] for key in order if key not in skipped}) + "\n"


def _json(value: Any, indent: str = "") -> str:
    """JSON with each innermost mapping on one line."""
    if not isinstance(value, dict) or not any(isinstance(inner, dict) for inner in value.values()):
        return json.dumps(value, ensure_ascii=False)
    deeper = indent + "  "
    lines = (f"{deeper}{json.dumps(key)}: {_json(inner, deeper)}" for key, inner in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def variant_config(lock: ReleaseLock) -> str:
    """The canonical text of the ``.yaml`` half."""
    head = (
        f"# Versions of {_title(lock)}. Generated by `{_writer(lock)}`, with the .lock beside it.\n"
    )
    if lock.is_ctk and lock.facts is None:
        head += (
            f"# Its facts are not measured yet: run `ctk release measure {lock.minor} --write`.\n"
        )
    own = variant_keys(lock, _OWN)
    for key, values in variant_keys(lock, _ANY_OTHER).items():
        head += f"{key}:\n"
        for value, of_own in zip(values, own[key], strict=True):
            if value == of_own:
                head += f'  - "{value}"\n'
            else:
                head += f'  - if: {_IS_OWN}\n    then: "{of_own}"\n    else: "{value}"\n'
    zips = _gpu_zips(lock)
    if zips:
        head += _ZIPS_REPLACE + "zip_keys:\n"
        for group in (*SHARED_ZIPS, *zips.values()):
            head += "  -\n" + "".join(f"    - {key}\n" for key in group)
    return head


def _title(lock: ReleaseLock) -> str:
    if lock.is_ctk:
        return f"CTK release {lock.release}"
    if lock.major:
        kind = "libraries beside the toolkit" if lock.is_library_set else "Python projects"
        return f"the {kind} for CUDA {lock.major}"
    return (
        "the downstream packages of the tests" if lock.release == DOWNSTREAM else "the base channel"
    )


def _writer(lock: ReleaseLock) -> str:
    return (
        "tests/system/downstream/update_lock.py"
        if lock.release == DOWNSTREAM
        else "ctk release add"
    )
