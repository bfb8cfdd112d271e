"""Each check passes a set of good packages, and finds the packages that break its rule.

``messages.txt`` has what the checks say of these packages. Run as a program, this file writes it
anew; review each changed line, and search the tests and the docs for the old words:
``PYTHONPATH=tests .venv/bin/python tests/unit/audit/test_audit_checks.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from ctk.audit import CHECKS, AuditReport, audit_packages
from ctk.audit.exempt import EXEMPTIONS
from ctk.audit.files import LicenseIsInside
from ctk.audit.planned import planned_scan
from ctk.build.originals import PackageFiles
from ctk.package.reader import (
    PLACEHOLDER,
    IndexJson,
    PackageInfo,
    PathEntry,
    Promise,
    ScannedFile,
)
from ctk.package.scan import PackageScan
from ctk.plan.rendered import Rendered
from ctk.rules import Finding
from kit.binaries import code, elf, fatbin, pe
from kit.packages import CTK, GLIBC, SITE, SITE_WIN, TARGET, Draft, adds_dlls_of, good_set
from kit.small_channels import sound

MESSAGES = Path(__file__).with_name("messages.txt")
HEAD = """\
# What each check of packages says of the packages in test_audit_checks.py that break its rule: the
# name of the check, how to repair it, the case, and the path in the package with the message.
#
# Written by `PYTHONPATH=tests .venv/bin/python tests/unit/audit/test_audit_checks.py`; each line
# was reviewed.
"""
ROOT = "/home/builder/checkout"
DEEP = f"opt/builder/host_env{PLACEHOLDER}_placehold"

Drafts = dict[str, Draft]
Break = Callable[[Drafts], object]


def change(name: str, **changes: object) -> Break:
    """Changes a package of the good set; mappings are added to."""
    return lambda drafts: drafts.update({name: drafts[name].with_(**changes)})


def add(name: str, subdir: str = "linux-64", **fields: object) -> Break:
    """Adds a package to the good set."""
    return lambda drafts: drafts.update({name: Draft(name, subdir=subdir, **fields)})


def two_libraries(folder: str) -> dict[str, bytes]:
    """A library that needs another one beside it, without an RPATH."""
    return {f"{folder}/libone.so.1": elf(("libtwo.so.1",)), f"{folder}/libtwo.so.1": elf()}


def module(**fields: object) -> dict[str, bytes]:
    """The runtime module of cuda-bindings, with other contents."""
    return {
        f"{SITE}/cuda/bindings/_internal/runtime.cpython-312-x86_64-linux-gnu.so": elf(**fields)
    }


def binary(name: str, path: str, needed: Sequence[str] = ("libc.so.6",), **fields: object) -> Break:
    """Adds an ELF file to a package of the good set."""
    return change(name, files={path: elf(needed, **fields)})


def library(needed: Sequence[str] = ("libc.so.6",), **fields: object) -> Break:
    """Adds a library to libcufile."""
    return binary("libcufile", "lib/libx.so.1", needed, **fields)


def same_files(*paths: str) -> Break:
    """Two packages with files of the same paths."""
    files = dict.fromkeys(paths, b"")
    return lambda drafts: drafts.update(
        one=Draft("one", files=files), two=Draft("two", files=files)
    )


def for_gpus(*constrains: str, name: str = "libone") -> Break:
    """A toolkit that knows 5.0, 7.0 and 8.0, and a library of it for 8.0 alone."""
    toolkit = {"constrains": ["__cuda_arch ==5.0|==7.0|==8.0"]}
    return lambda drafts: drafts.update(
        toolkit=Draft("cuda-version", "12.9", "native_100", "noarch", licenses={}, index=toolkit),
        one=Draft(
            name,
            build="h1_0",
            depends=("cuda-version 12.9.*", "__glibc >=2.17,<3.0.a0"),
            files={
                f"{TARGET}/libone.so.1": elf(
                    ("libc.so.6",), rpath="$ORIGIN", payload=fatbin(code("cubin", "80"))
                )
            },
            index={"constrains": constrains},
        ),
    )


# Check -> name of a case -> the change that breaks its rule, and a part of the message.
APACHE = b"Apache License\n    Version 2.0, January 2004\n"
UNREAD_FILES = PackageFiles(words={"not-named": 1}, not_named=("lib/x",), unread=("c" * 64,))
BROKEN: dict[str, dict[str, tuple[Break, str]]] = {
    "LicenceTextsAreRead": {
        "a text that nobody has read": (
            lambda drafts: drafts.update(libcufile=sound(drafts["libcufile"], files=UNREAD_FILES)),
            "nobody has read the licence text cccc",
        ),
    },
    "LicenseIsInside": {
        "no licence": (change("libcufile", index={"license": ""}), "no licence named"),
        "no licence text": (change("libcufile", licenses={}), "no licence text"),
        "a licence text without a word": (
            change("libcufile", licenses={"LICENSE": b""}),
            "the licence text is empty",
        ),
        "a licence without its text": (
            change(
                "libcufile",
                index={"license": "Apache-2.0 WITH LLVM-exception"},
                licenses={"LICENSE": APACHE},
            ),
            "no text of LLVM-exception",
        ),
    },
    "NoBuildPath": {
        "the checkout in a text": (
            change("cuda-cudart-dev", files={"lib/x.pc": f"at {ROOT}/x".encode()}),
            ROOT,
        ),
        "the checkout in metadata": (
            change("libcufile", info={"about.json": f'"{ROOT}"'.encode()}),
            ROOT,
        ),
        "a placeholder that nobody replaces": (
            change("libcufile", files={"bin/x": f"/{DEEP}".encode()}),
            "placeholder",
        ),
        "the checkout twice in one text": (
            change("libcufile", files={"share/x": f"{ROOT}/x {ROOT}/y".encode()}),
            "(2 times)",
        ),
    },
    "ArchiveMatchesPaths": {
        "a file that is missing": (
            change("libcufile", listed={"lib/gone": {"size_in_bytes": 1}}),
            "missing in the",
        ),
        "a file that nobody listed": (
            change("libcufile", listed={"lib/libcufile.so.0": None}),
            "in the archive,",
        ),
        "a link that is listed as a file": (
            change(
                "cuda-cudart",
                links={"lib/x": "libcudart.so.13"},
                listed={"lib/x": {"path_type": "hardlink"}},
            ),
            "contains a link",
        ),
        "another size": (
            change("libcufile", files={"share/x": b"x"}, listed={"share/x": {"size_in_bytes": 2}}),
            "says 2 bytes",
        ),
        "another content": (
            change("libcufile", files={"share/x": b"x"}, listed={"share/x": {"sha256": "0" * 64}}),
            "sha256",
        ),
    },
    "LinksStayInside": {
        "an absolute link": (change("cuda-cudart", links={"lib/x": "/usr/lib/x"}), "absolute"),
        "a link out of the prefix": (
            change("cuda-cudart", links={"lib/x": "../../x"}),
            "out of the prefix",
        ),
        "a link on Windows": (
            change("cuda-nvrtc", links={"Library/bin/x": "nvrtc64_130_0.dll"}),
            "Windows",
        ),
    },
    "BareNameOnlyInDev": {
        "a link for linkers in the library's package": (
            change("cuda-cudart", links={"lib/libcudart.so": "libcudart.so.13"}),
            "bare name",
        ),
        "a library under its bare name": (
            binary("libcufile", f"{TARGET}/libcufile.so", soname="libcufile.so.0", versions=GLIBC),
            "bare name",
        ),
    },
    "ExtensionsFitThePython": {
        "a module in another Python's folder": (
            binary("cuda-bindings", f"{SITE}/x.cpython-313-x86_64-linux-gnu.so", versions=GLIBC),
            "3.13",
        ),
        "a module of another Python in the Python": (
            add(
                "python",
                version="3.12.4",
                depends=("__glibc >=2.17",),
                files={"lib/python3.11/lib-dynload/x.cpython-311-x86_64-linux-gnu.so": elf()},
            ),
            "3.11",
        ),
        "a module in a package for any Python": (
            change("cuda-version", files={"site-packages/x.cp312-win_amd64.pyd": b""}),
            "noarch",
        ),
        "a free-threaded module for the Python with a lock": (
            change("cuda-core", files={"Lib/site-packages/x.cp312t-win_amd64.pyd": pe()}),
            "3.12t",
        ),
    },
    "BinariesAreReadable": {
        "a library cut short": (
            change("libcufile", files={"lib/libx.so.1": elf()[:200]}),
            "not a readable ELF",
        ),
        "a DLL cut short": (
            change("cuda-nvrtc", files={"Library/bin/x.dll": pe()[:70]}),
            "not a readable PE",
        ),
    },
    "BinariesFitTheSubdir": {
        "a library of the other machine": (library(machine="aarch64"), "aarch64"),
        "a library for any machine": (binary("cuda-version", "lib/libx.so.1"), "any machine"),
    },
    "RpathIsRelative": {
        "the current directory": (library(runpath="$ORIGIN:"), "current directory"),
        "an absolute folder": (library(rpath="/usr/local/cuda/lib64"), "relative"),
        "a folder of the wheels": (
            change("cuda-bindings", files=module(rpath="$ORIGIN/../../nvidia/cu13/lib")),
            "the wheel's layout",
        ),
        "a folder of bundled libraries that is not there": (
            change("cuda-bindings", files=module(rpath="$ORIGIN/../../x.libs")),
            "the wheel's layout",
        ),
        "a folder out of the prefix": (library(rpath="$ORIGIN/../.."), "leaves"),
    },
    "StubsAreForLinkers": {
        "an RPATH to the stubs": (library(rpath="$ORIGIN/stubs"), "leads to a folder of stubs"),
        "a stub that a loader finds": (
            change("cuda-cudart-dev", files={f"{TARGET}/stubs/libcuda.so.1": elf(())}),
            "would take this stub",
        ),
        "a stub that needs something": (
            change("cuda-cudart-dev", files={f"{TARGET}/stubs/libcuda.so": elf(("libm.so.6",))}),
            "this stub needs libm.so.6",
        ),
    },
    "FilesAreInTheirPlace": {
        "a library of a package of files that lacks a number": (
            add(
                "libcurand-files",
                version="10.4.5.25",
                depends=("cuda-version >=13.4,<13.5.0a0", "__glibc >=2.17,<3.0.a0"),
                files={
                    f"{TARGET}/libcurand.so.10.4.5": elf(
                        ("libc.so.6",), soname="libcurand.so.10", rpath="$ORIGIN"
                    )
                },
            ),
            "libcurand.so.10.4.5.25",
        ),
        "a DLL where nothing looks for it": (
            change("cuda-nvrtc", files={"Library/bin/x64/x.dll": pe()}),
            "no package",
        ),
        "a DLL among the import libraries": (
            change("cuda-nvrtc", files={"Library/lib/x.dll": pe()}),
            "Library/bin/",
        ),
        "libdevice in another place": (
            change("cuda-nvvm-impl", files={"lib/libdevice.10.bc": b""}),
            "nvvm/libdevice/",
        ),
        "a real library among the links": (
            binary(
                "cuda-cudart",
                "lib/libx.so.1.2.3",
                soname="libx.so.1",
                versions=GLIBC,
                runpath="$ORIGIN",
            ),
            f"{TARGET}/",
        ),
        "NVTX's header among those of other packages of NVTX": (
            change("cuda-nvrtc", files={"Library/include/nvtx3/nvToolsExt.h": b""}),
            "Library/include/targets/x64/",
        ),
    },
    "RpathIsTheLayouts": {
        "a library without an RPATH": (
            binary(
                "cuda-cudart_linux-64",
                f"{TARGET}/libx.so.13.4.92",
                ("libcudart.so.13",),
                soname="libx.so.13",
            ),
            "should have RPATH $ORIGIN",
        ),
        "a library without an RPATH that opens another": (
            binary(
                "cuda-cudart_linux-64",
                f"{TARGET}/libcupti.so.13",
                ("libc.so.6",),
                soname="libcupti.so.13",
            ),
            "should have RPATH $ORIGIN",
        ),
        "a library that LD_LIBRARY_PATH sends to another toolkit": (
            binary(
                "cuda-cudart_linux-64",
                f"{TARGET}/libx.so.13.4.92",
                soname="libx.so.13",
                versions=GLIBC,
                runpath="$ORIGIN",
            ),
            "it has RUNPATH $ORIGIN, but should have RPATH $ORIGIN",
        ),
        "a patched libNVVM": (
            binary(
                "cuda-nvvm-impl",
                "nvvm/lib64/libnvvm.so.4.0.0",
                soname="libnvvm.so.4",
                versions=GLIBC,
                rpath="$ORIGIN",
            ),
            "should have no RPATH",
        ),
    },
    "CudartIsInside": {
        "bindings without cudart": (
            change("cuda-bindings", files=module()),
            "no module has cudart",
        ),
        "bindings that need cudart": (
            binary("cuda-bindings", f"{SITE}/x.so", ("libcudart.so.13",)),
            "libcudart.so.13",
        ),
    },
    "FilesHaveOneOwner": {
        "two packages with one file": (
            add("other", files={"lib/libcufile.so.0": b"mine"}),
            "other-1.0",
        ),
        "two packages with two files": (same_files("share/a", "share/b"), "as is 1 more file;"),
        "two packages with three files": (
            same_files("share/a", "share/b", "share/c"),
            "as are 2 more files;",
        ),
        "two packages with one file but for its case": (
            add("other", "win-64", files={"library/bin/NVRTC64_130_0.dll": b"mine"}),
            "other-1.0",
        ),
    },
    "LinksLeadSomewhere": {
        "a link to nothing": (
            change("cuda-cudart", links={"lib/libx.so.1": "libx.so.1.0"}),
            "libx.so.1.0",
        ),
        "a link into a package that may be absent": (
            change("libcufile", links={"lib/libcudart.so.13.4": f"../{TARGET}/libcudart.so.13"}),
            "no package that is installed with it",
        ),
    },
    "NeededIsProvided": {
        "a library of no package": (library(("libfoo.so.1",)), "libfoo.so.1"),
        "the C++ library without its package": (
            change("libcufile", depends=("__glibc >=2.17", "rdma-core", "libgcc")),
            "libstdc++.so.6",
        ),
        "a half whose other half forgot the C++ library": (
            change(
                "cuda-cudart",
                depends=("cuda-cudart_linux-64 ==13.4.92 h0_0", "__glibc >=2.17", "libgcc"),
            ),
            "libstdc++.so.6",
        ),
        "the C library of Windows without its package": (
            change("cuda-core", depends=("cuda-nvrtc", "python_abi 3.12.* *_cp312")),
            "VCRUNTIME140.dll",
        ),
    },
    "NeededIsFound": {
        "a library beside one without an RPATH": (
            library(("libcufile.so.0",)),
            "no folder of the environment",
        ),
        "a DLL in a folder that nothing searches": (
            change(
                "cuda-core",
                files={
                    "Library/bin/x/private.dll": pe(),
                    "Library/bin/x.dll": pe(("PRIVATE.dll",)),
                },
            ),
            "Library/bin/x/private.dll",
        ),
        "a DLL in a folder that another name is added of": (
            change(
                "cuda-core", files={f"{SITE_WIN}/cuda/core/__init__.py": adds_dlls_of("other.libs")}
            ),
            "msvcp140-0fa7.dll",
        ),
    },
    "CodeIsForItsGpus": {
        "a library dropped a GPU that its toolkit knows": (for_gpus("__cuda_arch >=7.0"), "7.0"),
        "a library dropped the GPUs between others": (for_gpus("__cuda_arch >=5.0"), "5.0 to 7.0"),
    },
    "GlibcIsDeclared": {
        "a newer glibc than declared": (
            library(versions={"libc.so.6": ["GLIBC_2.9", "GLIBC_2.34"]}),
            "2.34",
        ),
        "no glibc declared": (
            change("libcufile", depends=("libstdcxx", "rdma-core")),
            "no __glibc",
        ),
        "a half that is newer than its other half declares": (
            binary(
                "cuda-cudart_linux-64",
                f"{TARGET}/libcudart.so.13.4.92",
                versions={"libc.so.6": ["GLIBC_2.28"]},
            ),
            "2.28",
        ),
        "a symbol that libc took over, of a library that is not needed": (
            library(imports=["shm_open"]),
            "2.34",
        ),
    },
}


def audit(drafts: Drafts, channel: Path, **options: object) -> AuditReport:
    return audit_packages(
        [draft.write(channel) for draft in drafts.values()],
        forbidden_paths=[ROOT, "/home/builder"],
        **options,
    )


def test_good_packages_pass_every_check(tmp_path: Path) -> None:
    report = audit(good_set(), tmp_path)
    assert [str(finding) for finding in report.findings] == []
    assert report.ok
    assert report.subjects == len(good_set())


def scan(
    *files: ScannedFile, listed: Sequence[str] = (), **promise: tuple[str, ...]
) -> PackageScan:
    """A package that only its recipe describes, or whose archive no tool of ours writes."""
    entries = tuple(PathEntry(path, "hardlink") for path in listed)
    promised = Promise(**promise) if promise else None
    info = PackageInfo(IndexJson("x", "1", "0", 0, "linux-64"), entries, promise=promised)
    return PackageScan("linux-64/x-1-0.conda", "", info, files)


X = ScannedFile("pkg", "lib/x", "file")
# Check -> name of a case -> a package that breaks its rule, and that is not written as a file.
SCANS: dict[str, dict[str, PackageScan]] = {
    "ArchiveMatchesPaths": {
        "a file that is listed twice": scan(X, listed=("lib/x", "lib/x")),
        "a file that is twice in the archive": scan(X, X, listed=("lib/x",)),
    },
    "KeepsItsPromises": {
        "a glob of files without a file": scan(X, files=("lib/*", "bin/*")),
        "a test of contents without a file": scan(X, contents=("lib/x", "lib/y")),
        "a file that should be absent": scan(X, absent=("bin", "**")),
    },
    "LinksStayInside": {
        "a pipe": scan(ScannedFile("pkg", "lib/x", "other")),
        "a file out of the prefix": scan(ScannedFile("pkg", "../x", "file")),
    },
}


def test_every_check_has_a_package_that_breaks_it() -> None:
    assert {*BROKEN, *SCANS} == {check.name for check in CHECKS}


def cases() -> list[tuple[str, str]]:
    """The checks in the order in which they run, each with the names of its cases."""
    names = [check.name for check in CHECKS]
    return [
        (name, case) for name in names for case in [*BROKEN.get(name, ()), *SCANS.get(name, ())]
    ]


def findings(name: str, case: str, channel: Path) -> list[Finding]:
    """What a check says of the packages of one of its cases."""
    if case in SCANS.get(name, ()):
        (check,) = (check for check in CHECKS if check.name == name)
        return list(check(SCANS[name][case]))
    drafts = good_set()
    break_it, _ = BROKEN[name][case]
    break_it(drafts)
    return [finding for finding in audit(drafts, channel).findings if finding.check == name]


def block(name: str, case: str, found: Iterable[Finding]) -> str:
    """A block of ``messages.txt``."""
    lines = [f"{name}: {case}"]
    for finding in found:
        lines.append(f"  {finding.severity}: {finding.path or finding.where}: {finding.message}")
        lines.append(f"    {finding.fix}")
    return "\n".join(lines)


def read_messages() -> dict[str, str]:
    """The head of each block of ``messages.txt`` -> the block."""
    blocks = MESSAGES.read_text().removeprefix(HEAD).strip().split("\n\n")
    return {block.partition("\n")[0]: block for block in blocks}


@pytest.mark.parametrize(
    ("check", "case"),
    [pytest.param(check, case, id=f"{check}: {case}") for check, case in cases()],
)
def test_a_check_catches(check: str, case: str, tmp_path: Path) -> None:
    found = findings(check, case, tmp_path)
    assert found, f"{check} does not see {case}"
    if case in BROKEN.get(check, ()):
        _, word = BROKEN[check][case]
        assert any(word in str(finding) for finding in found), [str(finding) for finding in found]
    assert block(check, case, found) == read_messages()[f"{check}: {case}"]


def test_a_check_that_reads_what_only_a_built_package_has_says_that_it_needs_a_build() -> None:
    output = Rendered(
        *("tool", "1.0", "0", 0, "linux-64", "", (), "MIT"),
        variant={},
        depends=(),
        constrains=(),
        run_exports={},
        environment=(),
        sources=(),
    )
    scan = planned_scan(output, [ScannedFile("pkg", "share/tool.txt", "file")])
    of_packages = [check for check in CHECKS if check.subject is PackageScan]
    wrong = [check.name for check in of_packages if not check.needs_build and [*check(scan)]]
    assert not wrong, "write needs_build=True where they are registered: `@check(...)`"
    assert LicenseIsInside.needs_build and [*LicenseIsInside(scan)]


def test_the_messages_are_of_cases_that_there_are() -> None:
    assert [*read_messages()] == [f"{check}: {case}" for check, case in cases()]


# Changes that break no rule.
ALLOWED: dict[str, Break] = {
    "a library is for fewer GPUs than its toolkit, and says so": for_gpus("__cuda_arch >=8.0"),
    "a library that nobody may lack is for fewer GPUs": for_gpus(name="libcufile"),
    "packages for different minors share a file": lambda drafts: drafts.update(
        old=Draft("cuda-version", "12.9", subdir="noarch", licenses={}),
        one=Draft("old", depends=("cuda-version 12.9.*",), files={"lib/shared": b""}),
        two=Draft("new", depends=("cuda-version 13.4.*",), files={"lib/shared": b""}),
    ),
    "the home folder's name inside another path": change(
        "libcufile", files={"share/x": b"/mnt/home/builders/y"}
    ),
    "a declared placeholder": change(
        "libcufile",
        files={"bin/x": f"#!{ROOT}/b/{DEEP}/bin/sh".encode()},
        placeholders={"bin/x": f"{ROOT}/b/{DEEP}"},
    ),
    "GPU code of any machine": binary("libcufile", "share/x.cubin", machine="cuda"),
    "a link to a library known by its bare name only": change(
        "cuda-cudart",
        files={
            f"{TARGET}/libplugin.so": elf(soname="libplugin.so", versions=GLIBC, rpath="$ORIGIN")
        },
        links={"lib/libplugin.so": f"../{TARGET}/libplugin.so"},
    ),
    "Compute Sanitizer in its own folder": change(
        "cuda-nvvm-impl",
        files={
            "compute-sanitizer/include/sanitizer.h": b"",
            "compute-sanitizer/libx.so": elf(
                soname="libx.so", versions=GLIBC, rpath="$ORIGIN:$ORIGIN/../lib"
            ),
        },
        links={"lib/libx.so": "../compute-sanitizer/libx.so"},
    ),
    "a module that is imported beside PyTorch only": change(
        "cuda-core",
        files={
            "Lib/site-packages/cuda/core/_tensor_bridge.cp312-win_amd64.pyd": pe(("torch_cpu.dll",))
        },
    ),
    "cudart loaded at run time by the bindings of CUDA 12": lambda drafts: drafts.update(
        {"cuda-bindings": drafts["cuda-bindings"].with_(version="12.9.10", files=module())}
    ),
    "the driver's library": library(("libcuda.so.1",)),
    "a library of an empty package, which stands for the machine's": lambda drafts: drafts.update(
        libzlib=Draft("libzlib", subdir="noarch", licenses={}),
        libcufile=drafts["libcufile"].with_(
            depends=("__glibc >=2.17", "libstdcxx", "rdma-core", "libzlib"),
            files={f"{SITE}/x.so": elf(("libz.so.1",), versions=GLIBC)},
        ),
    ),
    "modules of a Python in the Python": add(
        "python",
        version="3.12.4",
        depends=("__glibc >=2.17",),
        files={"lib/python3.12/lib-dynload/x.cpython-312-x86_64-linux-gnu.so": elf()},
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_the_audit_allows(case: str, tmp_path: Path) -> None:
    drafts = good_set()
    ALLOWED[case](drafts)
    assert [str(finding) for finding in audit(drafts, tmp_path).findings] == []


# Check -> an exemption of the base channel: a package that has it, and one with another fault.
EXEMPT: dict[str, tuple[Break, Break]] = {
    "NeededIsProvided": (
        add("python", version="3.12.4", files={"lib/x.so": elf(("libssl.so.3",))}),
        add("pythonic", version="3.12.4", files={"lib/x.so": elf(("libssl.so.3",))}),
    ),
    "BinariesFitTheSubdir": (
        add("pip", "noarch", files={"site-packages/pip/t64.exe": pe()}),
        add("pip", "noarch", files={"site-packages/pip/t64.dll": pe()}),
    ),
    "NeededIsFound": (
        add("scipy", files=two_libraries(f"{SITE}/scipy.libs")),
        add("scipy", files=two_libraries("lib")),
    ),
    "LicenseIsInside": (
        add("cython", "noarch", files={"site-packages/x.py": b""}, licenses={}),
        add("cython2", "noarch", files={"site-packages/x.py": b""}, licenses={}),
    ),
}


def test_each_exemption_of_the_base_channel_is_tried() -> None:
    assert EXEMPT.keys() == {check for exemption in EXEMPTIONS for check in exemption.checks}


@pytest.mark.parametrize("check", EXEMPT)
def test_an_exemption_of_the_base_channel_covers_nothing_else(check: str, tmp_path: Path) -> None:
    exempt, broken = EXEMPT[check]
    for name, change_it in (("exempt", exempt), ("broken", broken)):
        drafts = good_set()
        change_it(drafts)
        report = audit(drafts, tmp_path / name)
        found = [str(finding) for finding in report.findings if finding.check == check]
        assert bool(found) is (name == "broken"), found


def test_a_module_may_look_in_the_folder_of_libraries_that_its_package_bundles(
    tmp_path: Path,
) -> None:
    drafts = good_set()
    files = {
        f"{SITE}/vision/image.so": elf(
            ("libpng16.0a1b2c3d.so.16",), rpath="$ORIGIN/../vision.libs"
        ),
        f"{SITE}/vision.libs/libpng16.0a1b2c3d.so.16": elf((), soname="libpng16.so.16"),
    }
    add("vision", files=files)(drafts)
    found = [f for f in audit(drafts, tmp_path).findings if f.check == "RpathIsRelative"]
    assert found == []


@pytest.mark.parametrize(
    ("package", "runpath", "is_right"),
    [
        ("custatevec-files", "$ORIGIN:$ORIGIN/../../nvidia/cu13/lib", True),
        ("custatevec-files", "$ORIGIN/../../nvidia/cu13/lib:$ORIGIN", False),
        ("custom", "$ORIGIN:$ORIGIN/../../nvidia/cu13/lib", False),
    ],
)
def test_what_a_licence_forbids_to_change_begins_with_origin(
    package: str, runpath: str, is_right: bool, tmp_path: Path
) -> None:
    drafts = good_set()
    file = elf(("libcublas.so.13",), soname="libcustatevec.so.1", runpath=runpath)
    add(package, files={"lib/libcustatevec.so.1": file})(drafts)
    found = [f for f in audit(drafts, tmp_path).findings if f.check == "RpathIsRelative"]
    assert (found == []) is is_right


def test_a_compiler_runtime_that_the_system_serves_is_a_hint_only(tmp_path: Path) -> None:
    drafts = good_set()
    plain = elf(("libstdc++.so.6", "libc.so.6"), soname="libcufile.so.0", versions=GLIBC)
    change("libcufile", files={"lib/libcufile.so.0": plain})(drafts)
    report = audit(drafts, tmp_path)
    assert report.ok
    assert [(finding.check, finding.severity) for finding in report.findings] == [
        ("NeededIsFound", "hint")
    ]


def test_a_base_channel_provides_libraries_without_being_audited(tmp_path: Path) -> None:
    drafts = good_set()
    drafts["libcufile"] = drafts["libcufile"].with_(
        depends=("__glibc >=2.17", "libstdcxx", "rdma-core", "libfoo"),
        files={"lib/libx.so.1": elf(("libfoo.so.1",), rpath="$ORIGIN")},
    )
    base = Draft("libfoo", licenses={}, files={"lib/libfoo.so.1": b"not even a library"}).write(
        tmp_path / "base"
    )
    assert not audit(drafts, tmp_path).ok
    assert audit(drafts, tmp_path, base=[base]).ok


@pytest.mark.parametrize("twin_brings_it", [True, False])
def test_what_a_package_of_files_needs_its_twin_may_bring(
    tmp_path: Path, twin_brings_it: bool
) -> None:
    drafts = good_set()
    library = elf(
        ("libcudart.so.13", "libc.so.6"), soname="libcurand.so.10", versions=GLIBC, rpath="$ORIGIN"
    )
    drafts["files"] = Draft(
        "libcurand-files",
        depends=("__glibc >=2.17,<3.0.a0",),
        files={f"{TARGET}/libcurand.so.1.0": library},
    )
    depends = (CTK, "libcurand-files ==1.0 h0_0", *(["cuda-cudart"] if twin_brings_it else []))
    drafts["twin"] = Draft("libcurand", depends=depends)
    found = [(finding.check, finding.message) for finding in audit(drafts, tmp_path).findings]
    if twin_brings_it:
        assert found == []
    else:
        assert [check for check, _ in found] == ["NeededIsProvided"]
        assert "needs libcudart.so.13" in found[0][1]


def main(folder: Path) -> None:
    blocks: list[str] = []
    for number, (check, case) in enumerate(cases()):
        found = findings(check, case, folder / str(number))
        blocks.append(block(check, case, found))
    MESSAGES.write_text("\n\n".join([HEAD, *blocks]) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
