"""Built channels of tiny real packages, indexed as `ctk build` does it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ctk.build import sbom
from ctk.build.finished import Built
from ctk.build.originals import NO_FILES, PackageFiles
from ctk.build.sbom import Input, Provenance
from ctk.channel import local
from ctk.package.reader import record_of
from kit.ctk_release import component
from kit.packages import Draft

__all__ = ["Draft", "Stamp", "build", "digit", "serve", "sound"]


def build(folder: Path, *drafts: Draft) -> Path:
    """A built channel with exactly these packages; returns the folder that its link leads to.

    Args:
        folder: Its link; packages are kept beside it. Building again makes its next state.
        drafts: The packages.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = folder.with_name(f"{folder.name}-packages") / str(len(list(folder.parent.iterdir())))
    records = {
        f"{file.parent.name}/{file.name}": record_of(file)
        for file in (d.write(place) for d in drafts)
    }
    local.commit(
        local.stage(
            local.candidates([Built("all", place.name, place, records, {}, 0.0, False)], folder)
        )
    )
    return folder.resolve()


def digit(number: int, content: str = "", **more: object) -> Draft:
    """A package that is named after a number.

    The even ones are for linux-64, the odd ones for no platform.
    """
    subdir = "noarch" if number % 2 else "linux-64"
    files = {"share/digit": f"{number}{content}".encode()}
    exports = {"run_exports.json": b'{"weak": ["digit >=%d"]}' % number}
    return Draft(f"digit{number}", subdir=subdir, files=files, info=exports).with_(**more)


@dataclass(frozen=True)
class Stamp:
    """Signs with a text in the place of an attestation, for what does not verify it."""

    text: str

    def __call__(self, file: str, sha256: str) -> str:
        return json.dumps(f"{self.text} {file}")

    def has_made(self, attestation: object, file: str, sha256: str) -> bool:
        return attestation == f"{self.text} {file}"


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The folder on a web server of its own process; gives the URL."""
    words = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "0",
        "--bind",
        "127.0.0.1",
        "--directory",
        str(folder),
    ]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{server.stdout.readline().split(' port ')[1].split()[0]}"
        finally:
            server.kill()


def sound(
    draft: Draft, commit: str = "1" * 40, licence: str = "MIT", files: PackageFiles = NO_FILES
) -> Draft:
    """The package with an SBOM that is right; `files` is what it says of files of wheels."""
    artefact = component("cudart", targets=["linux-64"]).artefacts["linux-64"]
    assert artefact
    origin = Provenance(
        recipe=draft.name,
        digest="cd" * 32,
        commit=commit,
        place="linux-64",
        timestamp=1_767_225_600,
        inputs=(Input(artefact, licence),),
        variant={"cuda_version": ("13.4",)},
        level=3,
        tools={"rattler-build": "0.73.0", "zstd": "1.5.7"},
    )
    text = sbom.write(draft.index_json(), origin, files)
    return draft.with_(info={**draft.info, sbom.place(draft.name).removeprefix("info/"): text})
