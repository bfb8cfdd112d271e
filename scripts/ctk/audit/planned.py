"""The packages of a plan before they are built: from recipes, locks and contents.json.

Each recipe's script runs on stand-ins, a few lines of text for each member of the artefacts. Files
that an output's own script adds to a shared tree (activation scripts of nvcc) are not seen, so the
`package_contents` of that output are not checked; edits of texts (``EDIT``) add no file and need
the text, so they are left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter

from ctk.audit.files import glob_pattern
from ctk.build import standins
from ctk.core.checkout import Workspace
from ctk.core.children import run_program
from ctk.core.errors import RecipeError
from ctk.core.files import file_sha256
from ctk.core.memo import memo
from ctk.lock import derived
from ctk.lock.contents import LEFT_OUT, PLAIN, Content, Contents, Members
from ctk.lock.model import Artefact
from ctk.package.binaries import ELF_MAGIC, LIBRT, Binary, SearchPath
from ctk.package.reader import IndexJson, PackageInfo, Promise, ScannedFile
from ctk.package.scan import PackageScan
from ctk.plan.plan import Build, Plan
from ctk.plan.rendered import Rendered, Script
from ctk.rules import Finding

_TOKEN = "ctk-planned-file"  # of the stand-ins
_MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}
_FILES = TypeAdapter(list[ScannedFile])


def planned_scans(
    plan: Plan,
    workspace: Workspace,
    contents: Contents,
    jobs: int,
    progress: Callable[[], None] = lambda: None,
) -> tuple[list[PackageScan], list[PackageScan], list[Finding]]:
    """Returns the packages of a plan that can be seen, the others without files, and hints.

    A hint is for a lock of the others. A package can be seen if its artefacts are measured. Of the
    builds for each Python, one is measured for all.

    Raises:
        RecipeError: A recipe's script fails.
    """
    # The files of the tool itself are in no artefact.
    builds = [build for build in plan.builds if not build.recipe.own_sources]
    measured = [b for b in builds if all(a.sha256 in contents.artefacts for a in b.artefacts)]
    for _ in range(len(plan.builds) - len(measured)):
        progress()
    seen = {_but_for_python(build) for build in measured}
    made: dict[str, PackageScan] = {}
    with (
        tempfile.TemporaryDirectory(prefix="ctk-planned-") as scratch,
        ThreadPoolExecutor(jobs) as pool,
    ):
        # Written once: a program is busy while some thread writes it.
        programs = Path(scratch, "programs")
        standins.write_patchelf(
            programs, _TOKEN, "false", Path(scratch, "unanswered"), Path(os.devnull)
        )
        for scans in pool.map(lambda build: _scans(build, workspace, contents, programs), measured):
            made |= {scan.file: scan for scan in scans}
            progress()
    lacking = [build for build in builds if _but_for_python(build) not in seen]
    unseen = [
        scan
        for b in lacking
        for output in b.outputs
        if (scan := planned_scan(output, ())).file not in made
    ]
    return (
        list(made.values()),
        unseen,
        [_not_measured(lock) for lock in dict.fromkeys(b.lock for b in lacking)],
    )


def _not_measured(lock: str) -> Finding:
    words = "some of its artefacts are not measured, so their packages are not checked"
    step = f"ctk release measure {lock.removeprefix('cuda-')} --write"
    return Finding(lock, words, check="ArtefactsAreMeasured", fix=step, severity="hint")


def _but_for_python(build: Build) -> tuple[object, ...]:
    """A key that is the same for builds that differ only in their Python."""
    return build.recipe.name, build.lock, build.subdir, build.arch, tuple(build.versions.items())


def _scans(
    build: Build, workspace: Workspace, contents: Contents, programs: Path
) -> list[PackageScan]:
    trees: dict[str, list[ScannedFile]] = {}
    found = []
    for output in build.outputs:
        files: list[ScannedFile] = []
        if output.scripts:
            key = repr((output.scripts[0], output.sources))
            if key not in trees:
                trees[key] = _tree(build, output, workspace, contents, programs)
            files = trees[key]
        found.append(planned_scan(output, files))
    return found


def planned_scan(output: Rendered, tree: Sequence[ScannedFile]) -> PackageScan:
    """A package as far as it is known without a build; `tree` has the files of its recipe."""
    wanted, unwanted = (
        list(map(glob_pattern, globs)) for globs in (output.files, output.left_files)
    )
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


def _tree(
    build: Build, output: Rendered, workspace: Workspace, contents: Contents, programs: Path
) -> list[ScannedFile]:
    """The files that the script of an output makes of its artefacts.

    Cached by everything that decides them.
    """
    script = output.scripts[0]
    artefacts = {(a.component, a.target): a for a in build.artefacts}
    members: dict[str, Content] = {}
    folder = ""  # the start of names in RECORD that the names here lack
    for source in output.sources:
        artefact = artefacts[source.component, source.target]
        inside = contents.members(artefact.sha256) or {}
        if source.made:
            inside = _derived_members(source.made, artefact, inside)
        # rattler-build unpacks an archive without a folder that all of it is in.
        tops = {name.partition("/")[0] for name in inside if "/" in name}
        top = f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in inside) else ""
        folder = top if not source.folder else folder
        members |= {
            str(PurePosixPath(source.folder, n.removeprefix(top))): c for n, c in inside.items()
        }
    scripts = [file_sha256(file) for file in build.recipe.files() if file != build.recipe.file]
    decisive: list[object] = [
        script.file,
        sorted(script.env.items()),
        build.subdir,
        folder,
        sorted(members.items(), key=str),
    ]
    code = [file_sha256(Path(file)) for file in (__file__, standins.__file__)]
    key = repr(code + scripts + decisive)
    note = memo(workspace.notes / "laid-out", key, _FILES)
    return note.get(lambda: _lay_out(build, script, members, folder, programs))


def _derived_members(kind: str, artefact: Artefact, inside: Members) -> dict[str, Content]:
    """What a derived source has, from the members of its artefact, without making it."""
    found = {derived.NOTE: PLAIN}
    if kind == derived.IMPORTS:
        found |= dict.fromkeys(derived.import_libraries(inside, artefact.subdir), PLAIN)
        if driver := derived.driver_import(artefact, inside):
            found[driver] = PLAIN
    else:
        stub = derived.STUB_OF[artefact.component]
        binary = Binary("elf", _MACHINES[artefact.subdir], stub.soname)
        found[derived.stub_member(stub, inside)] = Content(binary)
    return found


def _lay_out(
    build: Build, script: Script, members: Members, folder: str, programs: Path
) -> list[ScannedFile]:
    with tempfile.TemporaryDirectory(prefix="ctk-planned-") as scratch:
        work, prefix = Path(scratch, "work"), Path(scratch, "prefix")
        prefix.mkdir()
        names = list(members)
        for number, name in enumerate(names):
            file = work / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".dist-info/RECORD") or name == "RECORD":
                file.write_text("".join(f"{folder}{other},,\n" for other in names))
            else:
                file.write_bytes(_lines(number, members[name]))
        variables = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PREFIX": str(prefix),
            "RECIPE_DIR": str(build.recipe.folder),
            "target_platform": build.subdir,
            **script.env,
            "EDIT": "",
        }
        command = ["bash", str(build.recipe.folder / script.file)]
        done = run_program(command, cwd=work, env=os.environ | variables)
        if done.returncode:
            raise RecipeError(
                f"{build.id} cannot be laid out: {done.stderr.strip()}", f"fix {script.file}"
            )
        return sorted(_placed(prefix, names, members), key=lambda file: file.path)


def _lines(number: int, content: Content) -> bytes:
    """The stand-in of a member; scripts tell programs by their first bytes."""
    elf = content.binary if content.binary and content.binary.format == "elf" else None
    if elf is None and content == PLAIN:
        return b"text\n"
    return standins.stand_in(_TOKEN, number, ELF_MAGIC if elf else b"MZ", elf)[1]


def _placed(prefix: Path, names: Sequence[str], members: Members) -> Iterator[ScannedFile]:
    for folder, folders, files in os.walk(prefix):
        for path in (Path(folder, name) for name in (*folders, *files)):
            where = path.relative_to(prefix).as_posix()
            if path.is_symlink():
                yield ScannedFile("pkg", where, "link", link=os.readlink(path))
            elif path.is_file():
                with path.open("rb") as file:
                    lines = file.read(1 << 14).decode(errors="replace").splitlines()
                is_member = lines and _TOKEN in lines[0]
                content = members[names[int(lines[0].rpartition(".")[2])]] if is_member else PLAIN
                yield _file(where, content, lines[4:] if is_member else [])


def _file(path: str, content: Content, edits: Sequence[str]) -> ScannedFile:
    """A member with the edits that its stand-in notes."""
    binary = content.binary
    for edit in edits if binary else ():
        assert binary
        kind, value = edit[len(_TOKEN)], edit[len(_TOKEN) + 1 :]
        if kind == "+":
            needed = (*binary.needed, value)
            binary = replace(binary, needed=needed, moved=() if LIBRT in needed else binary.moved)
        elif kind == "-":
            binary = replace(binary, needed=tuple(n for n in binary.needed if n != value))
        else:
            binary = replace(binary, search=(SearchPath("RPATH", value),) if value else ())
    return ScannedFile(
        "pkg", path, "file", binary=binary, gpus=content.gpus, dll_folders=content.dll_folders
    )
