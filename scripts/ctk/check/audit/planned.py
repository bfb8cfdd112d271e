"""The packages of a plan, seen like built ones: from recipes, locks and what ``variants/contents.json`` says.

Each recipe's script is run on stand-ins for the members of its artefacts, which answer patchelf. What an output's own
script adds to a tree that it shares (activation scripts of nvcc) is not seen, and no test of that output is held then;
a script's edits (``EDIT``) add no file and need the text, so they are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter, ValidationError

from ctk.build.standins import stand_in, write_patchelf
from ctk.check import Finding
from ctk.check.audit.files import glob_pattern
from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.errors import RecipeError
from ctk.core.files import file_sha256, make_folder, replace_file
from ctk.lock.contents import LEFT_OUT, PLAIN, Content, Contents, Members
from ctk.package.binaries import ELF_MAGIC, SearchPath
from ctk.package.glibc import MOVED
from ctk.package.package import IndexJson, PackageInfo, Promise, ScannedFile
from ctk.package.scan import PackageScan
from ctk.plan.plan import Build, Plan
from ctk.plan.recipes import Rendered, Script

NOT_MEASURED = "ArtefactsAreMeasured"
NEED_BYTES = frozenset({"ArchiveMatchesPaths", "CudartIsInside", "LicenseIsInside"})
"""Checks that only a built package can be held to."""
_TOKEN = "ctk-planned-file"
_REVISION = 2  # raise it when stand-ins or what is read of them changes: what is kept is made anew


@dataclass(frozen=True)
class _Placed:
    """A file that a script made: a link, or a member of an artefact, with a new RPATH or not."""

    path: str
    link: str = ""
    member: str = ""
    rpath: str | None = None
    needed: tuple[str, ...] = ()  # libraries that the script added


_PLACED = TypeAdapter(list[_Placed])


def planned_scans(
    plan: Plan, workspace: Workspace, contents: Contents, jobs: int
) -> tuple[list[PackageScan], list[PackageScan]]:
    """The packages of a plan; and those, without their files, of which artefacts are not measured.

    One Python stands for the others: that whose wheels are measured.
    """
    measured = [b for b in plan.builds if all(a.sha256 in contents.artefacts for a in b.artefacts)]
    seen = {_alike(build) for build in measured}
    made: dict[str, PackageScan] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for scans in pool.map(lambda build: _scans(build, workspace, contents), measured):
            made |= {scan.file: scan for scan in scans}
    unseen = [_scan(output, ()) for b in plan.builds if _alike(b) not in seen for output in b.outputs]
    return list(made.values()), [scan for scan in unseen if scan.file not in made]


def not_measured(plan: Plan, contents: Contents) -> Iterator[Finding]:
    """A hint for each lock of which artefacts are not measured, so that their packages are not judged."""
    lacking: dict[str, dict[str, None]] = defaultdict(dict)
    seen = {_alike(b) for b in plan.builds if all(a.sha256 in contents.artefacts for a in b.artefacts)}
    for build in plan.builds:
        if _alike(build) not in seen:
            names = (a.file for a in build.artefacts if a.sha256 not in contents.artefacts)
            lacking[build.lock] |= dict.fromkeys(names)
    for lock, files in lacking.items():
        step = f"ctk release measure {lock.removeprefix('cuda-')} --write"
        words = f"{count(len(files), 'artefact')} not measured, and what is made of them not judged: {min(files)}"
        yield Finding(lock, words, check=NOT_MEASURED, fix=step, severity="hint")


def _alike(build: Build) -> tuple[object, ...]:
    """What builds have in common that differ in their Python."""
    return build.recipe.name, build.lock, build.subdir, build.arch, tuple(build.versions.items())


def _scans(build: Build, workspace: Workspace, contents: Contents) -> list[PackageScan]:
    trees: dict[str, list[ScannedFile]] = {}
    found = []
    for output in build.outputs:
        files: list[ScannedFile] = []
        if output.scripts:
            key = repr((output.scripts[0], output.sources))
            if key not in trees:
                trees[key] = _tree(build, output, workspace, contents)
            files = trees[key]
        found.append(_scan(output, files))
    return found


def _scan(output: Rendered, tree: Sequence[ScannedFile]) -> PackageScan:
    wanted, unwanted = (list(map(glob_pattern, globs)) for globs in (output.files, output.left_files))
    held = [f for f in tree if not wanted or any(w.fullmatch(f.path) for w in wanted)]
    files = tuple(f for f in held if not any(u.fullmatch(f.path) for u in unwanted))
    index = IndexJson(
        output.name,
        output.version,
        output.build_string,
        output.build_number,
        output.subdir,
        output.noarch,
        depends=output.depends,
        constrains=output.constrains,
        license=output.license,
    )
    promised = tuple(glob for glob in output.contents if not LEFT_OUT.fullmatch(glob))
    promise = Promise(output.files, promised, output.absent) if len(output.scripts) == 1 else None
    info = PackageInfo(index, (), output.run_exports, promise=promise)
    return PackageScan(f"{output.subdir}/{output.file_name}", "", info, files)


def _tree(build: Build, output: Rendered, workspace: Workspace, contents: Contents) -> list[ScannedFile]:
    """The files that the script of an output makes of its artefacts."""
    script = output.scripts[0]
    shas = {(a.component, a.target): a.sha256 for a in build.artefacts}
    members: dict[str, Content] = {}
    folder = ""  # what the names in RECORD have before those here
    for source in output.sources:
        inside = contents.members(shas[source.component, source.target]) or {}
        # rattler-build unpacks an archive without a folder that all of it is in.
        tops = {name.partition("/")[0] for name in inside if "/" in name}
        top = f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in inside) else ""
        folder = top if not source.folder else folder
        members |= {str(PurePosixPath(source.folder, n.removeprefix(top))): c for n, c in inside.items()}
    said = [
        _REVISION,
        script.file,
        dict(script.env),
        build.subdir,
        sorted((folder + n, repr(c)) for n, c in members.items()),
    ]
    code = [file_sha256(file) for file in build.recipe.files() if file != build.recipe.file]
    note = workspace.cache / "laid-out" / f"{hashlib.sha256(json.dumps([said, code]).encode()).hexdigest()[:32]}.json"
    placed: list[_Placed] | None = None
    with suppress(OSError, ValidationError):  # not there, or cut short
        placed = _PLACED.validate_json(note.read_bytes())
    if placed is None:
        placed = _lay_out(build, script, members, folder)
        make_folder(note.parent)
        replace_file(note, _PLACED.dump_json(placed))
    return [_file(entry, members.get(entry.member, PLAIN)) for entry in placed]


def _file(placed: _Placed, content: Content) -> ScannedFile:
    binary = content.binary
    if binary and placed.rpath is not None:
        binary = replace(binary, search=(SearchPath("RPATH", placed.rpath),) if placed.rpath else ())
    if binary and placed.needed:
        moved = tuple(name for name in binary.moved if MOVED[name] not in placed.needed)
        binary = replace(binary, needed=(*binary.needed, *placed.needed), moved=moved)
    kind = "link" if placed.link else "file"
    return ScannedFile(
        "pkg",
        placed.path,
        kind,  # type: ignore[arg-type]
        link=placed.link,
        binary=binary,
        gpus=content.gpus,
        dll_folders=content.dll_folders,
    )


def _lay_out(build: Build, script: Script, members: Members, folder: str) -> list[_Placed]:
    with tempfile.TemporaryDirectory(prefix="ctk-planned-") as scratch:
        work, prefix = Path(scratch, "work"), Path(scratch, "prefix")
        prefix.mkdir()
        write_patchelf(Path(scratch, "programs"), _TOKEN, "false", Path(scratch, "unanswered"))
        names = _write(work, members, folder)
        variables = {
            "PATH": f"{scratch}/programs{os.pathsep}{os.environ['PATH']}",
            "PREFIX": str(prefix),
            "RECIPE_DIR": str(build.recipe.folder),
            "target_platform": build.subdir,
            **script.env,
            "EDIT": "",
        }
        command = ["bash", str(build.recipe.folder / script.file)]
        done = subprocess.run(command, cwd=work, env=os.environ | variables, capture_output=True, text=True)
        if done.returncode:
            raise RecipeError(f"{build.id} cannot be laid out: {done.stderr.strip()}", f"mend {script.file}")
        return sorted(_read(prefix, names), key=lambda entry: entry.path)


def _write(work: Path, members: Members, folder: str) -> list[str]:
    """Writes a stand-in for each member that says something, and a line of text for the others; their names."""
    names: list[str] = []
    for name, content in members.items():
        file = work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if content == PLAIN:
            is_record = name.endswith(".dist-info/RECORD") or name == "RECORD"
            file.write_text("".join(f"{folder}{other},,\n" for other in members) if is_record else "text\n")
            continue
        elf = content.binary if content.binary and content.binary.format == "elf" else None
        head = ELF_MAGIC if elf else b"MZ\0\0"
        file.write_bytes(stand_in(_TOKEN, len(names), head, elf)[1])
        names.append(name)
    return names


def _read(prefix: Path, names: Sequence[str]) -> Iterable[_Placed]:
    for folder, folders, files in os.walk(prefix):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_dir() and not path.is_symlink():
                continue
            where = path.relative_to(prefix).as_posix()
            if path.is_symlink():
                yield _Placed(where, link=os.readlink(path))
                continue
            with path.open("rb") as file:
                lines = file.read(1 << 14).decode(errors="replace").splitlines()
            if not lines or _TOKEN not in lines[0]:
                yield _Placed(where)
                continue
            rpaths = [line.removeprefix(f"{_TOKEN} ") for line in lines[3:] if line.startswith(f"{_TOKEN} ")]
            added = tuple(line.removeprefix(f"{_TOKEN}+") for line in lines[3:] if line.startswith(f"{_TOKEN}+"))
            yield _Placed(where, "", names[int(lines[0].rpartition(".")[2])], rpaths[-1] if rpaths else None, added)
