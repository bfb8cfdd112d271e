"""A channel on a server, brought to disk as clients would get it, so that it can be checked like a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from ctk.channel.attesting import FIELD, SIDECAR
from ctk.channel.folder import HISTORY, STATES, TIMES, Folder
from ctk.channel.index_files import FILES, REPODATA
from ctk.core.errors import ChannelBroken, PublishFailed, without_credentials
from ctk.core.files import disk_errors, held
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.index.client import describe

_INDEX = 1 << 28  # bytes; an index is smaller
_SIDECAR = 8 << 20
_OF_CHANNEL = ("channeldata.json", "notices.json")
_OTHER_FORMS = (
    *("repodata_shards.msgpack.zst", "repodata_from_packages.json", "current_repodata.json", "repodata.json.bz2"),
    *("repodata.json.gz", "repodata.jlap", "repodata_from_packages.json.zst", "current_repodata.json.zst"),
)


@contextmanager
def mirrored(url: str, beside: Path, jobs: int = 4) -> Iterator[Path]:
    """A folder with everything that the index of a channel names, for as long as the block lasts.

    What the server does not have is not in it, and what is larger than the index says is cut off one byte later: the
    check then says so. Files that nobody looks for cannot be seen from outside, nor the history where the server does
    not hand it out.

    Args:
        url: Of the channel; one that needs no key, or has it in the URL.
        beside: Where the folder is made; it takes as much space as the channel.
        jobs: Files at once.

    Raises:
        PublishFailed: The server does not answer.
        NoSpace: The disk is full.
    """
    with (
        disk_errors(beside),
        held(beside / "check") as folder,
        httpx2.Client(follow_redirects=True, timeout=60) as client,
        ThreadPoolExecutor(max(1, jobs)) as pool,
    ):

        def get(wanted: tuple[str, int]) -> None:
            _download(client, url.rstrip("/"), wanted[0], folder, wanted[1])

        subdirs = (NOARCH, *PLATFORMS)
        index = [f"{subdir}/{name}" for subdir in subdirs for name in FILES]
        list(pool.map(get, [(name, _INDEX) for name in (*index, f"{HISTORY}/{STATES}", f"{HISTORY}/{TIMES}")]))
        # That another form of the index is there is enough to know: clients that look for it would not see ours.
        others = [f"{subdir}/{name}" for subdir in subdirs for name in _OTHER_FORMS]
        list(pool.map(get, [(name, 0) for name in (*others, *_OF_CHANNEL)]))
        with suppress(ChannelBroken):
            if state := Folder(folder, folder).history().shown:
                list(pool.map(get, [(f"{HISTORY}/{state.number}/{name}", _INDEX) for name in index]))
        list(pool.map(get, [wanted for file in folder.glob(f"[!.]*/{REPODATA}") for wanted in _named(file)]))
        yield folder


def _named(repodata: Path) -> Iterator[tuple[str, int]]:
    """What an index names, with the most bytes that each can have; nothing where it cannot be read."""
    try:
        records = json.loads(repodata.read_bytes())["packages.conda"].items()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    for file, record in records:
        if not isinstance(record, dict) or Path(file).name != file or file in ("", ".", ".."):
            continue
        name, size, digest = f"{repodata.parent.name}/{file}", record.get("size"), record.get(FIELD)
        yield name, size if isinstance(size, int) and size >= 0 else 0
        if isinstance(digest, str) and digest.isalnum():
            yield from ((f"{name}{SIDECAR}", _SIDECAR), (f"{name}{SIDECAR}.{digest}", _SIDECAR))


def _download(client: Any, url: str, name: str, folder: Path, most: int) -> None:
    path, left = folder / name, most + 1
    try:
        with client.stream("GET", f"{url}/{name}") as answer:
            if answer.status_code in (403, 404):  # object stores say 403 for what they do not have
                return
            answer.raise_for_status()
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for chunk in answer.iter_raw():
                    file.write(chunk[:left])
                    left -= len(chunk)
                    if left <= 0:
                        return
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise PublishFailed(
            f"{without_credentials(url)} does not give {name}: {describe(error)}", "check the URL and the network"
        ) from None
