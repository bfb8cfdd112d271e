"""Stand-ins for large binaries: rattler-build moves a few lines, packages get the real files.

Nearly all bytes of a wheel are a few large binaries, and rattler-build writes and reads every file
many times for each output: it unpacks it, lays it out, stages it, hashes it and packs it. Measured
in processor time, where 1 is unzipping the same wheels and compressing the same bytes once: the
whole release 13.5 with its libraries (139 builds) takes 2.8 with stand-ins and 6.4 without,
libcublas alone 1.8 and 9.0.

rattler-build reads wheels in which a stand-in, some lines of text, replaces each large binary. The
real file goes in when the package is written again (`ctk.build.reproducible`). Scripts that call
patchelf find a substitute, which notes in the stand-in what to do; the real patchelf does it later.
If a stand-in was changed in another way, or a build fails, the build is made again from the wheels
themselves.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from ctk.build.large_binaries import HEAD, LargeBinary, large_binaries
from ctk.core.checkout import Workspace
from ctk.core.children import run_program
from ctk.fetch.fetch import derived_at, laid_out
from ctk.lock.model import Artefact
from ctk.package.binaries import Binary, Dynamic, SearchPath
from ctk.plan.plan import Build

LONGEST = 1 << 16
"""Bytes of a stand-in at most, with the notes in it."""
_WORD = re.compile(r"[\w.+-]+")
_CHUNK = 1 << 20
_SET_RPATH = ("--force-rpath", "--set-rpath")
_PATCHELF = """#!/bin/bash
# A stand-in has the first bytes of its binary and its name in a line, then its SONAME, its RPATH,
# the libraries that it needs, and a line for each edit: a new RPATH, or a library that the binary
# needs from now on.
file=${{!#}}
case $1 in
  --remove-rpath) edit="no RPATH" ;;
  --force-rpath) edit="RPATH $3" ;;
  --add-needed) edit="needs $2" ;;
  --replace-needed) edit="needs $3" ;;
esac
[[ ${{edit:-}} ]] && echo "$(realpath -s --relative-to "${{PREFIX:-/}}" "$file") $edit" >>{edits}
{{ IFS= read -r -n 64 name; read -r soname; read -r rpath; read -r needed; }} <"$file" 2>/dev/null
case $name/$# in
  *{token}.elf*/2)
    [[ $1 == --print-soname && $soname ]] && echo "$soname" && exit
    [[ $1 == --print-needed ]] && echo "$needed" && exit
    [[ $1 == --remove-rpath ]] && echo "{token} " >>"$file" && exit
    [[ $1 == --print-rpath ]] &&
      {{ echo "{token} $rpath" && grep -a '^{token} ' "$file"; }} | tail -1 | cut -c 18- && exit
    ;;
  *{token}.elf*/3) [[ $1 == --add-needed ]] && echo "{token}+$2" >>"$file" && exit ;;
  *{token}.elf*/4)
    [[ $1 == --replace-needed ]] && printf '%s\n' "{token}-$2" "{token}+$3" >>"$file" && exit
    [[ "$1 $2" == "{set_rpath}" ]] && echo "{token} $3" >>"$file" && exit ;;
  *{token}*) ;;
  *) exec {patchelf} "$@" ;;
esac
echo "a stand-in has no answer to this: $*" | tee -a {unanswered} >&2
exit 1
"""


def write_patchelf(folder: Path, token: str, patchelf: str, unanswered: Path, edits: Path) -> None:
    """Writes the substitute of patchelf.

    It answers for stand-ins, and calls the real program for other files.

    Args:
        folder: Of the program, made here.
        token: Of the stand-ins.
        patchelf: The real program.
        unanswered: The file that gets each question that no stand-in can answer.
        edits: The file that gets the path of each edited file below the prefix, and the edit.
    """
    folder.mkdir(parents=True)
    program = folder / "patchelf"
    words = {"patchelf": shlex.quote(patchelf), "unanswered": shlex.quote(str(unanswered))}
    words["edits"] = shlex.quote(str(edits))
    program.write_text(_PATCHELF.format(token=token, set_rpath=" ".join(_SET_RPATH), **words))
    program.chmod(0o755)


def stand_in(
    token: str, number: int, head: bytes, elf: Dynamic | Binary | None
) -> tuple[bytes, bytes]:
    """The name of a new stand-in, and its content. The token has 16 characters."""
    kind, soname, rpath, needed = "other", "", "", ""
    if elf:
        kind, soname, needed = "elf", elf.soname, " ".join(elf.needed)
        rpath = elf.search[-1].text if elf.search else ""
    name = f"{token}.{kind}.{number}"
    return name.encode(), head + f"{name}\n{soname}\n{rpath}\n{needed}\n".encode()


class Changed(Exception):
    """A script changed or read a stand-in in a way that cannot be repeated with the real file."""


@dataclass(frozen=True)
class Found:
    """The real file of a stand-in, as the package gets it."""

    size: int  # bytes
    content: IO[bytes]
    sha256: str


@dataclass(frozen=True)
class _Member:
    """A member of a wheel that has a stand-in."""

    wheel: Path
    name: str
    head: bytes  # the stand-in
    binary: LargeBinary

    def has(self, rpath: str) -> bool:
        """Whether the binary has this RPATH ("": none) already: then patchelf writes nothing."""
        wanted = (SearchPath("RPATH", rpath),) if rpath else ()
        return self.binary.elf is not None and self.binary.elf.search == wanted


Chosen = Mapping[Artefact, Mapping[str, LargeBinary]]
"""Artefact of a build -> member name -> the binary that gets a stand-in."""


def choose(build: Build) -> Chosen:
    """The large binaries of a build; none if anything but patchelf may read or change them."""
    # rattler-build runs a script of that name, though no recipe names it.
    may_edit = (build.recipe.folder / "build.sh").exists() or any(
        output.may_edit for output in build.outputs
    )
    # Recipes of the base channel compile modules with the interpreter that is among their
    # artefacts.
    if may_edit or any(artefact.component == "cpython" for artefact in build.artefacts):
        return {artefact: {} for artefact in build.artefacts}
    where = checkout_of(build)
    return {
        artefact: large_binaries(artefact, laid_out(artefact, where), where)
        for artefact in build.artefacts
    }


def checkout_of(build: Build) -> Workspace:
    """The checkout of a build's recipe: two folders up, or three in the downstream tests."""
    places = [Workspace(folder) for folder in build.recipe.folder.parents]
    return next((place for place in places if place.own_cache.is_dir()), places[1])


class StandIns:
    """The stand-ins of one build.

    Args:
        folder: Where to make a folder for them, and for the checkout that rattler-build reads.
        patchelf: The program.
    """

    def __init__(self, folder: Path, patchelf: Path) -> None:
        self.root = folder / "checkout"
        self.programs = folder / "programs"
        self._patched, self._patchelf, self._unanswered = (
            folder / "patched",
            patchelf,
            folder / "unanswered",
        )
        self._edits = folder / "edits"
        # Nothing in a wheel can guess it, and pass for a stand-in.
        self._token = secrets.token_hex(8)
        self._members: dict[bytes, _Member] = {}

    def lay_out(self, build: Build, large: Chosen) -> Build:
        """The build in a checkout of its recipe and artefacts alone, with stand-ins in wheels.

        Args:
            build: A build whose artefacts are laid out.
            large: The binaries to replace. Those that a script names are not replaced.
        """
        write_patchelf(
            self.programs, self._token, str(self._patchelf), self._unanswered, self._edits
        )
        # As deep as it lies: its sources are beside it by relative paths.
        recipe = self.root / build.recipe.folder.relative_to(checkout_of(build).root)
        named: set[str] = set()  # in scripts, which may do anything to a file with that name
        for file in build.recipe.files():
            if file != build.recipe.file:
                named.update(_WORD.findall(file.read_text(encoding="utf-8", errors="replace")))
            target = Path(os.path.normpath(recipe / os.path.relpath(file, build.recipe.folder)))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        for artefact, found in large.items():
            chosen = {
                name: binary
                for name, binary in found.items()
                if name.rpartition("/")[2] not in named
            }
            wheel = laid_out(artefact, checkout_of(build)).resolve()
            self._lay_out(wheel, laid_out(artefact, Workspace(self.root)), chosen)
        for source in build.derived:
            made = derived_at(source, checkout_of(build)).resolve()
            self._lay_out(made, derived_at(source, Workspace(self.root)), {})
        return replace(build, recipe=replace(build.recipe, folder=recipe))

    def _lay_out(self, wheel: Path, target: Path, large: Mapping[str, LargeBinary]) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not large:
            target.symlink_to(wheel)
            return
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
            for item in old.infolist():
                fresh = zipfile.ZipInfo(item.filename, item.date_time)
                fresh.external_attr, fresh.create_system = item.external_attr, item.create_system
                if found := large.get(item.filename):
                    new.writestr(fresh, self._stand_in(wheel, item, found))
                else:
                    with old.open(item) as content, new.open(fresh, "w") as copy:
                        shutil.copyfileobj(content, copy, _CHUNK)

    def _stand_in(self, wheel: Path, item: zipfile.ZipInfo, found: LargeBinary) -> bytes:
        """The content of a new stand-in."""
        name, content = stand_in(self._token, len(self._members), found.head, found.elf)
        self._members[name] = _Member(wheel, item.filename, content, found)
        return content

    @contextmanager
    def find(self, content: bytes) -> Iterator[Found | None]:
        """The real file for the content of a stand-in; None for the content of any other file.

        Raises:
            Changed: Something else than patchelf changed the stand-in, or patchelf fails for the
                real file.
        """
        if self._token.encode() not in content:
            yield None
            return
        member = self._members.get(content.partition(b"\n")[0][HEAD:])
        edits = content[len(member.head) :].decode(errors="replace").splitlines() if member else []
        mark = f"{self._token} "
        if (
            not member
            or not content.startswith(member.head)
            or not all(edit.startswith(mark) for edit in edits)
        ):
            raise Changed("something other than patchelf changed a stand-in")
        rpaths = [edit.removeprefix(mark) for edit in edits]
        with zipfile.ZipFile(member.wheel) as archive, archive.open(member.name) as stream:
            if all(map(member.has, rpaths)):
                yield Found(member.binary.size, stream, member.binary.sha256)
                return
            with self._patched.open("wb") as file:
                shutil.copyfileobj(stream, file, _CHUNK)
        for rpath in rpaths:
            edit = (*_SET_RPATH, rpath) if rpath else ("--remove-rpath",)
            command = [str(self._patchelf), *edit, str(self._patched)]
            done = run_program(command)
            if done.returncode:
                raise Changed(f"patchelf fails for {member.name}: {done.stderr}")
        with self._patched.open("rb") as file:
            self._patched.unlink()
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            yield Found(os.fstat(file.fileno()).st_size, file, sha256)

    def refuse_unanswered(self) -> None:
        """Raises `Changed` if a script asked patchelf something that no stand-in can answer."""
        if self._unanswered.exists():
            raise Changed(self._unanswered.read_text())

    def edits(self) -> dict[str, str]:
        """Path of a file below the prefix -> what scripts changed in it with patchelf."""
        lines = self._edits.read_text().splitlines() if self._edits.exists() else []
        found: dict[str, list[str]] = {}
        for path, _, edit in (line.partition(" ") for line in dict.fromkeys(lines)):
            found.setdefault(path, []).append(edit)
        return {path: ", ".join(edits) for path, edits in found.items()}
