"""`ctk doctor` and `ctk env check`: how this machine, this checkout or an environment is, and what to do about it.

The checks run at the same time, each within a limit, and none can end the run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from importlib import metadata
from pathlib import Path

from ctk.check import Check, Finding, S, Severity, checks_of
from ctk.core.checkout import Workspace
from ctk.core.console import count, listing
from ctk.core.errors import CtkError, without_credentials
from ctk.core.files import disk_errors, step_to_write

LIMIT = 10.0  # seconds for all checks together


@dataclass(frozen=True)
class Where:
    """The checkout that checks look at, and whether the network is left alone."""

    workspace: Workspace
    offline: bool = False


def look_at(subject: type[S], name: str, *, needed: bool = False) -> Callable[[Callable[[S], Finding]], Check[S]]:
    """Makes a check of a function that returns how one thing is; `needed` by the commands of the README."""

    def make(look: Callable[[S], Finding]) -> Check[S]:
        @wraps(look)
        def run(where: S) -> list[Finding]:
            return [look(where)]

        return Check(name, subject, run, severity="error" if needed else "hint")

    return make


def ok(text: str) -> Finding:
    return Finding("", text, severity="ok")


def missing(text: str, step: str = "") -> Finding:
    """What the main job does not need, or what is worth knowing only."""
    return Finding("", text, fix=step, severity="hint")


def problem(text: str, step: str) -> Finding:
    return Finding("", text, fix=step, severity="error")


def state(severity: Severity | str) -> str:
    """How a severity is called where it says how a thing is."""
    return {"ok": "ok", "hint": "missing"}.get(severity, "problem")


def look(checks: Sequence[Check[S]], subject: S, limit: float = LIMIT) -> list[tuple[Check[S], Finding]]:
    """Runs all checks; one that hangs or fails is a finding of that check alone."""
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
    except Exception as error:  # whatever is broken here is what the check is about
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        text = f"cannot be looked at: {without_credentials(line)[:200]}"
        found[check.name] = check.complete(Finding("", text, fix="run ./scripts/setup; it repairs .venv"))


def first_line(*command: str, timeout: float = 8) -> str | None:
    """The first line that a program prints; None where it is not there, or fails."""
    text = printed(*command, timeout=timeout)
    return (text.splitlines() or [""])[0] if text is not None else None


def printed(*command: str, timeout: float = 8) -> str | None:
    """What a program prints; None where it is not there, or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or done.stderr.strip() if done.returncode == 0 else None


# ---- the checks of `ctk doctor`: this Python, this checkout, and the programs and hardware around them. What is not
# needed by most of them is imported late: each says itself what is broken.

_OLDEST = (3, 11)
_SETUP = "run ./scripts/setup; it makes .venv as requirements.lock says"
_ASKED = "cuda-toolkit"  # the manifest of every CTK release
LEAST_FREE = 6e9  # bytes: the default channel, its base channel, the artefacts of both, and room to build in
_PATIENCE = 4.0  # seconds for adding up the cache
_APT = "Debian and Ubuntu: apt-get install"


@look_at(Where, "Python", needed=True)
def _python(where: Where) -> Finding:
    """The interpreter that runs ctk, and that the base channel is made of."""
    text = f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"
    step = f"install {'.'.join(map(str, _OLDEST))} or newer; PYTHON=/path/to/python ./scripts/setup"
    return ok(text) if sys.version_info >= _OLDEST else problem(f"{text} is too old", step)


@look_at(Where, "packages", needed=True)
def _packages(where: Where) -> Finding:
    """What the tooling is made of, in the versions that are locked."""
    lock = (where.workspace.root / "requirements.lock").read_text(encoding="utf-8")
    wanted = dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.M))
    have = {name: _version(name) for name in wanted}
    wrong = [f"{name} {have[name] or 'is missing'}" for name in wanted if have[name] != wanted[name]]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        return problem(f"not as requirements.lock has them: {', '.join(wrong[:3])}{more}", _SETUP)
    return ok(f"{len(wanted)}, as requirements.lock has them")


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):  # `metadata.version` parses the long description, too
        if found := re.search(r"^Version: (.+)$", metadata.distribution(name).read_text("METADATA") or "", re.M):
            return found[1]
    return None


@look_at(Where, "pip", needed=True)
def _pip(where: Where) -> Finding:
    """pip installs the tooling, and its configuration names the package index."""
    version = _version("pip")  # whether it works is seen where it is asked for the index
    return ok(f"pip {version}") if version else problem(f"{sys.executable} has no pip", _SETUP)


@look_at(Where, "package index", needed=True)
def _index(where: Where) -> Finding:
    """The package index that pip is configured for: all artefacts come from it."""
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


@look_at(Where, "release locks", needed=True)
def _locks(where: Where) -> Finding:
    """The release locks say what is built."""
    from ctk.lock.lock import release_locks

    try:
        locks = list(release_locks(where.workspace).values())
    except CtkError as error:
        return problem(error.cause.splitlines()[0], error.step or "git checkout variants")
    minors = [lock.minor for lock in locks if lock.is_ctk]
    if not minors:
        return problem(f"there is none in {where.workspace.variants}", "git checkout variants")
    others = f"and {len(locks) - len(minors)} of Python projects"
    return ok(f"{count(len(minors), 'CTK release')}, {minors[0]} to {minors[-1]}, {others}")


@look_at(Where, "cache", needed=True)
def _cache(where: Where) -> Finding:
    """Downloads and finished builds; it can be deleted at any time."""
    place = where.workspace.own_cache
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return problem(f"{place} cannot be written: {error.strerror}", step_to_write(place))
    size, whole = _size(place)
    return ok(f"{size / 1e9:.1f} GB{'' if whole else ' or more'} in {place}")


def _size(folder: Path) -> tuple[int, bool]:
    """Bytes on disk below a folder, links counted once, and whether there was time for all of it."""
    sizes: dict[int, int] = {}
    end, places = time.monotonic() + _PATIENCE, [os.fspath(folder)]
    while places and time.monotonic() < end:
        with suppress(OSError):  # a run at work has just removed it
            for entry in os.scandir(places.pop()):
                if entry.is_dir(follow_symlinks=False):
                    places.append(entry.path)
                else:
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        sizes[status.st_ino] = status.st_size
    return sum(sizes.values()), not places


@look_at(Where, "free space", needed=True)
def _free_space(where: Where) -> Finding:
    """Room for artefacts, builds and channels."""
    free = shutil.disk_usage(where.workspace.root).free
    text = f"{free / 1e9:.1f} GB"
    if free < LEAST_FREE and not where.workspace.channel.exists():
        return problem(f"{text}, and the first build takes {LEAST_FREE / 1e9:.0f} GB", "free some")
    return ok(text)


@look_at(Where, "base channel")
def _base_channel(where: Where) -> Finding:
    """Python, numpy and so on, where conda-forge is not used."""
    age, packages = _built(where.workspace.base_channel)
    return ok(age) if packages else missing("not made yet", "ctk build makes it")


@look_at(Where, "channel")
def _channel(where: Where) -> Finding:
    """What `ctk build` made last."""
    from ctk.plan.plan import lacking  # which needs what `_packages` looks for

    age, packages = _built(where.workspace.channel)
    if not packages:
        return missing("not built yet", "./scripts/build makes it")
    locked = [file.stem.removeprefix("cuda-") for file in where.workspace.variants.glob("cuda-*.lock")]
    newest = max(locked, key=lambda text: [int(part) for part in text.split(".") if part.isdigit()], default="")
    if newest and not any(name.startswith(f"cuda-version-{newest}-") for name in packages):
        return missing(f"{age}, without {newest}, the newest locked release", "ctk build brings it up to date")
    if lacks := lacking(where.workspace, where.workspace.channel):
        step = f"ctk build {' '.join(f'--release {minor}' for minor in lacks)}"
        return missing(f"{age}, without {listing(lacks)}, which CUDA builds of conda-forge's need", step)
    return ok(age)


def _built(channel: Path) -> tuple[str, list[str]]:
    """How large and how old a channel is, and its packages; none where there is no channel."""
    from ctk.package.repodata import records

    packages = [name.partition("/")[2] for name in records(channel)]
    seconds = time.time() - os.lstat(channel).st_mtime if packages else 0
    units = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
    size, unit = next((pair for pair in units if seconds >= pair[0]), units[-1])
    return f"{count(len(packages), 'package')}, made {count(max(0, int(seconds // size)), unit)} ago", packages


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
    """Its compute capability decides the pick where a client detects it."""
    from ctk.core.platforms import this_platform
    from ctk.solve.machine import detected

    arch = detected(this_platform())[1]
    own = first_line("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    if arch:
        return ok(f"compute capability {arch}{f', {own}' if own else ''}")
    return missing(f"{own}, whose compute capability is not detected" if own else "none; --arch describes another")


_CLIENT = "A client on PATH; `ctk verify --solver` and the tests ask it as well."


def _client(name: str, help_: str = _CLIENT) -> Check[Where]:
    """The check of a program that installs from the channel, or builds its recipes without ctk."""

    def look(where: Where) -> Finding:
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

    look.__doc__ = help_
    return look_at(Where, name)(look)


_CONDA, _MAMBA, _MICROMAMBA, _PIXI = map(_client, ("conda", "mamba", "micromamba", "pixi"))
_RATTLER_BUILD = _client("rattler-build", "Builds a recipe after `ctk fetch`; `ctk build` has it inside.")


@look_at(Where, "git")
def _git(where: Where) -> Finding:
    """Packages name the commit of their recipe; `ctk rebuild` and `ctk release diff HEAD:...` read old ones."""
    said = first_line("git", "--version")
    if not said:
        return missing("not on PATH: packages will not name the commit of their recipe", f"{_APT} git")
    inside = first_line("git", "-C", str(where.workspace.root), "rev-parse", "--short", "HEAD")
    if not inside:
        return missing(f"{said}, but {where.workspace.root} is no clone", "clone it, for packages to name a commit")
    return ok(f"{said.removeprefix('git version ')}, at {inside}")


@look_at(Where, "compiler")
def _compiler(where: Where) -> Finding:
    """Compiles libsolv for `ctk verify --solver libsolv`; a g++ is what nvcc calls."""
    found = {name: first_line(name, "-dumpfullversion", "-dumpversion") for name in ("cc", "g++")}
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    return _lacking(found, f"{_APT} g++") or ok(text)


def _lacking(found: Mapping[str, str | None], step: str) -> Finding | None:
    """A finding of the programs that were not found, if there are any."""
    names = [name for name, value in found.items() if not value]
    return missing(f"no {' and no '.join(names)}", step) if names else None


@look_at(Where, "extras")
def _extras(where: Where) -> Finding:
    """Parts that few need: builds on a Dask cluster, and attestations."""
    parts = {"cluster": "distributed", "attest": "sigstore"}
    have = {part: _version(name) for part, name in parts.items()}
    text = ", ".join(f"{part} {'(' + parts[part] + f' {v})' if v else 'is missing'}" for part, v in have.items())
    lacking = ",".join(part for part, version in have.items() if not version)
    install = shlex.join([sys.executable, "-m", "pip", "install", f"{where.workspace.root}[{lacking}]"])
    return missing(text, install) if lacking else ok(text)


@look_at(Where, "browser tests")
def _browser(where: Where) -> Finding:
    """The tests of the site run in a browser."""
    found = {"chromium": shutil.which("chromium") or shutil.which("chromium-browser"), "npm": shutil.which("npm")}
    step = " ".join([_APT, *(name for name, place in found.items() if not place)])
    return _lacking(found, step) or ok("chromium and npm")


@look_at(Where, "mount namespaces")
def _namespaces(where: Where) -> Finding:
    """The tests of faults mount full and read-only disks, in namespaces of their own."""
    if first_line("unshare", "--user", "--map-root-user", "--mount", "echo", "made") == "made":
        return ok("can be made")
    return missing("cannot be made here", "run those tests on a machine, or in a container, that allows it")


@look_at(Where, "completion")
def _completion(where: Where) -> Finding:
    """The TAB key."""
    shell = Path(os.environ.get("SHELL", "")).name
    places = {"bash": ".bash_completions/ctk.sh", "zsh": ".zfunc/_ctk", "fish": ".config/fish/completions/ctk.fish"}
    if shell in places and (Path.home() / places[shell]).exists():
        return ok(f"installed for {shell}")
    text = f"not installed for {shell}" if shell in places else f"{shell or 'the shell'} is not looked at"
    return missing(text, "ctk --install-completion")


CHECKS = checks_of(sys.modules[__name__])
