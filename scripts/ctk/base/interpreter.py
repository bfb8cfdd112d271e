"""The interpreter that runs this process as a relocatable tree: what the base channel's ``python`` is made of.

Left out are test suites, Tk, byte code, the static library, and everything that was installed into it. System
libraries that extension modules need (OpenSSL, libffi, SQLite, zlib, ...) stay the machine's own. Builds with a shared
libpython, Debian's patched ones, and free-threaded ones are known to work.
"""

from __future__ import annotations

import json
import os
import pprint
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ctk.core.errors import BuildFailed
from ctk.package import elf_edit

# Stands for the environment in text files until the recipe puts the real prefix there.
PREFIX_TOKEN = "@PREFIX@"

_LEFT_OUT = re.compile(
    r"""(^|.*/)(__pycache__|tests?|idlelib|turtledemo|tkinter|(site|dist)-packages|config-[^/]*)/.*
    |(lib-dynload/)?(_tkinter|_test|_xx|xx|_ctypes_test)[^/]*\.so
    |turtle\.py|sitecustomize\.py|EXTERNALLY-MANAGED|_distutils_system_mod\.py|build-details\.json
    |.*\.(pyc|a|exe|orig)""",
    re.VERBOSE,
)
_SYSCONFIG = re.compile(r"_sysconfig(data|_vars)_.*\.(py|json)")
# An absolute path inside a word, alone or after what flags put in front of one.
_PATH = re.compile(r"""(?:^|[=:,'"(]|-[IL])(/\w[\w.+-]*/?)""")
_SYSTEM_TOOLS = ("/bin/", "/dev/")


def short_version() -> str:
    """``3.13``, with a ``t`` when free-threaded: the name of its folder in ``lib``."""
    threads = "t" if "t" in getattr(sys, "abiflags", "") else ""
    return f"{sys.version_info.major}.{sys.version_info.minor}{threads}"


def python_tag() -> str:
    """The wheel tag of the running Python, e.g. ``cp313`` or ``cp314t``."""
    return "cp" + short_version().replace(".", "")


def fingerprint() -> tuple[Any, ...]:
    """What identifies the tree without reading it: two equal values mean the same files."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    parts = [_executable(), stdlib / "os.py", stdlib / "site.py", stdlib / "lib-dynload"]
    return sys.version, sys.base_prefix, *((str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in parts)


def _executable() -> Path:
    """The interpreter itself, outside any virtual environment; Python keeps its name for `venv`."""
    return Path(sys._base_executable).resolve()  # type: ignore[attr-defined]


def files() -> Iterator[tuple[str, bytes, bool]]:
    """Every file of the tree: path below the environment, content, whether it is executable.

    Raises:
        BuildFailed: When this Python cannot be made relocatable.
    """
    if not sys.platform.startswith("linux"):
        raise BuildFailed(f"the base channel is made on linux only, this is {sys.platform}", "use `--base conda-forge`")
    version, prefix = short_version(), sys.base_prefix
    executable = _executable().read_bytes()
    yield f"bin/python{version}", _relocatable(executable, "$ORIGIN/../lib"), True
    for name in elf_edit.needed(executable):
        if name.startswith("libpython"):
            library = Path(sysconfig.get_config_var("LIBDIR")) / name
            yield f"lib/{name}", _relocatable(library.read_bytes(), "$ORIGIN"), True
    stdlib, place = Path(sysconfig.get_path("stdlib")), f"{sys.platlibdir}/python{version}"
    for path in _walk(stdlib):
        relative = path.relative_to(stdlib).as_posix()
        if _LEFT_OUT.fullmatch(relative):
            continue
        if _SYSCONFIG.fullmatch(relative):
            if not path.is_symlink():
                yield f"{place}/{relative}", _sysconfig(relative, prefix), False
            continue
        data = path.read_bytes()
        if elf_edit.is_elf(data):
            data = _relocatable(data, "$ORIGIN/../..")
        elif relative in ("site.py", "sysconfig.py", "sysconfig/__init__.py"):
            data = _undistributed(data.decode()).encode()
        yield f"{place}/{relative}", data, False
    headers = Path(sysconfig.get_path("include"))
    for path in _walk(headers):
        yield f"include/python{version}/{path.relative_to(headers).as_posix()}", path.read_bytes(), False
    yield "LICENSE.txt", _licence(stdlib), False


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.endswith("-packages"))
        yield from (Path(root, name) for name in sorted(names))


def _relocatable(data: bytes, rpath: str) -> bytes:
    built_in = _build_time_variables()
    folders = {sys.base_prefix, str(built_in.get("abs_srcdir", "")), str(built_in.get("abs_builddir", ""))}
    # /usr is every machine's: nothing to hide, and too common a string to touch.
    return elf_edit.relocatable(data, rpath, sorted(f for f in folders if f.count("/") > 1 and f != "/usr/local"))


def _undistributed(text: str) -> str:
    """Debian's ``site`` and ``sysconfig`` as upstream has them: installs go to ``site-packages`` below the prefix."""
    text = text.replace('"dist-packages")', '"site-packages")')
    return re.sub(r"prefix_scheme = 'posix_local'", "prefix_scheme = 'posix_prefix'", text)


def _sysconfig(name: str, prefix: str) -> bytes:
    """The build-time variables without a path of this machine, in the format that the file's name asks for."""
    variables = {key: _portable(value, prefix) for key, value in _build_time_variables().items()}
    lib = f"{PREFIX_TOKEN}/lib"
    fixed = {"prefix": PREFIX_TOKEN, "exec_prefix": PREFIX_TOKEN, "LIBDIR": lib, "BINDIR": f"{PREFIX_TOKEN}/bin"}
    variables |= {key: value for key, value in fixed.items() if key in variables}
    if name.endswith(".json"):
        return json.dumps(variables, indent=2, sort_keys=True).encode()
    return f"build_time_vars = {pprint.pformat(variables)}\n".encode()


def _build_time_variables() -> Mapping[str, Any]:
    name = sysconfig._get_sysconfigdata_name()  # type: ignore[attr-defined]
    variables: Mapping[str, Any] = __import__(name, fromlist=["build_time_vars"]).build_time_vars
    return variables


def _portable(value: Any, prefix: str) -> Any:
    if not isinstance(value, str) or "/" not in value:
        return value
    # The source and build folders are gone; flags that name them, or another fixed place, would only mislead.
    value = re.sub(rf"{re.escape(prefix)}(?=/|\W|$)", PREFIX_TOKEN, value)
    words = value.split(" ")
    return " ".join(w for w in words if all(p.startswith(_SYSTEM_TOOLS) for p in _PATH.findall(w)))


def _licence(stdlib: Path) -> bytes:
    for place in (stdlib / "LICENSE.txt", Path(sys.base_prefix) / "LICENSE", Path(sys.base_prefix) / "LICENSE.txt"):
        if place.is_file():
            return place.read_bytes()
    try:
        builtin = __import__("builtins").license
        return str(builtin).encode()
    except AttributeError:
        raise BuildFailed("this Python comes without its licence", "run the build with another Python") from None
