"""Takes the build machine's paths out of a package's metadata.

rattler-build records its working directories in ``info/recipe/rendered_recipe.yaml`` and the channels it was given in
``info/about.json``. Both would tell every user where the package was built, and would make two builds differ. The
payload is not touched: only the archive member that holds ``info/`` is written again.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import zstandard

# What a machine's folders are called in published metadata. The prefix keeps its placeholder's shape, cut short.
BUILD_ROOT = "/build"
_PLACEHOLDER = re.compile(rb"(?:_placehold)+(?:_[placehod]*)?")


def sanitise(package: Path, folders: Mapping[str, str]) -> None:
    """Rewrites a ``.conda`` file in place, so that no given folder is named in its metadata.

    Args:
        package: The package.
        folders: Absolute folder -> what to write instead; longer names are replaced first.
    """
    pairs = [(old.encode(), new.encode()) for old, new in sorted(folders.items(), key=lambda p: -len(p[0]))]
    temporary = package.with_suffix(".tmp")
    with zipfile.ZipFile(package) as source, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as target:
        for member in source.infolist():
            # A member of its own: the original's extra fields describe the original archive.
            copy = zipfile.ZipInfo(member.filename)
            with source.open(member) as old, target.open(copy, "w", force_zip64=member.file_size >= 1 << 31) as new:
                if member.filename.startswith("info-"):
                    new.write(_rewrite(old.read(), pairs))
                else:
                    shutil.copyfileobj(old, new, 1 << 20)
    os.replace(temporary, package)


def _rewrite(archive: bytes, pairs: list[tuple[bytes, bytes]]) -> bytes:
    plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(archive)).read()
    result = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(plain)) as source,
        tarfile.open(fileobj=result, mode="w", format=tarfile.GNU_FORMAT) as target,
    ):
        for member in source:
            file = source.extractfile(member)
            if file is None:
                target.addfile(member)
                continue
            content = file.read()
            # Licences, tests and file lists come from the payload and the recipe, not from the machine.
            if member.name in ("info/about.json", "info/recipe/rendered_recipe.yaml"):
                for old, new in pairs:
                    content = content.replace(old, new)
                content = _PLACEHOLDER.sub(b"", content)
                member.size = len(content)
            target.addfile(member, io.BytesIO(content))
    return zstandard.ZstdCompressor(level=19).compress(result.getvalue())
