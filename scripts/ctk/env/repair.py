"""Commands that remove something of an environment, or put it back: each is made of its proof.

Such a command breaks a sound environment if its reason is not true. So only this module writes them
(`tests/unit/env/test_repair.py` looks for others). A function takes what was seen, and names only
that for which there is proof; without any proof, it returns nothing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from ctk.core.files import read_json
from ctk.env.examine import Examined, Wheel, readable_identity
from ctk.env.prefix import text_of
from ctk.env.record_files import Damage

_INFO = re.compile(r"([A-Za-z0-9_.]+?)(?:-([\w.!+]*?))?(?:-py[\d.]+)?\.(?:dist|egg)-info")
"""A folder with the metadata of a distribution, whose name is the first group."""

DamagedFiles = Mapping[str, Mapping[str, Damage]]
"""Package -> its files that differ from its record, as `Installed.damage` has them."""


def give_back(environment: Examined, damaged: DamagedFiles) -> str:
    """The command that gives packages their own files again; "" if no file is damaged."""
    names = [name for name, files in damaged.items() if files]
    return _install_again(environment, names) if names else ""


def take_from_pip(environment: Examined, replaced: DamagedFiles) -> str:
    """How packages get their own files again where pip replaced them, perhaps on purpose."""
    if environment.note:  # `ctk env create` also removes what pip put in their place
        return give_back(environment, replaced)
    return "if you did not mean that, let pip uninstall them, and look again"


def _install_again(environment: Examined, names: Iterable[str]) -> str:
    if environment.note:
        return environment.note.again(environment.prefix)
    return environment.install("--force-reinstall", *names)


def is_no_record(file: Path) -> bool:
    """Whether a file in conda-meta names no package: no client wrote it, or not all of it."""
    record = read_json(file) if file.is_file() else None  # a pipe would wait
    return not isinstance(record, dict) or not readable_identity(record)


def remove_records(environment: Examined, files: Sequence[Path]) -> str:
    """The command that removes files that are no records, and installs their packages again.

    The names of the files have those of the packages.
    """
    wrong = [file for file in files if is_no_record(file)]
    if not wrong:
        return ""
    step = shlex.join(["rm", *map(str, wrong)])
    names = [file.name.rsplit("-", 2)[0] for file in wrong if file.name.count("-") > 1]
    return f"{step} && {_install_again(environment, names)}" if names else step


def move_back(environment: Examined, old: Path) -> str:
    """The command that moves an environment back to `old`; "" if something is there."""
    return "" if os.path.lexists(old) else shlex.join(["mv", str(environment.prefix), str(old)])


def uninstall(environment: Examined, wheels: Sequence[Wheel]) -> list[str]:
    """The commands after which the environment's Python does not find these wheels.

    Packages get the files back that pip takes with a wheel: those that the wheel names too, and all
    of a package that brings the same distribution, because pip uninstalls any of the two.
    """
    by = {wheel.folder.by for wheel in wheels}
    steps = ["unset PYTHONPATH"] if "PYTHONPATH" in by else []
    if "user site" in by:  # nothing is removed there: the user's other programs may need it
        steps.append("export PYTHONNOUSERSITE=1")
    own = [wheel for wheel in wheels if _is_of_pip(environment, wheel)]
    owners = _owners(environment, own)
    if environment.note:  # `ctk env create` also removes what pip put in the place of a package
        own = [wheel for wheel in own if wheel.name not in environment.has.distributions]
    names = list(dict.fromkeys(wheel.name for wheel in own))
    if names:
        steps += environment.pip("uninstall", "--yes", *names)
    again = list(dict.fromkeys(wheel.name for wheel in own if _is_twice(environment, wheel)))
    if again:
        steps += environment.pip("uninstall", "--yes", *again)
    if owners:
        steps.append(_install_again(environment, owners))
    return steps


def _is_twice(environment: Examined, wheel: Wheel) -> bool:
    """Whether a package of conda has the same distribution, too: pip takes any of the two."""
    if wheel.name not in environment.has.distributions:
        return False
    infos = [_INFO.fullmatch(file.name) for file in wheel.info.parent.glob("*-info")]
    names = [str(canonicalize_name(info[1])) for info in infos if info]
    return names.count(wheel.name) > 1


def _is_of_pip(environment: Examined, wheel: Wheel) -> bool:
    """Whether a wheel is in the environment, pip can uninstall it, and no package brought it."""
    installer = text_of(wheel.info / "INSTALLER").strip()
    can_uninstall = bool(text_of(wheel.info / "RECORD")) or bool(environment.note)
    is_other = wheel.info in environment.has.of_pip
    return is_other and installer != "conda" and can_uninstall


def _owners(environment: Examined, wheels: Sequence[Wheel]) -> list[str]:
    """The packages that lose files when wheels are uninstalled."""
    taken = {path for wheel in wheels for path in environment.has.of_pip[wheel.info]}
    names = [
        environment.has.distributions[w.name]
        for w in wheels
        if w.name in environment.has.distributions
    ]
    for name, files in environment.has.files.items():
        if any(file.path in taken for file in files):
            names.append(name)
    return list(dict.fromkeys(names))
