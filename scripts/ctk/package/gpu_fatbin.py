"""Reads the code for GPUs in any file: machine code, PTX, and LTO-IR, which nvJitLink compiles.

NVIDIA's tools pack such code into fat binaries: a header of 16 bytes, then entries, each with a
header that states its kind and its GPU. Nothing has to be decompressed for that. The layout is not
documented. It was read from the output of ``fatbinary`` of CUDA 13.5 for each target and option,
and is compared with ``cuobjdump``, which reads only the sections made for such code: it does not
see the kernels of cuFFT 13.5, in ``.data``, and of cuTENSOR, in ``.cask_resource``.
"""

from __future__ import annotations

import mmap
import re
import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Literal

from ctk.core.errors import AuditFailed
from ctk.core.files import open_plain
from ctk.package.archives import Refused, open_zip
from ctk.package.binaries import ELF_MAGIC, PE_MAGIC, UnreadableBinary, read_binary

Kind = Literal["cubin", "ptx", "lto", "stub"]
Buffer = bytes | mmap.mmap
Stretch = tuple[int, int]
Key = tuple[Kind, str, str, str]
"""Kind, target, ISA and compression."""

FATBIN_MAGIC = b"\x50\xed\x55\xba"
_ARCHIVE_MAGIC = b"!<arch>\n"
_MAGICS = (ELF_MAGIC, PE_MAGIC, FATBIN_MAGIC, _ARCHIVE_MAGIC)
_FATBIN = struct.Struct("<4sHHQ")  # magic, version, bytes of this header, bytes of the entries
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_KINDS: dict[int, Kind] = {1: "ptx", 2: "cubin", 8: "lto"}
_TOGETHER = 256  # several entries, compressed as one: ``fatbinary --concat``
_LZ4, _ZSTD, _ARCH_SPECIFIC, _FAMILY_SPECIFIC = 0x2000, 0x8000, 0x100000, 0x200000
# bytes of an entry's header that all versions have; the last number is the length of the rest
_FIXED = 72
_MOST_HEADER = 1 << 16
# nvcc makes an object for each target even of a source file without a kernel. The largest object
# without a kernel, and the smallest with a kernel, in NVIDIA's libraries of 12.0 to 13.5 and from
# nvcc 13.5, had decompressed 1596 and 2312 bytes of machine code before 10.0, 2284 and 4842 from
# there on, 56 and 93 of PTX.
_SMALLEST, _SMALLEST_100, _SMALLEST_PTX = 2000, 3500, 80
_ELF = struct.Struct("<16sHHIQQQI")  # up to the flags
_EM_CUDA = 190
_PTX = re.compile(
    rb"\.version\s+(\d{1,3}\.\d{1,3})\s+(?:\s|//[^\n]*\n)*\.target\s+sm_(\d{2,4}[af]?)\b"
)
_LONGEST_HEAD = 512  # bytes of PTX before its target
# The message of cudart when it cannot start; its version is the number that cudaRuntimeGetVersion
# and its variant for per-thread streams store.
_CUDART_SAYS = b"startup failure in cuda runtime"
_STORES = re.compile(
    rb"\xc7(?:[\x00-\x03\x06\x07]|[\x40-\x47].|\x04.|\x44..)(?=(..\x00\x00))", re.DOTALL
)
# Beginnings of names of NVIDIA's libraries, in tables of the loader and in calls that open them.
_USED = (
    *("libcuda.so", "libcudart.so", "libnvrtc.so", "libnvJitLink.so", "libnvvm.so"),
    *("nvcuda.dll", "cudart64_", "nvrtc64_", "nvJitLink_", "nvvm64_"),
)
_RUNTIME = re.compile(r"(?:libcudart\.so\.|cudart64_)\d")
_WHOLE_NAME = re.compile(rb"[A-Za-z]\w*\.(?:so(?:\.\d+)*|dll)")
_MOST_NAMES = 100  # for each beginning


@dataclass(frozen=True, order=True)
class GpuCode:
    """Objects of the same kind and target; a ``stub`` has no kernel.

    Attributes:
        target: The number of nvcc's name, with its letter: ``75``, ``90a``, ``100f``.
        isa: PTX ISA version, ``8.8``; empty for the other kinds.
        packed: How they are compressed: ``lz4``, ``zstd`` or not at all.
        count: The number of objects.
        size: Their bytes in the file.
    """

    kind: Kind
    target: str
    isa: str = ""
    packed: str = ""
    count: int = 1
    size: int = 0

    def __str__(self) -> str:
        if self.isa:
            return f"compute_{self.target}"
        return f"lto_{self.target}" if self.kind == "lto" else f"sm_{self.target}"


@dataclass(frozen=True)
class FileCode:
    """The code for GPUs in a file.

    Attributes:
        code: Sorted; none twice.
        damaged: The number of fat binaries whose entries do not fit into them; their code is not
            counted.
        cudart: Version of a CUDA runtime that is linked in, ``13.0``; ``?`` if it is not visible.
        uses: The names of NVIDIA's libraries that it needs or can open: those of the driver, the
            CUDA runtime, NVRTC, nvJitLink and libNVVM.
        needed: If it names several CUDA runtimes, those that the loader must find.
    """

    code: tuple[GpuCode, ...] = ()
    damaged: int = 0
    cudart: str = ""
    uses: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()

    @property
    def runtime(self) -> str:
        """The CUDA runtime that it needs, such as ``libcudart.so.12``.

        "" if it has one inside, or can open several.
        """
        names = self.needed or self.runtimes
        return names[0] if len(names) == 1 and not self.cudart else ""

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The CUDA runtimes that it names, with a version."""
        return tuple(name for name in self.uses if _RUNTIME.match(name))

    @property
    def says_something(self) -> bool:
        return bool(self.code or self.damaged or self.cudart)


def may_have_code(path: Path, name: str = "") -> bool:
    """Whether a file begins as something that may have code for GPUs.

    That is a library, a program, an object, an archive of them, a fat binary, or PTX.
    """
    with open_plain(path) as file:
        return _is_ptx(name or path.name) or file.read(len(_ARCHIVE_MAGIC)).startswith(_MAGICS)


def _is_ptx(name: str) -> bool:
    """Whether a program loads a file as PTX, by its path in a package.

    Numba-cuda has PTX for its tests alone.
    """
    return name.endswith(".ptx") and not {"test", "tests"} & {*name.split("/")}


def read_file(path: Path, uses: bool = True) -> FileCode:
    """The code in a file, as `read`; the file is mapped into memory, not copied.

    A ``.ptx`` file is loaded itself. So its PTX gets a size and counts, unlike the text of PTX in a
    library.
    """
    with open_plain(path) as file:
        if not path.stat().st_size:
            return FileCode()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            code = read(content, uses)
            if path.suffix == ".ptx":
                code = replace(
                    code, code=tuple(replace(each, size=len(content)) for each in code.code)
                )
    if len(code.runtimes) > 1:
        with suppress(UnreadableBinary):
            needed = binary.needed if (binary := read_binary(path)) else ()
            return replace(code, needed=tuple(name for name in needed if name in code.runtimes))
    return code


def read_tree(folder: Path, names: Iterable[str]) -> dict[str, FileCode]:
    """File -> its code, for those files of a folder that are PTX, or binaries with code.

    Links are left out.
    """
    found = {}
    for name in names:
        file = folder / name
        if file.is_symlink() or not file.is_file():
            continue
        if may_have_code(file, name) and (code := read_file(file)).says_something:
            found[name] = code
    return together(found)


def together(files: Mapping[str, FileCode]) -> dict[str, FileCode]:
    """The same files, sorted, with the cubins of a folder as one, ``*.cubin``.

    A program loads those for its GPU.
    """
    cubins: dict[str, Counter[GpuCode]] = {}
    for name, file in files.items():
        if name.endswith(".cubin"):
            counts = cubins.setdefault(f"{name[: name.rfind('/') + 1]}*.cubin", Counter())
            counts.update({replace(code, count=0): code.count for code in file.code})
    others = {name: file for name, file in files.items() if not name.endswith(".cubin")}
    others |= {
        name: FileCode(tuple(sorted(replace(code, count=count) for code, count in counts.items())))
        for name, counts in cubins.items()
    }
    return dict(sorted(others.items()))


def read_members(entries: Iterable[tuple[str, IO[bytes] | None]]) -> Iterator[tuple[str, FileCode]]:
    """The same for the members of an archive (path, content).

    Each is unpacked to disk while it is read.
    """
    for name, content in entries:
        if content is None:
            continue
        suffix = ".ptx" if _is_ptx(name) else ""
        start = content.read(len(_ARCHIVE_MAGIC))
        if not suffix and not start.startswith(_MAGICS):
            continue
        with tempfile.NamedTemporaryFile(prefix="ctk-gpu-code-", suffix=suffix) as file:
            file.write(start)
            shutil.copyfileobj(content, file, 1 << 20)
            file.flush()
            if (code := read_file(Path(file.name))).says_something:
                yield name, code


def read_wheel(path: Path) -> dict[str, FileCode]:
    """The same for a wheel; AuditFailed if it cannot be read."""
    found: dict[str, FileCode] = {}
    try:
        with open_plain(path) as file, open_zip(file) as archive:
            for item in archive.infolist():
                with archive.open(item) as content:
                    found |= read_members([(item.filename, content)])
    except Refused as error:
        raise AuditFailed(f"{path.name} cannot be read: {error}", "fetch it again") from error
    return together(found)


def read(content: Buffer, uses: bool = True) -> FileCode:
    """The code in the bytes of a file.

    In a file that is damaged, or made to mislead, some may be missing. With `uses=False` names of
    libraries are not searched, which takes most of the time for a file without code.
    """
    found: Counter[Key] = Counter()
    sizes: Counter[Key] = Counter()
    gaps: list[Stretch] = []  # between fat binaries, which are nearly all of a large library
    before = damaged = 0
    for start, end in _fatbins(content):
        gaps.append((before, start))
        before = end
        entries = list(_entries(content, start, end))
        damaged += None in entries
        for key, size in filter(None, entries):
            found[key] += 1
            sizes[key] += size
    gaps.append((before, len(content)))
    found.update(_loose_cubins(content, gaps))
    found.update(_loose_ptx(content, gaps))
    code = sorted(GpuCode(*key, count=count, size=sizes[key]) for key, count in found.items())
    names = sorted(set(_names(content, gaps))) if uses else ()
    return FileCode(tuple(code), damaged, _cudart(content, gaps), tuple(names))


def _fatbins(content: Buffer) -> Iterator[Stretch]:
    """The start and the end of the entries of each fat binary."""
    at = 0
    while (at := content.find(FATBIN_MAGIC, at)) >= 0:
        if at + _FATBIN.size <= len(content):
            _, version, header, size = _FATBIN.unpack_from(content, at)
            if (version, header) == (1, _FATBIN.size) and at + header + size <= len(content):
                yield at + header, at + header + size
                at += header + size
                continue
        at += len(FATBIN_MAGIC)


def _entries(content: Buffer, at: int, end: int) -> Iterator[tuple[Key, int] | None]:
    """Key and size of each entry of a fat binary; None last if an entry does not fit."""
    while at + _ENTRY.size <= end:
        kind, _, header, size, *_ = _ENTRY.unpack_from(content, at)
        if not _ENTRY.size <= header <= _MOST_HEADER or at + header + size > end:
            yield None
            return
        if kind == _TOGETHER:
            yield from _parts(bytes(content[at : at + header]), size)
        elif kind in _KINDS:
            yield _key(_KINDS[kind], content, at), size
        at += header + size


def _parts(header: bytes, size: int) -> Iterator[tuple[Key, int] | None]:
    """The entries that share a header; each counts an equal part of the bytes."""
    number = struct.unpack_from("<I", header, 64)[0] if len(header) >= _FIXED else 0
    at = _FIXED
    for _ in range(number):
        if at + _FIXED > len(header):
            yield None
            return
        kind = struct.unpack_from("<H", header, at)[0]
        if kind in _KINDS:
            yield _key(_KINDS[kind], header, at), size // number
        more = struct.unpack_from("<I", header, at + _FIXED - 4)[0]
        at += (_FIXED + 1 + more + 7) // 8 * 8


def _key(kind: Kind, content: Buffer, at: int) -> Key:
    _, _, _, size, _, _, minor, major, arch, _, _, flags, _, plain = _ENTRY.unpack_from(content, at)
    least = _SMALLEST_PTX if kind == "ptx" else _SMALLEST_100 if arch >= 100 else _SMALLEST
    suffix = "a" if flags & _ARCH_SPECIFIC else "f" if flags & _FAMILY_SPECIFIC else ""
    packed = "zstd" if flags & _ZSTD else "lz4" if flags & _LZ4 else ""
    isa = f"{major}.{minor}" if kind == "ptx" else ""
    return (
        "stub" if kind != "lto" and (plain or size) < least else kind,
        f"{arch}{suffix}",
        isa,
        packed,
    )


def _places(content: Buffer, needle: bytes, gaps: Iterable[Stretch]) -> Iterator[int]:
    for start, end in gaps:
        at = content.find(needle, start, end)
        while at >= 0:
            yield at
            at = content.find(needle, at + len(needle), end)


def _loose_cubins(content: Buffer, gaps: list[Stretch]) -> Iterator[Key]:
    """Machine code outside fat binaries. In the newest ABI 90a has the flags of 90."""
    for at in _places(content, ELF_MAGIC, gaps):
        if at + _ELF.size > len(content):
            return
        ident, _, machine, version, _, _, _, flags = _ELF.unpack_from(content, at)
        abi = ident[8]
        target = flags >> 8 & 0xFF if abi >= 8 else flags & 0xFF
        # A compiler has such a header as a template, without a target.
        if (machine, version, ident[4:6]) == (_EM_CUDA, 1, b"\2\1") and 20 <= target < 200:
            yield "cubin", f"{target}a" if abi < 8 and flags & 0x800 else str(target), "", ""


def _loose_ptx(content: Buffer, gaps: list[Stretch]) -> Iterator[Key]:
    for at in _places(content, b".version", gaps):
        if text := _PTX.match(content[at : at + _LONGEST_HEAD]):
            isa, target = text.groups()
            yield "ptx", target.decode(), isa.decode(), ""


def _names(content: Buffer, gaps: list[Stretch]) -> Iterator[str]:
    for beginning in _USED:
        for at in islice(_places(content, beginning.encode(), gaps), _MOST_NAMES):
            if name := _WHOLE_NAME.match(content[at : at + 64]):
                yield name[0].decode()


def _cudart(content: Buffer, gaps: list[Stretch]) -> str:
    if next(_places(content, _CUDART_SAYS, gaps), None) is None:
        return ""
    stored = Counter(
        struct.unpack("<I", match[1])[0]
        for start, end in gaps
        for match in _STORES.finditer(content, start, end)
    )
    twice = [
        n
        for n, count in stored.items()
        if count >= 2 and 11000 <= n < 20000 and not n % 10 and n % 1000 <= 200
    ]
    return f"{twice[0] // 1000}.{twice[0] % 1000 // 10}" if len(twice) == 1 else "?"
