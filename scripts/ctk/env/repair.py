"""Commands that remove something of an environment, or put it back: each is made of its proof.

Such a command breaks a sound environment if its reason is not true. So only this module writes them
(`tests/env/test_repair.py` looks for others). A function takes what was seen, and names only that
for which there is proof; without any proof, it returns nothing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ctk.core.files import read_json
from ctk.env.examine import Examined, Wheel, readable_identity
from ctk.env.prefix import text_of
from ctk.env.record_files import Damage

DamagedFiles = Mapping[str, Mapping[str, Damage]]
"""Package -> its files that differ from its record, as `Installed.damage` has them."""


def give_back(on: Examined, damaged: DamagedFiles) -> str:
    """The command that gives packages their own files again; "" if no file is damaged."""
    names = [name for name, files in damaged.items() if files]
    return _install_again(on, names) if names else ""


def _install_again(on: Examined, names: Iterable[str]) -> str:
    if on.note:
        return on.note.again(on.prefix)
    return on.install("--force-reinstall", *names)


def is_no_record(file: Path) -> bool:
    """Whether a file in conda-meta names no package: no client wrote it, or not all of it."""
    record = read_json(file) if file.is_file() else None  # a pipe would wait
    return not isinstance(record, dict) or not readable_identity(record)


def remove_records(on: Examined, files: Sequence[Path]) -> str:
    """The command that removes files that are no records, and installs their packages again.

    The names of the files have those of the packages.
    """
    wrong = [file for file in files if is_no_record(file)]
    if not wrong:
        return ""
    step = shlex.join(["rm", *map(str, wrong)])
    names = [file.name.rsplit("-", 2)[0] for file in wrong if file.name.count("-") > 1]
    return f"{step} && {_install_again(on, names)}" if names else step


def move_back(on: Examined, old: Path) -> str:
    """The command that moves an environment back to `old`; "" if something is there."""
    return "" if os.path.lexists(old) else shlex.join(["mv", str(on.prefix), str(old)])


def uninstall(on: Examined, wheels: Sequence[Wheel]) -> list[str]:
    """The commands after which the environment's Python does not find these wheels.

    Packages get the files back that pip takes with a wheel: those that the wheel names too, and all
    of a package that brings the same distribution, because pip uninstalls any of the two.
    """
    by = {wheel.folder.by for wheel in wheels}
    steps = ["unset PYTHONPATH"] if "PYTHONPATH" in by else []
    # Nothing is removed there: the user's other programs may need it.
    steps += ["export PYTHONNOUSERSITE=1"] if "user site" in by else []
    own = [wheel for wheel in wheels if is_of_pip(on, wheel)]
    owners = _owners(on, own)
    if on.note:  # `ctk env create` also removes what pip put in the place of a package
        own = [wheel for wheel in own if wheel.name not in on.has.distributions]
    names = list(dict.fromkeys(wheel.name for wheel in own))
    steps += on.pip("uninstall", "--yes", *names) if names else []
    again = [name for name in names if any(wheel.name == name for wheel in on.twice)]
    steps += on.pip("uninstall", "--yes", *again) if again else []
    return [*steps, _install_again(on, owners)] if owners else steps


def is_of_pip(on: Examined, wheel: Wheel) -> bool:
    """Whether a wheel is in the environment, pip can uninstall it, and no package brought it."""
    installer = text_of(wheel.info / "INSTALLER").strip()
    can_uninstall = bool(text_of(wheel.info / "RECORD")) or bool(on.note)
    return wheel.info in on.has.of_pip and installer != "conda" and can_uninstall


def _owners(on: Examined, wheels: Sequence[Wheel]) -> list[str]:
    """The packages that lose files when wheels are uninstalled."""
    taken = {path for wheel in wheels for path in on.has.of_pip[wheel.info]}
    names = [on.has.distributions[w.name] for w in wheels if w.name in on.has.distributions]
    for name, files in on.has.files.items():
        if any(file.path in taken for file in files):
            names.append(name)
    return list(dict.fromkeys(names))


def install_wheels_again(on: Examined, scripts: Mapping[Wheel, Mapping[str, Path]]) -> str:
    """The commands that make pip write the scripts of wheels again that start another Python.

    A wheel that did not come from an index is left out: its name may be another project's there.
    """
    found = [wheel for wheel, paths in scripts.items() if paths and is_of_pip(on, wheel)]
    found = [wheel for wheel in found if not (wheel.info / "direct_url.json").exists()]
    if not found:
        return ""
    names = [f"{wheel.name}=={wheel.version}" for wheel in found]
    return " && ".join(on.pip("install", "--force-reinstall", "--no-deps", *names))
