"""Python, what is installed in it, and the package index that its pip names."""

from __future__ import annotations

import re
import sys
from importlib import metadata

from ctk.check.doctor.check import Check, Seen, Where, first_line, missing, ok, problem
from ctk.core.errors import without_credentials

_OLDEST = (3, 11)
_SETUP = "run ./scripts/setup; it makes .venv as requirements.lock says"
_ASKED = "cuda-toolkit"  # the manifest of every CTK release


class Python(Check):
    """The interpreter that runs ctk, and that the base channel is made of."""

    name = "Python"
    needed = True

    def look(self, where: Where) -> Seen:
        text = f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"
        wanted = ".".join(map(str, _OLDEST))
        step = f"install {wanted} or newer; PYTHON=/path/to/python ./scripts/setup"
        return ok(text) if sys.version_info >= _OLDEST else problem(f"{text} is too old", step)


class Packages(Check):
    """What the tooling is made of, in the versions that are locked."""

    name = "packages"
    needed = True

    def look(self, where: Where) -> Seen:
        lock = (where.workspace.root / "requirements.lock").read_text(encoding="utf-8")
        wanted = dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.M))
        have = {name: _version(name) for name in wanted}
        wrong = [f"{name} {have[name] or 'is missing'}" for name in wanted if have[name] != wanted[name]]
        if wrong:
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            return problem(f"not as requirements.lock has them: {', '.join(wrong[:3])}{more}", _SETUP)
        return ok(f"{len(wanted)}, as requirements.lock has them")


class Pip(Check):
    """pip installs the tooling, and its configuration names the package index."""

    name = "pip"
    needed = True

    def look(self, where: Where) -> Seen:
        said = first_line(sys.executable, "-m", "pip", "--version")
        return ok(" ".join(said.split()[:2])) if said else problem(f"{sys.executable} has no working pip", _SETUP)


class Index(Check):
    """The package index that pip is configured for: all artefacts come from it."""

    name = "package index"
    needed = True

    def look(self, where: Where) -> Seen:
        from ctk.core.errors import CtkError
        from ctk.index.index import Index as Client
        from ctk.index.index import Retry
        from ctk.index.pip_config import pip_settings

        settings = pip_settings()
        named = ", ".join(map(without_credentials, (*settings.index_urls, *settings.find_links))) or "none"
        if where.offline:
            return ok(f"{named}; not asked (--offline)")
        try:
            with Client(settings, Retry(attempts=1)) as index:
                newest = index.files(_ASKED)[0].version
        except CtkError as error:
            return problem(
                f"{named}: {without_credentials(error.cause)}", without_credentials(error.step) or "see pip config list"
            )
        return ok(f"{named} answers; {_ASKED} {newest}")


class Extras(Check):
    """Parts that few need: builds on a Dask cluster, and attestations."""

    name = "extras"

    def look(self, where: Where) -> Seen:
        parts = {"cluster": "distributed", "attest": "sigstore"}
        have = {part: _version(name) for part, name in parts.items()}
        text = ", ".join(f"{part} {'(' + parts[part] + f' {v})' if v else 'is missing'}" for part, v in have.items())
        lacking = ",".join(part for part, version in have.items() if not version)
        return missing(text, f"pip install '.[{lacking}]'") if lacking else ok(text)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
