"""The checks of `ctk doctor`: what is wrong here or in an environment, and what to do about it.

The checks run at the same time, and none can end the run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path

from ctk.core.address import public
from ctk.core.checkout import Workspace, channel_missing, lasting, refuse_unshown
from ctk.core.children import run_program
from ctk.core.console import count, listing
from ctk.core.disk import STEP_TO_WRITE, disk_errors
from ctk.core.errors import CtkError
from ctk.core.platforms import NOARCH
from ctk.core.secrets import without_credentials
from ctk.core.versions import version_key
from ctk.package.records import REPODATA, records
from ctk.rules import Check, Finding, S, Severity, checks_of
from ctk.solve.driver import NO_DEVICE, Answer, Change, DriverState, Limit, driver_state


@dataclass(frozen=True)
class Where:
    """What the checks of a machine look at.

    Attributes:
        workspace: The checkout.
        offline: Whether the network is left alone.
        channels: Channels in place of the built one.
        source: How these are known, where the command line does not name them; or "".
    """

    workspace: Workspace
    offline: bool = False
    channels: tuple[Path | str, ...] = ()
    source: str = ""


def look_at(
    subject: type[S], name: str, *, needed: bool = False
) -> Callable[[Callable[[S], Finding]], Check[S]]:
    """Makes a check of a function that returns one finding.

    `needed` if the commands of the README fail without it.
    """

    def make(look: Callable[[S], Finding]) -> Check[S]:
        @wraps(look)
        def run(where: S) -> list[Finding]:
            return [look(where)]

        return Check(name, subject, run, severity="error" if needed else "hint")

    return make


def ok(text: str) -> Finding:
    return Finding("", text, severity="ok")


def hint(text: str, step: str = "") -> Finding:
    """A hint: the commands of the README work without it."""
    return Finding("", text, fix=step, severity="hint")


def problem(text: str, step: str) -> Finding:
    return Finding("", text, fix=step, severity="error")


def state(severity: Severity | str) -> str:
    """The word for a severity in the output: ``ok``, ``note`` or ``problem``."""
    return {"ok": "ok", "hint": "note"}.get(severity, "problem")


def look(checks: Sequence[Check[S]], subject: S) -> list[tuple[Check[S], Finding]]:
    """Runs all checks at the same time; a check that fails has a finding that says so."""
    with ThreadPoolExecutor(len(checks)) as pool:
        return list(zip(checks, pool.map(lambda check: _look(check, subject), checks), strict=True))


def _look(check: Check[S], subject: S) -> Finding:
    try:
        with disk_errors(Path()):
            (found,) = check(subject)
            return found
    except CtkError as error:
        return check.complete(Finding("", error.cause.splitlines()[0], fix=error.step))
    except Exception as error:  # anything can be broken here
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        text = f"cannot be looked at: {without_credentials(line)[:200]}"
        return check.complete(Finding("", text, fix="run ./scripts/setup; it repairs .venv"))


def printed(*command: str) -> str | None:
    """The output of a program; None if it is not installed, or fails."""
    try:
        done = run_program(command, timeout=8)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return done.stdout.strip() or done.stderr.strip()


# --- the checks of this checkout, of clients and of hardware. Packages are imported inside a check,
# so that a missing package makes only this check fail.

_SETUP = "run ./scripts/setup; it makes .venv as the locks say"
_ASKED = "cuda-toolkit"  # the manifest of every CTK release
KEEP_CHANNEL = "ctk doctor --channel URL --keep"
LEAST_FREE = (
    6e9  # bytes: the default channel, its base channel, the artefacts of both, and room to build in
)


@look_at(Where, "packages", needed=True)
def _packages(where: Where) -> Finding:
    """The packages of the tool, in their locked versions.

    Those for tests may be missing: scripts/test installs them.
    """
    root = where.workspace.root
    wanted, for_tests = (_locked(root / f"requirements{part}.lock") for part in ("", "-dev"))
    have = _installed()
    wrong = []
    for name, version in (wanted | for_tests).items():
        found = have.get(_plain(name), "is missing" if name in wanted else version)
        if found != version:
            wrong.append(f"{name} {found}")
    if wrong:
        return problem(f"not as the locks have them: {listing(wrong, most=3)}", _SETUP)
    return ok(f"{len(wanted)}, as requirements.lock has them")


def _locked(lock: Path) -> dict[str, str]:
    """Name -> version, of a lock of pip."""
    text = lock.read_text(encoding="utf-8") if lock.exists() else ""
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.M))


def _installed() -> dict[str, str]:
    """The packages of this Python by their `_plain` names, and their versions.

    By the names of their folders (the standard "Recording installed projects"): whoever reads the
    metadata of 150 packages reads their descriptions, too.
    """
    found: dict[str, str] = {}
    for place in sys.path:
        for folder in Path(place).glob("*.dist-info"):
            name, _, version = folder.stem.partition("-")
            found.setdefault(_plain(name), version)
    return found


def _plain(name: str) -> str:
    """A name of a package as all of its spellings have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@look_at(Where, "package index", needed=True)
def _index(where: Where) -> Finding:
    """The package index that pip is configured for, from which all artefacts come."""
    if where.offline:  # pip, which knows its address, takes longer to ask than all other checks
        return ok("not asked (--offline)")
    from ctk.index import pip_settings
    from ctk.index.client import Retry
    from ctk.index.index import Index

    settings = pip_settings()
    named = ", ".join(map(public, (*settings.index_urls, *settings.find_links))) or "none"
    try:
        with Index(settings, Retry(attempts=1)) as index:
            newest = index.files(_ASKED)[0].version
    except CtkError as error:
        return problem(f"{named}: {error.cause}", error.step or "see pip config list")
    return ok(f"{named} answers; {_ASKED} {newest}")


@look_at(Where, "disk", needed=True)
def _disk(where: Where) -> Finding:
    """A writable cache, and room for artefacts, builds and channels."""
    place, free = where.workspace.own_cache, shutil.disk_usage(where.workspace.root).free
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return problem(f"{place} cannot be written: {error.strerror}", STEP_TO_WRITE)
    text = f"{free / 1e9:.1f} GB are free"
    if free < LEAST_FREE and not where.workspace.channel.exists():
        return problem(f"{text}, but the first build needs {LEAST_FREE / 1e9:.0f} GB", "free some")
    return ok(text)


@look_at(Where, "channel")
def _channel(where: Where) -> Finding:
    """The channel that environments are made from.

    That of `ctk build`, of --channel, or without a checkout the user's own.
    """
    if where.channels:
        return _named(where)
    if not where.workspace.is_checkout:
        return problem("none is known", f"{KEEP_CHANNEL} keeps yours for all commands")
    packages = [name.partition("/")[2] for name in records(where.workspace.channel)]
    if not packages:
        return hint("not built yet", "./scripts/build makes it; --channel URL looks at another")
    made = datetime.fromtimestamp(os.lstat(where.workspace.channel).st_mtime, UTC)
    text = f"{count(len(packages), 'package')}, made {made:%Y-%m-%d %H:%M} UTC"
    newest = next(reversed(where.workspace.locked_minors), "")
    if newest and not any(name.startswith(f"cuda-version-{newest}-") for name in packages):
        return hint(
            f"{text}, without {newest}, the newest locked release", "ctk build brings it up to date"
        )
    return ok(text)


def _named(where: Where) -> Finding:
    """The channels that --channel names."""
    named = ", ".join(without_credentials(lasting(str(channel))) for channel in where.channels)
    named = f"{named} ({where.source})" if where.source else named
    if where.offline and not all(isinstance(channel, Path) for channel in where.channels):
        return ok(f"{named}; not asked (--offline)")
    try:
        found = {version for channel in where.channels for version in _toolkits(channel, where)}
    except CtkError as error:
        return problem(error.cause, error.step)
    if not found:
        return problem(f"{named} has no toolkit", "name another --channel")
    return ok(f"{named}: toolkit {listing(sorted(found, key=version_key))}")


def _toolkits(channel: Path | str, where: Where) -> list[str]:
    """The toolkits of a channel: the versions of cuda-version, which is the same everywhere.

    Raises:
        ChannelMissing, ChannelBroken: There is no channel, or its index cannot be read.
    """
    from ctk.fetch.channels import is_on_server

    if isinstance(channel, str):
        if not is_on_server(channel):  # a name, or a store: rattler knows how to read it
            return _asked_of_rattler(channel)
        from ctk.fetch.repodata import IndexFolder

        folder = IndexFolder(channel, where.workspace.notes / "channels").fetch([NOARCH])
    else:
        folder = channel
        refuse_unshown(folder)
        if not any(folder.glob(f"*/{REPODATA}")):
            raise channel_missing(folder)
    found = records(folder, NOARCH).values()
    return [record["version"] for record in found if record.get("name") == "cuda-version"]


def _asked_of_rattler(channel: str) -> list[str]:
    from ctk.core.platforms import this_platform
    from ctk.solve.solve import Catalogue  # slow to import

    return Catalogue([channel], this_platform()).versions("cuda-version")


@look_at(Where, "driver")
def _driver(where: Where) -> Finding:
    """The newest CUDA version of the driver decides the pick; so does a GPU that clients detect."""
    from ctk.solve.machine import STATE_DRIVER, machine, overstated

    this = machine()
    if warning := overstated(this, where.workspace):
        return hint(warning, STATE_DRIVER)
    if not this.stated:
        fault = driver_at_fault(this.unseen or driver_state())
        if fault:
            return hint(fault.message, fault.fix)
    query = ("--query-gpu=name,driver_version", "--format=csv,noheader")
    gpus = (printed("nvidia-smi", *query) or "").splitlines()
    first = gpus[0] if gpus else ""
    if this.driver:
        words = f"{this.words}; nvidia-smi: {first}" if first else this.words
        step = _too_old(this.arch, where.workspace) if this.arch else ""
        return hint(words, step) if step else ok(words)
    if first:
        return hint(
            f"nvidia-smi says {first}, and libcuda cannot be loaded",
            "repair the driver's installation",
        )
    return hint(
        "none: kernels are compiled here and not run; --driver and --arch describe another machine"
    )


def _too_old(gpu: str, workspace: Workspace) -> str:
    """What to do about a GPU that no known toolkit compiles for; "" for others."""
    from ctk.lock.model import release_locks  # slow to import
    from ctk.solve.machine import too_old

    return too_old(gpu, release_locks(workspace).values())


def driver_at_fault(state: DriverState) -> Finding | None:
    """What is wrong with a driver that is installed and does not work.

    None if it works, or if there is none.
    """
    if state.limit in (Limit.NOTHING, Limit.NO_DRIVER):
        return None
    seen = state.seen
    if state.change is not None:
        return problem(_at_fault(state.limit, state.change, seen), _as_command(state.change))
    if state.limit is Limit.SILENT:
        step = "restart this machine; if that does not help, install the driver again"
        return problem(
            "the driver is installed, and crashes or does not answer when it is started", step
        )
    version = f" for CUDA {seen.version}" if seen.version else ""
    if state.limit is Limit.NO_DEVICE:
        cause = (
            f"a driver{version} is installed, but no GPU was found: {_failure(seen)}, and there is"
            " no /dev/nvidiactl"
        )
        return problem(
            cause,
            "start the container with a GPU (docker run --gpus all), or load the driver's module",
        )
    step = "run nvidia-smi; after an update of the driver, restart this machine"
    return problem(f"the driver{version} does not start: {_failure(seen)}", step)


def _at_fault(limit: Limit, change: Change, seen: Answer) -> str:
    """A driver that works after a change of one variable, in words."""
    if limit is Limit.NOT_FOUND:
        return f"the driver is {seen.library}, where programs do not look for it"
    if change.variable == "LD_LIBRARY_PATH":
        return (
            f"LD_LIBRARY_PATH leads to {seen.library}, which is not this machine's driver:"
            f" {_failure(seen)}"
        )
    if seen.error == NO_DEVICE:
        return (
            f"{change.variable}={change.was} hides the GPU from programs: {_failure(seen)}; without"
            " it they find one"
        )
    return (
        f"the driver does not start with {change.variable}={change.was}: {_failure(seen)}; without"
        " it, it does"
    )


def _failure(seen: Answer) -> str:
    """The call of the driver that failed, and what it returned."""
    if seen.function == "":
        return "cuDeviceGetCount gives 0"
    name = seen.error or f"error {seen.code}"
    words = f" ({seen.description})" if seen.description else ""
    return f"{seen.function} gives {name}{words}"


def _as_command(change: Change) -> str:
    """A change of a variable as a command of the shell."""
    if change.value is None:
        return f"unset {change.variable}"
    return f"export {change.variable}={shlex.quote(change.value)}"


@look_at(Where, "clients")
def _clients(where: Where) -> Finding:
    """The programs on PATH that install from the channel: each must detect the real driver."""
    from ctk.solve.machine import machine

    this = machine()
    driver = this.driver or ""
    # what clients see is not compared with nothing
    is_broken = this.unseen is not None and this.unseen.works is None
    found = []
    for name in ("conda", "mamba", "micromamba", "pixi"):
        if not (place := shutil.which(name)):
            continue
        text = printed(place, "info")
        if text is None:
            return hint(f"{place} info fails", "repair it")
        # mamba takes the toolkit in /usr/local/cuda for the driver:
        # libmamba/src/core/virtual_packages.cpp of 2.0.6 on
        sees = re.search(r"__cuda=(\d+\.\d+)", text)
        if sees and sees[1] != driver and not is_broken:
            truth = f"it supports {driver}" if driver else "there is none"
            said = f"{place} sees a driver for CUDA {sees[1]}; {truth}"
            return problem(said, f"export CONDA_OVERRIDE_CUDA={driver}")
        version = re.search(rf"\b{name} version\s*: (\S+)", text, re.IGNORECASE)
        title = f"{name} {version[1]}" if version else name
        found.append(f"{title}, {place}")
    return ok("; ".join(found)) if found else hint("none on PATH")


CHECKS = checks_of(sys.modules[__name__])
OF_A_USER = tuple(check for check in CHECKS if check.severity != "error")
"""The checks without a checkout: the others are of what ./scripts/build and ./scripts/test need."""
