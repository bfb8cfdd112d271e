"""Words in the place of specs: a file, a recipe, an environment; and what to type instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ctk.core.console import listing
from ctk.core.errors import BadValue

if TYPE_CHECKING:
    from ctk.env.prefix import Installed

_FILE = re.compile(r"(?<!recipe)\.(?:ya?ml|toml|txt|lock)$|(?:^|/)(?:Pipfile|setup\.(?:py|cfg))$")
"""Files that ask for packages; the reader of files says which of them it does not read."""
_MAY_BE_PACKAGE = re.compile(r"[^/]*\.yaml")
"""As ruamel.yaml is."""


def only_specs(context: typer.Context, specs: list[str]) -> list[str]:
    """The words of a command, if all are specs; for `ctk solve`, also if all are files.

    As a callback it is asked before an option that lacks is said.

    Raises:
        BadValue: A file or a path is among them.
    """
    files = [spec for spec in specs if is_file(spec)]
    if context.info_name == "solve" and len(files) == len(specs):
        return specs
    if files:
        raise _of_file(context, files[0])
    paths = [spec for spec in specs if _is_path(spec)]
    if paths:
        others = [spec for spec in specs if spec not in paths]
        raise _of_path(context, paths[0], others)
    return specs


def is_file(word: str) -> bool:
    """Whether a word names a file that asks for packages, and is not a spec."""
    if not _FILE.search(word) or "::" in word:
        return False
    return not _MAY_BE_PACKAGE.fullmatch(word) or Path(word).is_file()


def _is_path(word: str) -> bool:
    """Whether a word is a path, and no spec: a spec has a slash in its channel only."""
    if "::" not in word and re.match(r"[./~]|[^\[]*/|recipe\.yaml$", word):
        return True
    # A name with a space is not a spec either. Without one, the spec `cuda-core` may have a folder
    # of that name here.
    return " " in word and _is_environment(word)


def _is_environment(path: str) -> bool:
    return Path(path, "conda-meta").is_dir()


def _is_recipe(path: str) -> bool:
    return path.endswith("recipe.yaml") or Path(path, "recipe.yaml").is_file()


# ---- the errors


def _of_file(context: typer.Context, file: str) -> BadValue:
    """The error for a file where specs are wanted."""
    if context.info_name == "solve":
        cause = f"{file} is a file, which cannot be combined with specs"
        how = f"ctk solve {shlex.quote(file)}"
        return BadValue(cause, f"write the specs into it, or ask for it alone: `{how}`")
    if context.info_name == "create":
        how = f"ctk env create --file {shlex.quote(file)} --prefix ./my-env"
    else:
        how = f"ctk solve {shlex.quote(file)}"
    return BadValue(f"{file} is a file, but this needs a spec", f"type `{how}`")


def _of_path(context: typer.Context, path: str, others: Sequence[str]) -> BadValue:
    """The error for a path where specs are wanted; `others` are the specs beside it."""
    if _is_environment(path):
        return _of_environment(context, path, others)
    makes_environments = context.info_name in ("create", "pack")
    if _is_recipe(path) or not makes_environments:
        return BadValue(
            f"{path} is a path, but this needs a spec",
            f"for a recipe: ctk build-recipe {shlex.quote(path)}",
        )
    return BadValue(
        f"{path} is not an environment, but this needs a spec",
        _with_packages(context, path, others or ["cuda-core"]),
    )


def _of_environment(context: typer.Context, path: str, others: Sequence[str]) -> BadValue:
    """The error for an environment where specs are wanted, with the specs that it was made of."""
    from ctk.env.prefix import Installed, Note  # late: slow to import, and only for an error

    installed = Installed.read(Path(path))
    cause = f"{path} is an environment, but this needs a spec"
    if context.info_name == "add":
        return BadValue(cause, _with_packages(context, path, others))
    note = Note.read(Path(path))
    wanted = note.asked if note else ()
    step = _with_packages(context, path, wanted or others or installed.requested or ["cuda-core"])
    if context.info_name == "pack":
        of_pip = _OfPip.read(installed)
        cause += of_pip.lost
        step += of_pip.step(path)
    return BadValue(cause, step)


def _with_packages(context: typer.Context, path: str, specs: Sequence[str]) -> str:
    """The step that names packages, as a command line."""
    words = context.command_path.split()
    if context.info_name == "add":
        words += _folder_first(context, path, specs)
    else:
        words += specs
    if context.info_name == "pack":
        words += ["-o", f"{Path(path).resolve().name}.run"]
    elif context.info_name == "create":
        words += ["--prefix", path]
    return f"name the packages that it should have, as in `{shlex.join(words)}`"


def _folder_first(context: typer.Context, path: str, specs: Sequence[str]) -> list[str]:
    """The folder and the specs of a command that takes the folder first.

    A spec may stand in the folder's place.
    """
    first = str(context.params.get("prefix", path))
    if _is_environment(first):
        return [first, *(specs or ["numba-cuda"])]
    return [path, first, *specs]


@dataclass(frozen=True)
class _OfPip:
    """What pip installed in an environment, which is in no pack.

    Attributes:
        wheels: What its pip can fetch again, such as ``tool==1.0``.
        others: The names of what came from a folder or an address.
        has_pip: Whether there is a pip in the environment.
    """

    wheels: tuple[str, ...]
    others: tuple[str, ...]
    has_pip: bool

    @classmethod
    def read(cls, installed: Installed) -> _OfPip:
        wheels = []
        others = []
        for info in installed.of_pip:
            if (info / "direct_url.json").exists():
                others.append(info.name.partition("-")[0])
            else:
                wheels.append(info.name.removesuffix(".dist-info").replace("-", "==", 1))
        has_pip = any(record["name"] == "pip" for record in installed.records.values())
        return cls(tuple(wheels), tuple(others), has_pip)

    @property
    def lost(self) -> str:
        """What a pack lacks, as the end of a sentence."""
        if not self.wheels and not self.others:
            return ""
        names = listing([*self.wheels, *self.others], most=4)
        return f"; a pack does not contain what pip installed: {names}"

    def step(self, path: str) -> str:
        """How to carry it, as the end of a sentence."""
        if not self.wheels and not self.others:
            return ""
        if not self.wheels or not self.has_pip:
            return "; then copy its wheels with the pack, from where you got them"
        pip = f"ctk env run {shlex.quote(path)} -- python -m pip download --no-deps -d wheels"
        return f"; then copy the wheels with the pack: `{pip} {shlex.join(self.wheels)}`"
