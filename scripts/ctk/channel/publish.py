"""The publish station: uploads the packages of a channel folder to a channel on a server.

A server takes packages one by one, so a reader may see a part of a new set. What a package needs is uploaded before
it: whoever finds a package finds what it depends on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctk.channel.upload import Uploader
from ctk.core.errors import PublishFailed

# What GitHub Actions sets for a job that may ask for an identity token, which signs the attestation.
_IDENTITY = "ACTIONS_ID_TOKEN_REQUEST_URL"


@dataclass(frozen=True)
class Target:
    """Where to upload to.

    Attributes:
        server: URL of a server that speaks prefix.dev's protocol.
        channel: Name of the channel there.
        attest: Whether each package goes with a signed attestation of where it was built (CEP 27). Only in a CI job
            that has an identity.
    """

    server: str
    channel: str
    attest: bool = False


def in_order(channel: Path) -> list[Path]:
    """The packages of a channel folder, each after those it depends on; packages in a circle in order of their names.

    Raises:
        PublishFailed: The folder is no channel, or has no packages.
    """
    records: dict[str, tuple[Path, Mapping[str, Any]]] = {}
    for index in sorted(channel.glob("*/repodata.json")):
        try:
            found = _records(json.loads(index.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PublishFailed(f"{index} is no index of a channel", "run `ctk build` first") from error
        records |= {f"{index.parent.name}/{file}": (index.parent / file, record) for file, record in found.items()}
    if not records:
        raise PublishFailed(f"there is no channel with packages in {channel}", "run `ctk build` first")
    makers: dict[str, list[str]] = {}
    for name, (_, record) in sorted(records.items()):
        makers.setdefault(record["name"], []).append(name)
    return [records[name][0] for name in _dependencies_first(records, makers)]


def _records(content: Any) -> dict[str, Mapping[str, Any]]:
    """The packages of a repodata, each a file name, with a name and dependencies; KeyError and the like for another."""
    found: dict[str, Mapping[str, Any]] = content["packages.conda"]
    for file, record in found.items():
        words = [record["name"], *record["depends"]]
        if "/" in file or not all(isinstance(word, str) and word.split() for word in words):
            raise ValueError(file)
    return found


def _dependencies_first(
    records: Mapping[str, tuple[Path, Mapping[str, Any]]], makers: Mapping[str, list[str]]
) -> Iterable[str]:
    done: dict[str, None] = {}
    entered: set[str] = set()
    for start in sorted(records):
        stack = [start]
        while stack:
            name = stack[-1]
            needs = [] if name in entered else [n for spec in records[name][1]["depends"] for n in _named(spec, makers)]
            entered.add(name)
            fresh = [need for need in needs if need not in entered]
            if fresh:
                stack += reversed(fresh)
            else:
                done.setdefault(stack.pop())
    return done


def _named(spec: str, makers: Mapping[str, list[str]]) -> list[str]:
    return makers.get(spec.split()[0], [])


def publish(
    files: Iterable[Path],
    target: Target,
    progress: Callable[[Path], None] = lambda file: None,
    *,
    patience: float = 120.0,
) -> None:
    """Uploads packages in the order given; what the server has already is left as it is.

    The key of the server is what rattler has stored for it, or that of a trusted publisher in CI.

    Args:
        files: Packages.
        target: Where to.
        progress: Told of each file that is there.
        patience: Seconds for each package, beside the time for its bytes, in which the server must answer.

    Raises:
        PublishFailed: The server refuses or does not answer. What was uploaded stays; another run goes on from there.
    """
    if target.attest and not os.environ.get(_IDENTITY):
        raise PublishFailed(
            "an attestation says which CI job built a package, and this is none that has an identity",
            "run it in GitHub Actions with `permissions: id-token: write`, or without --attest",
        )
    with Uploader(target.server, target.channel, target.attest, patience) as uploader:
        for number, file in enumerate(files):
            if problem := uploader.problem_with(file):
                raise PublishFailed(
                    f"{target.server} does not take {file.name} for the channel {target.channel}: {problem}",
                    f"{number} packages are there; run the command again to go on",
                )
            progress(file)
