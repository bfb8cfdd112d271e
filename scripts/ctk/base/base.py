"""The base channel: a substitute for conda-forge, made of this machine's interpreter and of wheels.

Wheels of numpy, numba, pip and so on are locked in ``base/base.lock`` and come from the package
index. The interpreter of this process and the machine's GCC runtime are packed into the store as
``cpython`` and ``gcc-runtime``.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import os
import pprint
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from pydantic import TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.children import run_program
from ctk.core.disk import disk_errors
from ctk.core.errors import BuildFailed, NotPublished
from ctk.core.files import holds, make_folder, replace_file
from ctk.core.memo import memo
from ctk.core.platforms import NOARCH, this_platform
from ctk.core.versions import this_python, version_key
from ctk.fetch.fetch import stored
from ctk.index.index import Index, IndexFile
from ctk.index.inside import applies, read_requirements
from ctk.lock import wheels
from ctk.lock.model import Artefact, Component, ReleaseLock, load
from ctk.package import binaries
from ctk.plan.plan import Plan, Request, Set, plan
from ctk.plan.recipes import find_recipes

PROJECTS = (
    *("numba", "llvmlite", "scipy", "ml-dtypes", "numpy"),
    *("pip", "setuptools", "wheel", "packaging"),
    *(
        "opt-einsum",
        "pydantic",
        "pydantic-core",
        "annotated-types",
        "typing-inspection",
        "typing-extensions",
    ),
    *("filelock", "fsspec", "jinja2", "markupsafe", "networkx", "sympy", "mpmath", "absl-py"),
    "fastrlock",
    "pillow",
    *(
        "scikit-build-core",
        "meson-python",
        "meson",
        "pyproject-metadata",
        "flit-core",
        "poetry-core",
    ),
    *("hatch-vcs", "hatchling", "pathspec", "pluggy", "tomlkit", "trove-classifiers"),
    *("setuptools-scm", "vcs-versioning", "cython", "nanobind", "pybind11", "pybind11-global"),
)
"""In the order of choice: each is the newest that those before it accept."""
BUILD_TOOLS = {
    "cmake": "cmake",
    "ninja": "ninja-build",
    "make": "make",
    "pkg-config": "pkg-config",
    "git": "git",
}
"""Programs of the machine for recipes, by conda-forge's names -> the Debian package that has it."""
PREFIX_TOKEN = "@PREFIX@"
"""Stands for the environment in text files until the recipe puts the real prefix there."""

# The platforms of the base channel, and the names that Debian and Fedora give to cross compilers
# for them.
_CROSS = {"linux-64": "x86_64-linux-gnu-g++", "linux-aarch64": "aarch64-linux-gnu-g++"}
_GCC_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")
OPENMP = "libgomp.so.1"
"""A library that not every machine has."""
# GLIBCXX_3.4.<n> -> the GCC that brought it (libstdc++ manual, "ABI Policy and Guidelines").
_GCC_OF_GLIBCXX = {
    28: "9.3.0",
    29: "11.1.0",
    30: "12.1.0",
    31: "13.1.0",
    32: "13.2.0",
    33: "14.1.0",
    34: "15.1.0",
}
_EPOCH = (1980, 1, 1, 0, 0, 0)
# The oldest glibc of this channel's platforms: what the packages of a machine without glibc name.
_OLDEST_GLIBC = "2.17"
_REVISION = 3  # raise this when the tool packs the same machine differently
_LEFT_OUT = re.compile(
    r"""(^|.*/)(__pycache__|tests?|idlelib|turtledemo|tkinter|(site|dist)-packages|config-[^/]*)/.*
    |(lib-dynload/)?(_tkinter|_test|_xx|xx|_ctypes_test)[^/]*\.so
    |turtle\.py|sitecustomize\.py|EXTERNALLY-MANAGED|_distutils_system_mod\.py|build-details\.json
    |.*\.(pyc|a|exe|orig)""",
    re.VERBOSE,
)
_SYSCONFIG = re.compile(r"_sysconfig(data|_vars)_.*\.(py|json)")
# An absolute path inside a word, alone or after the start of a flag.
_PATH = re.compile(r"""(?:^|[=:,'"(]|-[IL])(/\w[\w.+-]*/?)""")
_SYSTEM_TOOLS = ("/bin/", "/dev/")


def plan_base(workspace: Workspace) -> Plan:
    """The builds of the base channel, for this machine's platform and running Python.

    Raises:
        LockError: ``base/base.lock`` is not valid.
        BuildFailed: This interpreter cannot be made relocatable, or the machine has no C++ runtime.
        NotPublished: A locked wheel does not exist for this Python.
        NoSpace: The disk is full.
    """
    lock, machine = prepare(workspace)
    recipes = find_recipes(workspace.base_recipes)
    for name, installed in (("gcc", installed_compilers()), ("tools", installed_tools())):
        if not installed:
            del recipes[name]
    if this_python().free_threaded:
        recipes.pop("fastrlock", None)  # it has no wheel there; nor has CuPy 13, which needs it
    shared = (workspace.build_config, workspace.base_recipes / "base.yaml")
    what = Set(recipes, {lock.name: (lock, machine)}, shared)
    made = plan(
        what, Request(platforms=[this_platform()], pythons=[this_python().tag]), [this_python().tag]
    )
    if made.left_out:
        raise NotPublished(
            "\n".join(
                [
                    "the base channel cannot be made here:",
                    *(f"  {x.id}: {x.reason}" for x in made.left_out),
                ]
            ),
            "run the build with another Python, or use `--base conda-forge`",
        )
    return made


def prepare(workspace: Workspace) -> tuple[ReleaseLock, Path]:
    """Packs this machine's part into the store, unless an earlier run did.

    Returns:
        The whole lock, and the variant config of this machine.
    """
    lock = load(workspace.base_recipes / "base.lock")
    keys = workspace.notes / "base" / "machine.yaml"
    with disk_errors(workspace.cache):
        make_folder(keys.parent)
        own = _machine_parts(workspace)
        text = _machine_keys(own)
        if not keys.is_file() or keys.read_text() != text:
            replace_file(keys, text.encode())
    components = dict(lock.components)
    for artefact in (part.artefact for part in own):
        name, files = artefact.component, {artefact.target: artefact}
        components[name] = Component(name, artefact.distribution, artefact.version, files)
    return ReleaseLock(lock.release, None, dict(sorted(components.items()))), keys


# The lock of the wheels.


def base_release(index: Index, tags: Sequence[str]) -> ReleaseLock:
    """The newest compatible set of the wheels, for the oldest Python of the matrix.

    For a newer Python without a wheel of some project, the lock says that the project has none.

    Args:
        index: Asked for files and metadata.
        tags: The Pythons of the matrix by wheel tag, oldest first.

    Raises:
        NotPublished: No version of a project fits the others.
    """
    accepted: dict[str, SpecifierSet] = defaultdict(SpecifierSet)
    components = {}
    for name in PROJECTS:
        files = _newest(index, name, accepted[name], tags[0])
        metadata = index.metadata(min(files, key=lambda f: f.file))
        for requirement in read_requirements(metadata, files[0].distribution):
            if requirement.name in PROJECTS and applies(requirement, [{"extra": ""}]):
                accepted[requirement.name] &= requirement.specifier
        pure = wheels.wheel_for(files, NOARCH)
        targets = [NOARCH] if pure else [f"{subdir}-{tag}" for subdir in _CROSS for tag in tags]
        components[name] = wheels.component(index, name, files, targets)
    return ReleaseLock("base", None, dict(sorted(components.items())))


def _newest(index: Index, name: str, accepted: SpecifierSet, oldest: str) -> list[IndexFile]:
    listed = index.files(name)
    for version in wheels.final_versions(listed, accepted):
        files = wheels.files_of(listed, version)
        offered = (
            wheels.wheel_for(files, target)
            for target in (NOARCH, *(f"{s}-{oldest}" for s in _CROSS))
        )
        if any(file and wheels.runs_on(file, oldest) for file in offered):
            return files
    raise NotPublished(
        f"the package index has no {name}{accepted} for {oldest} on {' or '.join(_CROSS)}",
        "a mirror may have to fetch more of its versions",
    )


# This machine's part.

_Files = Sequence[tuple[str, bytes, bool]]
"""Files of the machine: path below the environment, content, whether it is executable."""


@dataclass(frozen=True)
class MachinePart:
    """A part of this machine in the store.

    Attributes:
        artefact: Its zip.
        glibc: Package that is made of it -> the oldest glibc that its binaries run with, ``2.36``.
    """

    artefact: Artefact
    glibc: Mapping[str, str]


# As plain fields: the model of locks leaves out what the place of an artefact in a lock says.
_PARTS = TypeAdapter(list[dict[str, Any]])


def _machine_parts(workspace: Workspace) -> list[MachinePart]:
    """``cpython``, ``gcc-runtime``, ``libgomp``: of an earlier run's note if nothing changed."""
    libraries = [_loaded(name) for name in _GCC_LIBRARIES]
    openmp = [_loaded(OPENMP)] if is_loadable(OPENMP) else []
    stdlib = Path(sysconfig.get_path("stdlib"))
    python = (_executable(), stdlib / "os.py", stdlib / "site.py", stdlib / "lib-dynload")
    files = [
        f"{p} {p.stat().st_size} {p.stat().st_mtime_ns}" for p in (*python, *libraries, *openmp)
    ]
    state = [_REVISION, sys.version, sys.base_prefix, *files]
    note = memo(workspace.notes / "base", state, _PARTS)
    fields = note.read() or []
    known = [MachinePart(Artefact(**part["artefact"]), part["glibc"]) for part in fields]
    artefacts = [part.artefact for part in known]
    if known and all(holds(stored(a, workspace), a.sha256) for a in artefacts):
        return known
    version = ".".join(map(str, sys.version_info[:3]))
    gcc = _gcc_version(libraries[1])
    interpreter = sorted(interpreter_files())
    made = [
        MachinePart(
            _store(workspace, "cpython", version, interpreter),
            {"python": needed_glibc(interpreter)},
        ),
        MachinePart(
            _store(workspace, "gcc-runtime", gcc, _gcc_files(libraries)),
            {
                "libgcc": needed_glibc(_gcc_files(libraries[:1])),
                "libstdcxx": needed_glibc(_gcc_files(libraries[1:])),
            },
        ),
    ]
    for file in openmp:
        files_of_openmp = _gcc_files([file])
        artefact = _store(workspace, "libgomp", gcc, files_of_openmp)
        made.append(MachinePart(artefact, {"libgomp": needed_glibc(files_of_openmp)}))
    note.write([asdict(part) for part in made])
    return made


def needed_glibc(files: _Files) -> str:
    """The oldest glibc that all ELF files among some files run with, ``2.36``.

    Raises:
        BuildFailed: One cannot be read.
    """
    found = {}
    for name, data, _ in files:
        if data.startswith(binaries.ELF_MAGIC):
            try:
                found[name] = binaries.read_bytes(data)
            except binaries.UnreadableBinary as error:
                step = "run the build with another Python, or use `--base conda-forge`"
                raise BuildFailed(f"{name} of this machine: {error}", step) from None
    needed = binaries.oldest_glibc_of({name: binary for name, binary in found.items() if binary})
    return max(needed, _OLDEST_GLIBC, key=version_key)


def _store(workspace: Workspace, component: str, version: str, files: _Files) -> Artefact:
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
    place = stored(artefact, workspace)
    make_folder(place.parent)
    replace_file(place, data)
    place.chmod(0o444)
    return artefact


def _machine_keys(parts: Sequence[MachinePart]) -> str:
    """The variant config of this machine: versions and needs of its parts, and its Python alone."""
    short, tag = this_python().minor, this_python().tag
    abi = "cpython" if int(short.split(".")[1]) < 13 else tag
    keys: dict[str, list[Any]] = {}
    for part in parts:
        keys[part.artefact.component.replace("-", "_")] = [part.artefact.version]
        keys |= {f"{package}_glibc": [version] for package, version in part.glibc.items()}
    keys |= {"python": [f"{short}.* *_{abi}"], "python_tag": [tag]}
    # The other keys of their zip.
    keys |= {
        "python_number": ["0"],
        "is_freethreading": [tag.endswith("t")],
    }
    if compilers := installed_compilers():
        keys["machine_gcc"] = [f"{target} {version}" for target, version in compilers.items()]
        keys["machine_glibc"] = [glibc()]
    if tools := installed_tools():
        keys["machine_tool"] = [f"{name} {version}" for name, version in tools.items()]
    lines = [f"{key}: {json.dumps(values)}" for key, values in keys.items()]
    return "\n".join(["# This machine's part of the base channel. Generated.", *lines, ""])


# The GCCs and build tools of this machine, which the base channel has in place of conda-forge's.


@cache
def installed_compilers() -> Mapping[str, str]:
    """Platform -> version of the g++ on PATH that compiles for it; empty without any."""
    programs = {
        target: "g++" if target == this_platform() else cross for target, cross in _CROSS.items()
    }
    versions = {
        target: _printed(program, "-dumpfullversion") for target, program in programs.items()
    }
    # Another compiler may have the name.
    return {
        target: text for target, text in versions.items() if re.fullmatch(r"\d+\.\d+\.\d+", text)
    }


@cache
def installed_tools() -> Mapping[str, str]:
    """Package name of a build tool on PATH -> its version."""
    versions = {
        name: re.search(r"\d+(\.\d+)+", _printed(name, "--version")) for name in BUILD_TOOLS
    }
    return {name: match[0] for name, match in versions.items() if match}


def _printed(*words: str) -> str:
    """The output of a program; "" if it is not installed, or fails."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = run_program(words, timeout=60)
        return "" if done.returncode else done.stdout.strip()
    return ""


def glibc() -> str:
    """The version of this machine's glibc, e.g. ``2.36``."""
    return (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.17").split()[-1]


def is_loadable(name: str) -> bool:
    """Whether the loader finds a library."""
    with suppress(OSError):
        return bool(ctypes.CDLL(name))
    return False


def _loaded(name: str) -> Path:
    """The file that the loader takes for a library."""
    try:
        ctypes.CDLL(name)
        maps = Path("/proc/self/maps").read_text().splitlines()
    except OSError as error:
        step = "install the GCC runtime, or use `--base conda-forge`"
        raise BuildFailed(f"this machine has no {name}: {error}", step) from None
    paths = (line.split(maxsplit=5)[-1] for line in maps)
    return Path(next(p for p in paths if os.path.basename(p).startswith(name))).resolve()


def _gcc_version(libstdcxx: Path) -> str:
    """The oldest GCC that brought every symbol version of a libstdc++."""
    newest = max(int(n) for n in re.findall(rb"GLIBCXX_3\.4\.(\d+)", libstdcxx.read_bytes()))
    return _GCC_OF_GLIBCXX[
        max((n for n in _GCC_OF_GLIBCXX if n <= newest), default=min(_GCC_OF_GLIBCXX))
    ]


def _gcc_files(libraries: Sequence[Path]) -> _Files:
    """Libraries of the GCC runtime, with their licence."""
    text = (
        b"GPL-3.0-only WITH GCC-exception-3.1. The texts came with this machine's GCC runtime"
        b" library.\n"
    )
    places = [Path("/usr/share/doc", name, "copyright") for name in ("libgcc-s1", "libstdc++6")]
    licence = next((p.read_bytes() for p in places if p.is_file()), text)
    found = [(f"lib/{library.name}", library.read_bytes(), True) for library in libraries]
    return [*found, ("LICENSE.txt", licence, False)]


# The interpreter of this process, as a relocatable tree. Test suites, Tk, byte code, the static
# library and installed packages are left out. System libraries of extension modules stay the
# machine's own. Builds with a shared libpython, Debian's patched ones, and free-threaded ones are
# known to work.


def _executable() -> Path:
    """The interpreter itself, outside any virtual environment; Python keeps its name for `venv`."""
    return Path(sys._base_executable).resolve()  # type: ignore[attr-defined]


def interpreter_files() -> Iterator[tuple[str, bytes, bool]]:
    """Every file of the tree: path below the environment, content, whether it is executable.

    Raises:
        BuildFailed: This Python cannot be made relocatable.
    """
    if not sys.platform.startswith("linux"):
        raise BuildFailed(
            f"the base channel can only be made on Linux, and this is {sys.platform}",
            "use `--base conda-forge`",
        )
    version = this_python().name
    executable = _executable().read_bytes()
    yield f"bin/python{version}", _relocatable(executable, "$ORIGIN/../lib"), True
    binary = binaries.read_bytes(executable)
    for name in binary.needed if binary else ():
        if name.startswith("libpython"):
            library = Path(sysconfig.get_config_var("LIBDIR")) / name
            yield f"lib/{name}", _relocatable(library.read_bytes(), "$ORIGIN"), True
    stdlib, place = Path(sysconfig.get_path("stdlib")), f"{sys.platlibdir}/python{version}"
    for path in _walk(stdlib):
        relative = path.relative_to(stdlib).as_posix()
        if _LEFT_OUT.fullmatch(relative):
            continue
        if _SYSCONFIG.fullmatch(relative) and path.is_symlink():
            continue
        data = _sysconfig(relative) if _SYSCONFIG.fullmatch(relative) else path.read_bytes()
        if data.startswith(binaries.ELF_MAGIC):
            data = _relocatable(data, "$ORIGIN/../..")
        elif relative in ("site.py", "sysconfig.py", "sysconfig/__init__.py"):
            # Debian's, as upstream has them: installs go to site-packages below the prefix.
            data = data.replace(b'"dist-packages")', b'"site-packages")')
            data = data.replace(b"prefix_scheme = 'posix_local'", b"prefix_scheme = 'posix_prefix'")
        yield f"{place}/{relative}", data, False
    headers = Path(sysconfig.get_path("include"))
    for path in _walk(headers):
        yield (
            f"include/python{version}/{path.relative_to(headers).as_posix()}",
            path.read_bytes(),
            False,
        )
    yield "LICENSE.txt", _licence(stdlib), False


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.endswith("-packages"))
        yield from (Path(root, name) for name in sorted(names))


def _relocatable(data: bytes, rpath: str) -> bytes:
    built_in = _build_time_variables()
    folders = {
        sys.base_prefix,
        str(built_in.get("abs_srcdir", "")),
        str(built_in.get("abs_builddir", "")),
    }
    # /usr is every machine's: nothing to hide, and too common a string to touch.
    return binaries.relocatable(
        data, rpath, sorted(f for f in folders if f.count("/") > 1 and f != "/usr/local")
    )


def _build_time_variables() -> Mapping[str, Any]:
    name = sysconfig._get_sysconfigdata_name()  # type: ignore[attr-defined]
    variables: Mapping[str, Any] = __import__(name, fromlist=["build_time_vars"]).build_time_vars
    return variables


def _sysconfig(name: str) -> bytes:
    """The build-time variables without a path of this machine, in the format of the file's name."""
    variables = {key: _portable(value) for key, value in _build_time_variables().items()}
    lib = f"{PREFIX_TOKEN}/lib"
    fixed = {
        "prefix": PREFIX_TOKEN,
        "exec_prefix": PREFIX_TOKEN,
        "LIBDIR": lib,
        "BINDIR": f"{PREFIX_TOKEN}/bin",
    }
    variables |= {key: value for key, value in fixed.items() if key in variables}
    if name.endswith(".json"):
        return json.dumps(variables, indent=2, sort_keys=True).encode()
    return f"build_time_vars = {pprint.pformat(variables)}\n".encode()


def _portable(value: Any) -> Any:
    if not isinstance(value, str) or "/" not in value:
        return value
    # The source and build folders are gone; flags that name them, or another fixed place, would
    # only mislead.
    value = re.sub(rf"{re.escape(sys.base_prefix)}(?=/|\W|$)", PREFIX_TOKEN, value)
    words = value.split(" ")
    return " ".join(w for w in words if all(p.startswith(_SYSTEM_TOOLS) for p in _PATH.findall(w)))


def _licence(stdlib: Path) -> bytes:
    base = Path(sys.base_prefix)
    for place in (stdlib / "LICENSE.txt", base / "LICENSE", base / "LICENSE.txt"):
        if place.is_file():
            return place.read_bytes()
    raise BuildFailed("this Python comes without its licence", "run the build with another Python")
