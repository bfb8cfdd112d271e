"""Makes the sources that consist of names: stubs of the driver, and import libraries for Windows.

They lie beside the artefacts that have the names, so recipes name them as they name artefacts. The
names of a stub are those that the toolkit's headers declare, read by pycparser; those of an import
library are the exports of its DLL, read by lief. Zig is the compiler and the dlltool, for all
machines: its wheel is fetched only where something is to be made. The same names give the same
bytes, on any machine.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import re
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pycparser import c_ast
from pycparser.c_parser import CParser, ParseError
from pydantic import TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.children import run_program
from ctk.core.disk import disk_errors
from ctk.core.errors import BuildFailed
from ctk.core.files import holds, make_folder, replace_file
from ctk.core.locks import held
from ctk.core.memo import Memo, memo
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import derived_at, fetch, laid_out, lay_out, stored_as
from ctk.index.index import Index
from ctk.lock import derived
from ctk.lock.derived import Derived, Stub
from ctk.lock.model import Artefact
from ctk.package.binaries import parse_pe

# Target, file, sha256, size.
_ZIG_FILES = (
    (
        "linux-64",
        "manylinux_2_12_x86_64.manylinux2010_x86_64.musllinux_1_1_x86_64",
        "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
        101083562,
    ),
    (
        "linux-aarch64",
        "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
        "b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e",
        98063064,
    ),
)
ZIG: Mapping[str, Artefact] = {
    target: Artefact(
        component="zig",
        distribution="ziglang",
        version=derived.ZIG_VERSION,
        target=target,
        file=f"ziglang-{derived.ZIG_VERSION}-py3-none-{tags}.whl",
        sha256=sha256,
        size=size,
    )
    for target, tags, sha256, size in _ZIG_FILES
}
"""The platform of this machine -> the wheel of Zig. Another version may write other bytes."""
ZIG_CACHES = ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
"""Environment variables that name the folders of Zig's own cache."""
# What its compiler needs to read headers and to link without a C library: half of the wheel.
_ZIG_PARTS = re.compile(
    r"ziglang/(zig|lib/(include|std)/.*"
    r"|lib/libc/include/(generic-musl|any-linux-any|(x86|x86_64|aarch64)-linux-(musl|any))/.*)"
)
_COMPILED_FOR = {"linux-64": "x86_64-linux-musl", "linux-aarch64": "aarch64-linux-musl"}
_DLLTOOL_MACHINE = {"win-64": "i386:x86-64", "win-arm64": "arm64"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_ENTRY_POINT = "DllMain"  # nvperf_host.dll exports its own, which no program may import
_CODE = 0x20000000  # IMAGE_SCN_MEM_EXECUTE, of a section

# Words of GNU's C that headers use and the parser does not know.
_PLAIN_C = (
    "-U__GNUC__",
    "-D__attribute__(x)=",
    "-D__extension__=",
    "-D__inline=",
    "-D__restrict=",
)
# The types of other projects that the headers of the driver name. Only names of functions are
# taken, so any type does.
_FOREIGN = {
    "GL/gl.h": "typedef unsigned int GLuint, GLenum;",
    "EGL/egl.h": (
        "typedef int EGLint; typedef unsigned int EGLBoolean, EGLenum;"
        " typedef void *EGLDisplay, *EGLSyncKHR, *EGLImageKHR, *EGLStreamKHR;"
    ),
    "EGL/eglext.h": "",
    "vdpau/vdpau.h": (
        "typedef unsigned int VdpDevice, VdpVideoSurface, VdpOutputSurface, VdpStatus,"
        " VdpFuncId; typedef VdpStatus VdpGetProcAddress(VdpDevice, VdpFuncId, void **);"
    ),
}
_NOTE = """These files were made of names by cuda-feedstocks, and hold no byte of NVIDIA's.
The names are those that {file} declares or exports (sha256 {sha256}).
"""
_SHA256 = TypeAdapter(str)


def derive(
    sources: Sequence[Derived], workspace: Workspace, index: Callable[[], Index]
) -> list[Path]:
    """Makes derived sources available to recipes; returns their paths in the same order.

    Their artefacts are laid out. The index is opened only if Zig is not in the cache and something
    is to be made.

    Raises:
        BuildFailed: A header cannot be read, or a DLL, or Zig fails.
        NotPublished, HashMismatch: The index lacks the locked Zig.
    """
    places = []
    with ExitStack() as files:
        maker = Maker(workspace, index, files)
        for source in sources:
            sha256 = _made_before(source, workspace)
            if sha256 is None:
                content = _packed(source, maker)
                sha256 = _note(source, workspace).write(_keep(content, workspace))
            place = derived_at(source, workspace)
            with disk_errors(workspace.artefacts):
                places.append(lay_out(stored_as(sha256, workspace), place))
    return places


def tools_for(sources: Sequence[Derived], workspace: Workspace) -> list[Artefact]:
    """What `derive` fetches if it is not there: so it can be fetched beside other artefacts."""
    if all(_made_before(source, workspace) for source in sources):
        return []
    return [ZIG[this_platform()]]


def _note(source: Derived, workspace: Workspace) -> Memo[str]:
    return memo(workspace.notes / "derived", _decisive(source), _SHA256)


def _made_before(source: Derived, workspace: Workspace) -> str | None:
    """The sha256 of a derived source that is in the store; None if it is to be made."""
    sha256 = _note(source, workspace).read()
    return sha256 if sha256 and holds(stored_as(sha256, workspace), sha256) else None


def _decisive(source: Derived) -> list[str]:
    """All that decides the bytes of a derived source."""
    return [source.kind, source.artefact.sha256, derived.ZIG_VERSION, str(derived.REVISION)]


def _keep(content: bytes, workspace: Workspace) -> str:
    """Puts a derived source into the store; returns its sha256."""
    sha256 = hashlib.sha256(content).hexdigest()
    home = stored_as(sha256, workspace)
    with disk_errors(workspace.store):
        make_folder(home.parent)
        replace_file(home, content)
        home.chmod(0o444)
    return sha256


# ---- making


@dataclass
class Maker:
    """Zig, unpacked when it is first needed, and a folder for its files.

    Attributes:
        files: Removes the folder at its end.
    """

    workspace: Workspace
    index: Callable[[], Index]
    files: ExitStack

    @cached_property
    def folder(self) -> Path:
        return self.files.enter_context(held(self.workspace.temporary))

    @cached_property
    def zig(self) -> Path:
        wheel = ZIG[this_platform()]
        (path,) = fetch([wheel], self.workspace, self.index)
        with disk_errors(self.folder), zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if _ZIG_PARTS.fullmatch(member.filename):
                    archive.extract(member, self.folder)
        program = self.folder / "ziglang" / "zig"
        program.chmod(0o755)
        return program

    def run(self, *words: str, cwd: Path) -> str:
        """The output of Zig in a folder; BuildFailed with its message."""
        own = dict.fromkeys(ZIG_CACHES, str(self.folder / "cache"))
        done = run_program([str(self.zig), *words], env=os.environ | own, cwd=cwd)
        if done.returncode:
            raise BuildFailed(f"zig {words[0]} fails: {done.stderr.strip()}", "report it")
        return done.stdout


def _packed(source: Derived, maker: Maker) -> bytes:
    """The zip of a derived source."""
    wheel = laid_out(source.artefact, maker.workspace)
    scratch = maker.folder / source.artefact.sha256[:16] / source.kind
    with disk_errors(scratch):
        scratch.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            made = _FILES[source.kind](source.artefact, archive, scratch, maker)
    note = _NOTE.format(file=source.artefact.file, sha256=source.artefact.sha256)
    made = {derived.NOTE: note.encode(), **made}
    packed = io.BytesIO()
    # Not compressed: another zlib would write other bytes.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(made.items()):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.external_attr = 0o100644 << 16
            archive.writestr(member, content)
    return packed.getvalue()


def _stubs(
    artefact: Artefact, wheel: zipfile.ZipFile, scratch: Path, maker: Maker
) -> dict[str, bytes]:
    """The stub of a driver's library, by its place."""
    stub = derived.STUB_OF[artefact.component]
    functions = _declared(stub, wheel, scratch, maker)
    lines = []
    for name, is_status in sorted(functions.items()):
        value = stub.value if is_status else 0
        lines.append(f"int {name}(void) {{ return {value}; }}\n")
    (scratch / "stub.c").write_text("".join(lines))
    link = ("-shared", "-nostdlib", "-s", f"-Wl,-soname,{stub.soname}")
    target = ("-target", _COMPILED_FOR[artefact.subdir])
    # Names of the C library and of the compiler are no names of this library.
    compile_ = (
        "-w",
        "-O2",
        "-fno-builtin",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
    )
    files = ("-o", stub.library, "stub.c")
    maker.run("cc", *(target + compile_ + link + files), cwd=scratch)
    member = derived.stub_member(stub, wheel.namelist())
    return {member: (scratch / stub.library).read_bytes()}


def _imports(
    artefact: Artefact, wheel: zipfile.ZipFile, scratch: Path, maker: Maker
) -> dict[str, bytes]:
    """The import libraries that a wheel lacks, by their places."""
    names = wheel.namelist()
    made = {}
    for library, dll in derived.import_libraries(names, artefact.subdir).items():
        path = Path(wheel.extract(dll, scratch))
        exports = _exports(path)
        path.unlink()
        made[library] = _import_library(posixpath.basename(dll), exports, artefact, scratch, maker)
    if driver := derived.driver_import(artefact, names):
        stub = derived.STUB_OF[artefact.component]
        exports = dict.fromkeys(_declared(stub, wheel, scratch, maker), "")
        made[driver] = _import_library(stub.windows, exports, artefact, scratch, maker)
    return made


_FILES = {derived.IMPORTS: _imports, derived.STUBS: _stubs}


def _import_library(
    dll: str, exports: Mapping[str, str], artefact: Artefact, scratch: Path, maker: Maker
) -> bytes:
    """The import library of a DLL with these exports, each with its word for a .def file."""
    lines = [f"{name}{word}\n" for name, word in sorted(exports.items())]
    (scratch / "exports.def").write_text(f"LIBRARY {dll}\nEXPORTS\n{''.join(lines)}")
    machine = _DLLTOOL_MACHINE[artefact.subdir]
    words = ("-d", "exports.def", "-l", "imports.lib", "-m", machine, "--no-leading-underscore")
    maker.run("dlltool", *words, cwd=scratch)
    return (scratch / "imports.lib").read_bytes()


def _exports(dll: Path) -> dict[str, str]:
    """The names that a DLL exports; " DATA" for a variable, else ""."""
    parsed = parse_pe(dll, without=["imports"])
    table = parsed and parsed.get_export()
    if not table:
        raise BuildFailed(f"{dll.name} exports nothing that can be read", "look at that file")
    code = [
        range(section.virtual_address, section.virtual_address + section.virtual_size)
        for section in parsed.sections
        if section.characteristics & _CODE
    ]
    found = {}
    for entry in table.entries:
        if entry.name and str(entry.name) != _ENTRY_POINT:
            is_code = entry.is_forwarded or any(entry.address in part for part in code)
            found[str(entry.name)] = "" if is_code else " DATA"
    return found


# ---- the functions that headers declare


def _declared(stub: Stub, wheel: zipfile.ZipFile, scratch: Path, maker: Maker) -> dict[str, bool]:
    """The functions of a driver's library, and whether each returns its status type."""
    folder = derived.header_folder(stub, wheel.namelist())
    own, foreign = scratch / "own", scratch / "foreign"
    own.mkdir(exist_ok=True)
    for member in wheel.namelist():
        if posixpath.dirname(member) == folder and member.endswith(".h"):
            (own / posixpath.basename(member)).write_bytes(wheel.read(member))
    for name, text in _FOREIGN.items():
        (foreign / name).parent.mkdir(parents=True, exist_ok=True)
        (foreign / name).write_text(text)
    headers = [f"own/{name}" for name in stub.headers if (own / name).exists()]
    # One of them names types of another project, and does not include them.
    included = [f"foreign/{name}" for name in _FOREIGN] + headers
    lines = [f'#include "{name}"\n' for name in included]
    (scratch / "all.c").write_text("".join(lines))
    words = ("-target", _COMPILED_FOR["linux-64"], *_PLAIN_C, f"-D{stub.macro}")
    text = maker.run("cc", *words, "-Iown", "-Iforeign", "-E", "all.c", cwd=scratch)
    return dict.fromkeys(stub.others, True) | _functions(text, headers, stub.status)


def _functions(text: str, headers: Collection[str], status: str) -> dict[str, bool]:
    """The functions that headers declare, in the text that the preprocessor makes of them."""
    try:
        tree = CParser().parse(text)
    except ParseError as error:
        step = "report it, with the version of the toolkit"
        raise BuildFailed(f"a header of the driver cannot be read: {error}", step) from error
    found = {}
    for node in tree.ext:
        is_declared = isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl)
        is_own = is_declared and posixpath.normpath(node.coord.file) in headers
        if is_own and "static" not in node.storage:
            found[node.name] = _is_named(node.type.type, status)
    return found


def _is_named(node: c_ast.Node, name: str) -> bool:
    """Whether a type is the one of that name."""
    inner = node.type if isinstance(node, c_ast.TypeDecl) else node
    return isinstance(inner, c_ast.IdentifierType) and inner.names == [name]
