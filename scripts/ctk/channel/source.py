"""What is published of a published channel: a state of a folder, of a bucket, or on a server.

What was tested in staging is then what production gets, byte for byte: each package is read and
compared with the index of the state before anything is published.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ctk.channel.bucket import open_bucket
from ctk.channel.check import mirrored
from ctk.channel.publish import FIELD, SIDECAR, Folder, Keep
from ctk.channel.repodata import ChannelIndex, no_packages, read_index
from ctk.core.address import bucket_address
from ctk.core.checkout import HISTORY, channel_missing
from ctk.core.console import Reporter, listing
from ctk.core.disk import disk_errors
from ctk.core.errors import ChannelBroken
from ctk.core.files import holds, make_folder
from ctk.fetch.channels import is_on_server


@dataclass(frozen=True)
class Source:
    """A state of a channel, in a folder with its packages and their attestations."""

    name: str  # as it was typed
    path: Path
    index: ChannelIndex


def named_state(text: str) -> tuple[str, int | None]:
    """What precedes ``@`` and the number of a state behind it; a path that exists has no state."""
    match = re.fullmatch(r"(.+)@(\d+)", text)
    if not match or Path(text).exists():
        return text, None
    return match[1], int(match[2])


@contextmanager
def open_source(text: str, beside: Path, report: Reporter) -> Iterator[Source]:
    """The state that a typed ``PLACE[@STATE]`` names.

    Args:
        text: The place, with the number of a state, or as readers see it now.
        beside: Where packages are downloaded to, for a while.
        report: Shows the download.

    Raises:
        ChannelMissing: There is no channel.
        PublishFailed: It has no packages.
        UnknownName: The state is not kept there.
        ChannelBroken: A package or its attestation is missing, or is not the one that is indexed.
    """
    place, number = named_state(text)
    address = bucket_address(Path(place))
    if address:
        with open_bucket(address, beside, Keep()) as bucket:
            index = _index(bucket, number, place)
            with (
                disk_errors(bucket.path),
                report.task("download", len(index), of="packages") as task,
            ):
                for name in index.records:
                    make_folder((bucket.path / name).parent)
                    for key in _files(name, index):
                        bucket.objects.fetch(key, bucket.path / key)
                    task.advance(1)
            yield _checked(Source(text, bucket.path, index))
    elif is_on_server(place):
        with mirrored(place, beside, report, number) as path:
            yield _checked(Source(text, path, _index(Folder(path, beside), number, place)))
    else:
        path = Path(place)
        if not path.is_dir():
            raise channel_missing(path)
        yield _checked(Source(text, path, _index(Folder(path, beside), number, place)))


def _index(folder: Folder, number: int | None, place: str) -> ChannelIndex:
    """The index of a state, or what readers of `place` see; PublishFailed if it has no package."""
    if number is None:
        index = read_index(folder.path)
        if not index.records:
            raise no_packages(place)
        return index
    history = folder.history()
    newest = f"leave @{number} out for what readers see"
    if history.states:
        step = f"name one of those, or {newest}"
    elif is_on_server(place):
        step = f"{newest}: its server does not serve {HISTORY}, which has the others"
    else:
        step = newest
    return folder.state_index(history.target(number, place, step))


def _files(name: str, index: ChannelIndex) -> list[str]:
    """A package, and its attestation under both of its names."""
    digest = index.records[name].get(FIELD)
    sidecars = [f"{name}{SIDECAR}", f"{name}{SIDECAR}.{digest}"] if digest else []
    return [name, *sidecars]


def _checked(source: Source) -> Source:
    """The source, each of whose packages and attestations is the one that its index states."""
    wrong = []
    for name, record in source.index.records.items():
        stated = {name: record["sha256"]}
        if FIELD in record:
            stated[f"{name}{SIDECAR}.{record[FIELD]}"] = record[FIELD]
        wrong += [file for file, digest in stated.items() if not holds(source.path / file, digest)]
    if wrong:
        place = named_state(source.name)[0]
        raise ChannelBroken(
            f"{source.name} lacks or has damaged {listing(wrong, most=3)}; nothing was published",
            f"ctk check {shlex.quote(place)}",
        )
    return source
