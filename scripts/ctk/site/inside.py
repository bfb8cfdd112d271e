"""What the pages show of the inside of a package: its half of metadata, read once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ctk.core.errors import AuditFailed
from ctk.package.package import PathEntry, members, run_exports_of
from ctk.site.content import Entry


@dataclass(frozen=True)
class LicenceText:
    """A text under ``info/licenses``.

    Attributes:
        name: Its path there.
        content: Its bytes.
    """

    name: str
    content: bytes = field(repr=False)

    @property
    def path(self) -> str:
        """Of the copy in the site: one for each content."""
        return f"licences/{hashlib.sha256(self.content).hexdigest()[:16]}.txt"


@dataclass(frozen=True)
class Inside:
    """The metadata of one package file.

    Attributes:
        summary: Of the package, one line.
        home: Address of the project, "" without one.
        files: What it installs.
        run_exports: Specs by kind.
        licences: Its licence texts.
        sbom: The bytes of its SBOM; empty without one.
        problem: Why nothing could be read, a sentence; "" when all is well.
    """

    summary: str = ""
    home: str = ""
    files: tuple[PathEntry, ...] = ()
    run_exports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    licences: tuple[LicenceText, ...] = ()
    sbom: bytes = field(default=b"", repr=False)
    problem: str = ""

    @property
    def installed(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)


def read_inside(entry: Entry) -> Inside:
    """The metadata of a package; what cannot be read is a sentence in it."""
    if not entry.path.is_file():
        return Inside(problem=f"{entry.file} is listed in the index and is not in the channel's folder.")
    try:
        texts = {m.path: stream.read() for m, stream in members(entry.path, "info") if stream is not None}
        about = json.loads(texts.get("info/about.json", b"{}"))
        paths = json.loads(texts.get("info/paths.json", b'{"paths": []}'))["paths"]
        return Inside(
            summary=_text(about.get("summary")),
            home=_address(_text(about.get("home")) or _text(about.get("dev_url"))),
            files=tuple(
                PathEntry(str(p["_path"]), str(p["path_type"]), size=int(p.get("size_in_bytes") or 0)) for p in paths
            ),
            run_exports=run_exports_of(json.loads(texts.get("info/run_exports.json", b"{}"))),
            licences=tuple(
                LicenceText(path.removeprefix("info/licenses/"), content)
                for path, content in sorted(texts.items())
                if path.startswith("info/licenses/")
            ),
            sbom=next((text for path, text in sorted(texts.items()) if path.startswith("info/sboms/")), b""),
        )
    except AuditFailed as error:
        return Inside(problem=f"{error.cause}.")
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
        return Inside(problem=f"{entry.file} has metadata that cannot be read.")


def _text(value: object) -> str:
    """A line of a package's own words; some have several texts, or none."""
    first = value[0] if isinstance(value, list) and value else value
    return " ".join(first.split()) if isinstance(first, str) else ""


def _address(text: str) -> str:
    """What may be a link: a package may write anything."""
    return text if text.startswith(("https://", "http://")) else ""
