"""Every error the tooling raises on purpose: a cause, a next step and an exit code of its own.

The command line prints ``error: <cause>`` and ``next: <step>``; a traceback only with ``--debug``.
Problems of one file are collected and raised once (`problems`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches


class CtkError(Exception):
    """Base of the tooling's errors: the cause, and what the user can do next, one sentence each."""

    exit_code = 1

    def __init_subclass__(cls, exit_code: int | None = None) -> None:
        if exit_code is not None:
            cls.exit_code = exit_code

    def __init__(self, cause: str, step: str = "") -> None:
        self.cause, self.step = without_credentials(cause), without_credentials(step)
        super().__init__(self.cause)


class BadValue(CtkError, exit_code=2):
    """A value on the command line that cannot be read."""


class UnknownName(CtkError, exit_code=3):
    """A release, recipe, platform or Python that does not exist here."""

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str]) -> UnknownName:
        """An error naming the valid names nearest to the one given; where none is near, all of a few, or the first."""
        valid = sorted(set(known))
        if kind == "platform" and name.startswith("osx"):  # NVIDIA's last toolkit for macOS is 10.2: docs/platforms.md
            return cls(f"there is no CUDA for macOS ({name})", f"name the GPU machine's platform: {', '.join(valid)}")
        if near := nearest(name, valid, cutoff=0.5):
            step = f"did you mean {' or '.join(near)}?"
        elif len(valid) <= _FEW:
            step = f"choose one of {', '.join(valid)}" if valid else f"there is no {kind} yet"
        else:
            step = f"there are {len(valid)}, such as {', '.join(valid[:3])}"
        return cls(f"unknown {kind} {name!r}", step)


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuses a name that does not exist, with those that are nearest."""
    for name in names:
        if name not in known:
            raise UnknownName.of(kind, name, known)


def nearest(name: str, known: Iterable[str], cutoff: float) -> list[str]:
    """At most three names that somebody may have meant: written almost so, or with this name as one of their words."""
    valid = sorted(set(known))
    words = [other for other in valid if name and name in re.split("[-_]", other)]
    return (get_close_matches(name, valid, n=3, cutoff=cutoff) or words)[:3]


class LockError(CtkError, exit_code=4):
    """A release lock that does not follow its schema, disagrees with its variant file, or is not measured yet."""


class IndexUnavailable(CtkError, exit_code=5):
    """The package index did not answer, or answered with an error after every retry, or with what is no answer."""


class NotPublished(CtkError, exit_code=6):
    """The index answers, but holds no such distribution, version or file."""


class HashMismatch(CtkError, exit_code=7):
    """An artefact whose sha256 is not the locked one. It was set aside and is never used."""


class BuildFailed(CtkError, exit_code=8):
    """rattler-build did not make a package, or one of the package's own tests failed."""


class AuditFailed(CtkError, exit_code=9):
    """A built package breaks a rule of the design."""


class Unsolvable(CtkError, exit_code=10):
    """No set of packages satisfies the request; `solver` is its own text, "" where it was not asked."""

    def __init__(self, cause: str, step: str = "", solver: str = "") -> None:
        super().__init__(cause, step)
        self.solver = solver


class Busy(CtkError, exit_code=11):
    """Another run holds the lock of this checkout."""


class NoSpace(CtkError, exit_code=12):
    """The disk is full, or a file could not be written, or may not be read."""


class OutOfDate(CtkError, exit_code=13):
    """A ``--check`` found that a generated file differs from what would be written."""


class RecipeError(CtkError, exit_code=14):
    """A recipe that rattler-build cannot render, or that asks for what no lock provides."""


class ProofFailed(CtkError, exit_code=15):
    """A created environment did not do what it must."""


class MeasureFailed(CtkError, exit_code=16):
    """A library that does not answer what it is asked about itself."""


class VerifyFailed(CtkError, exit_code=17):
    """A solver does not pick from the channel what it must."""


class SolverMissing(CtkError, exit_code=18):
    """A second solver or client that is not installed here."""


class SolverFailed(CtkError, exit_code=19):
    """A second solver or client that crashes, does not end, or answers what cannot be read."""


class ClusterFailed(CtkError, exit_code=20):
    """The Dask cluster that should build does not answer, has no worker, or has one that does not fit."""


class Incomplete(CtkError, exit_code=22):
    """A CTK release of which the package index does not have every artefact that its manifest asks for."""


class PackFailed(CtkError, exit_code=23):
    """An environment that conda-pack cannot make relocatable."""


class PublishFailed(CtkError, exit_code=24):
    """A server that does not take a package, or does not list it afterwards, or nothing to upload."""


class NameReused(CtkError, exit_code=25):
    """A package whose file name was published with other content."""


class ChannelBroken(CtkError, exit_code=26):
    """A channel that is not what its index says, or lacks what it should have."""


class NotReproduced(CtkError, exit_code=28):
    """A package that does not come out as the same bytes when it is built again."""


class ArtefactRefused(CtkError, exit_code=29):
    """An artefact that is the locked one, and holds what no recipe may see: nothing of it is used."""


class NotReady(CtkError, exit_code=30):
    """A machine or checkout that lacks what a job needs, or has a wrong clock; an environment with a fault."""


class LintFailed(CtkError, exit_code=31):
    """A recipe, a release lock or a variant file breaks a rule that blocks."""


class MachinesLost(CtkError, exit_code=32):
    """With a pin, machines that can have a package today could not install it."""


class ChannelMissing(CtkError, exit_code=33):
    """There is no channel in a place, or none that can be read."""

    @classmethod
    def of(cls, place: object) -> ChannelMissing:
        return cls(
            f"there is no channel in {place}",
            "make one with `ctk build`, or name another: --channel and --base take a folder or a URL",
        )


class CudaLost(CtkError, exit_code=34):
    """A package is a CPU build although it has CUDA builds, here or in another client."""


class Stopped(CtkError, exit_code=130):  # as shells have it: 128 and the number of the signal
    """Somebody pressed Ctrl-C."""


class ReaderGone(CtkError, exit_code=141):  # as shells have it: 128 and the number of the signal
    """What reads standard output has ended, as `head` does: nothing is said of it."""


_FEW = 10  # names that are listed whole


def problems(kind: type[CtkError], where: str, found: Sequence[str], step: str) -> CtkError:
    """One error that lists every problem found in one place, a line each."""
    count = f"{len(found)} problem" + ("s" if len(found) != 1 else "")
    return kind("\n".join([f"{where}: {count}", *(f"  - {line}" for line in found)]), step)


def printable(text: str) -> str:
    """A message for a terminal: what an index or a file says in it is shown, not obeyed."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


USER = r"""(?:[^/:?#@\s"<>\[]*:(?!\d*(?:[/?#\s"<>]|$))[^\s"<>]*|[^/?#\s"<>]*)(?=@)"""
"""What a URL has before its ``@``: with ``/`` and ``@`` where somebody did not code them, and no port with a path."""
_SECRETS = {
    rf"(?<=//){USER}": "***",
    r"""(?<=\w:/)(?!/)[^/:\s"<>]*:[^\s"<>]*(?=@)""": "***",  # `Path` leaves one slash of two
    r"""(?i)(https?:/{1,2}[^/\s"'<>]+(?:/[^\s"'<>]*?)?/t/)[^/\s"'<>]+""": r"\1***",  # conda's form of a token
    r"""(?i)([?&;#][\w.-]*(?:token|key|secret|passw|pwd|auth|sig|cred)[\w.-]*=)[^&#\s"'<>]+""": r"\1***",
}


def without_credentials(text: str) -> str:
    """A text without the users, passwords and tokens that URLs in it hold."""
    for pattern, rest in _SECRETS.items():
        text = re.sub(pattern, rest, text)
    return text


def describe(error: BaseException) -> str:
    """An error in one line, without the credentials that a URL in it may hold."""
    text = without_credentials(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
