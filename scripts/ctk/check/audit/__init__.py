"""`ctk audit`: every built package is opened and held to the rules of the design.

Packages of a plan can be seen like built ones: metadata from recipes, paths from the directories of the wheels. The
layout script is run on empty files of the same names. What it writes besides (.pc files, which have the minor in their
names) and what an output's own script adds are not among the paths.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache as remembered
from functools import partial
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ctk.check import Check, Finding, Report, checks_of, chosen
from ctk.check.audit import binaries, files, packages
from ctk.check.audit.files import glob_pattern
from ctk.check.audit.packages import PackageSet
from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.errors import AuditFailed, RecipeError
from ctk.core.files import disk_errors, file_sha256, make_folder, read_json, replace_file
from ctk.lock.lock import Artefact
from ctk.package.package import IndexJson, PackageInfo, ScannedFile
from ctk.package.scan import PackageScan, Scanner, listed_package
from ctk.plan.plan import Build, Plan
from ctk.plan.recipes import Rendered

OPENS = "PackageOpens"
CHECKS: tuple[Check[Any], ...] = checks_of(files, binaries, packages)
PROBES = binaries.PROBES


@dataclass(frozen=True)
class AuditReport(Report):
    """The outcome of an audit; its subjects are packages. `earlier` is one that an earlier run had kept."""

    earlier: bool = field(compare=False, default=False)

    @classmethod
    def by_check(
        cls, findings: Iterable[Finding], checks: Sequence[Check[Any]], packages: int, start: float
    ) -> AuditReport:
        """A report with its findings by check, then by package."""
        return cls.of(findings, checks, packages, start, lambda f: (f.check, f.where, f.path, f.message))

    def summary(self) -> str:
        """The outcome in one line."""
        unchanged = ", unchanged" if self.earlier else ""
        return f"{count(self.subjects, 'package')}, {count(len(self.counts), 'check')}, {self.verdict()}{unchanged}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "packages": self.subjects,
            "seconds": round(self.seconds, 2),
            "checks": self.counts,
            "findings": self.rows(
                check="check", package="where", path="path", message="message", mend="fix", severity="severity"
            ),
        }


_REPORT = TypeAdapter(AuditReport)


def audit_packages(
    paths: Sequence[Path],
    *,
    forbidden_paths: Sequence[str],
    base: Sequence[Path] = (),
    jobs: int = 2,
    skip: Collection[str] = (),
    cache: Path | None = None,
    earlier: bool = True,
) -> AuditReport:
    """Holds packages, which may depend on those of the base, to every rule but those in `skip`.

    Scans are kept in the folder `cache`, and the outcome: the same packages are not audited again by the same code.
    With `earlier=False` it is not looked for: its name has the packages' hashes, so new ones would be read once more.

    Raises:
        UnknownName: A name in ``skip`` that no check has.
    """
    start = time.monotonic()
    skipped = chosen(CHECKS, skip) if skip else []
    checks = [check for check in CHECKS if check not in skipped]
    asked = [forbidden_paths, [check.name for check in checks]]
    if cache and earlier and (note := _note(cache, paths, base, asked)):
        with suppress(OSError, ValidationError):  # not there, or damaged
            return replace(_REPORT.validate_json(note.read_bytes()), seconds=time.monotonic() - start, earlier=True)
    # The largest first: none is left for last.
    ordered = sorted(paths, key=lambda path: path.stat().st_size if path.is_file() else 0, reverse=True)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        scanner = Scanner(forbidden_paths, PROBES, cache)
        results = list(pool.map(lambda path: _scan(path, scanner), ordered))
        beside = [scan for scan in pool.map(_listed, base) if scan is not None]
    scans = sorted((scan for scan in results if isinstance(scan, PackageScan)), key=lambda scan: scan.file)
    findings = [unreadable for unreadable in results if isinstance(unreadable, Finding)]
    together = PackageSet(scans, beside)
    for check in checks:
        for subject in (*scans, together):
            if isinstance(subject, check.subject):
                findings += check(subject)
    report = AuditReport.by_check(findings, checks, len(paths), start)
    if cache and (note := _note(cache, paths, base, asked)):  # the scans have hashed the packages
        with disk_errors(note):
            make_folder(note.parent)
            replace_file(note, _REPORT.dump_json(report))
    return report


def _note(cache: Path, paths: Sequence[Path], base: Sequence[Path], asked: list[Any]) -> Path | None:
    """Where the outcome is kept: named by the packages, what they are held to, and the code; None if one is missing."""
    try:
        of = [[[p.parent.name, p.name, file_sha256(p)] for p in sorted(packages)] for packages in (paths, base)]
    except OSError:
        return None
    said = json.dumps([of, asked, _code()])
    return cache / "reports" / f"{hashlib.sha256(said.encode()).hexdigest()}.json"


@remembered
def _code() -> list[str]:
    """What decides an outcome besides the packages: this package's modules, and the solver that a check asks."""
    root = Path(__file__).parents[2]
    return [version("py-rattler"), *(file_sha256(file) for file in sorted(root.rglob("*.py")))]


def _scan(path: Path, scanner: Scanner) -> PackageScan | Finding:
    try:
        return scanner.scan(path)
    except AuditFailed as error:
        return Finding(path.name, error.cause, check=OPENS, fix=error.step, severity="error")


def _listed(path: Path) -> PackageScan | None:
    with suppress(AuditFailed):  # the base channel has its own tests; here it only provides names
        return listed_package(path)
    return None


# Stands for patchelf: in wheels a library is called by its SONAME, but for libNVVM of CUDA 12.
_PATCHELF = """#!/bin/sh
if [ "$1" = --print-soname ]; then name=${2##*/}; [ "$name" = libnvvm.so ] && name=libnvvm.so.4; echo "$name"; fi
"""

Names = Callable[[Artefact], Sequence[str]]


def planned_scans(plan: Plan, workspace: Workspace, names: Names, jobs: int) -> list[PackageScan]:
    """The packages of a plan whose files the layout script places; Python projects have folders of their own."""
    script = workspace.recipes / "common" / "layout.sh"
    builds = [b for b in plan.builds if not b.artefacts or f"common/{script.name}" in b.recipe.file.read_text()]
    with ThreadPoolExecutor(jobs) as pool:
        trees = list(pool.map(partial(_tree, script=script, folder=workspace.cache / "laid-out", names=names), builds))
    made = {
        (output.subdir, output.file_name): _planned_scan(output, tree)
        for build, tree in zip(builds, trees, strict=True)
        for output in build.outputs
    }
    return list(made.values())


def _planned_scan(output: Rendered, tree: Sequence[str]) -> PackageScan:
    wanted, unwanted = (list(map(glob_pattern, globs)) for globs in (output.files, output.left_files))
    held = [p for p in tree if not wanted or any(w.fullmatch(p) for w in wanted)]
    files = tuple(ScannedFile("pkg", p, "file") for p in held if not any(u.fullmatch(p) for u in unwanted))
    index = IndexJson(
        output.name,
        output.version,
        output.build_string,
        output.build_number,
        output.subdir,
        output.noarch,
        depends=output.depends,
        constrains=output.constrains,
    )
    return PackageScan(f"{output.subdir}/{output.file_name}", "", PackageInfo(index, ()), files)


def _tree(build: Build, script: Path, folder: Path, names: Names) -> list[str]:
    """Where the files of a build's artefact go, below the prefix."""
    if not build.artefacts:
        return []
    (artefact,) = build.artefacts
    minor = next(output.variant["cuda_version"] for output in build.outputs if "cuda_version" in output.variant)
    environment = {"CUDA_VERSION": minor, "target_platform": build.subdir}
    said = json.dumps([artefact.sha256, environment, hashlib.sha256(script.read_bytes()).hexdigest()])
    kept = folder / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.json"
    paths = read_json(kept)
    if paths is None:
        paths = _laid_out(build.id, script, environment, names(artefact))
        make_folder(folder)
        replace_file(kept, json.dumps(paths).encode())
    return [str(path) for path in paths]


def _laid_out(build: str, script: Path, environment: dict[str, str], names: Sequence[str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="ctk-planned-") as scratch:
        work, prefix, bin_ = (Path(scratch) / name for name in ("work", "prefix", "bin"))
        for folder in (work, prefix, bin_):
            folder.mkdir()
        (bin_ / "patchelf").write_text(_PATCHELF)
        (bin_ / "patchelf").chmod(0o755)
        for name in names:
            file = work / PurePosixPath("/", name).relative_to("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("licence" if "dist-info" in name else "")
        own = {"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "PREFIX": str(prefix), **environment}
        done = subprocess.run(["bash", script], cwd=work, env=os.environ | own, capture_output=True, text=True)
        if done.returncode:
            raise RecipeError(f"{build} cannot be laid out: {done.stderr.strip()}", "mend recipes/common/layout.sh")
        found = (p.relative_to(prefix).as_posix() for p in prefix.rglob("*") if p.is_symlink() or p.is_file())
        return sorted(found)
