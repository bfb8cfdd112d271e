"""`ctk check`: compares a channel, in a folder or on a server, with its index.

The index files must agree with each other and with the history of a published folder, and each file
must be explained by them. `ctk.channel.check_package` compares a package with its record.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from ctk.channel.attestations import Policy, verifier_of
from ctk.channel.bill import BILL, read_bill
from ctk.channel.check_package import ChannelPackage, PackageFile, differences
from ctk.channel.faults import FAULTS, noted_faults
from ctk.channel.history import STATES
from ctk.channel.publish import FIELD, SIDECAR, SITE, TIMES, UNUSED, Folder, moments
from ctk.channel.repodata import (
    FILES,
    RUN_EXPORTS,
    STATED,
    TIME,
    ChannelIndex,
    milliseconds,
)
from ctk.core.checkout import HISTORY, channel_missing
from ctk.core.console import Reporter
from ctk.core.disk import disk_errors
from ctk.core.errors import ChannelBroken, PublishFailed
from ctk.core.files import make_folder, open_plain, read_plain
from ctk.core.inside import is_file_name
from ctk.core.locks import held
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.fetch.channels import connected, remote, service_of
from ctk.index.transfer import Transfer
from ctk.package.records import COMPRESSED, REPODATA
from ctk.rules import Check, Finding, Report, check

_MAX_INDEX = 1 << 28  # bytes of an index file
_MAX_SIDECAR = 8 << 20  # bytes
_SIDECAR = re.compile(rf"(.+\.conda){re.escape(SIDECAR)}(\.[0-9a-f]{{64}})?")
_SECTION = "packages.conda"


@dataclass(frozen=True)
class ChannelReport(Report):
    """The outcome of a check of a channel.

    `attestations` counts the verified attestations by signer, and `unverified` the packages whose
    attestations only a key could verify, where none was named.
    """

    size: int = 0
    sboms: int = 0
    without_sbom: tuple[str, ...] = ()
    attestations: Mapping[str, int] = field(default_factory=dict)
    unverified: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "problems": self.rows(package="where", check="check", what="message"),
            "packages": self.subjects,
            "size": self.size,
            "sboms": self.sboms,
            "without_sbom": list(self.without_sbom),
            "attestations": dict(self.attestations),
            "unverified": self.unverified,
            "seconds": self.seconds,
        }


def check_channel(
    channel: Path,
    *,
    policy: Policy | None = None,
    jobs: int = 2,
    is_copy: bool = False,
    is_ours: Callable[[str], bool] = lambda name: True,
    progress: Callable[[int], None] = lambda size: None,
) -> ChannelReport:
    """Checks the index of a channel folder and its packages; the index explains all other files.

    `is_copy` is for a folder from `mirrored`. `is_ours` says of a package's name whether recipes of
    this repository make it. `progress` is called in a thread after each package, with its size in
    bytes.

    Raises:
        ChannelMissing: The folder does not exist.
    """
    start = time.monotonic()
    if not channel.is_dir():
        raise channel_missing(channel)
    index = IndexFiles(channel, is_copy)
    packages = _packages(index, is_ours)
    of_index = (IndexIsConsistent, Bill, Faults, Orphans)
    of_package = (
        PackageFile,
        Check("attestation", ChannelPackage, verifier_of(policy or Policy()).check),
    )

    def look(package: ChannelPackage) -> list[Finding]:
        found = [finding for rule in of_package for finding in rule(package)]
        progress(package.size)
        return found

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        results = list(pool.map(look, packages))

    def of(severity: str) -> list[Finding]:
        return [finding for found in results for finding in found if finding.severity == severity]

    hints, verified = of("hint"), Counter(finding.message for finding in of("ok"))
    bare = [finding.where for finding in hints if finding.check != "attestation"]
    of_files = [finding for rule in of_index for finding in rule(index)]
    return ChannelReport.of(
        [*of("error"), *of_files],
        (*of_index, *of_package),
        len(packages),
        start,
        size=sum(package.size for package in packages),
        sboms=sum(
            not any(finding.check in ("file", "sbom") for finding in found) for found in results
        ),
        without_sbom=tuple(sorted(bare)),
        attestations=dict(verified),
        unverified=len(hints) - len(bare),
    )


def _packages(index: IndexFiles, is_ours: Callable[[str], bool]) -> list[ChannelPackage]:
    """The packages that an index names, the largest first."""
    exports = index.run_exports
    packages = [
        ChannelPackage(
            index.channel, name, record, exports.get(name), is_ours(str(record.get("name")))
        )
        for name, record in index.records.items()
    ]
    return sorted(packages, key=lambda package: -package.size)


@dataclass
class IndexFiles:
    """The index of a channel as far as it can be read.

    Entries by ``subdir/file``, and the faults of its files.
    """

    channel: Path
    is_copy: bool = False  # of a channel on a server: it has only the files that the index names
    folder: Folder = field(init=False)  # the channel as a published folder, for its history
    subdirs: list[Path] = field(init=False)
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    run_exports: dict[str, Any] = field(default_factory=dict)
    faults: list[Finding] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)  # subdirs without a readable repodata.json

    def __post_init__(self) -> None:
        self.folder = Folder(self.channel, self.channel)
        places = (
            p for p in sorted(self.channel.iterdir()) if p.is_dir() and not p.name.startswith(".")
        )
        self.subdirs = [p for p in places if not (p / SITE).is_file()]
        for folder in self.subdirs:
            empty = {"packages": {}, "repodata_version": 1, "removed": [], "v3": {}}
            self._read(folder / REPODATA, {}, empty, self.records)
            self._read(folder / RUN_EXPORTS, {"version": 1}, {"packages": {}}, self.run_exports)

    def _read(
        self,
        file: Path,
        about: Mapping[str, Any],
        empty: Mapping[str, Any],
        entries: dict[str, Any],
    ) -> None:
        """Adds the entries of an index file.

        Its ``info`` must be `about`, and its other keys `empty`.
        """
        subdir, faults = file.parent.name, []
        try:
            content = json.loads(read_plain(file))
            info, packages = content.pop("info", None), content.pop(_SECTION, None)
            if not isinstance(info, dict) or not isinstance(packages, dict):
                raise ValueError("is not shaped like an index")
            for key, found, wanted in (
                *differences(info, {"subdir": subdir, **about}),
                *differences(content, empty),
            ):
                faults.append(f"has {found} as {key}, but should have {wanted}")
            for name, value in packages.items():
                if (
                    not isinstance(value, dict)
                    or not is_file_name(name)
                    or not name.endswith(".conda")
                ):
                    faults.append(f"has an entry for {name!r} that cannot be read")
                else:
                    entries[f"{subdir}/{name}"] = value
        except FileNotFoundError:
            faults.append("is not there")
        except PermissionError:  # the file may be sound
            raise
        except (ValueError, TypeError, AttributeError, RecursionError, OSError) as error:
            faults.append(f"cannot be read: {type(error).__name__}: {error}")
            if file.name == REPODATA:
                self.unread.add(subdir)
        self.faults += [Finding(f"{subdir}/{file.name}", fault) for fault in faults]


@check(IndexFiles, "index")
def IndexIsConsistent(index: IndexFiles) -> Iterator[Finding]:
    """Every client can read the index files.

    They agree with each other and with the current state.
    """
    yield from index.faults
    for folder in index.subdirs:
        if folder.name in index.unread or not (folder / REPODATA).is_file():
            continue  # a fault already, and the other index files have nothing to be compared with
        if message := _compressed(folder):
            yield Finding(f"{folder.name}/{COMPRESSED}", message)
    if not any(folder.name == NOARCH for folder in index.subdirs):
        yield Finding(f"{NOARCH}/{REPODATA}", "is not there; clients refuse a channel without it")
    yield from _times(index)
    yield from _history(index)


def _compressed(folder: Path) -> str:
    """The fault of the compressed repodata of a subdir, or ""."""
    plain, packed = folder / REPODATA, folder / COMPRESSED
    try:
        wanted = read_plain(plain)
        with open_plain(packed) as stream:
            # One byte more than expected is enough to see a difference, whatever the file unpacks
            # to.
            found = zstandard.ZstdDecompressor().stream_reader(stream).read(len(wanted) + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except zstandard.ZstdError as error:
        return f"cannot be read: {error}"
    return "" if found == wanted else f"does not unpack to {REPODATA}"


def _times(index: IndexFiles) -> Iterator[Finding]:
    """Times of publication (CEP 47) that are malformed, or differ from a folder's history."""
    noted = moments(index.channel / HISTORY / TIMES)
    for name, record in index.records.items():
        stated, made = record.get(TIME), record.get("timestamp")
        if stated is not None and type(stated) is not int:
            yield Finding(name, f"its {TIME} is {stated!r}, which is not a number of milliseconds")
        elif name in noted and stated != milliseconds(noted[name]):
            text = "has no" if stated is None else f"says {stated} as its"
            yield Finding(
                name, f"repodata {text} {TIME}, and it was published first at {noted[name]}"
            )
        elif stated is not None and type(made) is int and stated < made:
            yield Finding(name, f"its {TIME} is {stated}, before the package was made ({made})")


def _history(index: IndexFiles) -> Iterator[Finding]:
    """Subdirs of a published folder whose index is not that of the current state."""
    file, channel = f"{HISTORY}/{STATES}", index.channel
    if not (channel / HISTORY).is_dir():
        return
    if not (channel / file).is_file():
        yield Finding(file, "is not there; publish again")
        return
    try:
        history = index.folder.history()
        state = history.shown
        wanted = _stated(index.folder.state_index(state)) if state else {}
        if not index.is_copy:  # what the next run reads
            for other in history.states:
                index.folder.state_index(other)
            index.folder.names()
    except ChannelBroken as error:
        yield Finding(file, f"{error.cause}; {error.step}")
        return
    seen = _stated(ChannelIndex(index.records))
    differing = {
        name.partition("/")[0]
        for name in seen.keys() | wanted.keys()
        if seen.get(name) != wanted.get(name)
    }
    number = state.number if state else "none"
    for subdir in sorted(differing):
        message = (
            f"is not that of state {number}, which {file} says is shown: an older one, or a run was"
            " killed"
        )
        yield Finding(f"{subdir}/{REPODATA}", f"{message}; publish again")


def _stated(index: ChannelIndex) -> dict[str, dict[str, Any]]:
    """The records without what may come after a state: a time, and more attestations."""
    return {
        name: {key: value for key, value in record.items() if key != FIELD}
        for name, record in index.undated().items()
    }


@check(IndexFiles, "sbom")
def Bill(index: IndexFiles) -> Iterator[Finding]:
    """The SBOM of a published channel names exactly the packages of the index."""
    file = index.channel / BILL
    if not file.exists():
        return
    try:
        named = read_bill(read_plain(file))
    except (ValueError, OSError) as error:
        yield Finding(BILL, f"cannot be read: {error}")
        return
    indexed = {name: record.get("sha256") for name, record in index.records.items()}
    for name in sorted(named.keys() | indexed.keys()):
        if named.get(name) != indexed.get(name):
            yield Finding(BILL, f"has another {name} than the index, or lacks one; publish again")


@check(IndexFiles, "fault")
def Faults(index: IndexFiles) -> Iterator[Finding]:
    """`ctk build-recipe` found no package wrong."""
    for name, fault in noted_faults(index.channel, sorted(index.records)).items():
        yield Finding(name, f"is not fit to be published: {fault}")


@check(IndexFiles, "orphan")
def Orphans(index: IndexFiles) -> Iterator[Finding]:
    """The index explains each file, and each entry of run_exports.json has a package."""
    channel, leftovers = index.channel, {*index.folder.leftovers()}
    incoming = index.folder.incoming
    for name in sorted(index.run_exports.keys() - index.records.keys()):
        if (
            not index.is_copy
            and name.partition("/")[0] not in index.unread
            and not (channel / name).is_file()
        ):
            yield Finding(name, f"{RUN_EXPORTS} names it, but there is no such package")
    of_channel = (BILL, FAULTS)
    for path in (path for path in sorted(channel.iterdir()) if path.name not in of_channel):
        if path in leftovers:
            yield Finding(path.name, "a killed run left it; the next one removes it")
        elif not path.is_dir() or (path.name.startswith(".") and path.name != HISTORY):
            yield Finding(path.name, "is not part of a channel")
    known = {*index.records, *_retained(index.folder)}
    known |= {f"{folder.name}/{name}" for folder in index.subdirs for name in FILES}
    # Else all files would be orphans.
    read = [folder for folder in index.subdirs if folder.name not in index.unread]
    for path in (path for folder in read for path in sorted(folder.iterdir())):
        name, sidecar = path.relative_to(channel).as_posix(), _SIDECAR.fullmatch(path.name)
        if path in leftovers:
            yield Finding(name, "a killed run left it; the next one removes it")
        elif sidecar:
            if not (path.parent / sidecar[1]).is_file():
                yield Finding(name, "the package that it attests is missing")
        elif name not in known:
            why = "the index does not name it"
            if name in incoming:
                why += ": a killed run brought it, and the next one completes the index"
            yield Finding(name, why)


def _retained(folder: Folder) -> set[str]:
    """Packages that left a published folder's index, and that its history keeps for a while."""
    retained = set(moments(folder.notes / UNUSED))
    with suppress(ChannelBroken):
        retained.update(*(index.records for index in folder.whole(folder.history()).values()))
    return retained


# A channel on a server


@contextmanager
def mirrored(url: str, beside: Path, report: Reporter, number: int | None = None) -> Iterator[Path]:
    """A temporary folder in `beside` with everything that the index of a channel on a server names.

    `report` shows how much of the packages is there. With the number of a state, the index is that
    of the state, where the server hands out ``.history``.

    It takes as much space as the channel. A file that the server lacks is missing from it, and a
    file that is larger than the index says is cut off one byte later, so that the check reports it.

    Raises:
        ChannelMissing: The server has no index there.
        PublishFailed: The server does not answer.
        IndexUnavailable: The proxy or the certificates of the environment cannot be used.
        NoSpace: The disk is full.
    """
    service = service_of(url, PublishFailed)
    with (
        disk_errors(beside),
        held(beside) as folder,
        connected() as servers,
        ThreadPoolExecutor(4) as pool,
    ):
        transfer = servers.of(service)

        def get(
            wanted: Iterable[tuple[str, int]], progress: Callable[[], None] = lambda: None
        ) -> None:
            def one(file: tuple[str, int]) -> None:
                _download(transfer, url.rstrip("/"), file[0], folder, file[1])
                progress()

            list(pool.map(one, wanted))

        subdirs = (NOARCH, *PLATFORMS)
        index = [f"{subdir}/{name}" for subdir in subdirs for name in FILES]
        get(
            (name, _MAX_INDEX)
            for name in (*index, BILL, f"{HISTORY}/{STATES}", f"{HISTORY}/{TIMES}")
        )
        if not any((folder / name).is_file() for name in index):
            raise channel_missing(url)
        with suppress(ChannelBroken):
            shown = Folder(folder, folder).history().shown
            if wanted := number or (shown and shown.number):
                kept = [
                    f"{HISTORY}/{wanted}/{subdir}/{name}" for subdir in subdirs for name in STATED
                ]
                get((name, _MAX_INDEX) for name in kept)
        place = folder / HISTORY / str(number) if number else folder
        make_folder(place)
        named = [*_named(IndexFiles(place))]
        with report.task("download", len(named), of="files") as task:
            get(named, lambda: task.advance(1))
        yield folder


def _named(index: IndexFiles) -> Iterator[tuple[str, int]]:
    """The packages and sidecars that an index names, with the most bytes that each may have."""
    for name, record in index.records.items():
        size, digest = record.get("size"), record.get(FIELD)
        yield name, size if isinstance(size, int) and size >= 0 else 0
        if isinstance(digest, str) and digest.isalnum():
            yield from (
                (f"{name}{SIDECAR}", _MAX_SIDECAR),
                (f"{name}{SIDECAR}.{digest}", _MAX_SIDECAR),
            )


def _download(transfer: Transfer, url: str, name: str, folder: Path, most: int) -> None:
    """Fetches a file of a channel, if the server has it, up to one byte more than it may have."""
    path, absent = folder / name, (403, 404, 410)  # object stores answer 403 for a missing file
    wanted = remote(f"{url}/{name}", name, lambda: channel_missing(url))

    def attempt() -> None:
        left = most + 1
        with transfer.opened(wanted, also=absent) as answer:
            if answer.status_code in absent:
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for chunk in transfer.chunks(answer, wanted):
                    file.write(chunk[:left])
                    left -= len(chunk)
                    if left <= 0:
                        return

    transfer.retry.run(attempt)
