"""Every parser that reads what others wrote, as a function of bytes: for the property tests, and for ``scripts/fuzz``.

A target ends, or refuses with an error of its kind; anything else that it raises is a fault in the parser.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from email.parser import BytesParser
from functools import cache
from pathlib import Path

import crafted_binaries
import crafted_wheels
from crafted_packages import Draft

from ctk.core.document import Document
from ctk.core.errors import CtkError
from ctk.core.platforms import PLATFORMS
from ctk.env.pack import size_in_bytes
from ctk.fetch import admission as check
from ctk.index import inside, parse_settings
from ctk.index.index import IndexFile
from ctk.index.inside import applies, parse_time, read_requirements
from ctk.lock import facts, wheels
from ctk.lock.components import parse_exclusions
from ctk.lock.lock import ReleaseLock, disagreements, dump, load, parse_lock, variant_config, variant_keys
from ctk.lock.support import parse_support
from ctk.package import binaries, gpu_code, package
from ctk.release import release

ROOT = Path(__file__).resolve().parents[2]
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


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def fixed(*texts: str) -> Seeds:
    return lambda: [text.encode() for text in texts]


# ---- YAML

YAML_LIES = (
    "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "&a [*a]\n",
    "a: !!python/object/apply:os.system [ls]\n",
    "a: 0x1f\nb: 1e400\nc: 2001-02-30\nd: .nan\ne: ~\nf: 0o17\ng: 1_000\nh: 190:20:30\n",
    "? [a]\n: b\n? {c: d}\n",
    "a: {b: [c, {d: e}]}\nf: |\n  text\ng: >-\n  more\n",
    "\ufeff%YAML 1.1\n---\na: 'b'\nb: \"\\e[2J\\x00\\U0010ffff\"\n...\n",
)


def read_lock(data: bytes) -> None:
    """What is read without a problem is written and read again as the same."""
    lock, found = parse_lock(text_of(data), "cuda-13.4")
    if lock is not None and not found:
        again, problems = parse_lock(dump(lock), lock.name)
        assert (again, problems) == (lock, ()), problems


@cache
def a_lock() -> ReleaseLock:
    """A release of one component: a real one is thirty times as long, and as much slower to read."""
    whole = load(ROOT / "variants" / "cuda-13.4.lock")
    assert whole.facts
    few = {name: whole.components[name] for name in ("nvrtc",)}
    glibc = {subdir: {n: v for n, v in of.items() if n in few} for subdir, of in whole.facts.glibc.items()}
    gpus = {"nvrtc": {"linux-64": ">=7.5,<11.0|>=12.0,<13"}}
    return replace(whole, components=few, facts=replace(whole.facts, glibc=glibc), gpu_code=gpus)


def some_locks() -> list[bytes]:
    lock = a_lock()
    partial = replace(lock, facts=None, missing={"cudart": ("linux",)}, measured={"linux-64": {"nvrtc": None}})
    return [dump(lock).encode(), dump(partial).encode()]


EXCLUSION = "excluded:\n  - component: nvml\n    releases: '<12.3'\n    reason: It is not.\nunpublished: []\n"

# ---- what the index says


def read_manifest(data: bytes) -> None:
    metadata = BytesParser().parsebytes(data, headersonly=True)
    for pin in release.pins(metadata):
        assert pin.line and pin.extra != ""
    for pin in release.read_manifest(metadata, "13.4.3"):
        assert set(pin.subdirs) <= set(PLATFORMS) and str(pin.accepted) and pin.places is not None


MANIFEST = """Metadata-Version: 2.1
Name: cuda-toolkit
Version: 13.4.3
Provides-Extra: nvcc
Requires-Dist: nvidia-cuda-nvcc==13.4.92.*; (sys_platform == "linux" or sys_platform == "win32") and extra == "nvcc"
Requires-Dist: nvidia-cuda-runtime<14,>=13.4.92; platform_machine == "x86_64" and extra == "cudart"
"""
LYING_MANIFEST = f"""{MANIFEST}Requires-Dist: nvidia-cuda-runtime==13.4.92.*; python_version > "x" and extra == 'all'
Requires-Dist: nvidia-cuda-nvcc==13.4.92.*; sys_platform ~= "linux" and extra == "nvcc"
Requires-Dist: {"(" * 300}
"""


def requirements_of(data: bytes) -> None:
    metadata = BytesParser().parsebytes(data, headersonly=True)
    for requirement in read_requirements(metadata, "cuda-core"):
        applies(requirement, [p.marker_environment | {"extra": ""} for p in PLATFORMS.values()])


def read_names(data: bytes) -> None:
    """File name, version and Requires-Python, a line each."""
    lines = text_of(data).split("\n")
    files = [IndexFile("a", v, f, None, "", requires_python=r) for f, v, r in zip(*[iter(lines)] * 3, strict=False)]
    for target in ("noarch", "linux-64", "win-arm64-cp314t"):
        wheels.wheel_for(files, target)
    for version in wheels.final_versions(files):
        wheels.files_of(files, version)


NAMES = """nvidia_cuda_runtime-13.4.92-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
13.4.92
>=3.11
cuda_core-1.2.2-1-cp314-cp314t-win_arm64.whl
1.2.2rc1
"""
PIP = """global.index-url='https://user:word@example.org/simple/'
global.timeout='15'
install.extra-index-url='a\\nb'
:env:.retries='3'
install.trusted-host='example.org'
"""


def look_inside(data: bytes) -> None:
    """What is read of a file that is still on the index."""
    name = "a.whl" if data[:2] == b"PK" else "a.tar.gz"
    inside.newest(io.BytesIO(data), name)
    with inside.members(io.BytesIO(data), name) as found:
        for member in found[:20]:
            member.text()
        inside.metadata_of(found, name)


def read_moment(data: bytes) -> None:
    parse_time(text_of(data))


# ---- archives


def in_file(read: Callable[[Path], object]) -> Run:
    """A parser of files as one of bytes."""

    def run(data: bytes) -> None:
        with tempfile.NamedTemporaryFile(prefix="ctk-fuzz-") as file:
            file.write(data)
            file.flush()
            read(Path(file.name))

    return run


def read_wheel(path: Path) -> None:
    check.check(crafted_wheels.artefact(b""), path)


def some_wheels() -> list[bytes]:
    """Good ones, of each way to store a member."""
    entry, deflated = crafted_wheels.Entry, crafted_wheels.DEFLATED
    members = [entry(b"nvidia/", mode=0o40755), entry(b"nvidia/a.so", crafted_binaries.elf(), method=deflated)]
    return [
        crafted_wheels.wheel_of(),
        crafted_wheels.wheel_of(*members, entry(b"u", b"a", flags=0x800)),
        crafted_wheels.with_descriptors(crafted_wheels.with_record([entry(b"a", b"a")])),
    ]


def read_record(data: bytes) -> None:
    """The RECORD of a wheel of one file."""
    *members, _ = crafted_wheels.with_record([crafted_wheels.Entry(b"nvidia/a.so", b"")])
    record = crafted_wheels.Entry(f"{crafted_wheels.INFO}/RECORD".encode(), data)
    in_file(read_wheel)(crafted_wheels.zip_of([*members, record]))


def some_records() -> list[bytes]:
    *_, record = crafted_wheels.with_record([crafted_wheels.Entry(b"nvidia/a.so", b"")])
    return [record.data, b'"a,b",,\n']


def read_tags(data: bytes) -> None:
    """The WHEEL of a wheel."""
    in_file(read_wheel)(crafted_wheels.zip_of(crafted_wheels.with_record([], data)))


def read_tar(data: bytes) -> None:
    """The bytes are the tar: a compressed one would be changed in vain."""
    sources = crafted_wheels.artefact(b"", "noarch", "cufinufft-2.5.1.tar.gz")
    in_file(lambda path: check.check(sources, path))(gzip.compress(data, 0))


def some_tars() -> list[bytes]:
    found = []
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as tar:
            for name in ("a/b", "a/" + "l" * (150 if form != tarfile.USTAR_FORMAT else 90)):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = 3, 1_700_000_000
                tar.addfile(member, io.BytesIO(b"abc"))
        found.append(out.getvalue())
    return found


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
    "recipe/rendered_recipe.yaml",
    "tests/tests.yaml",
)


def read_metadata(data: bytes) -> None:
    """One file of a package's metadata; the first byte says which, and all else of the package is good."""
    if data:
        name = METADATA_FILES[data[0] % len(METADATA_FILES)]
        with tempfile.TemporaryDirectory() as folder:
            package.read_info(Draft("a", info={name: data[1:]}).write(Path(folder)))


def some_metadata() -> list[bytes]:
    texts = (
        '{"name": "a", "version": "1", "build": "0", "build_number": 0, "subdir": "noarch", "track_features": "a b"}',
        '{"paths": [{"_path": "a", "path_type": "hardlink", "sha256": "ab", "size_in_bytes": 3}], "paths_version": 1}',
        '{"license": "BSD-3-Clause"}',
        '{"weak": ["a >=1"], "strong": []}',
        "recipe: {build: {files: [a/**]}, tests: [{package_contents: {files: {include: [a]}}}]}",
        "- script: [a]\n- package_contents: {files: [b]}\n",
    )
    return [bytes([number]) + text.encode() for number, text in enumerate(texts)]


def some_binaries() -> list[bytes]:
    full = crafted_binaries.elf(soname="liba.so.1", runpath="$ORIGIN", versions={"libc.so.6": ["GLIBC_2.17"]})
    return [full, crafted_binaries.elf(exports=["f", "g@V_1"]), crafted_binaries.pe()]


TARGETS: dict[str, Target] = {
    "document": Target(lambda data: Document(text_of(data)), fixed(*YAML_LIES)),
    "lock": Target(read_lock, some_locks),
    "variants": Target(
        lambda data: disagreements(text_of(data), variant_keys(a_lock())),
        lambda: [variant_config(a_lock()).encode()],
    ),
    "support": Target(
        lambda data: parse_support(text_of(data)),
        lambda: [(ROOT / "variants" / "support.yaml").read_bytes()],
    ),
    "exclusions": Target(
        lambda data: parse_exclusions(text_of(data)),
        lambda: [(ROOT / "variants" / "exclusions.yaml").read_bytes(), EXCLUSION.encode()],
    ),
    "manifest": Target(read_manifest, fixed(MANIFEST, LYING_MANIFEST)),
    "requirements": Target(requirements_of, fixed(MANIFEST, LYING_MANIFEST)),
    "wheel-names": Target(read_names, fixed(NAMES)),
    "pip-config": Target(lambda data: parse_settings(text_of(data)), fixed(PIP)),
    "facts": Target(
        lambda data: facts.parse_answer(text_of(data), "libnvrtc.so.13"),
        fixed('{"gpu_architectures": [75, 80, 121], "ptx_isa": "9.4"}'),
    ),
    "parts": Target(lambda data: size_in_bytes(text_of(data)), fixed("60M", "700MB", "1500000")),
    "inside": Target(look_inside, lambda: [*some_wheels(), *map(gzip.compress, some_tars())]),
    "moment": Target(read_moment, fixed("2025-08-04T12:34:56Z"), (ValueError,)),
    "wheel": Target(in_file(read_wheel), some_wheels),
    "record": Target(read_record, some_records),
    "tags": Target(read_tags, lambda: [crafted_wheels.WHEEL, b"Tag: py2.py3-none-any.win_amd64\n"]),
    "source": Target(read_tar, some_tars),
    "package": Target(in_file(read_package), some_packages),
    "package-metadata": Target(read_metadata, some_metadata),
    "gpu-code": Target(
        gpu_code.read,
        lambda: [
            crafted_binaries.fatbin(
                crafted_binaries.code("cubin", "90a", size=64), crafted_binaries.code("ptx", "80", size=64)
            ),
            crafted_binaries.fatbin(crafted_binaries.together("100", "120f", size=64)),
            crafted_binaries.elf(machine="cuda") + b".version 8.0\n.target sm_80\n",
        ],
    ),
    "binary": Target(binaries.read_bytes, some_binaries, (binaries.UnreadableBinary,)),
}
