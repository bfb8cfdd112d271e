"""What a licence text says of distribution, file by file, by the table that people keep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError
from ctk.lock import contents
from ctk.lock.model import Component, release_locks
from ctk.lock.redistribution import (
    NVIDIA_INSIDE,
    Reading,
    load,
    parse,
    reading_of,
    text_key,
    unread,
)
from kit.ctk_release import release

EULA = Reading(
    "CUDA EULA",
    linux=True,
    named={
        "All": ("crt/host_defines.h", "cuda_fp16.h"),
        "Linux": ("libcudart.so", "libcudart_static.a"),
        "Windows": ("cudart.dll", "cudart_static.lib", "libnvJitLink.dll"),
    },
)
TABLE = f"""
- kind: CUDA EULA
  texts:
    {"a" * 64}: CUDA 13.4
    {"b" * 64}: CUDA 13.5
  linux: true
  named:
    Linux: [libcudart.so]
- kind: open source
  texts: {{}}
  declared: [Apache-2.0]
"""


@pytest.mark.parametrize(
    ("path", "subdir", "published", "word"),
    [
        ("targets/x86_64-linux/lib/libcudart.so.13.4.92", "linux-64", True, "attachment-a"),
        ("targets/x86_64-linux/lib/libcudart.so.13.4.92", "linux-64", False, "attachment-a"),
        ("targets/sbsa-linux/lib/libcudart_static.a", "linux-aarch64", True, "attachment-a"),
        ("Library/bin/cudart64_13.dll", "win-64", True, "attachment-a"),
        ("Library/bin/nvJitLink_130_0.dll", "win-arm64", True, "attachment-a"),
        ("Library/include/crt/host_defines.h", "win-64", True, "attachment-a"),
        ("Library/include/host_defines.h", "win-64", True, "not-named"),
        ("bin/ptxas", "linux-64", True, "clause-2.3"),
        ("bin/ptxas", "linux-64", False, "not-named"),
        ("Library/bin/ptxas.exe", "win-64", True, "not-named"),
        ("lib/libcudart_static.a", "win-64", True, "not-named"),  # named for another system
        ("lib/libmycudart.so.13", "linux-64", False, "not-named"),
        ("lib/libcudart.alt.so.13", "linux-64", False, "not-named"),
    ],
)
def test_the_eula_names_files_and_lets_unmodified_files_for_linux_be_copied(
    path: str, subdir: str, published: bool, word: str
) -> None:
    assert EULA.of(path, subdir, published) == word


def test_without_the_clause_a_file_for_linux_is_not_named() -> None:
    assert replace(EULA, linux=False).of("bin/ptxas", "linux-64", True) == "not-named"


def test_a_file_of_an_sdk_licence_is_named_or_not() -> None:
    reading = Reading("SDK licence", named={"All": ("*.so", "cudnn64_7.dll")})
    files = (
        "lib/libcudnn.so.9.28.1",
        "lib/libcudnn_static.a",
        "Library/bin/cudnn64_9.dll",
        "Library/bin/x64_9.dll",
    )
    assert [reading.of(file, "win-64", True) for file in files] == [
        "sdk-licence",
        "not-named",
        "sdk-licence",
        "not-named",
    ]


def test_a_table_says_the_same_of_all_texts_of_an_entry() -> None:
    readings = parse(TABLE)
    assert readings["a" * 64] is readings["b" * 64]
    assert readings["a" * 64] == Reading("CUDA EULA", True, {"Linux": ("libcudart.so",)})
    assert readings["Apache-2.0"] == Reading("open source")


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("b" * 64, "a" * 64, "found duplicate key"),
        ("texts: {}", f"texts: {{{'b' * 64}: CUDA}}", f"{'b' * 64} is there twice"),
        ("b" * 64, "b" * 63, "String should match pattern"),
        ("CUDA 13.5", "''", "at least 1 character"),
        ("Linux:", "Plan9:", "'Linux' or 'Windows'"),
        ("kind: open source", "kind: free", "'open source' or 'not known'"),
    ],
)
def test_what_is_wrong_with_a_table_is_an_error(old: str, new: str, wrong: str) -> None:
    with pytest.raises(LockError) as raised:
        parse(TABLE.replace(old, new))
    assert wrong in str(raised.value)


def test_a_text_that_nobody_has_read_names_no_file() -> None:
    reading = reading_of("c" * 64, parse(TABLE))
    assert reading == Reading("not known", unread="c" * 64)
    assert reading.of("lib/libcudart.so.13", "linux-64", True) == "not-named"
    assert reading_of("a" * 64, parse(TABLE)).unread == ""


def test_a_text_is_the_same_with_other_line_ends() -> None:
    assert text_key(b"a\r\nb\r\n") == text_key(b"a\nb\n") != text_key(b"ab")


def test_a_text_of_a_lock_that_nobody_has_read_is_named_once() -> None:
    lock = release("13.4.3", "cudart", "nvrtc")  # with the same text
    (text,) = unread(parse(TABLE), [lock, lock])
    assert (text.release, text.component, text.text) == ("cuda-13.4", "cudart", "cd" * 32)
    assert not list(unread({"cd" * 32: Reading("open source")}, [lock]))


def test_somebody_has_read_every_text_of_a_lock(project: Workspace) -> None:
    readings = load()
    locks = release_locks(project).values()
    assert [str(text) for text in unread(readings, locks)] == []
    silent = [c for lock in locks for c in lock.components.values() if not c.license_texts]
    assert {declared for c in silent for declared in c.license.split(" | ")} <= readings.keys()


def test_each_program_and_library_of_nvidia_in_a_wheel_of_others_is_known(
    project: Workspace,
) -> None:
    """By the names of those in NVIDIA's own wheels; NVPL has no locked wheel."""
    known = contents.load(project)
    components = [c for lock in release_locks(project).values() for c in lock.components.values()]

    def binaries(component: Component) -> set[str]:
        found = set()
        for artefact in filter(None, component.artefacts.values()):
            members = known.members(artefact.sha256) or {}
            found |= {
                n
                for n, content in members.items()
                if content.binary and content.binary.format == "elf"
            }
        return found

    def stem(path: str) -> str:
        return path.rpartition("/")[2].partition(".so")[0]

    own = {stem(n) for c in components if c.distribution.startswith("nvidia-") for n in binaries(c)}
    inside = {
        (c.distribution, name)
        for c in components
        if not c.distribution.startswith("nvidia-")
        for name in binaries(c)
        if stem(name) in own or stem(name).startswith("libnvpl_")
    }
    unknown = [(d, n) for d, n in inside if d not in NVIDIA_INSIDE or not NVIDIA_INSIDE[d].match(n)]
    assert not unknown
    assert {d for d, _ in inside} == set(NVIDIA_INSIDE)
    assert {stem(n) for d, n in inside if d == "triton"} >= {
        "ptxas",
        "cuobjdump",
        "nvdisasm",
        "libcupti",
    }
