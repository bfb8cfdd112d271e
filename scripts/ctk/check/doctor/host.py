"""What the machine around the checkout has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ctk.check.doctor.check import Check, Seen, Where, first_line, missing, ok

_APT = "Debian and Ubuntu: apt-get install"


class Driver(Check):
    """The newest CUDA version that the driver supports decides the pick."""

    name = "driver"

    def look(self, where: Where) -> Seen:
        from ctk.solve.machine import detected_driver

        supports = detected_driver()
        own = first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        if supports:
            return ok(f"supports CUDA {supports}{f'; nvidia-smi: {own}' if own else ''}")
        if own:
            return missing(f"nvidia-smi says {own}, and libcuda cannot be loaded", "repair the driver's installation")
        return missing("none: kernels are compiled here and not run; --driver describes another machine")


class Gpu(Check):
    """Its compute capability decides the pick where a client detects it."""

    name = "GPU"

    def look(self, where: Where) -> Seen:
        from ctk.core.platforms import this_platform
        from ctk.solve.machine import detected

        arch = detected(this_platform())[1]
        own = first_line("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
        if arch:
            return ok(f"compute capability {arch}{f', {own}' if own else ''}")
        return missing(f"{own}, whose compute capability is not detected" if own else "none; --arch describes another")


class Git(Check):
    """Packages name the commit of their recipe; `ctk rebuild` and `ctk release diff HEAD:...` read old ones."""

    name = "git"

    def look(self, where: Where) -> Seen:
        said = first_line("git", "--version")
        if not said:
            return missing("not on PATH: packages will not name the commit of their recipe", f"{_APT} git")
        inside = first_line("git", "-C", str(where.workspace.root), "rev-parse", "--short", "HEAD")
        if not inside:
            return missing(f"{said}, but {where.workspace.root} is no clone", "clone it, for packages to name a commit")
        return ok(f"{said.removeprefix('git version ')}, at {inside}")


class Compiler(Check):
    """Compiles libsolv for `ctk verify --solver libsolv`; a g++ is what nvcc calls."""

    name = "compiler"

    def look(self, where: Where) -> Seen:
        found = {name: first_line(name, "-dumpfullversion", "-dumpversion") for name in ("cc", "g++")}
        lacking = [name for name, version in found.items() if not version]
        if lacking:
            return missing(f"no {' and no '.join(lacking)}", f"{_APT} g++")
        return ok(", ".join(f"{name} {version}" for name, version in found.items()))


class Browser(Check):
    """The tests of the site run in a browser."""

    name = "browser tests"

    def look(self, where: Where) -> Seen:
        found = {"chromium": shutil.which("chromium") or shutil.which("chromium-browser"), "npm": shutil.which("npm")}
        lacking = [name for name, place in found.items() if not place]
        if lacking:
            return missing(f"no {' and no '.join(lacking)}", f"{_APT} {' '.join(lacking)}")
        return ok("chromium and npm")


class Namespaces(Check):
    """The tests of faults mount full and read-only disks, in namespaces of their own."""

    name = "mount namespaces"

    def look(self, where: Where) -> Seen:
        words = ("unshare", "--user", "--map-root-user", "--mount", "echo", "made")
        step = "run those tests on a machine, or in a container, that allows it"
        return ok("can be made") if first_line(*words) == "made" else missing("cannot be made here", step)


class Completion(Check):
    """The TAB key."""

    name = "completion"

    def look(self, where: Where) -> Seen:
        shell = Path(os.environ.get("SHELL", "")).name
        places = {
            "bash": [".bash_completions/ctk.sh"],
            "zsh": [".zfunc/_ctk"],
            "fish": [".config/fish/completions/ctk.fish"],
        }
        if shell not in places:
            return missing(f"{shell or 'the shell'} is not looked at", "ctk --install-completion")
        if any((Path.home() / place).exists() for place in places[shell]):
            return ok(f"installed for {shell}")
        return missing(f"not installed for {shell}", "ctk --install-completion")
