"""The files of a package compared with its wheels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctk.build.bundled import Bundled
from ctk.build.originals import Changed, PackageFiles, compare, read_wheel
from ctk.lock.model import Artefact
from ctk.lock.redistribution import Reading, text_key
from kit.fake_index import wheel

EULA = b"End User License Agreement"
OPEN = b"Apache License Version 2.0"
CUDART, PTXAS, PROFILE, HEADER = b"\x7fELF cudart", b"\x7fELF ptxas", b"TOP = ..", b"#pragma once"
KNOWN = {
    text_key(EULA): Reading("CUDA EULA", True, {"Linux": ("libcudart.so",)}),
    text_key(OPEN): Reading("open source"),
    text_key(b"MIT License"): Reading("open source"),
}
FILES = {
    "nvidia/cu13/lib/libcudart.so.13": CUDART,
    "nvidia/cu13/bin/ptxas": PTXAS,
    "nvidia/cu13/bin/nvcc.profile": PROFILE,
    "nvidia/cu13/include/cccl/cub/cub.cuh": HEADER,
    "nvidia/cu13/cccl/LICENSE": OPEN,
}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def entries(files: Mapping[str, bytes], *links: str) -> list[dict[str, Any]]:
    """Of a paths.json."""
    found = [
        {"_path": path, "path_type": "hardlink", "sha256": sha256(content)}
        for path, content in files.items()
    ]
    return found + [
        {"_path": path, "path_type": "softlink", "sha256": sha256(b"")} for path in links
    ]


def compared(folder: Path, files: Mapping[str, bytes], *links: str, **edits: str) -> PackageFiles:
    content = wheel("nvidia-thing", "13.5.1", "py3-none-manylinux2014_x86_64", [], FILES, EULA)
    name = "nvidia_thing-13.5.1-py3-none-manylinux2014_x86_64.whl"
    artefact = Artefact(
        "thing", "nvidia-thing", "13.5.1", "linux-64", name, sha256(content), len(content)
    )
    (folder / "wheel.zip").write_bytes(content)
    read = read_wheel(artefact, folder / "wheel.zip", KNOWN)
    return compare(entries(files, *links), [read], edits)


def test_files_are_as_published_or_changed_and_their_text_says_what_it_says(tmp_path: Path) -> None:
    found = compared(
        tmp_path,
        {
            "lib/libcudart.so.13.5.1": CUDART + b"patched",
            "bin/nvcc.profile": b"TOP = ../targets",
            "bin/ptxas": PTXAS,
            "include/cub/cub.cuh": HEADER,
            "lib/pkgconfig/cudart-13.5.pc": b"ours",
        },
        "lib/libcudart.so.13",
        **{"lib/libcudart.so.13.5.1": "RPATH $ORIGIN"},
    )
    assert found == PackageFiles(
        published=2,
        changed=(
            Changed("bin/nvcc.profile", "edited", sha256(b"TOP = ../targets"), "not-named"),
            Changed(
                "lib/libcudart.so.13.5.1",
                "RPATH $ORIGIN",
                sha256(CUDART + b"patched"),
                "attachment-a",
            ),
        ),
        licences=("CUDA EULA", "open source"),
        words={"attachment-a": 1, "clause-2.3": 1, "not-named": 1, "open-source": 1},
        not_named=("bin/nvcc.profile",),
    )


def test_the_clause_is_for_unmodified_files(tmp_path: Path) -> None:
    assert compared(tmp_path, {"bin/ptxas": PTXAS}).words == {"clause-2.3": 1}
    assert compared(tmp_path, {"bin/ptxas": PTXAS + b"patched"}).not_named == ("bin/ptxas",)


def test_a_package_without_files_of_wheels_has_nothing_to_say(tmp_path: Path) -> None:
    assert compared(tmp_path, {"etc/activate.sh": b"ours"}, "lib/libcudart.so") == PackageFiles()


def test_a_folder_s_own_text_is_for_all_below_it(tmp_path: Path) -> None:
    content = wheel(
        "a",
        "1",
        "py3-none-any",
        [],
        {"a/b/c/file": b"", "a/b/LICENSE": OPEN, "a/license.py": OPEN},
        b"?",
    )
    (tmp_path / "wheel.zip").write_bytes(content)
    read = read_wheel(
        Artefact("a", "a", "1", "noarch", "a-1-py3-none-any.whl", "0" * 64, 1),
        tmp_path / "wheel.zip",
        KNOWN,
    )
    assert [read.reading(member).kind for member in ("a/b/c/file", "a/file")] == [
        "open source",
        "not known",
    ]
    assert read.unread == {text_key(b"?")}


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    content = wheel(
        "a",
        "1",
        "py3-none-any",
        [],
        {"a/x/__init__.py": b"x", "a/LICENSE": OPEN, "b/__init__.py": b"b"},
    )
    (tmp_path / "wheel.zip").write_bytes(content)
    read = read_wheel(
        Artefact("a", "a", "1", "noarch", "a-1-py3-none-any.whl", "0" * 64, 1),
        tmp_path / "wheel.zip",
        KNOWN,
    )
    files = {
        "site-packages/a/x/__init__.py": b"edited",
        "site-packages/b/__init__.py": b"b",
        "c/__init__.py": b"ours",
    }
    found = compare(entries(files), [read], {})
    assert (found.published, [file.path for file in found.changed]) == (
        1,
        ["site-packages/a/x/__init__.py"],
    )
    assert found.words["open-source"] == 1  # the text is for the folder a


def test_the_text_of_others_is_not_for_nvidia_s_files_in_their_wheel(tmp_path: Path) -> None:
    files = {
        "triton/backends/nvidia/bin/nvdisasm": PTXAS,
        "triton/backends/nvidia/driver.py": b"import triton",
    }
    content = wheel(
        "triton", "3.9.0", "cp313-cp313-manylinux_2_27_x86_64", [], files, b"MIT License"
    )
    name = "triton-3.9.0-cp313-cp313-manylinux_2_27_x86_64.whl"
    (tmp_path / "wheel.zip").write_bytes(content)
    read = read_wheel(
        Artefact("triton", "triton", "3.9.0", "linux-64-cp313", name, "0" * 64, 1),
        tmp_path / "wheel.zip",
        KNOWN,
    )
    found = compare(
        entries({f"site-packages/{name}": text for name, text in files.items()}), [read], {}
    )
    assert found.words == {"not-named": 1, "open-source": 1}
    assert found.not_named == ("site-packages/triton/backends/nvidia/bin/nvdisasm",)


def test_a_source_distribution_has_no_record(tmp_path: Path) -> None:
    read = read_wheel(Artefact("a", "a", "1", "noarch", "a-1.tar.gz", "0" * 64, 1), tmp_path, KNOWN)
    assert compare(entries({"a": b"a"}), [read], {}) == PackageFiles()
    assert not read.readings


def test_a_text_that_nobody_has_read_is_in_the_files_of_the_package(tmp_path: Path) -> None:
    """Such as that of a new folder; parts of the whole text below .dist-info are not."""
    new, part = b"A new licence", b"of somebody else"
    files = {
        "a/new/LICENSE": new,
        "a/new/file": b"1",
        "a/file": b"2",
        "a-1.dist-info/licenses/a/LICENSE.txt": part,
    }
    content = wheel("a", "1", "py3-none-any", [], files, OPEN)
    (tmp_path / "wheel.zip").write_bytes(content)
    key = hashlib.sha256("\n".join(sorted([sha256(OPEN), sha256(part)])).encode()).hexdigest()
    artefact = Artefact("a", "a", "1", "noarch", "a-1-py3-none-any.whl", "0" * 64, 1)
    read = read_wheel(artefact, tmp_path / "wheel.zip", {**KNOWN, key: Reading("open source")})
    found = compare(entries({"a/new/file": b"1", "a/file": b"2"}), [read], {})
    assert (found.unread, found.not_named) == ((sha256(new),), ("a/new/file",))
    assert compare(entries({"a/file": b"2"}), [read], {}).unread == ()


def test_libraries_of_others_in_a_wheel_are_named_with_the_version_that_they_say(
    tmp_path: Path,
) -> None:
    """As torchvision's: auditwheel's copies have a hash in their names, DLLs have none."""
    files = {
        "vision.libs/libjpeg.d33e0c76.so.8": b"\x7fELF libjpeg-turbo version 3.1.3 (build 1)",
        "vision.libs/libpng16-37856f38.so.16.58.0": b"\x7fELF \0001.2.3\0001.6.58\000",
        "vision.libs/libwebp.d0e018c7.so.7": b"\x7fELF",
        "vision/zlib.dll": b"MZ deflate 1.3.2 Copyright 1995-2026",
        # Of the project itself, and left out of the package.
        "vision/image_stable.so": b"\x7fELF libpng",
        "vision.libs/libz.def23b81.so.1": b"\x7fELF deflate 1.3.1 Copyright",
    }
    content = wheel("vision", "1", "py3-none-manylinux2014_x86_64", [], files)
    (tmp_path / "wheel.zip").write_bytes(content)
    name = "vision-1-py3-none-manylinux2014_x86_64.whl"
    artefact = Artefact("vision", "vision", "1", "linux-64", name, "0" * 64, 1)
    read = read_wheel(artefact, tmp_path / "wheel.zip", KNOWN)
    kept = {f"site-packages/{path}": content for path, content in files.items()}
    del kept["site-packages/vision.libs/libz.def23b81.so.1"]
    kept["site-packages/vision.libs/libwebp.d0e018c7.so.7"] += b"patched"
    assert compare(entries(kept), [read], {}).bundled == tuple(
        Bundled(f"site-packages/{path}", project, version, licence)
        for path, project, version, licence in (
            (
                "vision.libs/libjpeg.d33e0c76.so.8",
                *("libjpeg-turbo", "3.1.3", "IJG AND BSD-3-Clause AND Zlib"),
            ),
            ("vision.libs/libpng16-37856f38.so.16.58.0", "libpng", "1.6.58", "libpng-2.0"),
            ("vision.libs/libwebp.d0e018c7.so.7", "libwebp", "", "BSD-3-Clause"),
            ("vision/zlib.dll", "zlib", "1.3.2", "Zlib"),
        )
    )
