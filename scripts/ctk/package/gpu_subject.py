"""The GPUs and drivers that the code in files is for, and the comparison with a package's metadata.

A driver compiles PTX up to the ISA version of its own toolkit, and runs machine code of its CUDA
major.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rattler.exceptions import InvalidMatchSpecError, InvalidVersionError

from ctk.core.disk import refuse_unreadable
from ctk.core.errors import AuditFailed, BadValue, UnknownName
from ctk.core.files import read_json, read_plain
from ctk.core.inside import outside
from ctk.core.platforms import PLATFORMS
from ctk.core.versions import version_key
from ctk.package import reader
from ctk.package.binaries import UnreadableBinary, read_binary
from ctk.package.gpu_fatbin import (
    FileCode,
    may_have_code,
    read_file,
    read_members,
    read_tree,
    read_wheel,
    together,
)
from ctk.package.gpu_support import (
    RENAMED,
    How,
    Runs,
    best,
    one_for_each_cuda,
    one_for_each_gpu,
    present,
    runs,
    spans,
    worst,
)
from ctk.package.reader import IndexJson, index_of
from ctk.package.records import match_spec, matches, package_record, spec_name

FOR_SOME_GPUS = {
    "cuda-cupti-files": (
        "libnvperf of CUDA 12 begins with 7.0; libcupti has code for the GPUs before"
    ),
    "cuda-sanitizer-api-files": (
        "libsanitizer of 12.8 and 12.9 shows only its code for 10.0 and newer, before none"
    ),
    "cusparselt-files": (
        "libtorch links to it on every GPU, and calls it on those that it has code for"
    ),
    "libcufile": (
        "cuda-libraries brings it: a bound would refuse all libraries to a GPU that this one"
        " leaves out"
    ),
}
"""Packages that may be installed for GPUs for which some of their files have no code -> the reason.
"""


@dataclass(frozen=True)
class Known:
    """All known GPUs and toolkits, from release locks or from `cuda-version` packages.

    From locks by `ctk.lock.facts.known`.

    Attributes:
        gpus: Every compute capability that some toolkit can compile for, lowest first.
        isa: CTK minor -> the PTX ISA version that it writes and its driver reads.
        targets: CTK minor -> compute capabilities that its NVRTC can compile for.
    """

    gpus: tuple[str, ...]
    isa: Mapping[str, str]
    targets: Mapping[str, tuple[str, ...]]

    @classmethod
    def of_toolkits(cls, packages: Iterable[IndexJson]) -> Known:
        """From `cuda-version` packages: a native build's constraint lists its GPUs."""
        targets: dict[str, tuple[str, ...]] = {}
        for index in packages:
            listed = next(
                (spec for spec in index.constrains if spec.startswith("__cuda_arch ==")), ""
            )
            if index.name == "cuda-version" and listed:
                targets[index.version] = tuple(re.findall(r"==(\d+\.\d+)", listed))
        return cls(
            tuple(sorted({g for gpus in targets.values() for g in gpus}, key=version_key)),
            {},
            targets,
        )

    def driver_for(self, isa: str) -> str:
        """The CUDA version of the oldest driver that compiles PTX of a version.

        "" if no known driver does. For CUDA 11 it is as the table in
        https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes has it.
        """
        major, minor = version_key(isa)
        if major < 8:
            return f"11.{minor}" if major == 7 else "11.0"
        minors = [
            minor for minor, newest in self.isa.items() if version_key(newest) >= version_key(isa)
        ]
        return min(minors, key=version_key, default="")


@dataclass(frozen=True)
class Subject:
    """A subject of `ctk gpu-code`: a package, a wheel, a library, or a package in an environment.

    Attributes:
        kind: ``package``, ``wheel`` or ``files``.
        files: Path inside -> its code; files without code are left out.
        index: The metadata of a package.
    """

    name: str
    kind: str
    files: Mapping[str, FileCode]
    index: IndexJson | None = None
    subdir: str = ""
    known: Known = field(repr=False, kw_only=True)

    @cached_property
    def by_file(self) -> dict[str, dict[str, Runs]]:
        """File -> GPU -> how its code runs."""
        gpus = present(self.known.gpus, self.subdir)
        return {path: found for path, file in self.files.items() if (found := runs(file, gpus))}

    @cached_property
    def loaded(self) -> list[dict[str, Runs]]:
        """GPU -> how it runs, of each file that is loaded; files for one GPU each count as one."""
        return [
            best(self.by_file[path] for path in paths) for paths in one_for_each_gpu(self.by_file)
        ]

    @cached_property
    def alternatives(self) -> tuple[Subject, ...]:
        """Its files for each CUDA version, if it has alternatives, of which a program loads one.

        Else empty.
        """
        sets = one_for_each_cuda({path: self.files[path] for path in self.by_file})
        return tuple(
            replace(self, name=n, files={p: self.files[p] for p in paths})
            for n, paths in sets.items()
        )

    @cached_property
    def runs(self) -> dict[str, Runs]:
        """GPU -> how all of it runs: like its worst file.

        Of alternatives, like the best of them.
        """
        return (
            best(each.runs for each in self.alternatives)
            if self.alternatives
            else worst(self.loaded)
        )

    def gpus(self, *hows: How) -> tuple[str, ...]:
        """The GPUs on which it runs in one of these ways."""
        return tuple(gpu for gpu, found in self.runs.items() if found.how in hows)

    @property
    def damaged(self) -> tuple[str, ...]:
        return tuple(path for path, file in self.files.items() if file.damaged)

    def driver(self, gpu: str) -> str:
        """The CUDA version of the oldest driver that runs it on a GPU.

        "" if its files do not show it.
        """
        if self.alternatives:
            enough = {
                each.driver(gpu)
                for each in self.alternatives
                if each.runs[gpu].how == self.runs[gpu].how
            }
            return min(enough - {""}, key=version_key, default="")
        isas = [found[gpu].isa for found in self.loaded if found[gpu].isa]
        stated = {self.known.driver_for(isa) for isa in isas} | {
            f"{major}.0" for major in self.majors
        }
        return max(stated - {""}, key=version_key, default="")

    @cached_property
    def majors(self) -> frozenset[str]:
        """The CUDA majors of the runtimes that its files contain or need.

        Else of the toolkits that wrote its PTX.
        Of several runtimes that a file can open the oldest is enough.
        """
        majors = set()
        for file in self.files.values():
            texts = file.needed or file.runtimes if file.cudart in ("", "?") else (file.cudart,)
            found = (re.search(r"(?:^|so\.|64_)(\d\d)", text) for text in texts)
            majors.add(min((match[1] for match in found if match), default=""))
        if majors := majors - {""}:
            return frozenset(majors)
        isas = {
            code.isa for file in self.files.values() for code in file.code if code.isa and code.size
        }
        return frozenset(self.known.driver_for(isa).partition(".")[0] for isa in isas) - {""}

    @property
    def promised(self) -> tuple[str, ...] | None:
        """The GPUs for which the metadata of a package allows it; None without metadata."""
        if self.index is None:
            return None
        gpus = present(self.known.gpus, self.subdir)
        for spec in (*self.index.depends, *self.index.constrains):
            if spec_name(spec) == "__cuda_arch":
                gpus = tuple(gpu for gpu in gpus if _matches(spec, gpu))
            elif spec_name(spec) == "cuda-arch" and spec in self.index.depends:
                # Its builds have a GPU each, and are for newer ones too.
                oldest = next((gpu for gpu in self.known.gpus if _matches(spec, gpu)), "0")
                gpus = tuple(gpu for gpu in gpus if version_key(gpu) >= version_key(oldest))
            elif spec_name(spec) == "cuda-version":
                gpus = tuple(gpu for gpu in gpus if self._toolkit_allows(spec, gpu))
        return gpus

    def _toolkit_allows(self, spec: str, gpu: str) -> bool:
        """Whether a build of `cuda-version` that a spec matches can be installed for a GPU."""
        native = "native" in spec.split()[-1]
        for minor, targets in self.known.targets.items():
            newer = version_key(gpu) >= version_key(targets[0]) and (
                gpu != RENAMED or minor.startswith("12.")
            )
            if _matches(spec, minor) and (gpu in targets or (newer and not native)):
                return True
        return False

    @property
    def lacking(self) -> tuple[str, ...]:
        """GPUs that its metadata allows, and for which some file has no code, or little."""
        return tuple(
            gpu
            for gpu in self.promised or ()
            if self.runs and self.runs[gpu].how in ("none", "part")
        )

    @property
    def exemption(self) -> str:
        """Why it may lack code for a GPU that its metadata allows; "" if that is an error."""
        return FOR_SOME_GPUS.get(self.index.name, "") if self.index else ""

    @property
    def uncovered_gpus(self) -> tuple[str, ...]:
        """The GPUs of `lacking`, unless there is an exemption."""
        return () if self.exemption else self.lacking

    @property
    def wrong(self) -> list[tuple[str, str]]:
        """A sentence if its metadata admits GPUs without code, and what an author writes.

        Else nothing.
        """
        if not (lacking := self.uncovered_gpus):
            return []
        known, right = present(self.known.gpus, self.subdir), self.gpus("native", "jit")
        words = spans(lacking, known)
        step = f"compile it for {words}, too"
        if right and version_key(lacking[-1]) < version_key(right[0]):
            step += f", or write cuda-arch {right[0]}.* in host"
        elif right:
            step += (
                ", or write in run_constraints a bound on __cuda_arch that leaves"
                f" {spans(right, known)}"
            )
        return [(f"its metadata lets it be installed for {words}", step)]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "files": {
                path: {
                    "code": [
                        {
                            "kind": c.kind,
                            "target": str(c),
                            "isa": c.isa,
                            "packed": c.packed,
                            "objects": c.count,
                        }
                        for c in file.code
                    ],
                    "cudart": file.cudart or None,
                    "uses": list(file.uses),
                    "damaged": file.damaged,
                }
                for path, file in self.files.items()
            },
            "gpus": self._gpus_as_json(),
            "alternatives": [
                {"name": each.name, "files": list(each.files), "gpus": each._gpus_as_json()}
                for each in self.alternatives
            ],
            "promised": self.promised and list(self.promised),
            "promised_in_vain": list(self.uncovered_gpus),
        }

    def _gpus_as_json(self) -> dict[str, Any]:
        return {
            gpu: {"runs": found.how, "driver": self.driver(gpu) or None}
            for gpu, found in self.runs.items()
        }


@cache
def _matches(spec: str, version: str) -> bool:
    """Whether a spec without its build matches a version, or one of them cannot be read."""
    name = spec_name(spec)
    try:
        wanted = match_spec(spec).version
        record = package_record(name, version)
    except (InvalidMatchSpecError, InvalidVersionError):
        return True
    return matches(f"{name} {wanted}" if wanted else name, record) is not False


# ---- reading


def subjects(path: Path, known: Known) -> Iterator[Subject]:
    """The subjects at a path: a package, a wheel, a file, or a folder.

    A folder is an environment, a channel or neither.

    Raises:
        BadValue: A file is none of these, such as a text.
        UnknownName: Nothing is there.
        AuditFailed: It cannot be read.
    """
    if path.is_dir():
        yield from _folder(path, known)
    elif not path.is_file():
        raise UnknownName(
            f"there is no {path}", "name a package, a wheel, a library, an environment or a channel"
        )
    elif path.suffix == ".conda":
        yield _package(path, known)
    elif path.suffix in (".whl", ".zip"):
        yield Subject(path.name, "wheel", read_wheel(path), subdir=_subdir(path.name), known=known)
    elif not may_have_code(path):
        kind = (
            "no library, program, wheel, .conda package or folder"
            if path.stat().st_size
            else "empty"
        )
        raise BadValue(
            f"{path} is {kind}",
            "name one of these, such as the folder to which an archive was unpacked",
        )
    else:
        yield Subject(
            path.name, "files", {path.name: read_file(path)}, subdir=_subdir_of([path]), known=known
        )


def _folder(path: Path, known: Known) -> Iterator[Subject]:
    records = sorted(path.glob("conda-meta/*.json"))
    # glob skips files that may not be read.
    refuse_unreadable(path, path / "conda-meta", *records)
    below = []
    if not records:
        refuse_unreadable(
            *(place for place in path.rglob("*") if place.is_dir() and not place.is_symlink())
        )
        below = [file for file in sorted(path.rglob("*")) if file.is_file()]
        records = [*path.glob("info/index.json")]  # of a package that is unpacked
    inside = [
        name
        for file in below
        if not (name := file.relative_to(path).as_posix()).startswith("info/")
    ]
    for record in records:
        content = read_json(record)
        try:
            index, names = (
                index_of(content),
                inside if below else [str(file) for file in content["files"]],
            )
        except (TypeError, KeyError, ValueError, AttributeError):
            raise AuditFailed(f"{record} is not a record of a package", "make it again") from None
        for name, why in outside(path, names).items():
            cause = f"{record} names {name!a}: {why}"
            raise AuditFailed(cause, "make the environment again in a new folder")
        yield Subject(
            index.identity, "package", read_tree(path, names), index, index.subdir, known=known
        )
    if records:
        return
    archives = [file for file in below if file.suffix in (".conda", ".whl")]
    for archive in archives:
        yield from subjects(archive, known)
    names = [file.relative_to(path).as_posix() for file in below if file not in archives]
    if (loose := read_tree(path, names)) or not archives:
        of_wheels = "".join(
            read_plain(file).decode("utf-8", "replace") for file in path.glob("*.dist-info/WHEEL")
        )
        binaries = (path / name for name in loose if not name.endswith("*.cubin"))
        subdir = _subdir(of_wheels) or _subdir_of(binaries)
        yield Subject(path.name, "files", loose, subdir=subdir, known=known)


def _subdir(tags: str) -> str:
    """The platform that a wheel's name or its ``WHEEL`` file states; "" for any."""
    return next(
        (subdir for subdir, platform in PLATFORMS.items() if re.search(platform.wheel_tag, tags)),
        "",
    )


def _subdir_of(files: Iterable[Path]) -> str:
    """A platform of the libraries and programs of loose files, if all of them are for x86-64.

    "" for any.
    """
    machines = set()
    for file in files:
        with suppress(UnreadableBinary):
            machines |= {binary.machine} if (binary := read_binary(file)) else set()
    return "linux-64" if machines - {"cuda"} == {"x86_64"} else ""


def _package(path: Path, known: Known) -> Subject:
    index = reader.read_info(path).index
    with reader.readable(path):
        files = together(dict(read_members((m.path, s) for m, s in reader.members(path, "pkg"))))
    return Subject(path.name, "package", files, index, index.subdir, known=known)
