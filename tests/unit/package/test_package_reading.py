"""A ``.conda`` file is read as a stream, and a broken one is an error that names it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ctk.package.reader import PathEntry, members, read_info
from kit.packages import Draft, good_set


def test_metadata_is_read_without_the_contents(tmp_path: Path) -> None:
    draft = good_set()["cuda-cudart-dev"]
    info = read_info(draft.write(tmp_path))
    assert info.index.identity == "cuda-cudart-dev-13.4.92-h0_0"
    assert info.index.depends == draft.depends
    assert info.run_exports == {"weak": ("cuda-cudart >=13.4.92,<14.0a0",)}
    assert info.licenses == {"LICENSE": b"You may.\n"}
    assert PathEntry("lib/libcudart.so", "softlink", hashlib.sha256().hexdigest()) in info.paths
    assert {entry.path: entry.placeholder for entry in info.paths}[
        "lib/pkgconfig/cudart.pc"
    ] == "/opt/here"


def test_members_come_one_by_one_with_their_bytes(tmp_path: Path) -> None:
    path = Draft("x", files={"lib/a": b"1" * 3_000_000}, links={"lib/b": "a"}).write(tmp_path)
    seen = {
        member.path: (member.kind, member.link, stream and len(stream.read()))
        for member, stream in members(path, "pkg")
    }
    assert seen == {"lib/a": ("file", "", 3_000_000), "lib/b": ("link", "a", None)}
