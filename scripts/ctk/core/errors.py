"""All errors of the tool: each has a cause, a next step and its own exit code.

The command line prints ``error: <cause>`` and ``next: <step>``, and a traceback only with ``--debug``.
The problems of one file are raised together (`problems`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches


class CtkError(Exception):
    """Base class: the cause, and the user's next step, a sentence each."""

    exit_code = 1

    def __init_subclass__(cls, exit_code: int | None = None) -> None:
        if exit_code is not None:
            cls.exit_code = exit_code

    def __init__(self, cause: str, step: str = "") -> None:
        self.cause, self.step = without_credentials(cause), without_credentials(step)
        super().__init__(self.cause)


class BadValue(CtkError, exit_code=2):
    """An invalid value on the command line."""


class UnknownName(CtkError, exit_code=3):
    """A release, recipe, platform or Python that does not exist here."""

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str]) -> UnknownName:
        """An error with the nearest valid names; if none is near, with all names or the first ones."""
        valid = sorted(set(known))
        if kind == "platform" and name.startswith("osx"):  # NVIDIA's last toolkit for macOS is 10.2: docs/platforms.md
            return cls(f"there is no CUDA for macOS ({name})", f"name the GPU machine's platform: {', '.join(valid)}")
        near = nearest(name, valid, cutoff=0.5)
        if near and len(near) < len(valid):
            step = f"did you mean {' or '.join(near)}?"
        elif len(valid) <= _FEW:
            step = f"choose one of {', '.join(valid)}" if valid else f"there is no {kind} yet"
        else:
            step = f"there are {len(valid)}, such as {', '.join(valid[:3])}"
        return cls(f"unknown {kind} {name!r}", step)


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raises UnknownName for a name that is not in `known`."""
    for name in names:
        if name not in known:
            raise UnknownName.of(kind, name, known)


def nearest(name: str, known: Iterable[str], cutoff: float) -> list[str]:
    """At most three names that are spelled alike, or that have this name as one of their words."""
    valid = sorted(set(known))
    words = [other for other in valid if name and name in re.split("[-_]", other)]
    return (get_close_matches(name, valid, n=3, cutoff=cutoff) or words)[:3]


class LockError(CtkError, exit_code=4):
    """A release lock does not follow its schema, disagrees with its variant file, or is not measured yet."""


class IndexUnavailable(CtkError, exit_code=5):
    """The package index did not answer, or all retries failed, or its answer is invalid."""


class NotPublished(CtkError, exit_code=6):
    """The index answers, but has no such distribution, version or file."""


class HashMismatch(CtkError, exit_code=7):
    """An artefact has another sha256 than the lock. It is never used."""


class BuildFailed(CtkError, exit_code=8):
    """rattler-build did not make a package, or one of the package's own tests failed."""


class AuditFailed(CtkError, exit_code=9):
    """A built package breaks a rule of the design."""


class Unsolvable(CtkError, exit_code=10):
    """No set of packages satisfies the request; `solver` is the solver's text, "" if it was not asked."""

    def __init__(self, cause: str, step: str = "", solver: str = "") -> None:
        super().__init__(cause, step)
        self.solver = solver


class Busy(CtkError, exit_code=11):
    """Another run publishes into a folder."""


class NoSpace(CtkError, exit_code=12):
    """The disk is full, a file cannot be written, or may not be read."""


class RecipeError(CtkError, exit_code=14):
    """A recipe does not render, or needs an artefact that no lock has."""


class ProofFailed(CtkError, exit_code=15):
    """A program of `ctk verify --install` failed in its environment."""


class MeasureFailed(CtkError, exit_code=16):
    """A library does not return the facts to measure, or an artefact cannot be read."""


class VerifyFailed(CtkError, exit_code=17):
    """A solver picks other packages than expected."""


class SolverMissing(CtkError, exit_code=18):
    """A second solver or client is not installed here."""


class SolverFailed(CtkError, exit_code=19):
    """A second solver or client crashes, does not end, or has invalid output."""


class ClusterFailed(CtkError, exit_code=20):
    """The Dask cluster does not answer, has no worker, or has a worker that does not fit."""


class Incomplete(CtkError, exit_code=22):
    """The package index lacks artefacts of a CTK release's manifest."""


class PackFailed(CtkError, exit_code=23):
    """conda-pack cannot make an environment relocatable."""


class PublishFailed(CtkError, exit_code=24):
    """A server does not accept a package, or does not list it afterwards; or there is nothing to upload."""


class NameReused(CtkError, exit_code=25):
    """A package's file name was published with other content."""


class ChannelBroken(CtkError, exit_code=26):
    """A channel disagrees with its index, or lacks files."""


class NotReproduced(CtkError, exit_code=28):
    """A package has other bytes when it is built again."""


class NotReady(CtkError, exit_code=30):
    """A machine or checkout lacks a requirement or has a wrong clock; or an environment has a fault."""


class LintFailed(CtkError, exit_code=31):
    """A recipe, a release lock or a variant file breaks a rule that blocks."""


class MachinesLost(CtkError, exit_code=32):
    """With a pin, some machines that can install a package today could not."""


class ChannelMissing(CtkError, exit_code=33):
    """There is no readable channel in a place."""

    @classmethod
    def of(cls, place: object) -> ChannelMissing:
        return cls(
            f"there is no channel in {place}",
            "make one with `ctk build`, or name another: --channel and --base take a folder or a URL",
        )


class NotAccepted(CtkError, exit_code=35):
    """Packages have files that their licence text does not name for distribution, and nobody accepted that."""


class Stopped(CtkError, exit_code=130):  # as shells have it: 128 and the number of the signal
    """The user pressed Ctrl-C."""


class ReaderGone(CtkError, exit_code=141):  # as shells have it: 128 and the number of the signal
    """The reader of standard output has ended, as `head` does: no message is printed."""


_FEW = 10  # names of which all are listed


def problems(kind: type[CtkError], where: str, found: Sequence[str], step: str) -> CtkError:
    """One error for all problems of a file, a line each."""
    count = f"{len(found)} problem" + ("s" if len(found) != 1 else "")
    return kind("\n".join([f"{where}: {count}", *(f"  - {line}" for line in found)]), step)


def printable(text: str) -> str:
    """A message with control characters escaped: a terminal must not obey texts of an index or a file."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


USER = r"""(?:[^/:?#@\s"<>\[]*:(?!\d*(?:[/?#\s"<>]|$))[^\s"<>]*|[^/?#\s"<>]*)(?=@)"""
"""The user and password of a URL, also with an unencoded ``/`` or ``@``; not a port with a path."""
_SECRETS = {
    rf"(?<=//){USER}": "***",
    r"""(?<=\w:/)(?!/)[^/:\s"<>]*:[^\s"<>]*(?=@)""": "***",  # `Path` leaves one slash of two
    r"""(?i)(https?:/{1,2}[^/\s"'<>]+(?:/[^\s"'<>]*?)?/t/)[^/\s"'<>]+""": r"\1***",  # conda's form of a token
    r"""(?i)([?&;#][\w.-]*(?:token|key|secret|passw|pwd|auth|sig|cred)[\w.-]*=)[^&#\s"'<>]+""": r"\1***",
}


def without_credentials(text: str) -> str:
    """A text without the users, passwords and tokens of its URLs."""
    for pattern, rest in _SECRETS.items():
        text = re.sub(pattern, rest, text)
    return text


def describe(error: BaseException) -> str:
    """An error in one line, without credentials in URLs."""
    text = without_credentials(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
