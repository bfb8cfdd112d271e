"""The base channel: what conda-forge would provide, made of this machine's interpreter and of wheels.

Two kinds of artefacts feed the recipes in ``base/``. Wheels of numpy, numba, pip and so on are locked in
``base/base.lock`` like every other artefact and come from the package index. The interpreter that runs this process and
the machine's GCC runtime come from the machine: `prepare` packs them into the store as ``cpython`` and ``gcc-runtime``,
and returns a lock that has them beside the wheels, so that plan, fetch and build need not know the difference.

    base = prepare(workspace)     # seconds the first time, nothing after that
    plan = plan_base(workspace)   # calls prepare; for the stations that follow

`base_release` makes ``base/base.lock`` anew from the index.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ctk.base import compilers, interpreter
from ctk.core.checkout import Workspace
from ctk.core.errors import BuildFailed, NotPublished
from ctk.core.files import disk_errors, holds
from ctk.core.platforms import NOARCH, this_platform
from ctk.fetch.fetch import stored
from ctk.index import requirements
from ctk.index.index import Index, IndexFile
from ctk.lock import wheels
from ctk.lock.lock import Artefact, Component, ReleaseLock, load
from ctk.plan.plan import Plan, Request, Set, plan
from ctk.plan.recipes import find_recipes

PROJECTS = ("numba", "llvmlite", "numpy", "pip", "setuptools", "wheel", "packaging", "typing-extensions")
"""In the order of choice: each is the newest that those before it accept."""

_SUBDIRS = ("linux-64", "linux-aarch64")
_GCC_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")
# GLIBCXX_3.4.<n> -> the GCC that brought it (libstdc++ manual, "ABI Policy and Guidelines").
_GCC_OF_GLIBCXX = {28: "9.3.0", 29: "11.1.0", 30: "12.1.0", 31: "13.1.0", 32: "13.2.0", 33: "14.1.0", 34: "15.1.0"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Raise this when the same machine must be packed differently.
_REVISION = 1


@dataclass(frozen=True)
class Base:
    """What the base channel of this machine is made of.

    Attributes:
        lock: The wheels of ``base/base.lock``, and ``cpython`` and ``gcc-runtime`` of this machine.
        variant_files: Read after ``conda_build_config.yaml``: ``base/base.yaml``, then the keys of this machine.
        python_tag: The running Python, e.g. ``cp311``.
        subdir: This machine's platform.
    """

    lock: ReleaseLock
    variant_files: tuple[Path, ...]
    python_tag: str
    subdir: str


def prepare(workspace: Workspace) -> Base:
    """Packs this machine's part into the store, unless an earlier run did.

    Raises:
        LockError: ``base/base.lock`` is not valid.
        BuildFailed: This interpreter cannot be made relocatable, or the machine has no C++ runtime.
        NoSpace: The disk is full.
    """
    lock = load(workspace.base_recipes / "base.lock")
    with disk_errors(workspace.cache):
        own = _own_artefacts(workspace)
        components = dict(lock.components) | {a.component: _component(a) for a in own}
        lock = ReleaseLock(lock.release, None, dict(sorted(components.items())))
        keys = _machine_keys(own)
        _write_if_new(workspace.cache / "base" / "machine.yaml", keys)
    files = (workspace.base_recipes / "base.yaml", workspace.cache / "base" / "machine.yaml")
    return Base(lock, files, interpreter.python_tag(), this_platform())


def plan_base(workspace: Workspace) -> Plan:
    """The builds of the base channel, for this machine's platform and running Python.

    Raises:
        NotPublished: A locked wheel does not exist for this Python, so that no environment could be made with it.
    """
    base = prepare(workspace)
    *shared, own = base.variant_files
    locks = {base.lock.name: (base.lock, own)}
    recipes = find_recipes(workspace.base_recipes)
    if not compilers.installed():
        del recipes["gcc"]
    what = Set(recipes, locks, (workspace.build_config, *shared))
    made = plan(what, Request(platforms=[base.subdir], pythons=[base.python_tag]), [base.python_tag])
    if made.left_out:
        raise NotPublished(
            "\n".join(["the base channel cannot be made here:", *(f"  {x.id}: {x.reason}" for x in made.left_out)]),
            "run the build with another Python, or use `--base conda-forge`",
        )
    return made


def base_release(index: Index, tags: Sequence[str]) -> ReleaseLock:
    """The newest set of the wheels above in which all accept each other, that runs on the oldest Python of the matrix.

    A newer Python without a wheel of some project is locked as having none.

    Args:
        index: Asked for files and metadata.
        tags: The Pythons of the matrix by wheel tag, oldest first.

    Raises:
        NotPublished: When no version of a project fits the others.
    """
    accepted: dict[str, SpecifierSet] = {}
    components = {}
    for name in PROJECTS:
        files = _newest(index, name, accepted.get(name, SpecifierSet()), tags[0])
        for requirement in _requirements(index, files):
            accepted[requirement.name] = accepted.get(requirement.name, SpecifierSet()) & requirement.specifier
        pure = wheels.wheel_for(files, NOARCH)
        targets = [NOARCH] if pure else [f"{subdir}-{tag}" for subdir in _SUBDIRS for tag in tags]
        components[name] = wheels.component(index, name, files, targets)
    return ReleaseLock("base", None, dict(sorted(components.items())))


def _newest(index: Index, name: str, accepted: SpecifierSet, oldest: str) -> list[IndexFile]:
    listed = index.files(name)
    for version in wheels.final_versions(listed, accepted):
        files = wheels.files_of(listed, version)
        if any(wheels.wheel_for(files, target) for target in (NOARCH, *(f"{s}-{oldest}" for s in _SUBDIRS))):
            return files
    raise NotPublished(
        f"the package index has no {name}{accepted} for {oldest} on {' or '.join(_SUBDIRS)}",
        "a mirror may have to fetch more of its versions",
    )


def _requirements(index: Index, files: Sequence[IndexFile]) -> Iterator[Requirement]:
    metadata = index.metadata(min(files, key=lambda f: f.file))
    for requirement in requirements.read(metadata, files[0].distribution):
        if requirement.name in PROJECTS and requirements.applies(requirement, [{"extra": ""}]):
            yield requirement


def _component(artefact: Artefact) -> Component:
    return Component(artefact.component, artefact.distribution, artefact.version, {artefact.target: artefact})


def _own_artefacts(workspace: Workspace) -> list[Artefact]:
    """``cpython`` and ``gcc-runtime``, from the note of an earlier run when nothing changed since."""
    libraries = [_loaded(name) for name in _GCC_LIBRARIES]
    state = [_REVISION, *map(str, interpreter.fingerprint())]
    state += [f"{p} {p.stat().st_size} {p.stat().st_mtime_ns}" for p in libraries]
    note = workspace.cache / "base" / "machine.json"
    try:
        known = json.loads(note.read_text())
        artefacts = [Artefact(**entry) for entry in known["artefacts"]]
        if known["state"] == state and all(holds(stored(a, workspace), a.sha256) for a in artefacts):
            return artefacts
    except (OSError, ValueError, KeyError, TypeError):
        pass
    version = ".".join(map(str, sys.version_info[:3]))
    artefacts = [
        _store(workspace, "cpython", version, interpreter.files()),
        _store(workspace, "gcc-runtime", _gcc_version(libraries[1].read_bytes()), _gcc_files(libraries)),
    ]
    _write_if_new(note, json.dumps({"state": state, "artefacts": [asdict(a) for a in artefacts]}, indent=1))
    return artefacts


def _store(workspace: Workspace, component: str, version: str, files: Iterable[tuple[str, bytes, bool]]) -> Artefact:
    """A zip of some files in the store; the same files give the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data, executable in sorted(files):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(member, data)
    data = content.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    file = f"{component}-{version}-{this_platform()}.zip"
    artefact = Artefact(component, component, version, this_platform(), file, sha256, len(data))
    _replace(stored(artefact, workspace), data, 0o444)
    return artefact


def _machine_keys(artefacts: Sequence[Artefact]) -> str:
    """The variant config of this machine: versions of its artefacts, and its Python in place of the whole matrix."""
    short = interpreter.short_version().removesuffix("t")
    tag = interpreter.python_tag()
    abi = "cpython" if int(short.split(".")[1]) < 13 else tag
    keys = {a.component.replace("-", "_"): a.version for a in artefacts}
    keys |= {"python": f"{short}.* *_{abi}", "python_tag": tag}
    lines = [f'{key}: ["{value}"]' for key, value in keys.items()]
    if found := compilers.installed():
        quoted = ", ".join(f'"{target} {version}"' for target, version in found.items())
        lines += [f"machine_gcc: [{quoted}]", f'machine_glibc: ["{compilers.glibc()}"]']
    return "\n".join(["# This machine's part of the base channel. Generated.", *lines, ""])


def _loaded(name: str) -> Path:
    """Where the loader finds a library."""
    try:
        ctypes.CDLL(name)
        maps = Path("/proc/self/maps").read_text().splitlines()
    except OSError as error:
        step = "install the GCC runtime, or use `--base conda-forge`"
        raise BuildFailed(f"this machine has no {name}: {error}", step) from None
    paths = (line.split(maxsplit=5)[-1] for line in maps)
    return Path(next(p for p in paths if os.path.basename(p).startswith(name))).resolve()


def _gcc_version(libstdcxx: bytes) -> str:
    """The oldest GCC that brought every symbol version of a libstdc++."""
    newest = max(int(n) for n in re.findall(rb"GLIBCXX_3\.4\.(\d+)", libstdcxx))
    return _GCC_OF_GLIBCXX[max((n for n in _GCC_OF_GLIBCXX if n <= newest), default=min(_GCC_OF_GLIBCXX))]


def _gcc_files(libraries: Sequence[Path]) -> Iterator[tuple[str, bytes, bool]]:
    for library in libraries:
        yield f"lib/{library.name}", library.read_bytes(), True
    copyrights = [Path("/usr/share/doc") / name / "copyright" for name in ("libgcc-s1", "libstdc++6")]
    texts = [c.read_bytes() for c in copyrights if c.is_file()]
    fallback = b"GPL-3.0-only WITH GCC-exception-3.1. The texts came with this machine's GCC runtime library.\n"
    yield "LICENSE.txt", texts[0] if texts else fallback, False


def _write_if_new(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        _replace(path, text.encode(), 0o644)


def _replace(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.chmod(mode)
    os.replace(temporary, path)
