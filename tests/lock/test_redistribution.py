"""What a licence text says of distribution, file by file.

The quotes are of the texts in NVIDIA's wheels.
"""

from __future__ import annotations

import pytest

from ctk.core.checkout import Workspace
from ctk.lock import contents, redistribution
from ctk.lock.model import Component, release_locks
from ctk.lock.redistribution import NVIDIA_INSIDE, Reading, dump, load, read_text, unread

EULA = """2.3. Operating Systems

Those portions of the SDK designed exclusively for use on the
Linux or FreeBSD operating systems, or other operating systems
derived from the source code to these operating systems, may
be copied and redistributed for use in accordance with this
Agreement, provided that the object code files are not
modified in any way (except for unzipping of compressed
files).


2.6. Attachment A

The following portions of the SDK are distributable under the
Agreement:

Component

CUDA Runtime

Windows

cudart.dll, cudart_static.lib

Mac OSX

libcudart.dylib, libcudart_static.a

Linux

libcudart.so, libcudart_static.a

Component

NVIDIA JIT Linking Library

Windows

libnvJitLink.dll

Component

CUDA Headers

All

crt/host_defines.h, cuda_fp16.h


2.7. Attachment B

libthrust.so
"""
SDK = "LICENSE AGREEMENT FOR NVIDIA SOFTWARE DEVELOPMENT KITS\n\n"
SUPPLEMENT = (
    "2. Distribution. The following portions of the SDK are distributable under the Agreement: "
)


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
        ("lib/libthrust.so", "linux-64", False, "not-named"),  # of Attachment B
        ("lib/libmycudart.so.13", "linux-64", False, "not-named"),
        ("lib/libcudart.alt.so.13", "linux-64", False, "not-named"),
    ],
)
def test_the_eula_names_files_and_lets_unmodified_files_for_linux_be_copied(
    path: str, subdir: str, published: bool, word: str
) -> None:
    reading = read_text(EULA)
    assert (reading.kind, reading.linux) == ("CUDA EULA", True)
    assert reading.of(path, subdir, published) == word


def test_without_the_clause_a_file_for_linux_is_not_named() -> None:
    reading = read_text(EULA.replace("Linux or FreeBSD", "Plan 9"))
    assert reading.of("bin/ptxas", "linux-64", True) == "not-named"


@pytest.mark.parametrize(
    ("sentence", "named"),
    [
        (
            "the runtime files .so and .h, cudnn64_7.dll, and cudnn.lib. ",
            ("*.so", "*.h", "cudnn64_7.dll", "cudnn.lib"),
        ),
        (
            "the runtimes files ending with .so and .h as part of your application.\n\nlibx.a",
            ("*.so", "*.h"),
        ),
    ],
)
def test_an_sdk_licence_names_files_or_endings(sentence: str, named: tuple[str, ...]) -> None:
    assert read_text(SDK + SUPPLEMENT + sentence) == Reading("SDK licence", named={"All": named})


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


@pytest.mark.parametrize(
    ("text", "declared", "kind"),
    [
        ("Apache License\n   Version 2.0, January 2004", "", "open source"),
        (
            "Redistribution and use in source and binary\nforms, with or without",
            "LicenseRef-NVIDIA",
            "open source",
        ),
        ("../../LICENSE", "OSI Approved :: Apache Software License", "open source"),
        ("../../LICENSE", "LicenseRef-NVIDIA-Proprietary", "not known"),
        (f"{SDK}third parties: Permission is hereby granted, free of charge", "MIT", "SDK licence"),
        (f"{EULA}Apache License Version 2.0", "", "CUDA EULA"),
    ],
)
def test_third_parties_texts_do_not_hide_nvidia_s(text: str, declared: str, kind: str) -> None:
    assert read_text(text, declared).kind == kind


def test_every_text_of_a_lock_has_a_reading_that_is_written_as_it_is_read(
    project: Workspace,
) -> None:
    readings = load(project)
    assert not [component.name for component in unread(readings, release_locks(project).values())]
    assert redistribution.path_of(project).read_text() == dump(readings)
    assert {reading.kind for reading in readings.values()} == {
        "CUDA EULA",
        "SDK licence",
        "open source",
    }


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
