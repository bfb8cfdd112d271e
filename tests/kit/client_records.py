"""Environments as conda, mamba, rattler and conda-pack make them, of three tiny packages.

py-rattler and conda-pack are here always. Of conda and mamba, `tests/channel/env/records` has what
they wrote: the records, and the installed files. A sample has ``@PREFIX@``, ``@CACHE@`` and
``@ROOT@`` in the place of folders. In the place of the digest of a file that contains the prefix,
it has
``@SHA256@``, since that file has another content at each place.

`python -m kit.client_records` in `tests` writes the samples anew (CONTRIBUTING.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conda_pack
import rattler

from kit.packages import Draft
from kit.tiny_packages import BINARY, PLACEHOLDER, tiny, write_channel

SAMPLES = Path(__file__).parents[1] / "channel" / "env" / "records"
SITE = "lib/python3.11/site-packages"
_DIGEST = "@SHA256@"
_LINK = "link to "
_RECORDS = "conda-meta/*.json"
Record = dict[str, Any]


def packages() -> list[Draft]:
    """A Python, a noarch Python package with all that is installed elsewhere, and a library."""
    link = {
        "noarch": {"type": "python", "entry_points": ["pure = pure:main"]},
        "package_metadata_version": 1,
    }
    info = "site-packages/pure-1.0.dist-info"
    return [
        tiny(
            "python",
            "3.11.0",
            files={"bin/python3.11": b'#!/bin/sh\nexec python3 "$@"\n'},
            links={"bin/python": "python3.11"},
        ),
        tiny(
            "pure",
            subdir="noarch",
            depends=("python",),
            files={
                "site-packages/pure.py": b"def main():\n    print('pure')\n",
                f"{info}/INSTALLER": b"conda\n",
                f"{info}/METADATA": b"Name: pure\nVersion: 1.0\n",
                f"{info}/RECORD": b"pure.py,,\n",
                "python-scripts/tool": f"#!{PLACEHOLDER}/bin/python\n".encode(),
                "share/pure": b"shared\n",
            },
            placeholders={"python-scripts/tool": PLACEHOLDER},
            info={"link.json": json.dumps(link).encode()},
            index={"noarch": "python"},
        ),
        tiny(
            "library",
            files={
                "etc/library.conf": f"home={PLACEHOLDER}/share\n".encode(),
                "lib/library.bin": BINARY,
                "lib/liblibrary.so.1": b"not really\n",
            },
            links={"lib/liblibrary.so": "liblibrary.so.1"},
            placeholders=dict.fromkeys(("etc/library.conf", "lib/library.bin"), PLACEHOLDER),
        ),
    ]


@dataclass(frozen=True)
class Place:
    """The folders of a client."""

    root: Path

    @property
    def channel(self) -> Path:
        return self.root / "channel"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def prefix(self) -> Path:
        return self.root / "env"

    def run(self, *words: str | Path, **variables: str) -> None:
        """Runs a client, as `ran` does; it must succeed."""
        done = self.ran(*words, **variables)
        assert done.returncode == 0, done.stdout + done.stderr

    def ran(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a client away from the user's settings and caches."""
        (self.root / "condarc").touch()
        own = {
            "HOME": str(self.root),
            "CONDARC": str(self.root / "condarc"),
            "CONDA_PKGS_DIRS": str(self.cache),
            "CONDA_ENVS_DIRS": str(self.root / "envs"),
            "CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY": "false",  # the channel has none
            "MAMBA_ROOT_PREFIX": str(self.root / "root"),
            "PATH": os.environ["PATH"],
        }
        return subprocess.run(
            words,
            env=own | variables,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )


def program(name: str) -> str | None:
    """A client: what ``CTK_TEST_CONDA`` or ``CTK_TEST_MAMBA`` names, or what PATH has."""
    named = os.environ.get(f"CTK_TEST_{name.upper()}")
    others = ["micromamba"] if name == "mamba" else []
    return named or next(filter(None, map(shutil.which, [name, *others])), None)


def by_program(name: str, **variables: str) -> Callable[[Place], None]:
    """Makes an environment with a program that has conda's command line."""

    def make(place: Place) -> None:
        found = program(name)
        assert found, f"there is no {name}"
        channels = ["-c", place.channel.as_uri(), "--override-channels"]
        words = ["create", "-y", "-q", "-p", place.prefix, *channels, "pure", "library"]
        place.run(found, *words, **variables)

    return make


def by_rattler(place: Place) -> None:
    """Makes an environment with py-rattler, as pixi does."""
    asyncio.run(_install(place))


async def _install(place: Place) -> None:
    records = await rattler.solve(
        [rattler.Channel(place.channel.as_uri())],
        ["pure", "library"],
        platforms=["linux-64", "noarch"],
        virtual_packages=[],
    )
    await rattler.install(
        records,
        target_prefix=place.prefix,
        cache_dir=place.cache,
        show_progress=False,
    )


def packed(make: Callable[[Place], None], *, is_half: bool = False) -> Callable[[Place], None]:
    """Makes an environment elsewhere, packs it with conda-pack, and unpacks it.

    `is_half` leaves out conda-unpack, which writes the new path into its files.
    """

    def unpack(place: Place) -> None:
        origin = Place(place.root / "origin")
        write_channel(origin.channel, packages())
        make(origin)
        archive = place.root / "env.tar"
        conda_pack.pack(prefix=str(origin.prefix), output=str(archive), format="tar")
        with tarfile.open(archive) as content:
            content.extractall(place.prefix, filter="fully_trusted")
        if not is_half:
            place.run(sys.executable, "-B", place.prefix / "bin" / "conda-unpack")

    return unpack


# conda-pack packs what the client made whose name follows.
MAKERS: Mapping[str, Callable[[Place], None]] = {
    "conda": by_program("conda"),
    "conda-softlinks": by_program("conda", CONDA_ALWAYS_SOFTLINK="true"),
    "conda-copies": by_program("conda", CONDA_ALWAYS_COPY="true"),
    "mamba": by_program("mamba"),
    "mamba-softlinks": by_program("mamba", MAMBA_ALWAYS_SOFTLINK="true"),
    "mamba-copies": by_program("mamba", MAMBA_ALWAYS_COPY="true"),
    "rattler": by_rattler,
    "packed-conda": packed(by_program("conda")),
    "packed-mamba": packed(by_program("mamba")),
    "packed-rattler": packed(by_rattler),
}


def make(name: str, root: Path) -> Place:
    """Has a client make its environment, from a channel below `root`."""
    place = Place(root)
    write_channel(place.channel, packages())
    MAKERS[name](place)
    return place


def lacks(name: str) -> str:
    """The client that is not here to make an environment; "" for none."""
    client = next(client for client in ("conda", "mamba", "rattler") if client in name)
    return "" if client == "rattler" or program(client) else client


def sample(place: Place, *, is_packed: bool = False) -> dict[str, Any]:
    """The records of an environment and its files, without folders of this machine.

    The digests in the records of a packed environment are those of another place: they stay.
    """
    words = {str(place.prefix): "@PREFIX@", str(place.cache): "@CACHE@"}
    words |= {place.root.as_uri(): "file://@ROOT@", str(place.root): "@ROOT@"}
    records, named = {}, set()
    for file in sorted(place.prefix.glob(_RECORDS)):
        record = json.loads(_replaced(file.read_text(), words))
        named |= {*record["files"]}
        for entry in record["paths_data"]["paths"]:
            path = place.prefix / _installed(entry["_path"])
            has_prefix = path.is_file() and os.fsencode(place.prefix) in path.read_bytes()
            if has_prefix and "sha256_in_prefix" in entry and not is_packed:
                entry["sha256_in_prefix"] = _DIGEST
        records[file.name] = record
    files = {}
    for name in sorted(name for name in named if not name.endswith(".pyc")):
        file = place.prefix / name
        if file.is_symlink():
            files[name] = _LINK + _replaced(os.readlink(file), words)
        else:
            files[name] = _replaced(file.read_text("latin-1"), words)
    return {"records": records, "files": files}


def lay_out(content: Mapping[str, Any], root: Path) -> Place:
    """Makes the environment of a sample, with the channel and the cache that it came from."""
    place = Place(root)
    write_channel(place.channel, packages())
    for package in packages():
        name = f"{package.name}-{package.version}-{package.build}"
        # mamba has a folder for each channel
        of_channel = place.cache / f"file/{place.channel}/{package.subdir}" / name
        for path, text in package.files.items():
            _write(place.cache / name / path, text)
            _write(of_channel / path, text)
    words = {"@PREFIX@": str(place.prefix), "@CACHE@": str(place.cache), "@ROOT@": str(root)}
    for name, text in content["files"].items():
        file, final = place.prefix / name, _replaced(text, words)
        if text.startswith(_LINK):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.symlink_to(final.removeprefix(_LINK))
        else:
            _write(file, final.encode("latin-1"))
    for name, given in content["records"].items():
        record = json.loads(_replaced(json.dumps(given), words))
        for entry in record["paths_data"]["paths"]:
            if entry.get("sha256_in_prefix") == _DIGEST:
                file = place.prefix / _installed(entry["_path"])
                entry["sha256_in_prefix"] = hashlib.sha256(file.read_bytes()).hexdigest()
        _write(place.prefix / "conda-meta" / name, json.dumps(record).encode())
    return place


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _installed(path: str) -> str:
    """Where a file of these packages is installed, said a second time to test what ctk says."""
    for folder, installed in (("site-packages/", f"{SITE}/"), ("python-scripts/", "bin/")):
        if path.startswith(folder):
            return installed + path.removeprefix(folder)
    return path


def write_samples() -> None:
    """Writes the samples of the clients that are here."""
    for name in MAKERS:
        if lacks(name) or "rattler" in name:
            continue
        with tempfile.TemporaryDirectory() as root:
            made = sample(make(name, Path(root)), is_packed=name.startswith("packed"))
        text = json.dumps(made, indent=1, sort_keys=True, ensure_ascii=True)
        (SAMPLES / f"{name}.json").write_text(f"{text}\n")


if __name__ == "__main__":
    write_samples()
