"""A published package file name is never given to other content: clients, mirrors and lock files keep what they saw.

Packages are reproducible, so the same recipe and artefacts give the same sha256; another one means that something
changed, and the build number has to say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rattler import Gateway, SourceConfig, Subdir
from rattler.exceptions import GatewayError

from ctk.core.errors import NameReused, PublishFailed, without_credentials
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.process import run
from ctk.plan.recipes import find_recipes, maker_of


@dataclass(frozen=True)
class Clash:
    """A name that is taken.

    Attributes:
        file: ``subdir/file``.
        published: The sha256 that it has where it is published.
        ours: The sha256 that it would get.
    """

    file: str
    published: str
    ours: str


def clashes(ours: Mapping[str, str], taken: Mapping[str, str]) -> list[Clash]:
    """Which of our packages have another content than what was published under their name.

    Args:
        ours: ``subdir/file`` -> sha256 of the packages to publish.
        taken: The same of everything that was published.
    """
    both = sorted(ours.keys() & taken.keys())
    return [Clash(file, taken[file], ours[file]) for file in both if taken[file] != ours[file]]


def refuse(found: Sequence[Clash], where: str, recipes: Path) -> None:
    """Stops when there are clashes.

    Args:
        found: What `clashes` found.
        where: Where the names are taken.
        recipes: The folder of the feedstocks, to name those to mend.

    Raises:
        NameReused: There are some; each is listed with both hashes.
    """
    if found:
        lines = [f"  {c.file}\n    published sha256 {c.published}\n    this one's sha256 {c.ours}" for c in found]
        names = f"{len(found)} package file name" + ("s are" if len(found) > 1 else " is")
        raise NameReused("\n".join([f"{names} taken by other content in {where}:", *lines]), step_for(found, recipes))


def step_for(found: Sequence[Clash], recipes: Path) -> str:
    """What to do about clashes: which recipes need a higher build number."""
    known = find_recipes(recipes)
    makers = {maker_of(c.file.partition("/")[2].rsplit("-", 2)[0], known) or "<feedstock>" for c in found}
    files = ", ".join(f"recipes/{maker}/recipe.yaml" for maker in sorted(makers))
    return f"raise the first term of `build: number` in {files}, and build again"


def on_server(url: str) -> dict[str, str]:
    """The names that a channel on a server has taken: ``subdir/file`` -> sha256.

    Read as rattler reads any channel, with the key that it has for the server, and past its cache.

    Raises:
        PublishFailed: The server does not answer, so nobody knows which names are taken.
    """

    async def ask() -> dict[str, str]:
        gateway = Gateway(default_config=SourceConfig(cache_action="no-cache"))
        platforms = [Subdir(name) for name in (*PLATFORMS, NOARCH)]
        names = [name.normalized for name in await gateway.names([url], platforms)]
        found = await gateway.query([url], platforms, names, recursive=False, channel_relations="disabled")
        return {f"{r.subdir}/{r.file_name}": r.sha256.hex() for part in found for r in part if r.sha256}

    try:
        return run(ask())
    except GatewayError as error:
        raise PublishFailed(
            f"{without_credentials(url)} does not say which names it has: {without_credentials(str(error))}",
            "check the URL of the channel; a channel without an index needs `ctk publish --new`; nothing was sent",
        ) from None
