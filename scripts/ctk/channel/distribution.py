"""What the licence texts in packages say of distribution, for `ctk check` and `ctk publish`.

Read from the packages' SBOMs.

It is what a table of readings has (`ctk.lock.redistribution`), not legal advice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctk.build import sbom
from ctk.build.originals import PackageFiles
from ctk.core.console import count
from ctk.core.errors import AuditFailed, NotAccepted
from ctk.lock.redistribution import WORDS, Word

ADVICE = "what licence texts allow is in a table that people keep by hand; it is not legal advice"
_FEW = 10  # packages of which each changed file is listed


@dataclass(frozen=True)
class Distribution:
    """The files of wheels in some packages, by ``subdir/file``.

    Packages without such files are not in it.
    """

    files: Mapping[str, PackageFiles]

    @property
    def summary(self) -> str:
        """The numbers of files in one line."""
        published, changed = (
            sum(f.published for f in self.files.values()),
            sum(1 for _ in self.changes),
        )
        return f"{count(published, 'file')} as NVIDIA and others published them, {changed} changed"

    @property
    def words(self) -> list[tuple[str, int, int]]:
        """What a text may say, with the numbers of files and packages of which one says it."""
        files: Counter[Word] = Counter()
        for found in self.files.values():
            files.update(found.words)
        return [
            (text, files[word], sum(word in f.words for f in self.files.values()))
            for word, text in WORDS.items()
            if files[word]
        ]

    @property
    def changes(self) -> Iterator[tuple[str, str, str]]:
        """Each changed file: its package, its path, and the change."""
        for name, found in self.files.items():
            yield from ((name, file.path, file.why) for file in found.changed)

    @property
    def change_rows(self) -> list[tuple[str, str]]:
        """The changes for a table: each file of a few packages, else numbers of files."""
        if len(self.files) <= _FEW:
            return [(path, why) for _, path, why in self.changes]
        numbers = Counter(why for _, _, why in self.changes)
        return [(count(number, "file"), why) for why, number in numbers.most_common()]

    @property
    def not_named(self) -> dict[str, tuple[str, ...]]:
        """Package name -> files of its builds that the text does not name for distribution."""
        found: dict[str, set[str]] = {}
        for name, files in self.files.items():
            if files.not_named:
                found.setdefault(package_name(name), set()).update(files.not_named)
        return {name: tuple(sorted(paths)) for name, paths in sorted(found.items())}

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "package": name,
                "published": found.published,
                "changed": [vars(file) for file in found.changed],
                "licences": list(found.licences),
                "words": dict(found.words),
                "not_named": list(found.not_named),
            }
            for name, found in self.files.items()
        ]


def read(packages: Iterable[Path]) -> Distribution:
    """Reads the SBOMs of packages.

    One without an SBOM of ours is left out, `ctk check` reports it.
    """
    found = {}
    for package in packages:
        with suppress(AuditFailed):
            files = sbom.of(package).files
            if files.words:
                found[f"{package.parent.name}/{package.name}"] = files
    return Distribution(found)


def package_name(name: str) -> str:
    """``cuda-nvrtc`` of ``linux-64/cuda-nvrtc-13.4.92-h0_0.conda``."""
    return name.rpartition("/")[2].rsplit("-", 2)[0]


def ask(not_named: Mapping[str, Collection[str]], accepted: bool, channel: str) -> None:
    """Raises NotAccepted if no text names some files of a channel, and nobody has accepted that."""
    if not_named and not accepted:
        packages = count(len(not_named), "package")
        raise NotAccepted(
            f"{packages} with files that the licence text neither names for distribution nor lets"
            f" you pass on unchanged; nothing was written ({ADVICE})",
            f"read these texts, which are in info/licenses of each package in {channel}, and ask a"
            " lawyer or NVIDIA; then give --accept-redistribution, or set accept_redistribution ="
            " true in [tool.ctk.publish] of pyproject.toml",
        )
