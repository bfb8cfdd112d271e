"""What NVIDIA says of driver branches, GPUs and vulnerabilities, with sources: ``variants/support.yaml``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Annotated, Any, NamedTuple

from packaging.version import Version
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.document import Place, parse_by_hand, read
from ctk.lock.components import ComponentName
from ctk.lock.lock import ReleaseLock

SUPPORT = "support.yaml"
_ENDED = "ended"  # the page says that it was over, and not since when


def _day(stated: Any) -> Any:
    """A day; YAML knows days that are not in quotes."""
    if type(stated) is not date:
        raise ValueError(f"{stated!r} is no day; write it as 2026-11-24, without quotes")
    return stated


def _public(url: str) -> str:
    if not re.fullmatch(r"https://[\w-]+(\.[\w-]+)+/\S*", url):
        raise ValueError(f"{url!r} is no public page; write its address, https://...")
    return url


Text = Annotated[str, Field(min_length=1)]
Day = Annotated[date, BeforeValidator(_day)]
Minor = Annotated[str, Field(pattern=r"^\d+\.\d+$")]
Month = Annotated[str, Field(pattern=rf"^(\d{{4}}-(0[1-9]|1[0-2])|{_ENDED})$")]
Sources = Annotated[tuple[str, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Citation:
    """A page that says what entries say."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    title: Text
    url: Annotated[str, AfterValidator(_public)]
    read: Day
    dated: Day | None = None  # by the page itself


@dataclass(frozen=True)
class DriverBranch:
    """A branch of NVIDIA's driver."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    branch: Annotated[str, Field(pattern=r"^R\d{3}$")]
    cuda: Minor  # the newest CUDA version that its drivers support
    sources: Sources
    end: Month | None = None  # None: no page says


@dataclass(frozen=True)
class Generation:
    """GPUs of one architecture that newer drivers do not run."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    architecture: Text
    compute_capabilities: Annotated[tuple[Minor, ...], Field(min_length=1)]
    last_driver: str
    sources: Sources


@dataclass(frozen=True)
class Vulnerability:
    """Vulnerabilities of components that one CTK release mends together."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    cves: Annotated[tuple[Annotated[str, Field(pattern=r"^CVE-\d{4}-\d{4,}$")], ...], Field(min_length=1)]
    components: Annotated[tuple[ComponentName, ...], Field(min_length=1)]
    fixed: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]  # the first CTK release without
    sources: Sources


class Unfixed(NamedTuple):
    """A component in a version that has a vulnerability."""

    component: str
    version: str
    cve: str
    fixed: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Support:
    """Everything that the file says; empty where there is none."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    sources: Mapping[str, Citation] = field(default_factory=dict)
    drivers: tuple[DriverBranch, ...] = ()
    gpus: tuple[Generation, ...] = ()
    vulnerabilities: tuple[Vulnerability, ...] = ()

    def branch_for(self, cuda: str | None) -> DriverBranch | None:
        """The branch whose drivers support a CUDA version and none newer."""
        return next((branch for branch in self.drivers if branch.cuda == cuda), None)

    def impossible(self, driver: str | None, gpu: str | None) -> str:
        """Why no machine has a driver for this CUDA version and this GPU; "" where one may be."""
        for generation in self.gpus:
            if driver and gpu in generation.compute_capabilities:
                last = next(branch for branch in self.drivers if branch.branch == generation.last_driver)
                if Version(driver) > Version(last.cuda):
                    return (
                        f"no driver for CUDA {driver} runs a GPU {gpu}: {last.branch}, for CUDA {last.cuda}, "
                        f"is the last branch for {generation.architecture}"
                    )
        return ""

    def notes(self, driver: str | None, gpu: str | None, today: date | None = None) -> list[str]:
        """What somebody with this driver and GPU should know, in sentences; a branch lives to the end of its month."""
        branch, month = self.branch_for(driver), f"{today or datetime.now(UTC).date():%Y-%m}"
        said = [self.impossible(driver, gpu)]
        if branch and branch.end and (branch.end == _ENDED or branch.end < month):
            since = "" if branch.end == _ENDED else f" since {branch.end}"
            said.append(f"driver branch {branch.branch}, for CUDA {branch.cuda}, is past its end of life{since}")
        return list(filter(None, said))

    def unfixed(self, versions: Iterable[tuple[str, str]], locks: Iterable[ReleaseLock]) -> list[Unfixed]:
        """The vulnerabilities of components in some versions.

        A bulletin speaks of CTK releases: a version is taken to have a vulnerability when it is older than the
        component's in the oldest locked release that is as new as the one with the fix.
        """
        releases = sorted((lock for lock in locks if lock.is_ctk), key=lambda lock: Version(lock.release))
        found = []
        for name, version in dict.fromkeys(versions):
            for entry in (v for v in self.vulnerabilities if name in v.components):
                mended = [r for r in releases if name in r.components and Version(r.release) >= Version(entry.fixed)]
                if not mended or Version(version) < Version(mended[0].components[name].version):
                    urls = tuple(self.sources[key].url for key in entry.sources)
                    found += [Unfixed(name, version, cve, entry.fixed, urls) for cve in entry.cves]
        return found

    def unfixed_of(self, lock: ReleaseLock, locks: Iterable[ReleaseLock]) -> list[Unfixed]:
        """The vulnerabilities of a release's components."""
        return self.unfixed(((name, c.version) for name, c in lock.components.items()), locks)


def in_words(found: Sequence[Unfixed]) -> str:
    """Vulnerabilities in a line: by component, and with the release that mends all of them."""
    parts = []
    for name, version in dict.fromkeys((one.component, one.version) for one in found):
        own = [one for one in found if (one.component, one.version) == (name, version)]
        fixed = max((one.fixed for one in own), key=Version)
        parts.append(f"{name} {version} ({', '.join(sorted(one.cve for one in own))}; fixed in CTK {fixed})")
    return f"known vulnerabilities: {'; '.join(parts)}" if parts else ""


_SHAPE = TypeAdapter(Support)


def load_support(workspace: Workspace) -> Support:
    """What a checkout says of support; LockError with every problem of the file and its line."""
    path = workspace.variants / SUPPORT
    return parse_support(read(path)) if path.exists() else Support()


def parse_support(text: str, today: date | None = None) -> Support:
    """The same from the text of the file; with `today` no day in it may be later, as `ctk lint` has it.

    Only there: on a machine whose clock is some days slow, a page that was read yesterday stops nobody.
    """
    step = f"name the page that says it in variants/{SUPPORT}, or take the entry out: nothing there is guessed"
    return parse_by_hand(text, _SHAPE, SUPPORT, step, lambda said: _contradictions(said, today))


def _contradictions(said: Support, today: date | None) -> Iterator[tuple[Place, str]]:
    """What the entries say of each other, or of the future, that cannot be."""
    for key, page in said.sources.items():
        for what, day in (("read", page.read), ("dated", page.dated)):
            if today and day and day > today:
                yield ("sources", key, what), f"{day} is in the future"
    for part in ("drivers", "gpus", "vulnerabilities"):
        for i, entry in enumerate(getattr(said, part)):
            for name in set(entry.sources) - set(said.sources):
                yield (part, i, "sources"), f"there is no source {name!r}"
    branches = {branch.branch for branch in said.drivers}
    for i, generation in enumerate(said.gpus):
        if generation.last_driver not in branches:
            yield ("gpus", i, "last_driver"), f"{generation.last_driver!r} is none of the drivers"
    for cve, number in Counter(cve for entry in said.vulnerabilities for cve in entry.cves).items():
        if number > 1:
            yield ("vulnerabilities",), f"{cve} is stated twice"
