"""Channels as rattler reads them.

Those on servers are folders with index files that our client fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from rattler import Channel, MatchSpec, RepoDataRecord

from ctk.core.checkout import workspace
from ctk.fetch.channels import is_on_server
from ctk.fetch.repodata import IndexFolder


@dataclass(frozen=True)
class Sources:
    """The channels of a query.

    Attributes:
        urls: What rattler is given, in the order of the channels.
        origins: Address of a fetched folder -> address of its channel; both end with a slash.
    """

    urls: tuple[str, ...]
    origins: Mapping[str, str] = field(default_factory=dict)

    def spec(self, match: MatchSpec) -> MatchSpec:
        """A spec that names its channel, with the folder in its place.

        Such as ``conda-forge::numpy``.
        """
        wanted = str(match.channel.base_url) if match.channel else ""
        for folder, origin in self.origins.items():
            if origin == wanted:
                text = str(match)
                named = text.partition("::")[2]
                # rattler writes the name of a known channel before the spec, and addresses behind
                # it.
                if named:
                    return MatchSpec(f"{folder}::{named}")
                return MatchSpec(text.replace(f'channel="{origin}"', f'channel="{folder}"'))
        return match

    def restored(self, record: RepoDataRecord) -> RepoDataRecord:
        """A record with the addresses of its channel on the server."""
        for folder, origin in self.origins.items():
            if record.url.startswith(folder):
                record.url = origin + record.url.removeprefix(folder)
            if record.channel and f"{record.channel.rstrip('/')}/" == folder:
                record.channel = origin
        return record

    def text(self, text: str) -> str:
        """A message of rattler with the addresses of channels on servers."""
        for folder, origin in self.origins.items():
            text = text.replace(folder.rstrip("/"), origin.rstrip("/"))
        return text


def sources(channels: Iterable[str], subdirs: Iterable[str]) -> Sources:
    """Fetches what is new in the index files of channels on servers, once in a run.

    Args:
        channels: URLs, or names that rattler knows, such as conda-forge. Our client speaks HTTP;
            others, such as s3, are left to rattler.
        subdirs: The platforms.

    Raises:
        ChannelMissing, ChannelBroken: As `IndexFolder.fetch`.
    """
    urls, origins = [], {}
    platforms = tuple(subdirs)
    for name in channels:
        address = str(Channel(name).base_url)
        if is_on_server(address):
            folder = _folder(address).fetch(platforms).resolve().as_uri()
            origins[f"{folder}/"] = f"{address.rstrip('/')}/"
            urls.append(folder)
        else:
            urls.append(name)
    return Sources(tuple(urls), origins)


@cache
def _folder(address: str) -> IndexFolder:
    return IndexFolder(address, workspace().notes / "channels")
