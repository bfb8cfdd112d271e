"""How the data of a pack are compressed: a choice between size and what another machine surely has.

docs/closed-networks.md has the figures. zstd packs no smaller than xz, and fewer machines have it.
"""

from __future__ import annotations

import gzip
from typing import BinaryIO, cast

from ctk.core.errors import BadValue, UnknownName
from ctk.env.packing.parts import PartWriter

# What is called on the other machine -> how, from a pipe to a pipe.
DECOMPRESS = {"gzip": "gzip -d -c", "xz": "xz -d -c"}


def check_compression(name: str) -> None:
    """Refuses what is not known, or cannot be done here.

    Raises:
        UnknownName: No such compression.
        BadValue: xz, with a Python that was made without it.
    """
    if name not in DECOMPRESS:
        raise UnknownName.of("compression", name, DECOMPRESS)
    if name == "xz":
        try:
            import lzma  # noqa: F401
        except ImportError:
            raise BadValue("this Python was made without lzma, so it cannot compress with xz", "use gzip") from None


def compressing(target: PartWriter, name: str) -> BinaryIO:
    """A file whose content goes to `target` compressed; to be closed before `target` is."""
    sink = cast(BinaryIO, target)
    if name == "xz":
        import lzma

        return cast(BinaryIO, lzma.LZMAFile(sink, "wb", preset=6))
    # Neither name nor time: equal input is equal output. Level 9 takes more than twice the time for half a percent.
    return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=sink, mtime=0))
