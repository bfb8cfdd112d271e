"""Programs that install from the channel, or build its recipes without us."""

from __future__ import annotations

import re
import shutil

from ctk.check.doctor.check import Check, Seen, Where, first_line, missing, ok


class Client(Check):
    """A client on PATH; `ctk verify --solver` and the tests ask it as well."""

    def look(self, where: Where) -> Seen:
        place = shutil.which(self.name)
        if not place:
            return missing("not on PATH")
        said = first_line(place, "--version")
        version = re.search(r"\d+(\.\d+)+\S*", said or "")
        return ok(f"{version[0]}, {place}") if version else missing(f"{place} does not say its version", "repair it")


class Conda(Client):
    name = "conda"


class Mamba(Client):
    name = "mamba"


class Micromamba(Client):
    name = "micromamba"


class Pixi(Client):
    name = "pixi"


class RattlerBuild(Client):
    """Builds a recipe after `ctk fetch`; `ctk build` has it inside."""

    name = "rattler-build"


CLIENTS: tuple[type[Check], ...] = (Conda, Mamba, Micromamba, Pixi, RattlerBuild)
