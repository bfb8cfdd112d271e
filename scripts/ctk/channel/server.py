"""A channel on a server: the names of its packages, the upload, and a check of what it lists.

rattler-build uploads, by the protocol of the server: that of prefix.dev, Quetz, Artifactory,
anaconda.org or Cloudsmith. It gives the status of a refusal, and the reason that the server states
to it, where its messages have them: `_SILENT` are those without.

A server takes packages one by one, so a reader may see a part of a new set. The dependencies of a
package are uploaded before the package.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import rattler_build
from rattler import Subdir
from rattler.exceptions import GatewayError, InvalidChannelError

from ctk.channel.attestations import no_identity
from ctk.channel.publish import clashes, refuse
from ctk.core.address import LOGIN, open_gateway
from ctk.core.checkout import workspace
from ctk.core.console import count
from ctk.core.errors import BadValue, ChannelBroken, ChannelMissing, PublishFailed
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.pool import ProcessPool
from ctk.core.process import run
from ctk.core.secrets import without_credentials
from ctk.fetch.repodata import IndexFolder

# GitHub Actions sets it for a job that may request an identity token, which signs the attestation.
_IDENTITY = "ACTIONS_ID_TOKEN_REQUEST_URL"
# In errors of rattler-build: its own, those of its client, and those of a redirect.
_STATUS = re.compile(r"(?:HTTP|HTTP status (?:client|server) error|Status:) \(?(\d{3})\b")
_OF_STORE = re.compile(r"HTTP status .* for url \((?!\S*/commit/)\S+\)")
"""anaconda.org's store refuses the content: of its API, only a commit has an error of this form."""
_NO_LOGIN = re.compile("(?i)api key|keychain|token required")
_AGAIN = "run the command again to continue"
_KEEPER = "ask whoever runs the server"
_ELSEWHERE = "the server redirects: name the address that answers without a redirect, over https"
_STEPS = {
    301: _ELSEWHERE,
    302: _ELSEWHERE,
    303: _ELSEWHERE,
    307: _ELSEWHERE,
    308: _ELSEWHERE,
    400: f"{_KEEPER} what it rejects in the package; its answer is above",
    401: ("the login in the file that RATTLER_AUTH_FILE names is not known there: correct it"),
    402: f"the account there is full or not paid: delete old packages, or {_KEEPER}",
    403: (
        f"that login may not write into the channel: {_KEEPER} for the right, or name another"
        " channel"
    ),
    404: "the server has no such channel, or does not accept packages at this address: check both",
    405: "the server does not accept packages at this address: check it",
    409: (
        "the server has this name, and its index does not list it: wait for its index; on"
        " anaconda.org the file may have another label"
    ),
    407: "the proxy wants a login: put it into HTTPS_PROXY",
    411: f"{_KEEPER} or the proxy before it: uploads state no size there",
    413: (
        f"the package is larger than the server accepts: {_KEEPER} to raise the limit, also of a"
        " proxy before it"
    ),
    415: f"the server does not accept this format: {_KEEPER} whether it accepts .conda",
    422: (
        "the server looked into the package and rejects it: `ctk check` does the same here; else"
        f" {_KEEPER}"
    ),
    451: f"the server may not have this package: {_KEEPER}",
    507: f"the disk of the server is full: {_KEEPER}",
}
"""Status of an upload -> what can help. Any other one may be gone the next time."""
MIN_SPEED = 50_000  # bytes per second; a slower server counts as stopped


_FORMS = {
    "prefix": "prefix+https://HOST/CHANNEL",
    "quetz": "quetz+https://HOST/CHANNEL",
    "artifactory": "artifactory+https://HOST/artifactory/REPOSITORY",
    "anaconda": "anaconda+https://HOST/OWNER/LABEL",
    "cloudsmith": "cloudsmith+https://HOST/OWNER/REPOSITORY",
}
"""Kind of a server -> how one is named."""
_LOGINS = {"quetz": "CondaToken", "anaconda": "CondaToken"}
"""Kind of a server -> the kind of login that rattler-build takes; else ``BearerToken``."""
_SILENT = frozenset(
    (
        "Server responded with error",  # Quetz, Artifactory
        "failed to create or update package",  # anaconda.org
        "failed to create or update release",
        "failed to upload file data",  # Cloudsmith
    )
)
"""All that rattler-build says of some refusals."""
_IN_PARTS = "failed to complete multi-part upload"  # of Cloudsmith, from 100 MB on
_IS_THERE = "already exists"  # of anaconda.org, for 409


@dataclass(frozen=True)
class Server:
    """A channel of a server."""

    kind: str  # of `_FORMS`
    url: str  # of the server
    channel: str  # or OWNER/LABEL, or OWNER/REPOSITORY

    @classmethod
    def at(cls, kind: str, address: str) -> Server:
        """Raises BadValue for a kind that is unknown, or an address without the channel."""
        form = _FORMS.get(kind)
        if not form:
            forms = ", ".join(_FORMS.values())
            raise BadValue(f"{kind} is not a kind of server", f"name one as in {forms}")
        address = address.rstrip("/")
        words = 2 if "/OWNER/" in form else 1
        url, *channel = address.rsplit("/", words)
        if not urlsplit(url).hostname or not all(channel):
            raise BadValue(f"{address} names no channel of a server", f"name one as in {form}")
        return cls(kind, url, "/".join(channel))

    def read_at(self) -> str:
        """The address at which clients read it.

        Raises:
            BadValue: It does not follow from the address of the server.
        """
        if self.kind != "prefix":
            raise BadValue(
                f"where clients read a channel of {self.kind} does not follow from its address",
                "name the address with --url",
            )
        return f"{self.url.rstrip('/')}/{self.channel}"


def on_server(url: str) -> dict[str, str]:
    """The packages of a channel on a server: ``subdir/file`` -> sha256.

    Our client fetches what is new in its index, within the bounds of `IndexFolder`; rattler reads
    it.

    Raises:
        PublishFailed: The server does not give its index, so the taken names are unknown.
    """
    platforms = (*PLATFORMS, NOARCH)

    async def ask(folder: Path) -> dict[str, str]:
        gateway, channel = open_gateway(), [folder.resolve().as_uri()]
        subdirs = [Subdir(name) for name in platforms]
        names = [name.normalized for name in await gateway.names(channel, subdirs, "disabled")]
        found = await gateway.query(
            channel, subdirs, names, recursive=False, channel_relations="disabled"
        )
        return {
            f"{r.subdir}/{r.file_name}": r.sha256.hex() for part in found for r in part if r.sha256
        }

    try:
        return run(ask(IndexFolder(url, workspace().notes / "channels").fetch(platforms)))
    except (ChannelMissing, ChannelBroken) as error:
        cause, step = error.cause, error.step
    except (GatewayError, InvalidChannelError) as error:
        cause, step = str(error), "ask the keeper of the channel to publish its index again"
    new = (  # a store such as S3 says 403 of it
        "a channel without an index needs `ctk publish --new`"
    )
    raise PublishFailed(
        f"{without_credentials(url)} does not say which names it has: {without_credentials(cause)}",
        f"{step}; {new}; nothing was sent",
    ) from None


def confirm(sent: Mapping[str, str], url: str, recipes: Path, wait: float) -> None:
    """Checks that a server lists the uploaded packages, repeatedly for up to `wait` seconds.

    A successful upload does not prove that a package is in the channel: a server refuses a name
    that it has without comparing the content, another server may have answered, and some list a
    package only minutes later.

    Args:
        sent: ``subdir/file`` -> sha256.
        url: The URL of the channel.
        recipes: The folder of feedstocks, for messages.
        wait: Seconds.

    Raises:
        NameReused: The server has other content under one of the names.
        PublishFailed: It does not list all of them.
    """
    place, end = without_credentials(url), time.monotonic() + wait
    while True:
        try:
            listed, why = on_server(url), ""
        except PublishFailed as error:
            listed, why = {}, f"; {error.cause}"
        refuse(clashes(sent, listed), place, recipes)
        if not (missing := sorted(sent.keys() - listed.keys())):
            return
        if (left := end - time.monotonic()) <= 0:
            break
        time.sleep(min(5.0, left))
    named = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    raise PublishFailed(
        f"{place} lists {len(sent) - len(missing)} of the {len(sent)} packages that it was sent;"
        f" missing: {named}{why}",
        "run the command again with a longer --wait; if it still lists too few, check the server,"
        " the channel and --url",
    )


def publish(
    files: Iterable[Path],
    server: Server,
    attest: bool = False,
    progress: Callable[[Path], None] = lambda file: None,
    *,
    patience: float = 120.0,
) -> None:
    """Uploads packages, in the given order, to a channel of a server.

    Packages that it has are skipped. With `attest`, in a CI job that has an identity, each package
    is uploaded with a signed attestation (CEP 27). The server's key is the one that rattler has
    stored, or that of a trusted publisher in CI. The server must answer within `patience` seconds,
    plus the time that the bytes of the package take at `MIN_SPEED`.

    Raises:
        PublishFailed: The server refuses a package or does not answer. Uploaded packages stay; the
            next run continues.
    """
    if attest and server.kind != "prefix":
        step = "publish without --attest, or into a folder or a bucket"
        raise BadValue(f"{server.kind} servers do not accept attestations", step)
    if attest and not os.environ.get(_IDENTITY):
        raise no_identity()
    # rattler waits for an answer for ever and holds the interpreter's lock meanwhile, so it does
    # that in a process of its own, which can be ended.
    pool = ProcessPool(1)
    try:
        pool.submit(int).result()  # the time in which the process starts is not the server's
        for number, file in enumerate(files):
            limit = patience + file.stat().st_size / MIN_SPEED
            try:
                problem = pool.submit(_upload, str(file), server, attest).result(limit)
            except TimeoutError:
                problem = f"no answer in {limit:.0f} s"
            except BrokenExecutor:
                problem = "the process that sent it was killed"
            if problem:
                step = _step_after(problem, number, server)
                cause = f"{server.url} does not accept {file.name} for the channel {server.channel}"
                raise PublishFailed(f"{cause}: {problem}", step)
            progress(file)
    finally:
        pool.end()


def _step_after(problem: str, sent: int, server: Server) -> str:
    """What to do about a refused upload: what can help with its status.

    The same command again only if it can.
    """
    verb = "was" if sent == 1 else "were"
    before = f"{count(sent, 'package')} {verb} sent before it"
    status = _status(problem)
    if not status and _NO_LOGIN.search(problem):
        kind = _LOGINS.get(server.kind, "BearerToken")
        login = f'{{"{urlsplit(server.url).hostname}": {{"{kind}": "KEY"}}}}'
        return f"{LOGIN}: {login}; nothing was sent"
    if problem in _SILENT:
        return (
            f"{_KEEPER} why: rattler-build does not say it. It may be the login, the right to"
            " write, the size, or a name that is there, which is not an error without --new."
            f" {before}; {_AGAIN}"
        )
    if problem.startswith(_IN_PARTS):
        return (
            "rattler-build ends an upload of 100 MB or more at an address that Cloudsmith's API"
            " does not have: push the file with its own client (cloudsmith push conda"
            f" {server.channel} FILE). {before}; the same command continues there"
        )
    if _OF_STORE.match(problem):
        return (
            "that was the store which the server named for the content: its address is good for a"
            f" while only. {before}; {_AGAIN}"
        )
    step = _STEPS.get(status)
    if step:
        return f"{step}. {before}; the same command continues there"
    return f"{before}; {_AGAIN}"


def _status(problem: str) -> int:
    """The status of a refusal, or 0 where rattler-build does not give it."""
    if _IS_THERE in problem:
        return 409
    found = _STATUS.search(problem)
    return int(found[1]) if found else 0


def _upload(file: str, server: Server, attest: bool) -> str:
    """Uploads a package unless the server has it; returns the error, or ""."""
    try:
        _UPLOADS[server.kind](file, server, attest)
    except rattler_build.RattlerBuildError as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def _to_prefix(file: str, server: Server, attest: bool) -> None:
    rattler_build.upload_package_to_prefix(
        [file],
        server.url,
        server.channel,
        skip_existing=True,
        generate_attestation=attest,
        store_github_attestation=attest,
    )


def _to_quetz(file: str, server: Server, attest: bool) -> None:
    rattler_build.upload_package_to_quetz([file], server.url, server.channel)


def _to_artifactory(file: str, server: Server, attest: bool) -> None:
    rattler_build.upload_package_to_artifactory([file], server.url, server.channel)


def _to_anaconda(file: str, server: Server, attest: bool) -> None:
    owner, label = server.channel.split("/")
    rattler_build.upload_package_to_anaconda([file], owner, channel=[label], url=server.url)


def _to_cloudsmith(file: str, server: Server, attest: bool) -> None:
    owner, repository = server.channel.split("/")
    rattler_build.upload_package_to_cloudsmith([file], owner, repository, url=server.url)


_UPLOADS = {
    "prefix": _to_prefix,
    "quetz": _to_quetz,
    "artifactory": _to_artifactory,
    "anaconda": _to_anaconda,
    "cloudsmith": _to_cloudsmith,
}
