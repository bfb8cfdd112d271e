"""The checks of `ctk doctor`: how this machine, this checkout or an environment is, and what to do about it.

The checks run at the same time, each within a limit, and none can end the run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from importlib import metadata
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.console import count, listing
from ctk.core.errors import CtkError, without_credentials
from ctk.core.files import disk_errors, step_to_write
from ctk.rules import Check, Finding, S, Severity, checks_of

LIMIT = 10.0  # seconds for all checks together


@dataclass(frozen=True)
class Where:
    """The checkout that checks look at, whether the network is left alone, and channels in place of the built one."""

    workspace: Workspace
    offline: bool = False
    channels: tuple[Path | str, ...] = ()


def look_at(subject: type[S], name: str, *, needed: bool = False) -> Callable[[Callable[[S], Finding]], Check[S]]:
    """Makes a check of a function that returns one finding; `needed` if the commands of the README fail without it."""

    def make(look: Callable[[S], Finding]) -> Check[S]:
        @wraps(look)
        def run(where: S) -> list[Finding]:
            return [look(where)]

        return Check(name, subject, run, severity="error" if needed else "hint")

    return make


def ok(text: str) -> Finding:
    return Finding("", text, severity="ok")


def missing(text: str, step: str = "") -> Finding:
    """A hint: the commands of the README work without it."""
    return Finding("", text, fix=step, severity="hint")


def problem(text: str, step: str) -> Finding:
    return Finding("", text, fix=step, severity="error")


def state(severity: Severity | str) -> str:
    """The word for a severity in the output: ``ok``, ``missing`` or ``problem``."""
    return {"ok": "ok", "hint": "missing"}.get(severity, "problem")


def look(checks: Sequence[Check[S]], subject: S, limit: float = LIMIT) -> list[tuple[Check[S], Finding]]:
    """Runs all checks at the same time; a check that hangs or fails has a finding that says so."""
    found: dict[str, Finding] = {}
    threads = [threading.Thread(target=_look, args=(check, subject, found), daemon=True) for check in checks]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = Finding("", f"no answer within {limit:.0f} s", fix="try again, or see what holds it up")
    return [(check, found.get(check.name) or check.complete(late)) for check in checks]


def _look(check: Check[S], subject: S, found: dict[str, Finding]) -> None:
    try:
        with disk_errors(Path()):
            (found[check.name],) = check(subject)
    except CtkError as error:
        found[check.name] = check.complete(Finding("", error.cause.splitlines()[0], fix=error.step))
    except Exception as error:  # anything can be broken here
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        text = f"cannot be looked at: {without_credentials(line)[:200]}"
        found[check.name] = check.complete(Finding("", text, fix="run ./scripts/setup; it repairs .venv"))


def first_line(*command: str, timeout: float = 8) -> str | None:
    """The first line that a program prints; None if it is not installed, or fails."""
    text = printed(*command, timeout=timeout)
    return (text.splitlines() or [""])[0] if text is not None else None


def printed(*command: str, timeout: float = 8) -> str | None:
    """The output of a program; None if it is not installed, or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or done.stderr.strip() if done.returncode == 0 else None


# --- the checks of this checkout, of clients and of hardware. Packages are imported inside a check, so that a missing
# package makes only this check fail.

_SETUP = "run ./scripts/setup; it makes .venv as requirements.lock says"
_ASKED = "cuda-toolkit"  # the manifest of every CTK release
LEAST_FREE = 6e9  # bytes: the default channel, its base channel, the artefacts of both, and room to build in


@look_at(Where, "packages", needed=True)
def _packages(where: Where) -> Finding:
    """The packages of the tool, in their locked versions."""
    lock = (where.workspace.root / "requirements.lock").read_text(encoding="utf-8")
    wanted = dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.M))
    have = {name: _version(name) for name in wanted}
    wrong = [f"{name} {have[name] or 'is missing'}" for name in wanted if have[name] != wanted[name]]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        return problem(f"not as requirements.lock has them: {', '.join(wrong[:3])}{more}", _SETUP)
    return ok(f"{len(wanted)}, as requirements.lock has them")


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


@look_at(Where, "package index", needed=True)
def _index(where: Where) -> Finding:
    """The package index that pip is configured for, from which all artefacts come."""
    from ctk.index import pip_settings

    settings = pip_settings()
    named = ", ".join(map(without_credentials, (*settings.index_urls, *settings.find_links))) or "none"
    if where.offline:
        return ok(f"{named}; not asked (--offline)")
    from ctk.index.client import Retry
    from ctk.index.index import Index

    try:
        with Index(settings, Retry(attempts=1)) as index:
            newest = index.files(_ASKED)[0].version
    except CtkError as error:
        cause, step = without_credentials(error.cause), without_credentials(error.step)
        return problem(f"{named}: {cause}", step or "see pip config list")
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
        return problem(f"{place} cannot be written: {error.strerror}", step_to_write(place))
    text = f"{free / 1e9:.1f} GB are free"
    if free < LEAST_FREE and not where.workspace.channel.exists():
        return problem(f"{text}, and the first build takes {LEAST_FREE / 1e9:.0f} GB", "free some")
    return ok(text)


@look_at(Where, "channel")
def _channel(where: Where) -> Finding:
    """The channel that environments are made from: what `ctk build` made last, or what --channel names."""
    from ctk.plan.plan import lacking  # which needs what `_packages` looks for

    if where.channels:
        return _named(where)
    age, packages = _built(where.workspace.channel)
    if not packages:
        return missing("not built yet", "./scripts/build makes it; --channel URL looks at another")
    locked = [file.stem.removeprefix("cuda-") for file in where.workspace.variants.glob("cuda-*.lock")]
    newest = max(locked, key=lambda text: [int(part) for part in text.split(".") if part.isdigit()], default="")
    if newest and not any(name.startswith(f"cuda-version-{newest}-") for name in packages):
        return missing(f"{age}, without {newest}, the newest locked release", "ctk build brings it up to date")
    if lacks := lacking(where.workspace, where.workspace.channel):
        step = f"ctk build {' '.join(f'--release {minor}' for minor in lacks)}"
        return missing(f"{age}, without {listing(lacks)}, which CUDA builds of conda-forge's need", step)
    return ok(age)


def _named(where: Where) -> Finding:
    """The channels that --channel names."""
    from ctk.core.platforms import this_platform
    from ctk.solve.solve import Catalogue, lasting

    named = ", ".join(without_credentials(lasting(str(channel))) for channel in where.channels)
    if where.offline and not all(isinstance(channel, Path) for channel in where.channels):
        return ok(f"{named}; not asked (--offline)")
    try:
        toolkits = Catalogue(where.channels, this_platform()).versions("cuda-version")
    except CtkError as error:
        return problem(error.cause, error.step)
    if not toolkits:
        return problem(f"{named} has no toolkit for {this_platform()}", "name another --channel")
    return ok(f"{named}: toolkit {listing(toolkits[::-1])}")


def _built(channel: Path) -> tuple[str, list[str]]:
    """A sentence with the number of packages and the time, and the packages; empty without a channel."""
    from ctk.package.records import records

    packages = [name.partition("/")[2] for name in records(channel)]
    made = datetime.fromtimestamp(os.lstat(channel).st_mtime if packages else 0, UTC)
    return f"{count(len(packages), 'package')}, made {made:%Y-%m-%d %H:%M} UTC", packages


@look_at(Where, "driver")
def _driver(where: Where) -> Finding:
    """The newest CUDA version that the driver supports decides the pick."""
    from ctk.solve.machine import STATE_DRIVER, machine, overstated

    on = machine()
    supports = on.driver
    own = first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    if said := overstated(on, where.workspace):
        return missing(said, STATE_DRIVER)
    if supports:
        return ok(f"supports CUDA {supports}{f'; nvidia-smi: {own}' if own else ''}")
    if own:
        return missing(f"nvidia-smi says {own}, and libcuda cannot be loaded", "repair the driver's installation")
    return missing("none: kernels are compiled here and not run; --driver describes another machine")


@look_at(Where, "GPU")
def _gpu(where: Where) -> Finding:
    """Its compute capability decides the pick if the client detects it."""
    from ctk.core.platforms import this_platform
    from ctk.solve.machine import detected

    arch = detected(this_platform())[1]
    own = first_line("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    if arch:
        return ok(f"compute capability {arch}{f', {own}' if own else ''}")
    return missing(f"{own}, whose compute capability is not detected" if own else "none; --arch describes another")


def _client(name: str) -> Check[Where]:
    """The check of a program that installs from the channel."""

    @look_at(Where, name)
    def look(where: Where) -> Finding:
        """A client on PATH, which must detect the real driver."""
        from ctk.solve.machine import detected_driver

        place = shutil.which(name)
        if not place:
            return missing("not on PATH")
        version = re.search(r"\d+(\.\d+)+\S*", first_line(place, "--version") or "")
        if not version:
            return missing(f"{place} does not say its version", "repair it")
        # mamba takes the toolkit in /usr/local/cuda for the driver: libmamba/src/core/virtual_packages.cpp of 2.0.6 on
        sees, driver = re.search(r"__cuda=(\d+\.\d+)", printed(place, "info") or ""), detected_driver() or ""
        if sees and sees[1] != driver:
            truth = f"it supports {driver}" if driver else "there is none"
            said = f"{place} sees a driver for CUDA {sees[1]}; {truth}"
            return problem(said, f"export CONDA_OVERRIDE_CUDA={driver}")
        return ok(f"{version[0]}, {place}")

    return look


_CONDA, _MAMBA, _MICROMAMBA, _PIXI = map(_client, ("conda", "mamba", "micromamba", "pixi"))

CHECKS = checks_of(sys.modules[__name__])
