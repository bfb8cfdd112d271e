"""Every parser that reads what others wrote, as a function of bytes: for the property tests.

A target ends, or refuses with an error of its kind; anything else that it raises is a fault in the
parser.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ctk.core.errors import CtkError
from ctk.package import binaries, gpu_fatbin
from ctk.package import reader as package
from kit import binaries as made
from kit.fake_index import wheel
from kit.packages import Draft

Run = Callable[[bytes], object]
Seeds = Callable[[], Iterable[bytes]]


@dataclass(frozen=True)
class Target:
    """One parser.

    Attributes:
        run: Feeds it.
        seeds: What it reads every day first, then other things for a start.
        refusals: What it may raise.
    """

    run: Run
    seeds: Seeds
    refusals: tuple[type[Exception], ...] = (CtkError,)

    def __call__(self, data: bytes) -> None:
        """Feeds it; raises nothing for a refusal."""
        with suppress(*self.refusals):
            self.run(data)


# ---- archives


def in_file(read: Callable[[Path], object]) -> Run:
    """A parser of files as one of bytes."""

    def run(data: bytes) -> None:
        with tempfile.NamedTemporaryFile(prefix="ctk-hostile-") as file:
            file.write(data)
            file.flush()
            read(Path(file.name))

    return run


def some_wheels() -> list[bytes]:
    return [wheel("a", "1", "py3-none-any", [], {"a.so": made.elf(), "b.h": b"b"})]


def read_package(path: Path) -> None:
    package.read_info(path)
    for _, content in package.members(path, "pkg"):
        while content is not None and content.read(1 << 16):
            pass


def some_packages() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        draft = Draft("a", files={"lib/a.so": b"a" * 3000}, links={"lib/b.so": "a.so"})
        return [draft.write(Path(folder)).read_bytes()]


METADATA_FILES = (
    "index.json",
    "paths.json",
    "about.json",
    "run_exports.json",
)


def read_metadata(data: bytes) -> None:
    """One file of a package's metadata.

    The first byte says which, and all else of the package is good.
    """
    if data:
        name = METADATA_FILES[data[0] % len(METADATA_FILES)]
        with tempfile.TemporaryDirectory() as folder:
            package.read_info(Draft("a", info={name: data[1:]}).write(Path(folder)))


def some_metadata() -> list[bytes]:
    texts = (
        (
            '{"name": "a", "version": "1", "build": "0", "build_number": 0, "subdir": "noarch",'
            ' "track_features": "a b"}'
        ),
        (
            '{"paths": [{"_path": "a", "path_type": "hardlink", "sha256": "ab", "size_in_bytes":'
            ' 3}], "paths_version": 1}'
        ),
        '{"license": "BSD-3-Clause"}',
        '{"weak": ["a >=1"], "strong": []}',
    )
    return [bytes([number]) + text.encode() for number, text in enumerate(texts)]


def some_binaries() -> list[bytes]:
    full = made.elf(soname="liba.so.1", runpath="$ORIGIN", versions={"libc.so.6": ["GLIBC_2.17"]})
    return [full, made.elf(), made.pe()]


TARGETS: dict[str, Target] = {
    "wheel": Target(in_file(gpu_fatbin.read_wheel), some_wheels),
    "package": Target(in_file(read_package), some_packages),
    "package-metadata": Target(read_metadata, some_metadata),
    "gpu-code": Target(
        gpu_fatbin.read,
        lambda: [
            made.fatbin(made.code("cubin", "90a", size=64), made.code("ptx", "80", size=64)),
            made.fatbin(made.together("100", "120f", size=64)),
            made.elf(machine="cuda") + b".version 8.0\n.target sm_80\n",
        ],
    ),
    "binary": Target(binaries.read_bytes, some_binaries, (binaries.UnreadableBinary,)),
}
