"""All errors of the tool: each has a cause, a next step and its own exit code.

The command line prints ``error: <cause>`` and ``next: <step>``, and a traceback only with
``--debug``. The problems of one file are raised together (`problems`). `scripts/write-docs` makes a
table of the docstrings.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Sequence

from ctk.core.secrets import without_credentials as without_credentials
from ctk.core.similar import nearest


class CtkError(Exception):
    """Something that is not listed here; the traceback is shown."""

    exit_code = 1  # a kind that is listed has its own

    def __init_subclass__(cls, exit_code: int | None = None) -> None:
        if exit_code is not None:
            cls.exit_code = exit_code

    def __init__(self, cause: str, step: str = "") -> None:
        self.cause, self.step = without_credentials(cause), without_credentials(step)
        super().__init__(self.cause)


class BadValue(CtkError, exit_code=2):
    """The command line cannot be read.

    It has a value such as `cuda-core==`, has an unknown option, or lacks an argument.
    """


class UnknownName(CtkError, exit_code=3):
    """There is no such release, recipe, platform or Python; the nearest ones are named.

    `ctk build-recipe`: there is no `recipe.yaml`, or no build for the CUDA major or Python.
    """

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str], otherwise: str = "") -> UnknownName:
        """An error with the nearest valid names.

        If none is near, with the step `otherwise`, or with all names or the first ones.
        """
        valid = sorted(set(known))
        if kind == "platform" and name.startswith(
            "osx"
        ):  # NVIDIA's last is 10.2: docs/names-and-platforms.md
            return cls(
                f"there is no CUDA for macOS ({name})",
                f"name the GPU machine's platform: {', '.join(valid)}",
            )
        near = nearest(name, valid)
        if near and len(near) < len(valid):
            step = f"did you mean {' or '.join(near)}?"
        elif otherwise:
            step = otherwise
        elif len(valid) <= _FEW:
            step = f"choose one of {', '.join(valid)}" if valid else f"there is no {kind} yet"
        else:
            step = f"there are {len(valid)}, such as {', '.join(valid[:3])}"
        return cls(f"unknown {kind} {name!r}", step)


def refuse_unknown_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raises UnknownName for a name that is not in `known`."""
    for name in names:
        if name not in known:
            raise UnknownName.of(kind, name, known)


class LockError(CtkError, exit_code=4):
    """A release lock does not follow its schema, or is not measured yet.

    Every problem is listed with its place.
    """


class IndexUnavailable(CtkError, exit_code=5):
    """The package index did not answer after several tries.

    Or a download was interrupted again and again and brought next to nothing, the answer is not a
    page of an index (403, 451 and others), or a setting cannot be used: `PIP_CERT`, `PIP_PROXY`,
    `HTTPS_PROXY` and others.
    """


class NotPublished(CtkError, exit_code=6):
    """The index has no such distribution, version or file."""


class HashMismatch(CtkError, exit_code=7):
    """A file is not the locked one, or not the package that a channel's index names.

    It is not used.
    """


class BuildFailed(CtkError, exit_code=8):
    """rattler-build did not make a package, or one of a package's own tests failed.

    The log is named.
    """


class AuditFailed(CtkError, exit_code=9):
    """A package breaks a rule; the channel in place was not changed.

    `ctk build-recipe`: a package is wrong, as its lines `WRONG:` say: it needs a library that no
    package of the environment has, admits GPUs for which it has no code, or was built with another
    toolkit. `ctk publish`: a new package is one of these, or its tests failed.
    """


class Unsolvable(CtkError, exit_code=10):
    """No set of packages satisfies the request.

    `ctk build-recipe`: the environment to build in has no solution (this machine may lack a
    compiler), no build fits a driver, or a package cannot be installed on any machine.
    """

    def __init__(self, cause: str, step: str = "", solver: str = "", kind: str = "") -> None:
        super().__init__(cause, step)
        self.solver = solver  # the solver's text, "" if it was not asked
        self.kind = kind  # of the reason, as `ctk.solve.reason.Kind`; "" if none was looked for


class Busy(CtkError, exit_code=11):
    """Another run publishes into this folder or bucket."""


class NoSpace(CtkError, exit_code=12):
    """The disk is full, or a file or folder cannot be written or read.

    A folder cannot be made below a file, in `/proc`, or in a checkout that may only be read; a file
    has reached its largest size (`ulimit -f`) or may not be read; or standard output cannot be
    written.
    """


class RecipeError(CtkError, exit_code=14):
    """A recipe cannot be read or rendered, or reads what no release lock has.

    The error names file and line.
    """


class MeasureFailed(CtkError, exit_code=16):
    """`ctk release measure` gets no answer from a library, or cannot read an artefact."""


class VerifyFailed(CtkError, exit_code=17):
    """A solver does not pick from the channel what `ctk verify` expects.

    The first wrong picks are printed.
    """


class SolverMissing(CtkError, exit_code=18):
    """The solver that `ctk verify --solver` names is not installed or built here."""


class SolverFailed(CtkError, exit_code=19):
    """The solver of `ctk verify --solver` crashed, ended too late, or gave an unreadable answer.

    Other commands: rattler's solver gave no answer within ten minutes.
    """


class ClusterFailed(CtkError, exit_code=20):
    """The Dask cluster of `ctk build --dask` does not answer or is lost, or a ctk is another.

    Each worker needs the ctk of the run.
    """


class Incomplete(CtkError, exit_code=22):
    """The package index lacks artefacts of a toolkit release; each is named."""


class PackFailed(CtkError, exit_code=23):
    """conda-pack refuses the environment of `ctk env pack`.

    The packages that cause it are named.
    """


class PublishFailed(CtkError, exit_code=24):
    """A server does not take a package, does not answer, or does not list what it was sent.

    Or the channel has nothing to publish.
    """


class NameReused(CtkError, exit_code=25):
    """The file name of a package was published with other content.

    Each is listed, with the recipes to change.
    """


class ChannelBroken(CtkError, exit_code=26):
    """A channel is not what its index says; `ctk check` lists every problem.

    Or it lacks a package that an environment needs, or the package cannot be installed.
    """


class NotReproduced(CtkError, exit_code=28):
    """`ctk check --rebuild`: a package was built with other bytes; the differences are listed."""


class NotReady(CtkError, exit_code=30):
    """This machine, checkout or environment is not as it must be.

    Each problem is listed with what to do. `ctk doctor`: the main job would not work here; with
    PREFIX, something is wrong with the environment. `ctk env create`: a change of the environment
    could remove or overwrite files outside of it. `ctk build`: there is no bash on `PATH`, or the
    path of the checkout, its `.cache` or `TMPDIR` has a quote, a colon, `$`, a backslash or a
    control character. `ctk publish --to`: the clock is wrong.
    """


class LintFailed(CtkError, exit_code=31):
    """`ctk lint`: a recipe, a release lock or a variant file breaks a rule.

    Each finding names the fix.
    """


class MachinesLost(CtkError, exit_code=32):
    """`ctk solve --pin`: some machines that can install the package today could not with the pin.

    It is printed which, and why.
    """


class ChannelMissing(CtkError, exit_code=33):
    """There is no channel in the folder or at the address, or it cannot be read.

    The place was named, or is the default. Its server did not answer after several tries, or
    refuses.
    """


class NotAccepted(CtkError, exit_code=35):
    """`ctk publish`: the licence text of a package does not name all of its files for distribution.

    The packages are listed, and nothing was written.
    """


class WouldLose(CtkError, exit_code=36):
    """An environment or a channel would lose something that it has, and nothing was changed.

    `ctk env add`: its toolkit or its Python would have to change, a CUDA build would become a CPU
    build, or nvJitLink would leave its toolkit; `--move` lets it. `ctk env create`: packages would
    go that were asked for before and are not named now; `--yes` lets them go. `ctk publish
    --exact`: packages would leave the index; `--yes` lets them.
    """

    def __init__(self, cause: str, step: str = "", packages: Iterable[str] = ()) -> None:
        super().__init__(cause, step)
        self.packages = tuple(packages)  # that would go: name and version of each


class FileUnreadable(CtkError, exit_code=37):
    """A file that asks for packages cannot be read: line and reason are named.

    There is no such file, you may not read it, it is truncated, it is not UTF-8 text, or its
    format is not supported (`ctk.envfile.model.Format`).
    """


class Stopped(CtkError, exit_code=130):  # as shells have it: 128 and the number of the signal
    """Ctrl-C; the command ended, and all processes that it had started too.

    Other signals have codes of their own: 143 for SIGTERM, 129 for SIGHUP.
    """

    @classmethod
    def by(cls, number: int) -> Stopped:
        """The error for a signal."""
        how = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
        error = cls(
            f"stopped{how}",
            "run the same command again; downloads, and what `ctk build` finished, are kept",
        )
        error.exit_code = 128 + number
        return error


class ReaderGone(CtkError, exit_code=141):  # as shells have it: 128 and the number of the signal
    """The program that reads standard output ended first, such as `head` in a pipe.

    No message is printed.
    """


_FEW = 10  # names of which all are listed


def problems(kind: type[CtkError], where: str, found: Sequence[str], step: str) -> CtkError:
    """One error for all problems of a file, a line each."""
    count = f"{len(found)} problem" + ("s" if len(found) != 1 else "")
    return kind("\n".join([f"{where}: {count}", *(f"  - {line}" for line in found)]), step)


def printable(text: str) -> str:
    """A message with control characters escaped: no terminal may obey texts of others."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def describe(error: BaseException) -> str:
    """An error in one line, without credentials in URLs."""
    text = without_credentials(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
